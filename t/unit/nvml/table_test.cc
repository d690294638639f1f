// SPDX-License-Identifier: Apache-2.0
// The parameters of nvml.def's lines are nvml.h's.
#include "calls/nvml.h"

#include <criterion/criterion.h>

#include <type_traits>

#include "nvml/api.h"

using namespace rgpu::calls;

struct Type {
    bool pointer, device, text;
    size_t bytes;  // of what it points to, or of itself
};

template <class T> constexpr Type type_of()
{
    if constexpr (std::is_same_v<T, nvmlDevice_t>)
        return {false, true, false, 0};
    else if constexpr (std::is_pointer_v<T>)
        return {true, false, std::is_same_v<T, char *>, sizeof(std::remove_pointer_t<T>)};
    else
        return {false, false, false, sizeof(T)};
}

template <class... A> static std::vector<Type> types_of(nvmlReturn_t (*)(nvmlDevice_t, A...))
{
    return {type_of<A>()...};
}

// Whether the types are these parameters.
static bool match(const std::vector<NvmlParameter> &parameters, const std::vector<Type> &types)
{
    size_t i = 0;
    const auto next = [&] { return i < types.size() ? types[i++] : Type{}; };
    const auto is_number = [](Type t) { return !t.pointer && !t.device && t.bytes == 4; };
    for (const NvmlParameter &p : parameters) {
        const Type t = next();
        bool good = false;
        switch (p.kind) {
        case 'v': good = is_number(t); break;
        case 'p': good = t.device; break;
        case 'o': good = t.pointer && (t.text || t.bytes == p.bytes); break;
        case 'x': good = t.pointer && t.bytes >= 4; break;
        case 's': good = t.text && is_number(next()); break;
        case 'a': good = t.pointer && t.bytes == 4 && next().bytes == p.bytes; break;
        case 'f': good = is_number(t) && next().bytes == p.bytes; break;
        }
        if (!good) return false;
    }
    return i == types.size();
}

Test(table, says_parameters_as_nvml_h_does)
{
    int lines = 0;
    // An older nvml.h does not know them all.
#if NVML_API_VERSION >= 13
#define FORWARD(name, parameters, software) \
    cr_expect(match(nvml_parameters(parameters), types_of(&::name)), #name); \
    lines++;
#define PAIR(name, parameters, software, apart) FORWARD(name, parameters, software)
#include "calls/nvml.def"
    cr_assert_geq(lines, 90);
#endif
}

Test(table, is_found_by_name)
{
    const NvmlFunction *f = find_nvml("nvmlDeviceGetP2PStatus");
    cr_assert(f);
    cr_assert_eq(f->parameters, "pvo4");
    cr_assert_eq(f->apart, 5);
    cr_assert(!find_nvml("nvmlDeviceGetName"));
    cr_assert(!find_nvml(""));
}

// As many numbers as pointers, or one of the marks: what a software GPU answers is whole.
Test(table, has_an_answer_of_a_software_gpu_for_each_pointer)
{
    const auto check = [](const char *name, const char *parameters, std::string_view software) {
        if (software == "-" || software == "*") return;
        size_t numbers = 1, pointers = 0;
        for (char c : software) numbers += c == ' ';
        for (const NvmlParameter &p : nvml_parameters(parameters)) {
            cr_expect(p.kind == 'v' || p.kind == 'o', "%s", name);
            pointers += p.kind == 'o';
        }
        cr_expect_eq(numbers, pointers, "%s", name);
    };
#undef FORWARD
#undef PAIR
#define FORWARD(name, parameters, software) check(#name, parameters, software);
#define PAIR(name, parameters, software, apart) check(#name, parameters, software);
#include "calls/nvml.def"
}
