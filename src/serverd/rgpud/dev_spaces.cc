#include "serverd/rgpud/dev_spaces.h"

#include <fcntl.h>

namespace rgpu::serverd {

void DevSpaces::find(OwnDev &dev) const
{
    std::lock_guard lock(mutex_);
    if (auto found = kept_.find(dev.files()); found != kept_.end())
        dev.enter_that(found->second);
}

void DevSpaces::keep(const OwnDev &dev, pid_t process)
{
    const std::string files = dev.files();
    std::lock_guard lock(mutex_);
    if (files.empty() || kept_.count(files))
        return;
    Fd space(open(("/proc/" + std::to_string(process) + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
    if (!space)
        return;
    if (kept_.size() >= kMost)
        kept_.clear();
    kept_[files] = std::make_shared<Fd>(std::move(space));
}

}  // namespace rgpu::serverd
