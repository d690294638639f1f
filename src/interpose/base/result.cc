// SPDX-License-Identifier: Apache-2.0
#include "interpose/base/result.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <system_error>

#include "interpose/base/log.h"

namespace rgpu::interpose {

namespace {

struct Row {
    ErrorKind kind;
    CUresult connecting, loading_image;
};

constexpr Row kRows[] = {
    {ErrorKind::invalid, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_IMAGE},
    {ErrorKind::unsupported, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {ErrorKind::unavailable, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_INVALID_IMAGE},
    {ErrorKind::disconnected, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_INVALID_IMAGE},
    {ErrorKind::exhausted, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_INVALID_IMAGE},
    {ErrorKind::internal, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_INVALID_IMAGE},
};

bool first(std::atomic<bool> &said) { return !said.exchange(true, std::memory_order_relaxed); }

CUresult no_memory(const char *where)
{
    static std::atomic<bool> said{false};
    if (first(said))
        say("%s: this process gets no more memory of its own; raise its limit (ulimit -v, the "
            "memory limit of the job or its cgroup)",
            where);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult no_system(const char *where, const char *what)
{
    static std::atomic<bool> said{false};
    if (first(said)) say("%s: the system refuses: %s", where, what);
    return CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult not_known(const char *where, const char *what)
{
    static std::atomic<bool> said{false};
    if (first(said)) say("%s: an error inside rgpu: %s; please report it", where, what);
    return CUDA_ERROR_UNKNOWN;
}

}  // namespace

CUresult result_of(ErrorKind kind, Doing doing)
{
    for (const Row &row : kRows)
        if (row.kind == kind)
            return doing == Doing::connecting ? row.connecting : row.loading_image;
    return CUDA_ERROR_UNKNOWN;
}

CUresult result_of_exception(const char *where) noexcept
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return no_memory(where);
    } catch (const std::length_error &) {  // more than any memory holds
        return no_memory(where);
    } catch (const std::system_error &e) {
        return no_system(where, e.what());
    } catch (const std::exception &e) {
        return not_known(where, e.what());
    } catch (...) {
        return not_known(where, "an exception of no known kind");
    }
}

void say_no_thread(const char *why) noexcept
{
    static std::atomic<bool> said{false};
    if (first(said))
        say("this process can start no thread (%s): rgpu goes on without, each call is sent at "
            "once, which is slower, and host functions are "
            "refused; raise ulimit -u, the pids limit of the job's cgroup, or ulimit -v",
            why);
}

}  // namespace rgpu::interpose
