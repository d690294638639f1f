// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for tests, made from the table: every function notes what it was called with,
// writes values that can be recognised to its outputs, and succeeds (or answers what the test
// says). It never looks at what it does not know.
//
// Beside the driver's functions it exports what tests ask: rgpu_recorder_*.
#include <array>
#include <cstdlib>
#include <mutex>

#include "t/recorder/record.h"

namespace rgpu::recorder {

namespace {

using calls::CallId;
using calls::RoleKind;

std::mutex mutex;
// Never destroyed, like Last's: the worker's threads call while the process ends.
std::array<Note, calls::kCallCount> &notes = *new std::array<Note, calls::kCallCount>;
uint64_t random_state = 1;
CUresult answer = CUDA_SUCCESS;
uintptr_t next_handle = 0x7ec0000000;

// splitmix64: copies of megabytes are filled with it.
uint64_t random_bytes()
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// Copies of megabytes get the same bytes again and again.
void fill(void *to, size_t n)
{
    static const auto block = [] {
        std::array<uint64_t, 8192> words;
        for (uint64_t &word : words) word = random_bytes();
        return words;
    }();
    const auto copy = [&](const void *from, size_t some) {
        memcpy(to, from, some);
        to = static_cast<char *>(to) + some, n -= some;
    };
    while (n > 4096) copy(block.data(), std::min(n, sizeof block));
    while (n) {
        const uint64_t word = random_bytes();
        copy(&word, n < sizeof word ? n : sizeof word);
    }
}

// The last struct of each type that it was given: what it answers when it is asked for one.
template <class T> struct Last {
    static inline T value{};
    static inline Blocks &blocks = *new Blocks;

    static void set(const T &v)
    {
        value = v;
        Blocks fresh;
        keep(value, fresh);
        blocks.swap(fresh);
    }
};

void change(CUgraphNodeParams &p)
{
    if (p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) fill(&p.alloc.dptr, sizeof p.alloc.dptr);
}
void change(CUDA_MEM_ALLOC_NODE_PARAMS &p) { fill(&p.dptr, sizeof p.dptr); }
void change(CUDA_GRAPH_INSTANTIATE_PARAMS &p)
{
    p.hErrNode_out = reinterpret_cast<CUgraphNode>(next_handle += 16);
    p.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
}
void make(CUgraphExecUpdateResultInfo &i)
{
    i.result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    i.errorNode = reinterpret_cast<CUgraphNode>(next_handle += 16);
    i.errorFromNode = reinterpret_cast<CUgraphNode>(next_handle += 16);
}

template <RoleKind Kind, class T> void write(Bytes &out, T arg, size_t count)
{
    using V = std::remove_pointer_t<T>;
    if constexpr (Kind == RoleKind::ref || Kind == RoleKind::inout) {
        if constexpr (Kept<std::remove_cv_t<V>>)
            if (arg) Last<std::remove_cv_t<V>>::set(*arg);
    }
    if constexpr (Kind == RoleKind::inout) {
        if constexpr (DeepOut<V>)
            if (arg) change(*arg), deep_out(out, *arg);
    }
    if constexpr (Kind == RoleKind::out) {
        if (!arg) return;
        if constexpr (Kept<V>) {
            *arg = Last<V>::value;
            return;
        } else if constexpr (Deep<V>) {
            make(*arg);
        } else if constexpr (calls::kIsHandle<V>)
            *arg = reinterpret_cast<V>(next_handle += 16);
        else
            fill(arg, sizeof *arg);
        if constexpr (Deep<V>)
            deep(out, *arg);
        else
            add(out, *arg);
    } else if constexpr (Kind == RoleKind::out_n) {
        if (!arg) return;
        fill(arg, count * sizeof *arg);
        add(out, arg, count * sizeof *arg);
    } else if constexpr (Kind == RoleKind::text) {
        if (!arg || !count) return;
        const size_t n = random_bytes() % count;
        for (size_t i = 0; i < n; i++) arg[i] = static_cast<char>('a' + random_bytes() % 26);
        arg[n] = 0;
        add(out, arg, n + 1);
    }
}

bool in_memory(CUdeviceptr address, size_t bytes)
{
    return address >= kMemory && address - kMemory <= kMemoryBytes &&
           bytes <= kMemoryBytes - (address - kMemory);
}

// What hand-written handlers must be able to make sense of, and what they hand over that no role
// describes.
template <CallId Id, class Args> bool special(const Args &args, Note &note, CUresult &result)
{
    if constexpr (Id == CallId::cuFuncGetParamInfo || Id == CallId::cuKernelGetParamInfo) {
        const size_t i = std::get<1>(args);
        result = i < kParameters ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (!result) *std::get<2>(args) = 8 * i;
        if (!result && std::get<3>(args)) *std::get<3>(args) = 8;
        return true;
    } else if constexpr (Id == CallId::cuPointerGetAttributes) {
        const auto [count, which, data, address] = args;
        const bool is = in_memory(address, 1);
        for (unsigned i = 0; i < count; i++)
            if (which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
                *static_cast<unsigned *>(data[i]) = is ? CU_MEMORYTYPE_DEVICE : 0;
            else if (which[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
                *static_cast<CUdeviceptr *>(data[i]) = is ? kMemory : 0;
            else if (which[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
                *static_cast<size_t *>(data[i]) = is ? kMemoryBytes : 0;
    } else if constexpr (Id == CallId::cuDeviceGetCount) {
        *std::get<0>(args) = 1;
    } else if constexpr (Id == CallId::cuDriverGetVersion) {
        *std::get<0>(args) = CUDA_VERSION;
    } else if constexpr (Id == CallId::cuFuncGetName || Id == CallId::cuKernelGetName) {
        *std::get<0>(args) = "recorded";
    } else if constexpr (Id == CallId::cuMemAllocHost_v2 || Id == CallId::cuMemHostAlloc) {
        *std::get<0>(args) = calloc(1, std::get<1>(args));
    } else if constexpr (Id == CallId::cuMemcpyDtoHAsync_v2) {
        const auto [to, from, bytes, stream] = args;
        if (!in_memory(from, bytes)) return result = CUDA_ERROR_INVALID_VALUE, true;
        fill(to, bytes);
        add(note.out, to, bytes);
    } else if constexpr (Id == CallId::cuMemcpyHtoDAsync_v2) {
        const auto [to, from, bytes, stream] = args;
        if (!in_memory(to, bytes)) return result = CUDA_ERROR_INVALID_VALUE, true;
        add(note.in, from, bytes);
    } else if constexpr (Id == CallId::cuLaunchKernel) {
        void **params = std::get<9>(args), **extra = std::get<10>(args);
        const Bytes values = parameters(params, extra);
        add(note.in, values.data(), values.size());
    } else if constexpr (Id == CallId::cuLinkComplete) {
        static char image[] = "a linked image";
        *std::get<1>(args) = image;
        *std::get<2>(args) = sizeof image;
    } else {
        return false;
    }
    return true;
}

template <CallId Id, class F> struct Recorded;
template <CallId Id, class... A> struct Recorded<Id, CUresult (*)(A...)> {
    static CUresult call(A... a)
    {
        std::lock_guard lock(mutex);
        Note &note = notes[static_cast<size_t>(Id)];
        note.calls++;
        note.in.clear(), note.out.clear();
        if constexpr (calls::Row<Id>::info.mode != calls::Mode::none) {
            const std::tuple<A...> args(a...);
            note.in = note_arguments<Id>(args);
            CUresult result = CUDA_SUCCESS;
            if (special<Id>(args, note, result)) return result;
            if (answer) return answer;
            [&]<size_t... I>(std::index_sequence<I...>)
            {
                [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
                (write<roles[I].kind>(note.out, a, count_of<Id, I>(args)), ...);
            }
            (std::index_sequence_for<A...>());
        }
        return answer;
    }
};

}  // namespace

}  // namespace rgpu::recorder

using namespace rgpu::recorder;

#define EXPORT extern "C" [[gnu::visibility("default")]]

#define ROW(symbol, ...) \
    EXPORT decltype(::symbol) symbol __attribute__((ifunc("rgpu_record_" #symbol))); \
    extern "C" decltype(&::symbol) rgpu_record_##symbol() \
    { \
        return &Recorded<rgpu::calls::CallId::symbol, decltype(&::symbol)>::call; \
    }
#include "calls/table.def"

// The last call of one function.
EXPORT void rgpu_recorder_note(uint16_t id, Note *note)
{
    std::lock_guard lock(mutex);
    *note = notes[id];
}
// What every function answers from now on.
EXPORT void rgpu_recorder_answer(CUresult result)
{
    std::lock_guard lock(mutex);
    answer = result;
}
