// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/device_view.h"

#include <unistd.h>

#include <cstdio>

#include "view/gpus.h"
#include "view/namespaces.h"
#include "view/show.h"

namespace rgpu::cli {
namespace {

Result<void> show_devices(const std::string &lease_file)
{
    auto gpus = view::read_gpus(lease_file);
    if (!gpus) return std::move(gpus).error();
    auto entered = geteuid() == 0 ? view::enter_mount_namespace() : view::enter_user_namespace();
    return entered ? view::show(*gpus) : std::move(entered);
}

void tell(const std::string &why)
{
    fprintf(stderr, "rgpu: %s: %s; %s; --no-devices leaves them out without this line\n",
            view::kNotShown, why.c_str(),
            geteuid() == 0
                ? "root may mount with the capability CAP_SYS_ADMIN"
                : "an administrator can allow user namespaces (sysctl user.max_user_namespaces, "
                  "kernel.unprivileged_userns_clone=1, "
                  "kernel.apparmor_restrict_unprivileged_userns=0)");
}

}  // namespace

Preparation device_view(const std::string &lease_file)
{
    return {[=] { return show_devices(lease_file); }, tell};
}

}  // namespace rgpu::cli
