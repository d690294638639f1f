// NVML's functions, as far as the lease file alone answers them.
#include "nvml/answers.h"

#include <cstring>

#include "lease.h"

using namespace rgpu::nvml::answers;

static void initialise()
{
    two_servers();
    cr_assert_eq(nvmlInit_v2(), NVML_SUCCESS);
}

TestSuite(answers, .fini = remove_lease);

Test(answers, a_lease_is_needed)
{
    unsetenv("RGPU_LEASE");
    cr_expect_eq(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
    unsigned count = 7;
    cr_expect_eq(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(count, 7u);
    cr_expect_eq(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

Test(answers, as_many_shutdowns_as_inits)
{
    initialise();
    cr_assert_eq(nvmlInitWithFlags(0), NVML_SUCCESS);
    unsigned count = 0;
    cr_expect_eq(nvmlShutdown(), NVML_SUCCESS);
    cr_expect_eq(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    cr_expect_eq(count, 3u);
    cr_expect_eq(nvmlShutdown(), NVML_SUCCESS);
    cr_expect_eq(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    cr_expect_eq(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

Test(answers, handles_by_index_and_uuid_are_the_same)
{
    initialise();
    nvmlDevice_t by_index = nullptr, by_uuid = nullptr;
    cr_assert_eq(nvmlDeviceGetHandleByIndex_v2(1, &by_index), NVML_SUCCESS);
    cr_assert_eq(nvmlDeviceGetHandleByUUID("GPU-b", &by_uuid), NVML_SUCCESS);
    cr_expect_eq(by_index, by_uuid);
    unsigned index = 9;
    cr_expect_eq(nvmlDeviceGetIndex(by_uuid, &index), NVML_SUCCESS);
    cr_expect_eq(index, 1u);
    cr_expect_eq(nvmlDeviceGetHandleByIndex_v2(3, &by_index), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(nvmlDeviceGetHandleByIndex_v2(0, nullptr), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(nvmlDeviceGetHandleByUUID("GPU-x", &by_uuid), NVML_ERROR_NOT_FOUND);
    cr_expect_eq(nvmlDeviceGetHandleByUUID(nullptr, &by_uuid), NVML_ERROR_INVALID_ARGUMENT);
}

Test(answers, texts_need_room_for_their_end)
{
    initialise();
    nvmlDevice_t device = nullptr;
    cr_assert_eq(nvmlDeviceGetHandleByIndex_v2(2, &device), NVML_SUCCESS);
    char text[32] = "before";
    cr_expect_eq(nvmlDeviceGetUUID(device, text, 5), NVML_ERROR_INSUFFICIENT_SIZE);
    cr_expect_str_eq(text, "before");
    cr_expect_eq(nvmlDeviceGetUUID(device, text, 6), NVML_SUCCESS);
    cr_expect_str_eq(text, "GPU-c");
    cr_expect_eq(nvmlDeviceGetName(device, text, sizeof text), NVML_SUCCESS);
    cr_expect_str_eq(text, "NVIDIA H100");
    cr_expect_eq(nvmlDeviceGetName(device, nullptr, 0), NVML_ERROR_INVALID_ARGUMENT);
}

Test(answers, what_is_no_handle_is_an_invalid_argument)
{
    initialise();
    int nothing = 0;
    unsigned index = 0;
    for (void *handle : {static_cast<void *>(nullptr), static_cast<void *>(&nothing)})
        cr_expect_eq(nvmlDeviceGetIndex(static_cast<nvmlDevice_t>(handle), &index),
                     NVML_ERROR_INVALID_ARGUMENT);
}

Test(answers, what_only_the_server_knows_is_unknown_without_it)
{
    initialise();
    nvmlDevice_t device = nullptr;
    cr_assert_eq(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    nvmlMemory_t memory{};
    cr_expect_eq(nvmlDeviceGetMemoryInfo(device, &memory), NVML_ERROR_UNKNOWN);
    nvmlPciInfo_t pci{};
    cr_expect_eq(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_ERROR_UNKNOWN);
    int version = 0;
    cr_expect_eq(nvmlSystemGetCudaDriverVersion(&version), NVML_ERROR_UNKNOWN);
    unsigned temperature = 0;
    cr_expect_eq(nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &temperature),
                 NVML_ERROR_NOT_SUPPORTED);
}

Test(answers, no_event_ever_comes)
{
    initialise();
    nvmlEventSet_t set = nullptr;
    nvmlEventData_t data{};
    cr_expect_eq(nvmlEventSetCreate(&set), NVML_SUCCESS);
    cr_expect_eq(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
    cr_expect_eq(nvmlEventSetWait_v2(set, nullptr, 1), NVML_ERROR_INVALID_ARGUMENT);
    cr_expect_eq(nvmlEventSetFree(set), NVML_SUCCESS);
}

Test(answers, results_have_nvidia_s_words)
{
    cr_expect_str_eq(nvmlErrorString(NVML_SUCCESS), "Success");
    cr_expect_str_eq(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
    cr_expect_str_eq(nvmlErrorString(static_cast<nvmlReturn_t>(12345)), "Unknown Error");
}

// A line without a definition would be an undefined symbol here.
Test(answers, every_line_is_answered)
{
    const void *functions[] = {
#define ANSWER(name) reinterpret_cast<const void *>(&name),
#include "nvml/functions.def"
#undef ANSWER
    };
    for (const void *function : functions) cr_expect(function);
}
