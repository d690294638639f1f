// SPDX-License-Identifier: Apache-2.0
// JIT options and logs.
#include "worker/calls/jit.h"

#include <cstring>

#include "wire/jit_bodies.h"

namespace rgpu::worker {

namespace {

constexpr size_t kLogBytes = 64 << 10;

// Addresses and sizes of arrays that are in the client.
bool leads_to_client(CUjit_option option)
{
    const bool log = option >= CU_JIT_INFO_LOG_BUFFER &&
                     option <= CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
    const bool symbols = option >= CU_JIT_GLOBAL_SYMBOL_NAMES &&
                         option <= CU_JIT_GLOBAL_SYMBOL_COUNT;
    const bool names = option >= CU_JIT_REFERENCED_KERNEL_NAMES &&
                       option <= CU_JIT_REFERENCED_VARIABLE_COUNT;
    return log || symbols || names;
}

// Of those that are left.
bool is_number(CUjit_option option) { return option <= CU_JIT_OVERRIDE_DIRECTIVE_VALUES; }

}  // namespace

void Jit::add(CUjit_option option, const void *value)
{
    options.push_back(option);
    values.push_back(const_cast<void *>(value));
}

Result<void> Jit::read(wire::Reader &r)
{
    auto list = wire::JitOptionList::read(r);
    if (!list) return std::move(list).error();
    for (const wire::JitOption &o : list->options) {
        const auto option = static_cast<CUjit_option>(o.option);
        if (leads_to_client(option)) continue;
        // What an option that came later means nobody here knows: it might be an address.
        add(option, is_number(option) ? reinterpret_cast<void *>(o.value) : nullptr);
    }
    return {};
}

void Jit::add_logs()
{
    info.resize(kLogBytes);
    errors.resize(kLogBytes);
    add(CU_JIT_INFO_LOG_BUFFER, info.data());
    add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, reinterpret_cast<void *>(info.size()));
    add(CU_JIT_ERROR_LOG_BUFFER, errors.data());
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, reinterpret_cast<void *>(errors.size()));
}

void Jit::write_logs(wire::Writer &w) const
{
    const auto text = [](const std::vector<char> &buffer) {
        const std::string_view all(buffer.data(), buffer.size());
        return all.substr(0, all.find('\0'));
    };
    wire::JitLogs{text(info), text(errors)}.write(w);
}

}  // namespace rgpu::worker
