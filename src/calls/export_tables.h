// SPDX-License-Identifier: Apache-2.0
// The private tables that cudart, cuBLAS and cuFFT get with cuGetExportTable, written once for both
// our drivers: softgpu and the interposer. What each slot must answer was found by tracing the
// runtime. libc only.
//
// The tables live for ever and may be used by any thread, also after exit() has begun.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::calls {

// What the tables must know of the driver they belong to. All are called without any lock held.
struct DriverFacts {
    int driver_version = 0;
    CUcontext (*current_context)() = nullptr;                      // of the calling thread, or null
    CUresult (*primary_context)(CUcontext *, CUdevice) = nullptr;  // handle only: does not retain
    int (*device_count)() = nullptr;
    CUresult (*device_uuid)(CUuuid *, CUdevice) = nullptr;
    CUresult (*device_pci)(int *domain, int *bus, int *device, CUdevice) = nullptr;
    CUresult (*function_count)(unsigned *, CUmodule) = nullptr;  // cuModuleGetFunctionCount
    CUresult (*functions)(CUfunction *, unsigned room,
                          CUmodule) = nullptr;                         // cuModuleEnumerateFunctions
    CUresult (*load_module)(CUmodule *, const void *image) = nullptr;  // cuModuleLoadData
    // Tells the user, once for each, that a client called a slot that nothing is known of.
    void (*unknown_slot)(const char *table, unsigned slot) = nullptr;
};

// Once, before the first get_export_table.
void set_driver_facts(const DriverFacts &);

// cuGetExportTable. Unknown tables are CUDA_ERROR_NOT_FOUND, which their askers take well.
CUresult get_export_table(const void **table, const CUuuid *id);

// Drops what clients stored for this context: it is destroyed, or its primary context was reset.
void forget_context_storage(CUcontext);

}  // namespace rgpu::calls
