// SPDX-License-Identifier: Apache-2.0
#include "view/show.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "util/pci_address.h"
#include "view/files.h"
#include "view/layer.h"

namespace rgpu::view {
namespace {

// A directory below the root, whose links stay below it. Null where there is none.
Fd open_below(int root, const char *path)
{
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return Fd(static_cast<int>(syscall(SYS_openat2, root, path, &how, sizeof how)));
}

bool is_of_nvidia(std::string_view name) { return name.starts_with("nvidia"); }

// The layers: all of them stay, or none does.
class View {
public:
    explicit View(int root) : root_(root) {}

    Fd open(const char *path) const { return open_below(root_, path); }

    // Null where there is no such directory.
    Result<Layer *> over(const char *path, const std::function<bool(std::string_view)> &hide)
    {
        Fd directory = open(path);
        if (!directory) return nullptr;
        auto layer = Layer::over(std::move(directory), std::string("/") + path, hide);
        if (!layer) return std::move(layer).error();
        return &layers_.emplace_back(std::move(*layer));
    }

    Result<void> keep()
    {
        for (Layer &layer : layers_)
            if (auto r = layer.seal(); !r) return r;
        for (Layer &layer : layers_) layer.keep();
        return {};
    }

private:
    int root_;
    std::deque<Layer> layers_;
};

Result<void> add_files(Layer &layer, const std::vector<File> &files)
{
    for (const File &file : files)
        if (auto r = layer.add_file(file.path, file.text); !r) return r;
    return {};
}

// /dev/ptmx, as a device file, looks for the terminals beside itself: bound elsewhere it finds
// none. So it is made anew, or, by who may not, linked to in the old directory as a whole.
constexpr const char *kOldDev = ".node";
constexpr mode_t kPtmxMode = 0666;  // the kernel's own

Result<void> show_ptmx(Layer &dev)
{
    if (dev.add_device("ptmx", kPtmxMode, makedev(5, 2))) return {};
    if (auto r = dev.add_all(kOldDev); !r) return r;
    return dev.add_link("ptmx", std::string(kOldDev) + "/ptmx");
}

bool is_device(int directory, const char *name, dev_t number)
{
    struct stat status;
    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(status.st_mode) &&
           status.st_rdev == number;
}

Result<void> show_devices(View &view, size_t gpus)
{
    Fd old = view.open("dev");
    if (!old || !is_device(old.get(), "null", makedev(1, 3)))
        return error(ErrorKind::unavailable, "/dev/null is no such device");
    const bool relink = is_device(old.get(), "ptmx", makedev(5, 2));
    auto dev = view.over("dev", [&](std::string_view name) {
        return is_of_nvidia(name) || (relink && name == "ptmx");
    });
    if (!dev) return std::move(dev).error();
    if (!*dev) return error(ErrorKind::unavailable, "there is no /dev");
    Layer &layer = **dev;
    for (const std::string &name : device_names(gpus))
        if (auto r = layer.add_old(name, "null"); !r) return r;
    return relink ? show_ptmx(layer) : Result<void>();
}

Result<void> show_driver(View &view, const std::vector<Gpu> &gpus)
{
    auto driver = view.over("proc/driver", is_of_nvidia);
    if (!driver) return std::move(driver).error();
    return *driver ? add_files(**driver, driver_files(gpus)) : Result<void>();
}

// As the kernel says it of a device that is as near to all processors as to any.
int numa_node(const View &view) { return view.open("sys/devices/system/node/node1") ? -1 : 0; }

Result<void> show_pci(View &view, const std::vector<Gpu> &gpus)
{
    auto devices = view.over("sys/bus/pci/devices", is_leased_address);
    if (!devices) return std::move(devices).error();
    if (!*devices) return {};
    if (auto r = add_files(**devices, pci_files(gpus, numa_node(view))); !r) return r;
    auto buses = view.over("sys/class/pci_bus", is_leased_address);
    if (!buses) return std::move(buses).error();
    if (*buses)
        for (const File &link : bus_links(gpus))
            if (auto r = (*buses)->add_link(link.path, link.text); !r) return r;
    return {};
}

}  // namespace

std::vector<std::string> device_names(size_t gpus)
{
    std::vector<std::string> names = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"};
    for (size_t i = 0; i < gpus; i++) names.push_back("nvidia" + std::to_string(i));
    return names;
}

Result<void> show(const std::vector<Gpu> &gpus, const std::string &root)
{
    Fd at(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at) return error(ErrorKind::unavailable, "%s: %s", root.c_str(), strerror(errno));
    View view(at.get());
    if (auto r = show_devices(view, gpus.size()); !r) return r;
    if (auto r = show_driver(view, gpus); !r) return r;
    if (auto r = show_pci(view, gpus); !r) return r;
    return view.keep();
}

}  // namespace rgpu::view
