// SPDX-License-Identifier: Apache-2.0
// Every function of NVML (calls/nvml.def). Here are those that answer what the table says of a
// software GPU; those of answers.cc take the place of weak ones.
#include <array>
#include <cstring>
#include <vector>

#include "calls/nvml.h"
#include "softgpu/nvml/devices.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using namespace rgpu::calls;
using namespace rgpu::softgpu::nvml;

// As many parameters as any has behind the device, each in a register or a place on the stack.
using Word = uint64_t;
using Words = std::array<Word, 6>;

// A number of the table for each pointer.
int answer(const NvmlFunction &f, Word device, const Words &words)
{
    if (const int bad = check(reinterpret_cast<Handle>(device))) return bad;
    const std::string_view text = f.software;
    if (text == "*" || text == "-") return kNvmlNotSupported;
    const std::vector<uint64_t> numbers = nvml_numbers(f);
    size_t at = 0, given = 0;
    for (const NvmlParameter &p : nvml_parameters(f.parameters)) {
        const Word word = words[at++];
        if (p.kind != 'o') continue;
        if (!word) return kNvmlInvalidArgument;
        const uint64_t value = given < numbers.size() ? numbers[given] : 0;
        given++;
        auto *out = reinterpret_cast<uint8_t *>(word);
        memset(out, 0, p.bytes);
        memcpy(out, &value, p.bytes < sizeof value ? p.bytes : sizeof value);
    }
    return kNvmlSuccess;
}

int refuse(NvmlResult why) { return initialised() ? why : kNvmlUninitialized; }

}  // namespace

#define FORWARD(name, parameters, software) \
    EXPORT [[gnu::weak]] int name(Word device, Word a, Word b, Word c, Word d, Word e, Word f) \
    { \
        static const NvmlFunction *const function = find_nvml(#name); \
        return answer(*function, device, {a, b, c, d, e, f}); \
    }
#define PAIR(name, parameters, software, apart) FORWARD(name, parameters, software)
#define ANSWER(name) \
    EXPORT [[gnu::weak]] int name() { return refuse(kNvmlNotSupported); }
#define NONE(name) ANSWER(name)
#define DENIED(name) \
    EXPORT int name() { return refuse(kNvmlNoPermission); }
#include "calls/nvml.def"
