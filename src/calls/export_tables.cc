// SPDX-License-Identifier: Apache-2.0
// The private export tables. What is known of a slot stands beside it.
#include "calls/export_tables.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "calls/md2.h"

namespace rgpu::calls {

namespace {

DriverFacts facts;

using Slot = const void *;

// A table's first word is its size in bytes.
template <size_t words> constexpr Slot table_size()
{
    return reinterpret_cast<Slot>(words * sizeof(Slot));
}
#define SLOT(function) reinterpret_cast<Slot>(function)

// --- cudart's own interface

// The runtime of CUDA 11 loads its modules here: a fat binary's wrapper, as cuModuleLoadFatBinary
// takes it, or the fat binary itself. What the numbers behind it say is not known.
CUresult cudart_load(CUmodule *module, const void *wrapper)
{
    return facts.load_module(module, wrapper);
}

CUresult cudart_load_wrapper(CUmodule *module, const void *wrapper, void *, void *, unsigned)
{
    return facts.load_module(module, wrapper);
}

CUresult cudart_load_binary(const void *binary, CUmodule *module, void *, void *, unsigned)
{
    return facts.load_module(module, binary);
}

CUresult cudart_primary_context(CUcontext *context, CUdevice device)
{
    return facts.primary_context(context, device);
}

// A wrapper ends (CUDA 11, at exit). The driver has kept nothing of it.
CUresult cudart_wrapper_ends(const void *) { return CUDA_SUCCESS; }

// The runtime of CUDA 13.5 asks for the compilers before all else. The driver needs none of its
// own.
CUresult cudart_compilers() { return CUDA_SUCCESS; }

Slot cudart[13] = {};

// --- hooks for tools: two buffers that say that no tool is there

// A word for each function of the runtime. The runtime of 13.0 reads that of function 0x13a,
// whatever size it is told.
char hook_buffer[16384], hook_flags[1024];

void hooks_buffer(void **buffer, size_t *bytes)
{
    *buffer = hook_buffer;
    *bytes = sizeof hook_buffer;
}

void hooks_flags(void **buffer, size_t *bytes)
{
    *buffer = hook_flags;
    *bytes = sizeof hook_flags;
}

Slot hooks[7] = {};

// --- context-local storage: what a client keeps for (context, key)

struct Stored {
    CUcontext context;
    void *key, *value;
    Stored *next;
};

constexpr size_t kBuckets = 256;
Stored *storage[kBuckets];
pthread_mutex_t storage_mutex = PTHREAD_MUTEX_INITIALIZER;

// The link that points to the entry, or to the null at the end of its chain. Caller holds the
// mutex.
Stored **find_stored(CUcontext context, void *key)
{
    const auto mix = reinterpret_cast<uintptr_t>(key) >> 4;
    Stored **link = &storage[(mix ^ mix >> 8) % kBuckets];
    while (*link && ((*link)->key != key || (*link)->context != context)) link = &(*link)->next;
    return link;
}

// A null context is the current one: cudart puts so, and gets with the context itself.
CUcontext named(CUcontext context) { return context ? context : facts.current_context(); }

CUresult storage_put(CUcontext context, void *key, void *value, void *)
{
    context = named(context);
    pthread_mutex_lock(&storage_mutex);
    Stored **link = find_stored(context, key);
    if (!*link) {
        *link = static_cast<Stored *>(calloc(1, sizeof(Stored)));
        if (*link) **link = Stored{context, key, nullptr, nullptr};
    }
    const bool done = *link;
    if (done) (*link)->value = value;
    pthread_mutex_unlock(&storage_mutex);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult storage_delete(CUcontext context, void *key)
{
    context = named(context);
    pthread_mutex_lock(&storage_mutex);
    Stored **link = find_stored(context, key);
    Stored *gone = *link;
    if (gone) *link = gone->next;
    pthread_mutex_unlock(&storage_mutex);
    free(gone);
    return CUDA_SUCCESS;
}

CUresult storage_get(void **value, CUcontext context, void *key)
{
    context = named(context);
    pthread_mutex_lock(&storage_mutex);
    const Stored *found = *find_stored(context, key);
    if (found) *value = found->value;
    pthread_mutex_unlock(&storage_mutex);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Slot context_storage[4] = {};  // the one table without a size

// --- storage of tools and libraries

// cuBLAS calls it with one argument or none; a null answer is "nothing stored".
void *tools_thread_storage() { return nullptr; }

Slot thread_storage[4] = {};

// --- checks of a context

CUresult check_context(CUcontext, uint32_t *zero, const void **)
{
    if (zero) *zero = 0;
    return CUDA_SUCCESS;
}

// cudart asks it once, before all else, and goes on with 0.
CUresult check_nothing() { return CUDA_SUCCESS; }

Slot checks[17] = {};

// --- the context as tools see it (cuBLAS asks for it)

CUresult tools_context_number(CUcontext context, uint64_t *number)
{
    if (!number) return CUDA_ERROR_INVALID_VALUE;
    *number = reinterpret_cast<uintptr_t>(named(context)) >> 4 | 1;
    return CUDA_SUCCESS;
}

CUresult tools_context_state(void *, void *, uint64_t *out)
{
    if (out) *out = 0;
    return CUDA_SUCCESS;
}

alignas(64) char tools_object[4096];

CUresult tools_context_object(CUcontext, void *, void **out)
{
    if (out) *out = tools_object;
    return CUDA_SUCCESS;
}

Slot tools_context[95] = {};

// --- modules as tools see them (cuFFT finds its one kernel so)

using Visit = void (*)(void *, CUfunction, uint64_t);

// Shows every function of the module and returns how many there are: cuFFT wants exactly one, and
// keeps what it is shown without looking inside. The visit's third argument it does not use.
uint64_t tools_module_functions(CUcontext, CUmodule module, Visit visit, void *visitor)
{
    unsigned count = 0;
    if (!visit || facts.function_count(&count, module) || !count) return 0;
    auto *functions = static_cast<CUfunction *>(calloc(count, sizeof(CUfunction)));
    const bool known = functions && facts.functions(functions, count, module) == CUDA_SUCCESS;
    for (unsigned i = 0; known && i < count; i++)
        visit(visitor, functions[i], reinterpret_cast<uintptr_t>(module));
    free(functions);
    return known ? count : 0;
}

Slot tools_module[8] = {};  // up to the one slot that anybody asks for

// --- what CUPTI needs of a driver: JAX asks CUPTI's version, for which the table must be there. To
// profile is refused.

CUresult no_profiler() { return CUDA_ERROR_NOT_SUPPORTED; }

Slot profiler[128] = {};

void fill_profiler()
{
    profiler[0] = table_size<sizeof profiler / sizeof *profiler>();
    for (size_t i = 1; i < sizeof profiler / sizeof *profiler; i++) profiler[i] = SLOT(no_profiler);
}

// --- the integrity check

Slot integrity[3] = {};

CUresult integrity_check(uint32_t version, uint64_t unix_seconds, uint64_t result[2])
{
    if (version % 10 < 2) {
        result[0] = version % 10 ? 0x1841181C03CB675C : 0x3341181C03CB675C;
        result[1] = 0x8ED383AA1F4CD1E8;
        return CUDA_SUCCESS;
    }
    static const uint8_t key[] = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                                  0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};
    HmacMd2 mac(key, sizeof key);
    const uint32_t words[] = {static_cast<uint32_t>(facts.driver_version), version,
                              static_cast<uint32_t>(getpid()),
                              static_cast<uint32_t>(pthread_self())};
    const Slot addresses[] = {cudart, integrity, SLOT(integrity_check)};
    mac.add(words, sizeof words);
    mac.add(addresses, sizeof addresses);
    mac.add(&unix_seconds, sizeof unix_seconds);
    const int count = facts.device_count();
    for (int device = 0; device < count; device++) {
        CUuuid uuid;
        int32_t pci[3];
        if (CUresult rc = facts.device_uuid(&uuid, device)) return rc;
        if (CUresult rc = facts.device_pci(&pci[0], &pci[1], &pci[2], device)) return rc;
        mac.add(&uuid, sizeof uuid);
        mac.add(pci, sizeof pci);
    }
    mac.finish(reinterpret_cast<uint8_t *>(result));
    return CUDA_SUCCESS;
}

// --- which GPU processing cluster (GPC) each pair of multiprocessors belongs to

// cuBLAS and cuDNN ask on devices of compute capability 9.0 and later, and call what they get
// without a look at the result of cuGetExportTable.
Slot layout[64] = {};

// A byte for each pair, and a word that goes to layout_release. Whoever hears that there is none
// chooses kernels without it.
CUresult layout_of_clusters(const uint8_t **, void **) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult layout_release(const uint8_t *, void *) { return CUDA_SUCCESS; }

// --- all of them

enum class Name {
    cudart,
    hooks,
    context_storage,
    thread_storage,
    checks,
    tools_context,
    tools_module,
    integrity,
    layout
};
constexpr const char *kNames[] = {"cudart interface", "runtime hooks",   "context storage",
                                  "thread storage",   "context checks",  "tools' context",
                                  "tools' module",    "integrity check", "layout of the GPU"};

// What nothing is known of. Its caller may take a success for something that was done.
template <Name name, size_t slot> CUresult unknown()
{
    static std::atomic<bool> said;
    if (!said.exchange(true)) facts.unknown_slot(kNames[static_cast<size_t>(name)], slot);
    return CUDA_ERROR_NOT_SUPPORTED;
}

template <Name name, size_t words, size_t... i>
void fill(Slot (&table)[words], std::index_sequence<i...>)
{
    ((table[i] = SLOT((unknown<name, i>))), ...);
    table[0] = table_size<words>();
}

template <Name name, size_t words> void fill(Slot (&table)[words])
{
    fill<name>(table, std::make_index_sequence<words>());
}

void make_tables()
{
    fill_profiler();
    fill<Name::cudart>(cudart);
    cudart[1] = SLOT(cudart_load);
    cudart[2] = SLOT(cudart_primary_context);
    cudart[6] = SLOT(cudart_load_wrapper);
    cudart[7] = SLOT(cudart_wrapper_ends);
    cudart[8] = SLOT(cudart_load_binary);
    cudart[12] = SLOT(cudart_compilers);
    fill<Name::hooks>(hooks);
    hooks[2] = SLOT(hooks_buffer);
    hooks[6] = SLOT(hooks_flags);
    fill<Name::context_storage>(context_storage);
    context_storage[0] = SLOT(storage_put);
    context_storage[1] = SLOT(storage_delete);
    context_storage[2] = SLOT(storage_get);
    fill<Name::thread_storage>(thread_storage);
    thread_storage[2] = SLOT(tools_thread_storage);
    fill<Name::checks>(checks);
    checks[2] = SLOT(check_context);
    checks[3] = SLOT(check_nothing);
    fill<Name::tools_context>(tools_context);
    tools_context[4] = SLOT(tools_context_number);
    tools_context[39] = SLOT(tools_context_state);
    tools_context[51] = SLOT(tools_context_object);
    fill<Name::tools_module>(tools_module);
    tools_module[7] = SLOT(tools_module_functions);
    fill<Name::integrity>(integrity);
    integrity[1] = SLOT(integrity_check);
    fill<Name::layout>(layout);
    layout[4] = SLOT(layout_of_clusters);
    layout[13] = SLOT(layout_release);
}

struct Named {
    uint8_t id[16];
    Slot *table;
};

const Named kTables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     cudart},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     hooks},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     thread_storage},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     context_storage},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     checks},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
      0xf2},
     integrity},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
      0xf2},
     tools_context},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
      0x1e},
     tools_module},
    {{0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6, 0x6e, 0x6a, 0xed,
      0x7f},
     profiler},
    {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
      0xca},
     layout},
};

}  // namespace

void set_driver_facts(const DriverFacts &f) { facts = f; }

CUresult get_export_table(const void **table, const CUuuid *id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, make_tables);
    *table = nullptr;
    for (const Named &known : kTables)
        if (!memcmp(known.id, id->bytes, sizeof known.id)) {
            *table = known.table;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

void forget_context_storage(CUcontext context)
{
    pthread_mutex_lock(&storage_mutex);
    for (Stored *&head : storage)
        for (Stored **link = &head; *link;) {
            Stored *entry = *link;
            if (entry->context == context) {
                *link = entry->next;
                free(entry);
            } else {
                link = &entry->next;
            }
        }
    pthread_mutex_unlock(&storage_mutex);
}

}  // namespace rgpu::calls
