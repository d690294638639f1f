// Sending module images: by their digest where the server has kept the bytes, else as they are.
#pragma once

#include <mutex>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "calls/calls.h"
#include "wire/image.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

struct Reply;

// Which images the server has, as far as this process knows. Any thread.
class KnownImages {
public:
    void learn(const wire::Snapshot &);
    // Whether it is worth while to make digests.
    bool any_kept() const { return any_kept_; }
    bool has(const Digest &) const;
    // What memory is lacking for is forgotten.
    void set(const Digest &, bool has) noexcept;

private:
    bool any_kept_ = false;
    mutable std::mutex mutex_;
    std::unordered_set<uint64_t> tags_;
};

// Sends call `id` with `head` as the body's beginning and the image, which is `parts` one after the
// other, as its end; waits for the answer, of which `reply` gets what comes behind the ImageAnswer.
// One round trip, unless the server has lost an image that it had. CUDA_ERROR_OUT_OF_MEMORY for
// more than a frame can carry.
CUresult ask_with_image(calls::SentCall id, const std::vector<uint8_t> &head,
                        std::span<const std::string_view> parts, Reply &reply);

}  // namespace rgpu::interpose
