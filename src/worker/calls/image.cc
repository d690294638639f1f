// SPDX-License-Identifier: Apache-2.0
// Bytes or digest.
#include "worker/calls/image.h"

namespace rgpu::worker {

using wire::ImageAnswer;
using wire::ImageForm;

Result<void> Image::read(Session &s, wire::Reader &r, std::vector<uint8_t> body)
{
    const auto form = r.value<ImageForm>();
    if (!r.ok()) return misfit();
    if (form == ImageForm::bytes) {
        const size_t bytes = r.left();
        memory_ = std::move(body);
        view = {memory_.data() + memory_.size() - bytes, bytes};
        came_ = true;
        return {};
    }
    const auto digest = r.value<Digest>();
    if (form != ImageForm::digest || !r.at_end()) return misfit();
    auto found = s.images.find(digest);
    missing = !found;
    if (found) memory_ = std::move(*found);
    view = memory_;
    return {};
}

ImageAnswer Image::answer(const Session &s, CUresult result) const
{
    if (missing) return ImageAnswer::missing;
    return !result && came_ && s.images.would_keep(view.size()) ? ImageAnswer::kept
                                                                : ImageAnswer::done;
}

}  // namespace rgpu::worker
