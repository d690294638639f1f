// JIT options and logs.
#include "serverd/worker/jit.h"

#include <cstring>

#include "wire/image.h"

namespace rgpu::worker {

namespace {
constexpr size_t kLogBytes = 64 << 10;
}

void Jit::add(CUjit_option option, const void *value)
{
    options.push_back(option);
    values.push_back(const_cast<void *>(value));
}

Result<void> Jit::read(wire::Reader &r)
{
    uint32_t n = r.value<uint32_t>();
    if (n > wire::kMaxJitOptions) return error(ErrorKind::invalid, "%u options", n);
    for (uint32_t i = 0; i < n && r.ok(); i++) {
        auto option = static_cast<CUjit_option>(r.value<uint32_t>());
        auto value = r.value<uint64_t>();
        switch (option) {  // addresses and sizes of buffers that are in the client
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT: break;
        default: add(option, reinterpret_cast<void *>(value));
        }
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
    w.string(std::string_view(info.data(), strnlen(info.data(), info.size())));
    w.string(std::string_view(errors.data(), strnlen(errors.data(), errors.size())));
}

}  // namespace rgpu::worker
