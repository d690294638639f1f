// SPDX-License-Identifier: Apache-2.0
// Layout: Header, key, entry, object; all as this machine has them, for nobody else reads it.
#include "softgpu/exec/kernel_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace rgpu::softgpu::exec {

namespace {

struct Header {
    char magic[8] = {'R', 'G', 'P', 'U', 'k', 'r', 'n', '1'};
    uint64_t checksum = 0;  // of everything behind this field
    uint64_t object_bytes = 0;
    uint32_t key_bytes = 0, entry_bytes = 0;
    uint32_t stack_bytes = 0, per_thread = 0;
};

// Against damage, not against malice: who may write the cache may run code as its user anyway.
// Any single changed bit changes it: each step is a bijection of the state.
uint64_t checksum(std::span<const uint8_t> bytes)
{
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
    uint64_t state = bytes.size() * kOdd;
    auto mix = [&](uint64_t word) {
        state = (state ^ word) * kOdd;
        state ^= state >> 29;
    };
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        uint64_t word;
        memcpy(&word, bytes.data() + i, 8);
        mix(word);
    }
    for (; i < bytes.size(); ++i) mix(bytes[i]);
    return state;
}

constexpr size_t kSummedFrom = offsetof(Header, object_bytes);

}  // namespace

std::vector<uint8_t> to_file(std::string_view key, const CompiledKernel &k)
{
    Header h;
    h.object_bytes = k.object.size();
    h.key_bytes = static_cast<uint32_t>(key.size());
    h.entry_bytes = static_cast<uint32_t>(k.entry.size());
    h.stack_bytes = k.stack_bytes;
    h.per_thread = k.per_thread;
    std::vector<uint8_t> file(sizeof h + key.size() + k.entry.size() + k.object.size());
    memcpy(file.data(), &h, sizeof h);
    auto end = std::copy(key.begin(), key.end(), file.begin() + sizeof h);
    end = std::copy(k.entry.begin(), k.entry.end(), end);
    std::copy(k.object.begin(), k.object.end(), end);
    h.checksum = checksum(std::span(file).subspan(kSummedFrom));
    memcpy(file.data(), &h, sizeof h);
    return file;
}

std::optional<CompiledKernel> from_file(std::string_view key, std::span<const uint8_t> file)
{
    Header h;
    if (file.size() < sizeof h) return {};
    memcpy(&h, file.data(), sizeof h);
    if (memcmp(h.magic, Header{}.magic, sizeof h.magic) != 0) return {};
    if (h.checksum != checksum(file.subspan(kSummedFrom))) return {};
    auto rest = file.subspan(sizeof h);
    if (h.object_bytes > rest.size() ||
        uint64_t{h.key_bytes} + h.entry_bytes + h.object_bytes != rest.size())
        return {};
    auto *text = reinterpret_cast<const char *>(rest.data());
    if (std::string_view(text, h.key_bytes) != key) return {};
    CompiledKernel k;
    k.entry.assign(text + h.key_bytes, h.entry_bytes);
    auto object = rest.subspan(size_t{h.key_bytes} + h.entry_bytes);
    k.object.assign(object.begin(), object.end());
    k.per_thread = h.per_thread;
    k.stack_bytes = h.stack_bytes;
    return k;
}

}  // namespace rgpu::softgpu::exec
