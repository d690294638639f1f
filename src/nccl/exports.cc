// SPDX-License-Identifier: Apache-2.0
// libnccl.so.2 for the program: NCCL that runs on the GPUs' server. Every function hands its
// arguments to our libcuda.so.1 (interpose/api/nccl.cc) and knows nothing itself. libc only; no
// exceptions, and no objects.
//
// NCCL's parameters are numbers and pointers, so each is a word in the calling conventions of
// Linux, and words beyond a function's parameters are anything. An ncclUniqueId by value lies on
// the stack: it goes on as its address.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "calls/nccl.h"

namespace {

using rgpu::calls::NcclUniqueId;
using Word = uint64_t;
using Entry = Word (*)(uint32_t version, const char *name, const Word *words);

constexpr Word kSystemError = rgpu::calls::kNcclSystemError;

void say(const char *text)
{
    [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text, strlen(text));
}

Word without_driver(uint32_t, const char *, const Word *) { return kSystemError; }

Entry find_entry()
{
    static std::atomic<Entry> entry{nullptr};
    if (Entry found = entry.load(std::memory_order_acquire)) return found;
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto found = driver ? reinterpret_cast<Entry>(dlsym(driver, "cuRgpuNccl")) : nullptr;
    if (!found) {
        say("rgpu: this libnccl.so.2 is for GPUs of rgpu, and the libcuda.so.1 of this program is "
            "not rgpu's: take it out of LD_PRELOAD, or start the program with srun --gres=rgpu:N "
            "or rgpu run\n");
        found = without_driver;
    }
    entry.store(found, std::memory_order_release);
    return found;
}

Word call(const char *name, const Word *words)
{
    return find_entry()(rgpu::calls::kNcclEntryVersion, name, words);
}

}  // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]
#define ALIAS(name, ...) EXPORT Word p##name(__VA_ARGS__) __attribute__((alias(#name)))
#define FUNCTION(name) \
    EXPORT Word name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h) \
    { \
        const Word words[] = {a, b, c, d, e, f, g, h}; \
        return call(#name, words); \
    } \
    ALIAS(name, Word, Word, Word, Word, Word, Word, Word, Word);
#define GROUPED(name, parameters) FUNCTION(name)
#define ONCE(name, parameters) FUNCTION(name)
#define HERE(name) FUNCTION(name)
#define NONE(name) FUNCTION(name)
#define WITH_ID(name, parameters) \
    EXPORT Word name(Word communicator, Word ranks, NcclUniqueId id, Word rank, Word config) \
    { \
        const Word words[] = {communicator, ranks, reinterpret_cast<Word>(&id), rank, config}; \
        return call(#name, words); \
    } \
    ALIAS(name, Word, Word, NcclUniqueId, Word, Word);
#define TEXT(name)
#include "calls/nccl.def"

EXPORT const char *ncclGetErrorString(int result) { return rgpu::calls::nccl_error_string(result); }
EXPORT const char *pncclGetErrorString(int) __attribute__((alias("ncclGetErrorString")));

EXPORT const char *ncclGetLastError(Word communicator)
{
    const Word text = call("ncclGetLastError", &communicator);
    return text == kSystemError ? "" : reinterpret_cast<const char *>(text);
}
EXPORT const char *pncclGetLastError(Word) __attribute__((alias("ncclGetLastError")));
