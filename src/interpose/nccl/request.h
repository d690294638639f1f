// SPDX-License-Identifier: Apache-2.0
// One call of NCCL on its way to the server and back: arguments to a frame's bytes, and the answer
// to where the program wants it. The layout is wire/nccl.h's.
#pragma once

#include <cstdint>
#include <vector>

#include "calls/nccl.h"
#include "interpose/nccl/communicators.h"
#include "wire/codec.h"

namespace rgpu::interpose::nccl {

class Request {
public:
    explicit Request(const calls::NcclFunction &function) : function_(function) {}

    // Takes the arguments: those of the table's letters, each as a word, an ncclUniqueId by value
    // as its address. What is made has its handle from now on. Returns an ncclResult_t.
    int take(const uint64_t *words);
    // The call as it goes out.
    void write(wire::Writer &) const;
    // Reads what the server gives; false where that is no answer.
    bool read(wire::Reader &);
    // It has been carried out, or not: what it ends has ended; where it `failed`, the program gets
    // no communicator.
    void finish(bool failed);

    unsigned server() const { return server_; }
    // The calling thread's context, as the server knows it.
    uint32_t context() const { return context_; }

private:
    struct Made {
        void *handle = nullptr;
        void **where = nullptr;
    };

    int take_one(wire::Writer &, size_t place, const uint64_t *words);
    int find_server(const uint64_t *words);
    int take_communicator(wire::Writer &, const void *handle);
    int make(wire::Writer &, void **where);
    int make_all(wire::Writer &, void **where, int count);
    int make_operator(wire::Writer &, int *where);
    int take_devices(wire::Writer &, const int *list, int count);
    int take_ids(wire::Writer &, const calls::NcclUniqueId *, int count);
    int take_config(wire::Writer &, const uint8_t *config);
    int take_scalar(wire::Writer &, const void *scalar, int type, int residence);
    int take_memory(wire::Writer &, uint64_t address);
    int take_stream(wire::Writer &, uint64_t stream);

    const calls::NcclFunction &function_;
    unsigned server_ = 0;
    uint32_t context_ = 0;
    std::vector<uint8_t> body_;
    std::vector<uint64_t> words_;  // the arguments
    std::vector<Made> made_;
};

}  // namespace rgpu::interpose::nccl
