// SPDX-License-Identifier: Apache-2.0
#include "worker/host/nvml.h"

#include <optional>

#include "worker/driver/device_meter.h"
#include "worker/host/nvml_call.h"

namespace rgpu::worker {
namespace {

using calls::NvmlParameter;

bool is_device(uint32_t number)
{
    int count = 0;
    return DRIVER(cuDeviceGetCount)(&count) == CUDA_SUCCESS &&
           number < static_cast<uint32_t>(count);
}

// Room for a parameter, with what the client sent of it; nothing where that is no good.
std::optional<NvmlBuffer> buffer(wire::Reader &r, const NvmlParameter &p)
{
    NvmlBuffer b{p, 1, {}, p.bytes};
    if (p.kind != 'o') b.count = r.value<uint32_t>();
    if (p.kind == 's' || p.kind == 'x') b.bytes = b.count;
    if (p.kind == 'a' || p.kind == 'f') b.bytes = uint64_t{b.count} * p.bytes;
    if (!r.ok() || b.bytes > calls::kMostNvmlBytes) return std::nullopt;
    b.words.resize(b.bytes / 8 + 1);
    if (p.kind == 's' || p.kind == 'a') return b;
    const uint8_t *bytes = r.bytes(b.bytes);
    if (!bytes) return std::nullopt;
    memcpy(b.data(), bytes, b.bytes);
    // NVML writes as much as a struct says that it has, so it must say what came.
    uint32_t size = 0;
    memcpy(&size, b.data(), sizeof size);
    if (p.kind == 'x' && (b.bytes < sizeof size || (size & 0xffffff) != b.bytes))
        return std::nullopt;
    return b;
}

std::optional<NvmlCall> read_call(wire::Reader &r, const calls::NvmlFunction &function)
{
    NvmlCall call{&function, 0, -1, {}, {}};
    const uint32_t device = r.value<uint32_t>();
    if (!is_device(device)) return std::nullopt;
    call.device = static_cast<int>(device);
    for (const NvmlParameter &p : calls::nvml_parameters(function.parameters)) {
        if (p.kind == 'v') {
            call.values.push_back(static_cast<uint32_t>(r.value<uint64_t>()));
        } else if (p.kind == 'p') {
            const uint32_t peer = r.value<uint32_t>();
            if (!is_device(peer)) return std::nullopt;
            call.peer = static_cast<int>(peer);
        } else if (auto b = buffer(r, p)) {
            call.buffers.push_back(std::move(*b));
        } else {
            return std::nullopt;
        }
    }
    return r.at_end() ? std::optional(std::move(call)) : std::nullopt;
}

// The host's NVML. Its parameters are numbers and pointers, so each is a word in the calling
// conventions of Linux; words beyond a function's parameters do no harm.
int answer_nvidia(NvmlCall &call)
{
    auto function =
        reinterpret_cast<int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t)>(nvml_function(call.function->name.data()));
    if (!function) return calls::kNvmlFunctionNotFound;
    std::vector<uint64_t> words;
    auto add = [&](auto word) { words.push_back((uint64_t)(word)); };
    void *device = nvml_device(driver(), call.device);
    void *peer = call.peer < 0 ? nullptr : nvml_device(driver(), call.peer);
    if (!device || (call.peer >= 0 && !peer)) return calls::kNvmlUnknown;
    add(device);
    auto value = call.values.begin();
    auto b = call.buffers.begin();
    for (const NvmlParameter &p : calls::nvml_parameters(call.function->parameters)) {
        switch (p.kind) {
        case 'v': add(*value++); continue;
        case 'p': add(peer); continue;
        case 'a': add(&b->count), add(b->count ? b->data() : nullptr); break;
        case 's': add(b->data()), add(b->count); break;
        case 'f': add(b->count), add(b->data()); break;
        default: add(b->data()); break;
        }
        ++b;
    }
    words.resize(8);
    return function(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]);
}

void write_buffer(wire::Writer &w, NvmlBuffer &b, uint32_t room)
{
    const uint32_t each = b.parameter.bytes;
    switch (b.parameter.kind) {
    case 's': {
        const char *text = static_cast<const char *>(b.data());
        w.string({text, strnlen(text, b.bytes)});
        return;
    }
    case 'a': {
        const uint32_t given = b.count <= room ? b.count : 0;
        w.value(b.count);
        w.value(given);
        w.bytes(b.data(), size_t{given} * each);
        return;
    }
    default: w.bytes(b.data(), b.bytes);
    }
}

}  // namespace

std::vector<uint8_t> answer_nvml(wire::Reader r)
{
    std::vector<uint8_t> body;
    wire::Writer w(body);
    const calls::NvmlFunction *function = calls::find_nvml(r.string());
    if (!function) return w.value(int{calls::kNvmlFunctionNotFound}), body;
    auto call = read_call(r, *function);
    if (!call) return w.value(int{calls::kNvmlInvalidArgument}), body;
    std::vector<uint32_t> rooms;
    for (const NvmlBuffer &b : call->buffers) rooms.push_back(b.count);
    const bool software = driver().symbol(kSoftwareMark);
    const int result = software ? answer_software(*call) : answer_nvidia(*call);
    w.value(result);
    if (result != calls::kNvmlSuccess && result != calls::kNvmlInsufficientSize) return body;
    for (size_t i = 0; i < rooms.size(); i++) write_buffer(w, call->buffers[i], rooms[i]);
    return body;
}

}  // namespace rgpu::worker
