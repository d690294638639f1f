// SPDX-License-Identifier: Apache-2.0
// Which symbol of the table a name means at a CUDA version: the rules of cuGetProcAddress.
// Source: CUDA Driver API, "Driver Entry Point Access"; versions from cudaTypedefs.h.
#pragma once

#include <string_view>

#include "calls/calls.h"

namespace rgpu::calls {

// "cuMemcpyHtoD_v2_ptds" -> "cuMemcpyHtoD": the name that programs ask for.
std::string_view base_name(std::string_view symbol);

struct Lookup {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CallId id{};  // valid with CU_GET_PROC_ADDRESS_SUCCESS
};

// The newest variant of `name` that existed at `cuda_version` (13000 = 13.0) and that a driver of
// `driver_version` has. With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM in `flags` the
// per-thread variant where the call has one. What is newer than the driver, or what `has` denies,
// does not exist.
Lookup find(std::string_view name, int cuda_version, cuuint64_t flags, int driver_version,
            bool (*has)(CallId) = nullptr);

}  // namespace rgpu::calls
