// SPDX-License-Identifier: Apache-2.0
#include "interpose/nccl/request.h"

#include <cstring>

#include "interpose/base/log.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::nccl {
namespace {

template <class T> T *pointer(uint64_t word) { return reinterpret_cast<T *>(word); }
int low(uint64_t word) { return static_cast<int>(static_cast<uint32_t>(word)); }

void write_text(wire::Writer &w, const char *text)
{
    w.value(uint8_t{text != nullptr});
    if (text) w.string({text, strnlen(text, calls::kMostNcclText)});
}

// A config's pointer, where it is so long.
const char *text_at(const uint8_t *config, size_t bytes, size_t at)
{
    const char *text = nullptr;
    if (bytes >= at + sizeof text) memcpy(&text, config + at, sizeof text);
    return text;
}

int refuse_servers()
{
    if (Program::get().says_now(0))
        say("NCCL: a communicator of one program over GPUs of several servers is not carried out: "
            "lease GPUs of one server (--rgpu-span=no), or start a process for each server");
    Program::get().set_last_error("a communicator over GPUs of several rgpu servers");
    return calls::kNcclInvalidUsage;
}

}  // namespace

int Request::take(const uint64_t *words)
{
    words_.assign(words, words + function_.parameters.size());
    if (int r = find_server(words)) return r;
    At at;
    if (spanning()) at.go(server_);
    const HandleId context = current_context();
    context_ = spanning() && context && Handles::get().at(context)->server != server_ ? 0 : context;
    wire::Writer w(body_);
    for (size_t i = 0; i < function_.parameters.size(); i++)
        if (int r = take_one(w, i, words)) {
            finish(true);
            return r;
        }
    return calls::kNcclSuccess;
}

// Of a communicator, the one that it is on; else that of the calling thread's current context.
int Request::find_server(const uint64_t *words)
{
    server_ = spanning() ? here() : 0;
    for (char letter : {'c', 'e'}) {
        if (!function_.has(letter)) continue;
        const auto found = Program::get().find(pointer<void>(words[function_.place(letter)]));
        if (!found) return calls::kNcclInvalidArgument;
        server_ = found->server;
    }
    if (!spanning() || !function_.has('A')) return calls::kNcclSuccess;
    const int *devices = pointer<int>(words[function_.place('l')]);
    const int count = low(words[function_.place('k')]);
    if (count < 1 || count > device_count()) return calls::kNcclInvalidArgument;
    for (int i = 0; i < count; i++) {
        const CUdevice d = devices ? devices[i] : i;
        if (!device(d)) return calls::kNcclInvalidArgument;
        if (i == 0) server_ = interpose::server_of(d);
        if (interpose::server_of(d) != server_) return refuse_servers();
    }
    return calls::kNcclSuccess;
}

int Request::take_one(wire::Writer &w, size_t place, const uint64_t *words)
{
    const uint64_t word = words[place];
    const auto number = [&](char letter) { return low(words[function_.place(letter)]); };
    const auto is_length = [](int n) { return n >= 0 && n <= calls::kMostNcclList; };
    switch (function_.parameters[place]) {
    case 'c':
    case 'e': return take_communicator(w, pointer<void>(word));
    case 'N': return make(w, pointer<void *>(word));
    case 'A': return make_all(w, pointer<void *>(word), number('k'));
    case 'l': return take_devices(w, pointer<int>(word), number('k'));
    case 'k': return is_length(low(word)) ? w.value(low(word)), 0 : calls::kNcclInvalidArgument;
    case 'i':
    case 'p': return w.value(low(word)), 0;
    case 't':
        if (!calls::nccl_type_bytes(low(word))) return calls::kNcclInvalidArgument;
        return w.value(low(word)), 0;
    case 'o':
        if (low(word) < 0) return calls::kNcclInvalidArgument;
        return w.value(low(word)), 0;
    case 'O': return make_operator(w, pointer<int>(word));
    case 'z':
    case 'w':
    case 'h': return w.value(word), 0;
    case 'x': return take_stream(w, word);
    case 'u': return take_ids(w, pointer<calls::NcclUniqueId>(word), -1);
    case 'U': return take_ids(w, pointer<calls::NcclUniqueId>(word), number('k'));
    case 'f': return take_config(w, pointer<uint8_t>(word));
    case 'v': return take_scalar(w, pointer<void>(word), number('t'), low(words[place + 2]));
    case 'Y':
    case 'H':
    case 'I':
    case 'V':
    case 'L': return word ? 0 : calls::kNcclInvalidArgument;
    default: return take_memory(w, word);
    }
}

int Request::take_communicator(wire::Writer &w, const void *handle)
{
    const auto found = Program::get().find(handle);
    if (!found) return calls::kNcclInvalidArgument;
    return w.value(found->number), 0;
}

int Request::make(wire::Writer &w, void **where)
{
    if (!where) return calls::kNcclInvalidArgument;
    void *const handle = Program::get().make(server_);
    if (!handle) return calls::kNcclSystemError;
    made_.push_back({handle, where});
    *where = handle;
    return w.value(Program::get().find(handle)->number), 0;
}

int Request::make_all(wire::Writer &w, void **where, int count)
{
    if (!where || count < 1 || count > calls::kMostNcclList) return calls::kNcclInvalidArgument;
    w.value(static_cast<uint32_t>(count));
    for (int i = 0; i < count; i++)
        if (int r = make(w, where + i)) return r;
    return calls::kNcclSuccess;
}

int Request::make_operator(wire::Writer &w, int *where)
{
    const int number = where ? Program::get().make_operator() : -1;
    if (number < 0) return where ? calls::kNcclSystemError : calls::kNcclInvalidArgument;
    *where = number;
    return w.value(number), 0;
}

// Ranks of a communicator, or the program's numbers of devices, which are the server's own where
// there is one server.
int Request::take_devices(wire::Writer &w, const int *list, int count)
{
    const bool devices = function_.has('A');
    // All devices of several servers are not those of the one.
    std::vector<int> all;
    for (int i = 0; devices && spanning() && !list && i < count; i++) all.push_back(i);
    if (!all.empty()) list = all.data();
    if (count < 0 || count > calls::kMostNcclList) return calls::kNcclInvalidArgument;
    w.value(uint8_t{list != nullptr});
    w.value(static_cast<uint32_t>(list ? count : 0));
    for (int i = 0; list && i < count; i++)
        w.value(devices && spanning() ? static_cast<int>(to_wire(list[i])) : list[i]);
    return calls::kNcclSuccess;
}

int Request::take_ids(wire::Writer &w, const calls::NcclUniqueId *ids, int count)
{
    if (!ids) return calls::kNcclInvalidArgument;
    if (count >= 0) w.value(static_cast<uint32_t>(count));
    for (int i = 0; i < (count < 0 ? 1 : count); i++) {
        if (const auto server = Program::get().server_of(ids[i]); server && *server != server_)
            return refuse_servers();
        w.value(ids[i]);
    }
    return calls::kNcclSuccess;
}

int Request::take_config(wire::Writer &w, const uint8_t *config)
{
    w.value(uint8_t{config != nullptr});
    if (!config) return calls::kNcclSuccess;
    size_t bytes = 0;
    memcpy(&bytes, config, sizeof bytes);
    if (bytes < calls::kNcclLeastConfigBytes || bytes > 4096) return calls::kNcclInvalidArgument;
    // What newer versions have behind it is not known here.
    bytes = std::min(bytes, calls::kNcclConfigBytes);
    uint8_t copy[calls::kNcclConfigBytes];
    memcpy(copy, config, bytes);
    memcpy(copy, &bytes, sizeof bytes);
    const char *const net = text_at(config, bytes, calls::kNcclNetName);
    const char *const name = text_at(config, bytes, calls::kNcclCommName);
    for (size_t at : {calls::kNcclNetName, calls::kNcclCommName})
        if (bytes >= at + sizeof(char *)) memset(copy + at, 0, sizeof(char *));
    w.value(static_cast<uint32_t>(bytes));
    w.bytes(copy, bytes);
    write_text(w, net);
    write_text(w, name);
    return calls::kNcclSuccess;
}

int Request::take_scalar(wire::Writer &w, const void *scalar, int type, int residence)
{
    const size_t bytes = calls::nccl_type_bytes(type);
    if (!scalar || !bytes) return calls::kNcclInvalidArgument;
    if (residence != 1) return take_memory(w, reinterpret_cast<uint64_t>(scalar));
    uint64_t value = 0;
    memcpy(&value, scalar, bytes);
    return w.value(value), 0;
}

int Request::take_memory(wire::Writer &w, uint64_t address)
{
    if (address && mirror::any() && mirror::find(address)) {
        if (Program::get().says_now(1))
            say("%s: its buffer is memory that the program and kernels share (managed or pinned "
                "host memory); NCCL on the server takes memory of the GPU only (cudaMalloc)",
                function_.name.data());
        Program::get().set_last_error("host or managed memory as a buffer");
        return calls::kNcclInvalidArgument;
    }
    return w.value(address), 0;
}

int Request::take_stream(wire::Writer &w, uint64_t stream)
{
    HandleId id = 0;
    if (detail::id_in(pointer<CUstream_st>(stream), id)) return calls::kNcclInvalidArgument;
    if (may_give_work(id)) return calls::kNcclUnhandledCudaError;
    return w.value(id), 0;
}

void Request::write(wire::Writer &w) const
{
    w.string(function_.name);
    w.value(context_);
    w.bytes(body_.data(), body_.size());
}

bool Request::read(wire::Reader &r)
{
    size_t next = 0;
    const auto take_made = [&] {
        Made &made = made_[next++];
        if (r.value<uint8_t>()) return;
        Program::get().end(made.handle);
        *made.where = nullptr;
    };
    for (size_t i = 0; i < function_.parameters.size(); i++) {
        void *const where = pointer<void>(words_[i]);
        const auto give = [&](auto value) {
            if (r.ok()) memcpy(where, &value, sizeof value);
        };
        switch (function_.parameters[i]) {
        case 'N': take_made(); break;
        case 'A':
            for (size_t n = made_.size(); next < n;) take_made();
            break;
        case 'I': give(r.value<int>()); break;
        case 'V': {
            const int device = r.value<int>();
            give(spanning() ? from_wire(device) : device);
            break;
        }
        case 'L':
        case 'H': give(r.value<uint64_t>()); break;
        case 'Y': {
            const auto id = r.value<calls::NcclUniqueId>();
            give(id);
            if (r.ok()) Program::get().note_id(id, server_);
            break;
        }
        default: break;
        }
    }
    return r.ok();
}

void Request::finish(bool failed)
{
    if (function_.has('e')) Program::get().end(pointer<void>(words_[function_.place('e')]));
    for (const Made &made : made_) {
        if (!failed) break;
        Program::get().end(made.handle);
        *made.where = nullptr;
    }
}

}  // namespace rgpu::interpose::nccl
