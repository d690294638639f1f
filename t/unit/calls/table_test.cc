// SPDX-License-Identifier: Apache-2.0
// The table against the toolkit, and cuGetProcAddress's rules over it.
#include <criterion/criterion.h>
#include <dlfcn.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "calls/errors.h"
#include "calls/roles.h"
#include "calls/versions.h"

using namespace rgpu::calls;

// What calls/table/graphics.def is for.
static const std::set<std::string> kBeyondStub = {
#define NONE(symbol, since, why) #symbol,
#define NONE_PTSZ(symbol, since, why) #symbol, #symbol "_ptsz",
#define NONE_PTDS(symbol, since, why) #symbol, #symbol "_ptds",
#include "calls/table/graphics.def"
#undef NONE
#undef NONE_PTSZ
#undef NONE_PTDS
};

Test(table, has_every_symbol_of_the_toolkits_stub_and_graphics)
{
    FILE *nm = popen("nm -D --defined-only " RGPU_CUDA "/lib64/stubs/libcuda.so", "r");
    cr_assert(nm);
    std::set<std::string> stub, table;
    char line[512], symbol[512];
    while (fgets(line, sizeof line, nm))
        if (sscanf(line, "%*s %*s %511s", symbol) == 1 && !strncmp(symbol, "cu", 2))
            stub.insert(symbol);
    pclose(nm);
    cr_assert(stub.size() > 400, "the stub has %zu symbols", stub.size());
    for (const CallInfo &c : kCalls)
        cr_expect(table.emplace(c.symbol).second, "%s stands twice", c.symbol.data());
    for (const std::string &s : kBeyondStub) {
        cr_expect(table.erase(s), "%s is missing", s.c_str());
        cr_expect(!stub.contains(s), "%s is in the stub", s.c_str());
    }
    for (const std::string &s : stub) cr_expect(table.contains(s), "%s is missing", s.c_str());
    for (const std::string &s : table) cr_expect(stub.contains(s), "%s is in no stub", s.c_str());
}

// cudaTypedefs.h has PFN_<name>_v<version> for each variant of a name; sorted they are the variants
// in order.
Test(table, versions_are_those_of_cudaTypedefs)
{
    std::map<std::string, std::set<int>> typedefs, table;
    for (const char *file : {"cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h",
                             "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h"}) {
        std::ifstream in(std::string(RGPU_CUDA "/include/") + file);
        std::string text((std::istreambuf_iterator<char>(in)), {});
        const std::regex pattern(R"(\*PFN_(cu\w+?)_v(\d+)\))");
        for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
            typedefs[(*i)[1]].insert(std::stoi((*i)[2]));
    }
    cr_assert(typedefs.size() > 400);
    for (const CallInfo &c : kCalls)
        if (!is_per_thread(c.symbol)) table[std::string(base_name(c.symbol))].insert(c.since);
    for (const auto &[name, versions] : table)
        cr_expect(typedefs[name] == versions, "%s", name.c_str());
}

static std::string_view found(const char *name, int version, cuuint64_t flags = 0,
                              int driver = 13000)
{
    Lookup l = find(name, version, flags, driver);
    return l.status == CU_GET_PROC_ADDRESS_SUCCESS ? info(l.id).symbol : "";
}

Test(versions, a_name_means_the_newest_variant_of_its_time)
{
    cr_expect(found("cuMemAlloc", 13000) == "cuMemAlloc_v2");
    cr_expect(found("cuMemAlloc", 3020) == "cuMemAlloc_v2");
    cr_expect(found("cuMemAlloc", 3010) == "cuMemAlloc");
    cr_expect(found("cuCtxCreate", 12000) == "cuCtxCreate_v3");
    cr_expect(found("cuCtxCreate", 13000) == "cuCtxCreate_v4");
    cr_expect(found("cuInit", 2000) == "cuInit");
}

Test(versions, never_newer_than_the_driver)
{
    cr_expect(found("cuCtxCreate", 13000, 0, 12040) == "cuCtxCreate_v3");
    cr_expect(find("cuCtxGetDevice_v2", 13000, 0, 13000).status ==
              CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    cr_expect(find("cuGraphAddNode", 12000, 0, 13000).status ==
              CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    cr_expect(find("cuGraphAddNode", 12000, 0, 12000).status ==
                  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
              "for an older driver there is no such name, whatever version is asked for");
    cr_expect(find("cuNoSuchCall", 13000, 0, 13000).status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    cr_expect(find("", 0, 0, 13000).status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

Test(versions, what_the_server_lacks_does_not_exist)
{
    auto has = [](CallId id) {
        return id != CallId::cuMemAlloc_v2 && id != CallId::cuCtxCreate_v4 && id != CallId::cuInit;
    };
    auto found_by = [&](const char *name) { return find(name, 13000, 0, 13000, has); };
    cr_expect(info(found_by("cuMemAlloc").id).symbol == "cuMemAlloc");
    cr_expect(info(found_by("cuCtxCreate").id).symbol == "cuCtxCreate_v3");
    cr_expect(found_by("cuInit").status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

Test(versions, the_flag_chooses_the_per_thread_variant)
{
    const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    cr_expect(found("cuMemcpyHtoD", 7000, flag) == "cuMemcpyHtoD_v2_ptds");
    cr_expect(found("cuMemcpyHtoD", 7000, 0) == "cuMemcpyHtoD_v2");
    cr_expect(found("cuMemcpyHtoD", 3020, flag) == "cuMemcpyHtoD_v2");
    cr_expect(found("cuLaunchKernel", 13000, flag) == "cuLaunchKernel_ptsz");
    cr_expect(found("cuMemAlloc", 13000, flag) == "cuMemAlloc_v2");
}

Test(roles, stand_for_the_parameters_in_order)
{
    constexpr auto r = roles<CallId::cuModuleGetGlobal_v2>();
    static_assert(r.size() == 4);
    cr_expect(r[0].kind == RoleKind::out && r[0].name == "dptr");
    cr_expect(r[2].kind == RoleKind::in && r[2].name == "hmod");
    cr_expect(r[3].kind == RoleKind::str && r[3].name == "name");
    constexpr auto text = roles<CallId::cuDeviceGetName>();
    cr_expect(text[0].kind == RoleKind::text && text[0].count == 1);
    static_assert(roles<CallId::cuProfilerStart>().size() == 0);
}

template <size_t I> static void expect_devices_to_be_said()
{
    constexpr auto id = static_cast<CallId>(I);
    if constexpr (Row<id>::info.mode != Mode::none)
        []<class... A>(CUresult (*)(A...)) {
            [[maybe_unused]] size_t i = 0;
            [[maybe_unused]] constexpr auto all = roles<id>();
            [[maybe_unused]] const auto one = [&](bool is_int) {
                const Role &r = all[i++];
                const bool named = r.name == "dev" || r.name.ends_with("Dev") ||
                                   r.name == "device" || r.name.ends_with("Device");
                cr_expect(!is_int || !named || r.kind != RoleKind::in || r.use == Use::device,
                          "%s: %.*s is a device", info(id).symbol.data(),
                          static_cast<int>(r.name.size()), r.name.data());
            };
            (one(std::is_same_v<A, CUdevice>), ...);
        }(typename Row<id>::Function(nullptr));
}

Test(roles, say_which_number_is_a_devices)
{
    [&]<size_t... I>(std::index_sequence<I...>) { (expect_devices_to_be_said<I>(), ...); }
    (std::make_index_sequence<kCallCount>());
    cr_expect(roles<CallId::cuDeviceGetName>()[2].use == Use::device);
}

Test(facts, are_those_of_the_line_and_of_its_per_thread_variant)
{
    const Facts copy = info(CallId::cuMemcpyHtoDAsync_v2).facts;
    cr_expect(copy.overtakes == Overtakes::always && copy.body == Body::copy && !copy.work);
    cr_expect(info(CallId::cuMemAlloc_v2).facts.memory == Memory::taken);
    cr_expect(info(CallId::cuCtxGetDevice).facts.memory == Memory::unsaid);
    for (const CallInfo &c : kCalls) {
        if (!is_per_thread(c.symbol)) continue;
        const std::string_view plain = c.symbol.substr(0, c.symbol.size() - kPerThreadSuffix);
        for (const CallInfo &p : kCalls)
            if (p.symbol == plain) cr_expect(p.facts == c.facts, "%s", c.symbol.data());
    }
}

Test(errors, have_names_and_words)
{
    cr_expect_str_eq(error_name(CUDA_ERROR_INVALID_VALUE), "CUDA_ERROR_INVALID_VALUE");
    cr_expect_str_eq(error_text(CUDA_ERROR_OUT_OF_MEMORY), "out of memory");
    cr_expect_null(error_name(static_cast<CUresult>(12345)));
}
