// What cannot be answered for a remote GPU. nvml.h is not included: these functions look at no argument, and a function
// that this toolkit's header does not know is answered all the same.
#include <cstddef>

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int nvmlDeviceGetCount_v2(unsigned *);

// NVML_ERROR_NOT_SUPPORTED; NVML_ERROR_UNINITIALIZED before nvmlInit.
static int none()
{
    unsigned count = 0;
    const int r = nvmlDeviceGetCount_v2(&count);
    return r ? r : 3;
}

#define NONE(name) EXPORT int name() { return none(); }
#include "nvml/functions.def"
