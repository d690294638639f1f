// SPDX-License-Identifier: Apache-2.0
// What the client has of NCCL, by the numbers that it chose. A number is given once, and what
// stands for it stays to the end: NCCL's threads write into communicators after the call that made
// them, and those numbers tell what has ended from what never was.
//
// Dispatcher only, but for what is said to be anybody's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

namespace rgpu::worker::nccl {

struct Communicator {
    // NCCL's own, which it writes as soon as there is something to abort. Any thread, with
    // real_now().
    void *real = nullptr;
    void *real_now() const { return __atomic_load_n(&real, __ATOMIC_ACQUIRE); }
    // How many there are, and which one it is; -1: not known yet. Any thread.
    std::atomic<int> ranks{-1}, rank{-1};
    std::atomic<bool> failed{false};  // to be made; any thread
    bool ended = false;
    std::deque<std::string> texts;  // of its config, which NCCL keeps pointers to

    // With the mutex of Nccl.
    int uses = 0;  // by calls under way
    bool being_made = true;
};

struct Operator {
    Communicator *of = nullptr;
    bool ended = false;
    std::atomic<int> real{-1};  // any thread
};

struct Registration {
    Communicator *of = nullptr;
    bool ended = false;
    std::atomic<void *> real{nullptr};  // any thread
};

class Objects {
public:
    // A new one of that number; null where it was given before, is none, or there are too many.
    Communicator *make(uint32_t number) { return add(communicators_, number, number != 0); }
    Operator *make_operator(int number, int first)
    {
        return add(operators_, static_cast<uint32_t>(number), number >= first);
    }
    Registration *make_registration(uint64_t &number)
    {
        number = registrations_.size() + 1;
        return add(registrations_, number, true);
    }
    // One that lives, or null.
    Communicator *find(uint32_t number) { return look(communicators_, number); }
    Operator *find_operator(int number) { return look(operators_, static_cast<uint32_t>(number)); }
    Registration *find_registration(uint64_t number) { return look(registrations_, number); }

private:
    static constexpr size_t kMost = 1 << 20;  // of each, in a program's life

    template <class Map, class Number>
    static typename Map::mapped_type *add(Map &map, Number number, bool is_one)
    {
        if (!is_one || map.size() == kMost) return nullptr;
        const auto [it, made] = map.try_emplace(number);
        return made ? &it->second : nullptr;
    }
    template <class Map, class Number>
    static typename Map::mapped_type *look(Map &map, Number number)
    {
        const auto it = map.find(number);
        return it == map.end() || it->second.ended ? nullptr : &it->second;
    }

    // What is in one of these stays where it is.
    std::unordered_map<uint32_t, Communicator> communicators_;
    std::unordered_map<uint32_t, Operator> operators_;
    std::unordered_map<uint64_t, Registration> registrations_;
};

}  // namespace rgpu::worker::nccl
