// Digests of images, and the second attempt.
#include "interpose/link/known_images.h"

#include <new>
#include <optional>
#include <string>

#include "interpose/link/session.h"
#include "interpose/state/process.h"

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

void KnownImages::learn(const wire::Snapshot &snapshot)
{
    std::lock_guard lock(mutex_);
    any_kept_ = snapshot.keeps_images;
    tags_.insert(snapshot.images.begin(), snapshot.images.end());
}

bool KnownImages::has(const Digest &digest) const
{
    std::lock_guard lock(mutex_);
    return tags_.contains(wire::image_tag(digest));
}

void KnownImages::set(const Digest &digest, bool has) noexcept
{
    std::lock_guard lock(mutex_);
    if (!has) {
        tags_.erase(wire::image_tag(digest));
        return;
    }
    try {
        tags_.insert(wire::image_tag(digest));
    } catch (const std::bad_alloc &) {
        // The image's bytes are sent once more, then.
    }
}

CUresult ask_with_image(calls::SentCall id, const std::vector<uint8_t> &head,
                        std::span<const std::string_view> parts, Reply &reply)
{
    size_t bytes = 0;
    for (std::string_view part : parts) bytes += part.size();
    if (bytes >= wire::kMaxImageBytes - wire::kMaxCallBytes || head.size() >= wire::kMaxCallBytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Session &s = *session();
    std::optional<Digest> digest;
    if (s.images.any_kept() && bytes >= wire::kSmallestKeptImage) digest = digest_of(parts);
    auto ask = [&](ImageForm form, auto &&write, Payload payload) {
        return s.ask(
            id, current_context(),
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
