#include "serverd/rgpud/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace rgpu::serverd {
namespace {

constexpr int kNeeded[] = {
    CAP_SETUID, CAP_SETGID, CAP_KILL,             // workers run as their lease's owner
    CAP_SYS_ADMIN,                                // and have a /dev of their own
    CAP_CHOWN, CAP_FOWNER, CAP_DAC_OVERRIDE,      // their directories below state_dir
    CAP_NET_BIND_SERVICE,                         // ports below 1024
    CAP_SYSLOG,                                   // the driver's messages
};

uint64_t needed()
{
    uint64_t set = 0;
    for (int capability : kNeeded)
        set |= uint64_t{1} << capability;
    return set;
}

}  // namespace

Result<void> keep_needed_capabilities()
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, data) != 0)
        return error(ErrorKind::internal, "capget: %s", strerror(errno));
    // The bounding set can be made smaller by those only who have CAP_SETPCAP.
    if (data[0].effective & 1u << CAP_SETPCAP)
        for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
            if (!(needed() >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
                return error(ErrorKind::internal, "cannot give up capability %d: %s", capability, strerror(errno));
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; ++i) {
        data[i].permitted &= static_cast<uint32_t>(needed() >> 32 * i);
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) != 0)
        return error(ErrorKind::internal, "capset: %s", strerror(errno));
    return {};
}

}  // namespace rgpu::serverd
