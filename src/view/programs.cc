// SPDX-License-Identifier: Apache-2.0
#include "view/programs.h"

#include <unistd.h>

namespace rgpu::view {

std::string libraries_root(const std::string &interposer_dir)
{
    std::string directory = interposer_dir;
    while (directory.ends_with('/')) directory.pop_back();
    directory.resize(directory.rfind('/') == directory.npos ? 0 : directory.rfind('/'));
    return directory;
}

std::string programs_dir(const std::string &interposer_dir)
{
    const std::string directory = libraries_root(interposer_dir) + "/smi";
    return access((directory + "/nvidia-smi").c_str(), X_OK) == 0 ? directory : std::string();
}

std::string search_path(const std::string &present, const std::string &programs_dir)
{
    if (programs_dir.empty() ||
        (":" + present + ":").find(":" + programs_dir + ":") != std::string::npos)
        return present;
    // Without PATH, execvp and shells look here.
    return (present.empty() ? "/bin:/usr/bin" : present) + ":" + programs_dir;
}

}  // namespace rgpu::view
