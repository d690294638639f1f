// SPDX-License-Identifier: Apache-2.0
// What is asked of functions again and again and does not change until the program changes it:
// attributes and occupancy.
//
// The first question for an attribute of a function asks for all of them: cudaFuncGetAttributes()
// wants fifteen, one by one.
#include <array>
#include <map>

#include "interpose/code/function_info.h"
#include "interpose/graph/kernel_updates.h"
#include "interpose/state/client.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

constexpr size_t kAttributes = CU_FUNC_ATTRIBUTE_MAX;
constexpr size_t kMostRemembered = 4096;
constexpr CUdevice kNoDevice = -1;  // a function has one; a kernel has one for each device

struct Subject {
    HandleId id = 0;
    uint32_t stamp = 0;
    CUdevice device = kNoDevice;
    unsigned server = here();  // a kernel that is asked as a function is one at each
    auto operator<=>(const Subject &) const = default;
};
struct Question {
    Subject of;
    int block = 0;
    size_t shared = 0;
    unsigned flags = 0;
    auto operator<=>(const Question &) const = default;
};

struct Facts {
    std::mutex mutex;
    std::map<Subject, std::array<std::optional<int>, kAttributes>> attributes;
    std::map<Question, int> blocks;
    std::array<Ahead, kAttributes> ahead;

    void forget()
    {
        std::lock_guard lock(mutex);
        attributes.clear();
        blocks.clear();
    }
};

Facts &facts() { return client_part<Facts>(Part::function_facts); }

// With the mutex held: asks the server for every attribute of `of`, and waits for `wanted`, the
// last. `write` puts the body for one attribute into a Writer.
template <class Write>
CUresult ask_for_all(Facts &f, calls::SentCall id, const Subject &of, size_t wanted, Write write)
{
    if (f.attributes.size() >= kMostRemembered) f.attributes.clear();
    auto &known = f.attributes[of];
    const auto learn = [&known](size_t attribute, const Reply &reply) {
        wire::Reader r(reply.body.data(), reply.body.size());
        const int value = r.value<int>();
        if (!reply.result && r.ok()) known[attribute] = value;
    };
    std::array<bool, kAttributes> asked{};
    for (size_t a = 0; a < kAttributes && !every_call_waits(); a++)
        asked[a] = a != wanted &&
                   session()->ask_ahead(
                       id, current_context(), [&](wire::Writer &w) { write(w, a); }, f.ahead[a]);
    Reply reply;
    const CUresult result = session()->ask(
        id, current_context(), [&](wire::Writer &w) { write(w, wanted); }, reply);
    learn(wanted, reply);
    for (size_t a = 0; a < kAttributes; a++) {
        if (!asked[a]) continue;
        session()->take_ahead(f.ahead[a], reply);
        learn(a, reply);
    }
    return result;
}

// The attribute of a function, or of a kernel on a device. `remote` asks the server for this one.
template <class T, class Remote> CUresult attribute(calls::SentCall id, int *out,
                                                    CUfunction_attribute a, T handle,
                                                    CUdevice device, Remote remote)
{
    Slot *slot = session() ? Handles::get().slot(handle) : nullptr;
    const auto index = static_cast<size_t>(a);
    if (!slot || !out || index >= kAttributes) return remote();
    const HandleId number = *Handles::get().id(handle);
    const Subject of{number, slot->stamp, device};
    Facts &f = facts();
    std::lock_guard lock(f.mutex);
    const auto known = f.attributes.find(of);
    if (known != f.attributes.end()) {
        if (!known->second[index]) return remote();  // the server has refused it
        *out = *known->second[index];
        return CUDA_SUCCESS;
    }
    CUresult r = ask_for_all(f, id, of, index, [&](wire::Writer &w, size_t which) {
        w.value(uint8_t{1}), w.value(static_cast<CUfunction_attribute>(which)), w.value(number);
        if (device != kNoDevice) w.value(to_wire(device));
    });
    if (r)
        f.attributes.erase(of);
    else
        *out = *f.attributes[of][index];
    return r;
}

void note_set(const FunctionInfo *info, CUfunction_attribute a, int value, CUdevice device)
{
    facts().forget();
    if (info && a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        info->limits.set_dynamic_shared(device, static_cast<uint32_t>(value));
}

}  // namespace

namespace own {

CUresult cuFuncGetAttribute(int *out, CUfunction_attribute a, CUfunction f)
{
    return attribute(CallId::cuFuncGetAttribute, out, a, f, kNoDevice,
                     [&] { return remote<CallId::cuFuncGetAttribute>(out, a, f); });
}

CUresult cuKernelGetAttribute(int *out, CUfunction_attribute a, CUkernel k, CUdevice d)
{
    const auto ask = [&] { return remote<CallId::cuKernelGetAttribute>(out, a, k, d); };
    return d < 0 ? ask() : attribute(CallId::cuKernelGetAttribute, out, a, k, d, ask);
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value)
{
    forget_all_updates();
    CUresult r = remote<CallId::cuFuncSetAttribute>(f, a, value);
    if (!r) note_set(function_info(f), a, value, current_device());
    return r;
}

CUresult cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel k, CUdevice d)
{
    forget_all_updates();
    CUresult r = remote<CallId::cuKernelSetAttribute>(a, value, k, d);
    if (!r) note_set(function_info(reinterpret_cast<CUfunction>(k)), a, value, d);
    return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, CUfunction f, int block,
                                                              size_t shared, unsigned flags)
{
    const auto ask = [&] {
        return remote<CallId::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags>(out, f, block,
                                                                                    shared, flags);
    };
    Slot *slot = session() ? Handles::get().slot(f) : nullptr;
    if (!slot || !out) return ask();
    const Question q{{*Handles::get().id(f), slot->stamp, current_device()}, block, shared, flags};
    Facts &known = facts();
    std::lock_guard lock(known.mutex);
    if (const auto it = known.blocks.find(q); it != known.blocks.end()) {
        *out = it->second;
        return CUDA_SUCCESS;
    }
    CUresult r = ask();
    if (r) return r;
    if (known.blocks.size() >= kMostRemembered) known.blocks.clear();
    known.blocks[q] = *out;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f, int block,
                                                     size_t shared)
{
    return own::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, f, block, shared, 0);
}

}  // namespace own

}  // namespace rgpu::interpose
