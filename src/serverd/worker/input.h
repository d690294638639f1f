// Reading frames: buffered for small ones, straight to their destination for large ones.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "util/result.h"
#include "util/spin.h"
#include "wire/frame.h"

namespace rgpu::worker {

class Input {
public:
    explicit Input(int fd);

    // Before it waits for more than a moment (1 ms, or none where `at_once` says so) it calls `pause`.
    void on_pause(std::function<bool()> at_once, std::function<void()> pause);

    // The next bytes of the stream. `disconnected` with an empty text: the client closed between frames.
    Result<void> read(void *to, size_t bytes);
    Result<wire::FrameHeader> header();
    // A body of up to a megabyte or so, valid until the next read.
    Result<const uint8_t *> body(size_t bytes);
    // A long body into memory that grows with what has arrived, not with what was announced.
    Result<std::vector<uint8_t>> long_body(size_t bytes);

private:
    bool fill();
    ssize_t receive(void *to, size_t bytes);

    int fd_;
    std::function<bool()> at_once_;
    std::function<void()> pause_;
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0, end_ = 0;
    std::vector<uint8_t> body_;
    Spin spin_;
};

}  // namespace rgpu::worker
