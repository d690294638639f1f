// SPDX-License-Identifier: Apache-2.0
// One call of NCCL that came in: what its bytes say, held against what the session has, and then
// carried out. The layout is wire/nccl.h's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calls/nccl.h"
#include "util/result.h"
#include "worker/nccl/library.h"
#include "worker/nccl/objects.h"
#include "worker/session/session.h"

namespace rgpu::worker::nccl {

class Request {
public:
    // Where its words point to moves with it, and is not copied.
    Request(Request &&) = default;
    Request(const Request &) = delete;

    // Reads one. Fails where no client sends it. What the program may have got wrong is refusal().
    // Dispatcher only.
    static Result<Request> read(wire::Reader &, Session &, Objects &);
    int refusal() const { return refusal_; }
    const char *why() const { return why_; }
    const calls::NcclFunction &function() const { return *function_; }

    // What it uses; those that it makes, and the one that it ends, too.
    const std::vector<Communicator *> &uses() const { return uses_; }
    Communicator *ends() const
    {
        return function_->has('e') && !uses_.empty() ? uses_.front() : nullptr;
    }
    const std::vector<Communicator *> &makes() const { return makes_; }

    // The others are for the thread that carries it out. Returns an ncclResult_t.
    int carry_out(Library &);
    // Notes what NCCL has made, and how large it is, once the call (or its group) is over.
    void learn(Library &, int result);
    // What goes into the answer.
    void write(wire::Writer &) const;

private:
    Request() = default;
    Result<void> read_one(wire::Reader &, size_t place, Session &, Objects &);
    Result<void> read_made(wire::Reader &, Objects &, bool several);
    Result<void> read_list(wire::Reader &, size_t place);
    Result<void> read_ids(wire::Reader &, size_t place, bool several);
    Result<void> read_config(wire::Reader &, size_t place);
    void check(Session &, Objects &);
    void check_ranks();
    void check_operator(Objects &);
    void check_memory(Session &, size_t place);
    void refuse(int result, const char *why);
    // A parameter's value by its letter.
    uint64_t value(char letter) const { return words_[function_->place(letter)]; }
    int number(char letter) const { return static_cast<int>(value(letter)); }
    // Memory that goes to NCCL as a pointer, and lives as long as this.
    void *keep(std::vector<uint8_t> bytes)
    {
        return storage_.emplace_back(std::move(bytes)).data();
    }

    const calls::NcclFunction *function_ = nullptr;
    CUcontext context_ = nullptr;
    std::vector<uint64_t> words_;
    std::vector<std::vector<uint8_t>> storage_;
    std::vector<Communicator *> uses_, makes_;
    Operator *operator_ = nullptr;          // one that it uses, makes or ends
    Registration *registration_ = nullptr;  // likewise
    uint64_t registration_number_ = 0;
    int list_ = -1, ids_ = -1;  // how long they came; -1: there is none
    uint64_t scalar_ = 0;
    int refusal_ = 0;
    const char *why_ = "";
};

}  // namespace rgpu::worker::nccl
