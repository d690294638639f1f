// SPDX-License-Identifier: Apache-2.0
#include "view/nccl.h"

#include <unistd.h>

#include <algorithm>

namespace rgpu::view {

std::string nccl_preload(std::string_view present, const std::vector<Gpu> &gpus, bool others,
                         std::string_view wanted, const std::string &interposer_dir)
{
    const std::string library = interposer_dir + kNcclLibrary;
    std::string before(present);
    const bool offered = !gpus.empty() && std::all_of(gpus.begin(), gpus.end(),
                                                      [](const Gpu &gpu) { return gpu.nccl; });
    const bool useful = gpus.size() > 1 || others || wanted == "1";
    if (!offered || !useful || wanted == "0" || access(library.c_str(), R_OK) != 0) return before;
    // ld.so(8) takes spaces for colons.
    std::string list = ":" + before + ":";
    std::replace(list.begin(), list.end(), ' ', ':');
    if (list.find(":" + library + ":") != list.npos) return before;
    return before.empty() ? library : library + ":" + before;
}

}  // namespace rgpu::view
