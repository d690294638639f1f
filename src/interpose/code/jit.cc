// SPDX-License-Identifier: Apache-2.0
// JIT options over the wire.
#include "interpose/code/jit.h"

#include <fcntl.h>

#include <algorithm>

#include "util/fd.h"

namespace rgpu::interpose {

namespace {

// Options whose values are addresses in the program.
bool is_address(CUjit_option o)
{
    return o == CU_JIT_INFO_LOG_BUFFER || o == CU_JIT_ERROR_LOG_BUFFER ||
           o == CU_JIT_GLOBAL_SYMBOL_NAMES || o == CU_JIT_GLOBAL_SYMBOL_ADDRESSES;
}

}  // namespace

void JitOptions::write(wire::Writer &w) const
{
    wire::JitOptionList list;
    for (unsigned i = 0; i < count; i++)
        if (!is_address(options[i]))
            list.options.push_back(
                {static_cast<uint32_t>(options[i]), reinterpret_cast<uint64_t>(values[i])});
    list.write(w);
}

size_t JitOptions::room(CUjit_option size) const
{
    for (unsigned i = 0; i < count; i++)
        if (options[i] == size)
            return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i]));
    return 0;
}

void JitOptions::take_log(std::string_view log, CUjit_option buffer, CUjit_option size,
                          size_t room) const
{
    char *to = nullptr;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == buffer) to = static_cast<char *>(values[i]);
    if (!to || !room) return;
    const size_t n = std::min<size_t>(room - 1, log.size());
    memcpy(to, log.data(), n);
    to[n] = 0;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == size) values[i] = reinterpret_cast<void *>(n + 1);
}

size_t JitOptions::take_logs(const std::vector<uint8_t> &answer, std::string *errors) const
{
    wire::Reader r(answer.data(), answer.size());
    const auto logs = wire::JitLogs::read(r);
    if (!r.ok()) return answer.size();
    take_log(logs.info, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info_room_);
    take_log(logs.errors, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error_room_);
    if (errors) *errors = logs.errors;
    return answer.size() - r.left();
}

Result<std::string> read_whole(const char *path)
{
    Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return error(ErrorKind::invalid, "%s: %m", path);
    std::string bytes;
    char buffer[65536];
    ssize_t n = 0;
    while ((n = read(fd.get(), buffer, sizeof buffer)) > 0)
        bytes.append(buffer, static_cast<size_t>(n));
    if (n < 0) return error(ErrorKind::invalid, "%s: %m", path);  // a directory
    return bytes;
}

}  // namespace rgpu::interpose
