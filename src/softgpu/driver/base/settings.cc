// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/settings.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace rgpu::softgpu::driver {

namespace {

const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : nullptr;
}

// "8.0", "80" or "sm_80".
bool parse_capability(const char *text, int &major, int &minor)
{
    if (!strncmp(text, "sm_", 3)) text += 3;
    char *end;
    const long first = strtol(text, &end, 10);
    if (*end == '.') {
        const long second = strtol(end + 1, &end, 10);
        major = static_cast<int>(first);
        minor = static_cast<int>(second);
    } else {
        major = static_cast<int>(first / 10);
        minor = static_cast<int>(first % 10);
    }
    return !*end && major >= 3 && major < 100 && minor >= 0 && minor < 10;
}

}  // namespace

Result<uint64_t> parse_bytes(const std::string &text)
{
    char *end;
    const double number = strtod(text.c_str(), &end);
    const bool any = end != text.c_str();
    const char *units = "KMGT";
    double scale = 1;
    if (const char *unit = *end ? strchr(units, *end & ~0x20) : nullptr) {
        scale = std::ldexp(1.0, 10 * static_cast<int>(unit - units + 1));
        end++;
        if (!strcasecmp(end, "iB") || !strcasecmp(end, "B")) end += strlen(end);
    }
    if (!any || *end || !(number >= 0) || number * scale > 0x1p60)
        return error(ErrorKind::invalid, "\"%s\" is no size (write for example 512M or 2G)",
                     text.c_str());
    return static_cast<uint64_t>(number * scale);
}

Result<Settings> Settings::from_environment()
{
    Settings s;
    if (const char *v = variable("RGPU_SOFTGPU_DEVICES")) {
        char *end;
        s.devices = static_cast<int>(strtol(v, &end, 10));
        if (*end || s.devices < 0 || s.devices > kMaxDevices)
            return error(ErrorKind::invalid, "RGPU_SOFTGPU_DEVICES=%s: write a number from 0 to %d",
                         v, kMaxDevices);
    }
    if (const char *v = variable("RGPU_SOFTGPU_MEMORY")) {
        Result<uint64_t> bytes = parse_bytes(v);
        if (!bytes) return std::move(bytes).error().in("RGPU_SOFTGPU_MEMORY");
        s.memory = *bytes;
        if (s.memory < (uint64_t{1} << 22) || s.memory > (uint64_t{1} << 38))
            return error(ErrorKind::invalid, "RGPU_SOFTGPU_MEMORY=%s: a device has from 4M to 256G",
                         v);
    }
    if (const char *v = variable("RGPU_SOFTGPU_COMPUTE_CAPABILITY"))
        if (!parse_capability(v, s.major, s.minor))
            return error(ErrorKind::invalid,
                         "RGPU_SOFTGPU_COMPUTE_CAPABILITY=%s: write for example 8.0", v);
    if (const char *v = variable("RGPU_SOFTGPU_NAME")) s.name = std::string(v).substr(0, kMaxName);
    if (const char *v = variable("RGPU_SOFTGPU_LOADING")) {
        if (strcmp(v, "waits") != 0)
            return error(ErrorKind::invalid,
                         "RGPU_SOFTGPU_LOADING=%s: write waits, or leave it unset", v);
        s.loading_waits = true;
    }
    if (const char *v = variable("RGPU_SOFTGPU_ADDRESSES")) {
        if (strcmp(v, "low"))
            return error(ErrorKind::invalid,
                         "RGPU_SOFTGPU_ADDRESSES=%s: write low, or leave it unset", v);
        s.low_addresses = true;
    }
    if (const char *v = variable("RGPU_SOFTGPU_DEVICES_FILE")) {
        char *end;
        const long descriptor = strtol(v, &end, 10);
        s.shares = strcmp(v, "none") != 0;
        if (s.shares && (*end || descriptor < 0 || descriptor > INT_MAX))
            return error(ErrorKind::invalid,
                         "RGPU_SOFTGPU_DEVICES_FILE=%s: write a descriptor's number, or none", v);
        if (s.shares) s.devices_file = static_cast<int>(descriptor);
    }
    if (const char *v = variable("RGPU_SOFTGPU_HOST"))
        s.host = v;
    else
        s.host = (access("/dev/shm", W_OK) ? "/tmp/rgpu-softgpu-" : "/dev/shm/rgpu-softgpu-") +
                 std::to_string(getuid());
    return s;
}

}  // namespace rgpu::softgpu::driver
