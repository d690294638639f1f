// SPDX-License-Identifier: Apache-2.0
// Initialisation, versions, errors, entry points, and the profiler that is not there.
#include <cstring>

#include "calls/errors.h"
#include "calls/export_tables.h"
#include "calls/versions.h"
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/api/symbols.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

CUcontext current_handle()
{
    Context *c = current_context();
    return c ? c->handle() : nullptr;
}

CUresult primary_handle(CUcontext *context, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *context = device->primary->handle();
    return CUDA_SUCCESS;
}

CUresult device_uuid(CUuuid *uuid, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *uuid = device->uuid;
    return CUDA_SUCCESS;
}

CUresult device_pci(int *domain, int *bus, int *slot, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    device_attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, *domain);
    device_attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, *bus);
    return device_attribute(*device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, *slot);
}

CUresult init(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : initialise(); }

CUresult driver_version(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = kDriverVersion;
    return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult code, const char **name)
{
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = calls::error_name(code);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult code, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = calls::error_text(code);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_proc_address(const char *symbol, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    const calls::Lookup found = calls::find(symbol, version, flags, kDriverVersion);
    *function = found.status == CU_GET_PROC_ADDRESS_SUCCESS ? symbol_address(found.id) : nullptr;
    if (status) *status = found.status;
    // With a place for the status the call itself succeeds.
    return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult get_proc_address_v1(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return get_proc_address(symbol, function, version, flags, nullptr);
}

// An exported call of ours, whoever else in the process has one of that name.
#define EXPORTED(name) reinterpret_cast<decltype(&name)>(symbol_address(calls::CallId::name))

void unknown_slot(const char *table, unsigned slot)
{
    complain("slot %u of the private table \"%s\" is not known to the software GPU: it answers "
             "CUDA_ERROR_NOT_SUPPORTED",
             slot, table);
}

CUresult get_export_table(const void **table, const CUuuid *id)
{
    [[maybe_unused]] static const bool once = [] {
        calls::DriverFacts facts;
        facts.driver_version = kDriverVersion;
        facts.current_context = current_handle;
        facts.primary_context = primary_handle;
        facts.device_count = [] { return static_cast<int>(driver().devices.size()); };
        facts.device_uuid = device_uuid;
        facts.device_pci = device_pci;
        facts.function_count = EXPORTED(cuModuleGetFunctionCount);
        facts.functions = EXPORTED(cuModuleEnumerateFunctions);
        facts.load_module = EXPORTED(cuModuleLoadData);
        facts.unknown_slot = unknown_slot;
        calls::set_driver_facts(facts);
        return true;
    }();
    return calls::get_export_table(table, id);
}

CUresult profiler() { return CUDA_SUCCESS; }

RGPU_EXPORT_AS(cuInit, init, kBeforeInit)
RGPU_EXPORT_AS(cuDriverGetVersion, driver_version, kBeforeInit)
RGPU_EXPORT_AS(cuGetErrorName, get_error_name, kBeforeInit)
RGPU_EXPORT_AS(cuGetErrorString, get_error_string, kBeforeInit)
RGPU_EXPORT_AS(cuGetProcAddress_v2, get_proc_address, kBeforeInit)
RGPU_EXPORT_AS(cuGetProcAddress, get_proc_address_v1, kBeforeInit)
RGPU_EXPORT_AS(cuGetExportTable, get_export_table, kBeforeInit)
RGPU_EXPORT(cuProfilerStart, profiler)
RGPU_EXPORT(cuProfilerStop, profiler)

}  // namespace

}  // namespace rgpu::softgpu::driver

// For who tells a GPU host's inventory (rgpu-worker), as NVML knows nothing of software: the
// release of NVIDIA's driver that was the first with kDriverVersion.
extern "C" [[gnu::visibility("default")]] const char *rgpu_softgpu_driver_release()
{
    static_assert(rgpu::softgpu::driver::kDriverVersion == 13000);
    return "580.65.06";
}
