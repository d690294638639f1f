// SPDX-License-Identifier: Apache-2.0
// Digests of images, and the second attempt.
#include "interpose/link/image_call.h"

#include <optional>
#include <string>

namespace rgpu::interpose {

namespace {

using wire::ImageAnswer;
using wire::ImageForm;

// Takes the first byte off an answer. What failed before the image was looked at has none.
ImageAnswer take_answer(Reply &reply)
{
    if (reply.body.empty()) return ImageAnswer::done;
    const auto answer = static_cast<ImageAnswer>(reply.body.front());
    reply.body.erase(reply.body.begin());
    return answer;
}

Digest digest_of(std::span<const std::string_view> parts)
{
    Sha256 h;
    for (std::string_view part : parts) h.add(part);
    return h.digest();
}

}  // namespace

CUresult ask_with_image(ServerSession &s, uint32_t context, calls::SentCall id,
                        const std::vector<uint8_t> &head, std::span<const std::string_view> parts,
                        Reply &reply)
{
    size_t bytes = 0;
    for (std::string_view part : parts) bytes += part.size();
    if (bytes >= wire::kMaxImageBytes - wire::kMaxCallBytes || head.size() >= wire::kMaxCallBytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::optional<Digest> digest;
    if (s.images.any_known() && bytes >= wire::kSmallestKeptImage) digest = digest_of(parts);
    auto ask = [&](ImageForm form, auto &&write, Payload payload) {
        return s.ask(
            id, context,
            [&](wire::Writer &w) {
                w.bytes(head.data(), head.size());
                w.value(form);
                write(w);
            },
            reply, payload);
    };
    if (digest && s.images.has(*digest)) {
        const CUresult r = ask(ImageForm::digest, [&](wire::Writer &w) { w.value(*digest); }, {});
        if (!r && reply.body.empty()) return CUDA_ERROR_UNKNOWN;
        if (take_answer(reply) != ImageAnswer::missing) return r;
        s.images.set(*digest, false);
    }
    std::string whole;
    if (parts.size() != 1)
        for (std::string_view part : parts) whole += part;
    const std::string_view image = parts.size() == 1 ? parts.front() : whole;
    const CUresult r = ask(ImageForm::bytes, [](wire::Writer &) {}, {image.data(), image.size()});
    if (!r && reply.body.empty()) return CUDA_ERROR_UNKNOWN;
    if (take_answer(reply) == ImageAnswer::kept && digest) s.images.set(*digest, true);
    return r;
}

}  // namespace rgpu::interpose
