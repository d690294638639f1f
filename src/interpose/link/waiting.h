// Calls that would be posted and yet wait for their answers.
#pragma once

namespace rgpu::interpose {

// While one lives, every call of the calling thread waits: for calls that a driver may refuse for
// reasons that only it knows, so that the refusal belongs to the call.
class Waiting {
public:
    explicit Waiting(bool wait);
    ~Waiting();
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

private:
    bool wait_;
};

}  // namespace rgpu::interpose
