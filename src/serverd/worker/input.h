// Reading frames: buffered for small ones, straight to their destination for large ones.
#pragma once

#include <cstdint>
#include <vector>

#include "util/result.h"
#include "util/spin.h"
#include "wire/frame.h"

namespace rgpu::worker {

class Input {
public:
    explicit Input(int fd) : fd_(fd), buffer_(256 << 10) {}

    // The next bytes of the stream. `disconnected` with an empty text: the client closed between frames.
    Result<void> read(void *to, size_t bytes);
    Result<wire::FrameHeader> header();
    // A body of up to a megabyte or so, valid until the next read.
    Result<const uint8_t *> body(size_t bytes);
    // A long body into memory that grows with what has arrived, not with what was announced.
    Result<std::vector<uint8_t>> long_body(size_t bytes);
    // True when more input is there already.
    bool pending() const;
    // Waits for it, so long.
    bool comes_within(int milliseconds) const;

private:
    bool fill();

    int fd_;
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0, end_ = 0;
    std::vector<uint8_t> body_;
    Spin spin_;
};

}  // namespace rgpu::worker
