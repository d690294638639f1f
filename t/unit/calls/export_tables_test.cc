// SPDX-License-Identifier: Apache-2.0
// The private export tables as cudart uses them: found by UUID, storage by context, the integrity
// check.
#include "calls/export_tables.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "calls/md2.h"

using namespace rgpu::calls;

namespace {

int contexts[2];
CUcontext current = reinterpret_cast<CUcontext>(&contexts[0]);
const CUcontext other = reinterpret_cast<CUcontext>(&contexts[1]);

CUcontext current_context() { return current; }
CUresult primary(CUcontext *c, CUdevice d)
{
    *c = d ? other : current;
    return CUDA_SUCCESS;
}
int device_count() { return 2; }
CUresult uuid(CUuuid *u, CUdevice d)
{
    memset(u->bytes, 0x40 + d, sizeof u->bytes);
    return CUDA_SUCCESS;
}
CUresult pci(int *domain, int *bus, int *device, CUdevice d)
{
    *domain = 0;
    *bus = 7 + d;
    *device = 1;
    return CUDA_SUCCESS;
}

const CUuuid kCudart = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a,
                         (char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d,
                         (char)0xf9}};
const CUuuid kStorage = {{(char)0xc6, (char)0x93, 0x33, 0x6e, 0x11, 0x21, (char)0xdf, 0x11,
                          (char)0xa8, (char)0xc3, 0x68, (char)0xf3, 0x55, (char)0xd8, (char)0x95,
                          (char)0x93}};
const CUuuid kIntegrity = {{(char)0xd4, 0x08, 0x20, 0x55, (char)0xbd, (char)0xe6, 0x70, 0x4b,
                            (char)0x8d, 0x34, (char)0xba, 0x12, 0x3c, 0x66, (char)0xe1,
                            (char)0xf2}};

const CUuuid kModules = {{0x6e, 0x16, 0x3f, (char)0xbe, (char)0xb9, 0x58, 0x44, 0x4d, (char)0x83,
                          0x5c, (char)0xe1, (char)0x82, (char)0xaf, (char)0xf1, (char)0x99, 0x1e}};

// A module of that many functions, each of which is its own number.
CUresult function_count(unsigned *count, CUmodule module)
{
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(reinterpret_cast<uintptr_t>(module));
    return CUDA_SUCCESS;
}

CUresult functions(CUfunction *out, unsigned room, CUmodule)
{
    for (unsigned i = 0; i < room; i++) out[i] = reinterpret_cast<CUfunction>(uintptr_t{i} + 1);
    return CUDA_SUCCESS;
}

// A module is the image that it was loaded from.
CUresult load_module(CUmodule *module, const void *image)
{
    *module = static_cast<CUmodule>(const_cast<void *>(image));
    return CUDA_SUCCESS;
}

std::vector<std::string> unknown_slots;

const void *const *table(const CUuuid &id)
{
    const void *t = nullptr;
    cr_assert_eq(get_export_table(&t, &id), CUDA_SUCCESS);
    return static_cast<const void *const *>(t);
}

void setup()
{
    DriverFacts facts{13000, current_context, primary,  device_count, uuid,
                      pci,   function_count,  functions};
    facts.load_module = load_module;
    facts.unknown_slot = [](const char *name, unsigned slot) {
        unknown_slots.push_back(name + (" " + std::to_string(slot)));
    };
    set_driver_facts(facts);
}

}  // namespace

TestSuite(export_tables, .init = setup);

Test(export_tables, refuses_what_it_does_not_know)
{
    const CUuuid unknown = {{1, 2, 3}};
    const void *t = &t;
    cr_expect_eq(get_export_table(&t, &unknown), CUDA_ERROR_NOT_FOUND);
    cr_expect_null(t);
    cr_expect_eq(get_export_table(nullptr, &unknown), CUDA_ERROR_INVALID_VALUE);
}

// cuBLAS calls slot 4 on devices of compute capability 9.0 whatever cuGetExportTable said.
Test(export_tables, layout_of_the_gpu_is_not_told)
{
    CUuuid id;
    memcpy(id.bytes, "\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca", 16);
    const void *const *layout = table(id);
    const uint8_t *bytes = nullptr;
    void *other = nullptr;
    auto ask = reinterpret_cast<CUresult (*)(const uint8_t **, void **)>(layout[4]);
    auto release = reinterpret_cast<CUresult (*)(const uint8_t *, void *)>(layout[13]);
    cr_expect_eq(ask(&bytes, &other), CUDA_ERROR_NOT_SUPPORTED);
    cr_expect(!bytes && !other);
    cr_expect_eq(release(bytes, other), CUDA_SUCCESS);
}

Test(export_tables, cudart_table_names_its_size_and_the_primary_context)
{
    const void *const *t = table(kCudart);
    cr_expect_eq(reinterpret_cast<size_t>(t[0]), 13 * sizeof(void *));
    CUcontext c = nullptr;
    auto get = reinterpret_cast<CUresult (*)(CUcontext *, CUdevice)>(const_cast<void *>(t[2]));
    cr_expect_eq(get(&c, 1), CUDA_SUCCESS);
    cr_expect_eq(c, other);
}

Test(export_tables, cudart_11_loads_its_modules_through_slots)
{
    const void *const *t = table(kCudart);
    const char wrapper = 0, binary = 0;
    CUmodule m = nullptr;
    auto load = reinterpret_cast<CUresult (*)(CUmodule *, const void *)>(const_cast<void *>(t[1]));
    cr_expect_eq(load(&m, &wrapper), CUDA_SUCCESS);
    cr_expect_eq(static_cast<const void *>(m), &wrapper);
    auto load_wrapper =
        reinterpret_cast<CUresult (*)(CUmodule *, const void *, void *, void *, unsigned)>(
            const_cast<void *>(t[6]));
    m = nullptr;
    cr_expect_eq(load_wrapper(&m, &wrapper, nullptr, nullptr, 0), CUDA_SUCCESS);
    cr_expect_eq(static_cast<const void *>(m), &wrapper);
    auto load_binary =
        reinterpret_cast<CUresult (*)(const void *, CUmodule *, void *, void *, unsigned)>(
            const_cast<void *>(t[8]));
    cr_expect_eq(load_binary(&binary, &m, nullptr, nullptr, 0), CUDA_SUCCESS);
    cr_expect_eq(static_cast<const void *>(m), &binary);
    auto ends = reinterpret_cast<CUresult (*)(const void *)>(const_cast<void *>(t[7]));
    cr_expect_eq(ends(&wrapper), CUDA_SUCCESS);
}

Test(export_tables, cudart_13_5_asks_for_compilers_first)
{
    auto compilers = reinterpret_cast<CUresult (*)()>(const_cast<void *>(table(kCudart)[12]));
    cr_expect_eq(compilers(), CUDA_SUCCESS);
}

Test(export_tables, what_is_not_known_is_refused_and_told_once)
{
    const CUuuid *const ids[] = {&kCudart, &kStorage, &kIntegrity, &kModules};
    const unsigned slots[] = {3, 3, 2, 5};
    for (size_t i = 0; i < std::size(ids); i++) {
        auto f = reinterpret_cast<CUresult (*)()>(const_cast<void *>(table(*ids[i])[slots[i]]));
        cr_expect_eq(f(), CUDA_ERROR_NOT_SUPPORTED);
        cr_expect_eq(f(), CUDA_ERROR_NOT_SUPPORTED);
    }
    const std::vector<std::string> told = {"cudart interface 3", "context storage 3",
                                           "integrity check 2", "tools' module 5"};
    cr_expect(unknown_slots == told);
}

Test(export_tables, null_context_of_put_is_the_current_one)
{
    const void *const *t = table(kStorage);
    auto put =
        reinterpret_cast<CUresult (*)(CUcontext, void *, void *, void *)>(const_cast<void *>(t[0]));
    auto remove = reinterpret_cast<CUresult (*)(CUcontext, void *)>(const_cast<void *>(t[1]));
    auto get = reinterpret_cast<CUresult (*)(void **, CUcontext, void *)>(const_cast<void *>(t[2]));
    int key, value, second;
    void *found = nullptr;
    cr_expect_eq(get(&found, current, &key), CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(put(nullptr, &key, &value, nullptr), CUDA_SUCCESS);
    cr_expect_eq(put(other, &key, &second, nullptr), CUDA_SUCCESS);
    cr_expect_eq(get(&found, current, &key), CUDA_SUCCESS);
    cr_expect_eq(found, &value);
    cr_expect_eq(get(&found, other, &key), CUDA_SUCCESS);
    cr_expect_eq(found, &second);
    cr_expect_eq(remove(nullptr, &key), CUDA_SUCCESS);
    cr_expect_eq(get(&found, current, &key), CUDA_ERROR_INVALID_HANDLE);
    forget_context_storage(other);
    cr_expect_eq(get(&found, other, &key), CUDA_ERROR_INVALID_HANDLE);
}

Test(export_tables, a_module_shows_its_functions_and_says_how_many)
{
    const void *const *t = table(kModules);
    cr_assert_geq(reinterpret_cast<size_t>(t[0]), 8 * sizeof(void *));
    using Visit = void (*)(void *, CUfunction, uint64_t);
    auto each = reinterpret_cast<uint64_t (*)(CUcontext, CUmodule, Visit, void *)>(
        const_cast<void *>(t[7]));
    uintptr_t sum = 0;
    const Visit add = [](void *to, CUfunction f, uint64_t) {
        *static_cast<uintptr_t *>(to) += reinterpret_cast<uintptr_t>(f);
    };
    cr_expect_eq(each(current, reinterpret_cast<CUmodule>(4), add, &sum), 4);
    cr_expect_eq(sum, 1 + 2 + 3 + 4);
    cr_expect_eq(each(current, nullptr, add, &sum), 0, "not a module");
    cr_expect_eq(sum, 1 + 2 + 3 + 4);
}

Test(export_tables, integrity_is_a_mac_over_process_tables_time_and_devices)
{
    const void *const *t = table(kIntegrity);
    auto check =
        reinterpret_cast<CUresult (*)(uint32_t, uint64_t, uint64_t[2])>(const_cast<void *>(t[1]));
    uint64_t fixed[2], got[2], wanted[2];
    check(13000, 1, fixed);
    cr_expect_eq(fixed[0], 0x3341181C03CB675C);
    check(13001, 1, fixed);
    cr_expect_eq(fixed[0], 0x1841181C03CB675C);
    cr_expect_eq(fixed[1], 0x8ED383AA1F4CD1E8);

    const uint64_t now = 1763724000;
    cr_expect_eq(check(13002, now, got), CUDA_SUCCESS);
    const uint8_t key[] = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                           0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};
    HmacMd2 mac(key, sizeof key);
    const uint32_t words[] = {13000, 13002, (uint32_t)getpid(), (uint32_t)pthread_self()};
    const void *addresses[] = {table(kCudart), t, t[1]};
    mac.add(words, sizeof words);
    mac.add(addresses, sizeof addresses);
    mac.add(&now, sizeof now);
    for (int d = 0; d < 2; d++) {
        CUuuid u;
        int where[3];
        uuid(&u, d);
        pci(&where[0], &where[1], &where[2], d);
        mac.add(&u, sizeof u);
        mac.add(where, sizeof where);
    }
    mac.finish(reinterpret_cast<uint8_t *>(wanted));
    cr_expect_arr_eq(got, wanted, sizeof got);
}
