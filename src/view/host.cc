// SPDX-License-Identifier: Apache-2.0
#include "view/host.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "view/layer.h"

namespace rgpu::view {
namespace {

constexpr const char *kServices = "/run";

Result<void> failed(const std::string &path)
{
    return error(ErrorKind::unavailable, "mounting at %s: %s", path.c_str(), strerror(errno));
}

Result<void> cover(const std::string &path)
{
    if (path != kServices)
        return mount("rgpu", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0
                   ? Result<void>()
                   : failed(path);
    Result<Layer> layer =
        Layer::over(Fd(open(kServices, O_PATH | O_DIRECTORY | O_CLOEXEC)), kServices,
                    [](std::string_view name) { return !name.starts_with("nvidia"); });
    if (!layer) return std::move(layer).error();
    layer->keep();
    return {};
}

Result<void> set_read_only(const std::string &path, bool yes, unsigned flags = 0)
{
    mount_attr attributes{};
    (yes ? attributes.attr_set : attributes.attr_clr) = MOUNT_ATTR_RDONLY;
    return mount_setattr(AT_FDCWD, path.c_str(), flags, &attributes, sizeof attributes) == 0 ||
                   errno == ENOSYS
               ? Result<void>()
               : failed(path);
}

bool is_above(const std::string &folder, const std::string &path)
{
    return path == folder || path.starts_with(folder + "/");
}

}  // namespace

Result<void> keep_from_host(std::vector<std::string> writable,
                            const std::vector<std::string> &needed)
{
    std::vector<std::string> covered;
    for (const std::string place : {"/tmp", "/var/tmp", kServices}) {
        if (access(place.c_str(), F_OK) != 0) continue;
        const bool stays = std::any_of(needed.begin(), needed.end(), [&](const std::string &path) {
            return is_above(place, path);
        });
        (stays ? writable : covered).push_back(place);
    }
    // A slave: what the host unmounts later is unmounted here, too, and nothing of this is seen
    // there.
    if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return failed("/");
    for (const std::string &path : writable)
        if (mount(path.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
            return failed(path);
    if (Result<void> r = set_read_only("/", true, AT_RECURSIVE); !r) return r;
    for (const std::string &path : writable)
        if (Result<void> r = set_read_only(path, false); !r) return r;
    for (const std::string &path : covered)
        if (Result<void> r = cover(path); !r) return r;
    return {};
}

}  // namespace rgpu::view
