// SPDX-License-Identifier: Apache-2.0
// NVML's functions, as far as the lease file alone answers them.
#include "nvml/answers.h"

#include <cstring>

#include "lease.h"

namespace answers = rgpu::nvml::answers;

static void initialise()
{
    two_servers();
    cr_assert_eq(answers::nvmlInit_v2(), NVML_SUCCESS);
}

TestSuite(nvml_answers, .fini = remove_lease);

Test(nvml_answers, a_lease_is_needed)
{
    unsetenv("RGPU_LEASE");
    cr_expect_eq(answers::nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    unsigned count = 7;
    cr_expect_eq(answers::nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(count, 7u);
    cr_expect_eq(answers::nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

Test(nvml_answers, as_many_shutdowns_as_inits)
{
    initialise();
    cr_assert_eq(answers::nvmlInitWithFlags(0), NVML_SUCCESS);
    unsigned count = 0;
    cr_expect_eq(answers::nvmlShutdown(), NVML_SUCCESS);
    cr_expect_eq(answers::nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    cr_expect_eq(count, 3u);
    cr_expect_eq(answers::nvmlShutdown(), NVML_SUCCESS);
    cr_expect_eq(answers::nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(answers::nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

Test(nvml_answers, handles_by_index_and_uuid_are_the_same)
{
    initialise();
    nvmlDevice_t by_index = nullptr, by_uuid = nullptr;
    cr_assert_eq(answers::nvmlDeviceGetHandleByIndex_v2(1, &by_index), NVML_SUCCESS);
    cr_assert_eq(answers::nvmlDeviceGetHandleByUUID("GPU-b", &by_uuid), NVML_SUCCESS);
    cr_expect_eq(by_index, by_uuid);
    unsigned index = 9;
    cr_expect_eq(answers::nvmlDeviceGetIndex(by_uuid, &index), NVML_SUCCESS);
    cr_expect_eq(index, 1u);
    cr_expect_eq(answers::nvmlDeviceGetHandleByIndex_v2(3, &by_index), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(answers::nvmlDeviceGetHandleByIndex_v2(0, nullptr), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(answers::nvmlDeviceGetHandleByUUID("GPU-x", &by_uuid), NVML_ERROR_NOT_FOUND);
    cr_expect_eq(answers::nvmlDeviceGetHandleByUUID(nullptr, &by_uuid),
                 NVML_ERROR_INVALID_ARGUMENT);
}

Test(nvml_answers, texts_need_room_for_their_end)
{
    initialise();
    nvmlDevice_t device = nullptr;
    cr_assert_eq(answers::nvmlDeviceGetHandleByIndex_v2(2, &device), NVML_SUCCESS);
    char text[32] = "before";
    cr_expect_eq(answers::nvmlDeviceGetUUID(device, text, 5), NVML_ERROR_INSUFFICIENT_SIZE);
    cr_expect_str_eq(text, "before");
    cr_expect_eq(answers::nvmlDeviceGetUUID(device, text, 6), NVML_SUCCESS);
    cr_expect_str_eq(text, "GPU-c");
    cr_expect_eq(answers::nvmlDeviceGetName(device, text, sizeof text), NVML_SUCCESS);
    cr_expect_str_eq(text, "NVIDIA H100");
    cr_expect_eq(answers::nvmlDeviceGetName(device, nullptr, 0), NVML_ERROR_INVALID_ARGUMENT);
}

Test(nvml_answers, what_is_no_handle_is_an_invalid_argument)
{
    initialise();
    int nothing = 0;
    unsigned index = 0;
    for (void *handle : {static_cast<void *>(nullptr), static_cast<void *>(&nothing)})
        cr_expect_eq(answers::nvmlDeviceGetIndex(static_cast<nvmlDevice_t>(handle), &index),
                     NVML_ERROR_INVALID_ARGUMENT);
}

Test(nvml_answers, what_only_the_server_knows_is_unknown_without_it)
{
    initialise();
    nvmlDevice_t device = nullptr;
    cr_assert_eq(answers::nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    nvmlMemory_t memory{};
    cr_expect_eq(answers::nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_UNKNOWN);
    int version = 0;
    cr_expect_eq(answers::nvmlSystemGetCudaDriverVersion(&version), NVML_ERROR_UNKNOWN);
    unsigned temperature = 0;
    cr_expect_eq(answers::nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &temperature),
                 NVML_ERROR_NOT_SUPPORTED);
}

Test(nvml_answers, an_address_is_known_from_the_lease)
{
    initialise();
    nvmlDevice_t device = nullptr, found = nullptr;
    cr_assert_eq(answers::nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    nvmlPciInfo_t pci{};
    cr_expect_eq(answers::nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
    cr_expect_eq(pci.domain >> 12, 7u);
    cr_expect_eq(answers::nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
    cr_expect_eq(found, device);
}

Test(nvml_answers, no_event_ever_comes)
{
    initialise();
    nvmlEventSet_t set = nullptr;
    nvmlEventData_t data{};
    cr_expect_eq(answers::nvmlEventSetCreate(&set), NVML_SUCCESS);
    cr_expect_eq(answers::nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
    cr_expect_eq(answers::nvmlEventSetWait_v2(set, nullptr, 1), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(answers::nvmlEventSetFree(set), NVML_SUCCESS);
}

Test(nvml_answers, results_have_nvidia_s_words)
{
    cr_expect_str_eq(answers::nvmlErrorString(NVML_SUCCESS), "Success");
    cr_expect_str_eq(answers::nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
    cr_expect_str_eq(answers::nvmlErrorString(static_cast<nvmlReturn_t>(12345)), "Unknown Error");
}

// A line without a definition would be an undefined symbol here.
Test(nvml_answers, every_line_is_answered)
{
    const void *functions[] = {
#define ANSWER(name) reinterpret_cast<const void *>(&answers::name),
#include "calls/nvml.def"
    };
    for (const void *function : functions) cr_expect(function);
}
