// SPDX-License-Identifier: Apache-2.0
#include "view/compilers.h"

#include <unistd.h>

#include <algorithm>

#include "util/software_gpu.h"
#include "view/programs.h"

namespace rgpu::view {
namespace {

// XLA has a ptxas of its own inside, and tries kernels that only real GPUs have.
constexpr const char *kXlaFlags =
    "--xla_gpu_enable_libnvptxcompiler=false --xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir=";

}  // namespace

std::string ptxas_in(const std::string &toolkit_dir) { return toolkit_dir + "/bin/ptxas"; }

std::string toolkit_dir(const std::string &interposer_dir)
{
    const std::string directory = libraries_root(interposer_dir) + "/ptx";
    return access(ptxas_in(directory).c_str(), X_OK) == 0 ? directory : std::string();
}

std::string without_toolkit(const std::string &value, const std::string &toolkit_dir)
{
    if (toolkit_dir.empty()) return value;
    if (value == toolkit_dir || value == ptxas_in(toolkit_dir)) return {};
    const std::string flags = kXlaFlags + toolkit_dir;
    const size_t at = value.ends_with(flags) ? value.size() - flags.size() : value.size();
    return value.substr(0, at && at < value.size() && value[at - 1] == ' ' ? at - 1 : at);
}

Variables compiler_variables(const std::vector<Gpu> &gpus, const std::string &toolkit_dir,
                             const std::function<std::string(const char *)> &present)
{
    Variables set;
    if (gpus.empty() || toolkit_dir.empty() ||
        !std::all_of(gpus.begin(), gpus.end(),
                     [](const Gpu &g) { return g.name == kSoftwareGpuName; }))
        return set;
    const std::string flags = present("XLA_FLAGS");
    // Who says where the toolkit is means it.
    if (flags.find("--xla_gpu_cuda_data_dir") == flags.npos)
        set.emplace_back("XLA_FLAGS", (flags.empty() ? "" : flags + " ") + kXlaFlags + toolkit_dir);
    // JAX takes the pip package nvidia-cuda-nvcc for the toolkit, whatever XLA_FLAGS says.
    if (present("CUDA_ROOT").empty()) set.emplace_back("CUDA_ROOT", toolkit_dir);
    for (const char *triton : {"TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"})
        if (present(triton).empty()) set.emplace_back(triton, ptxas_in(toolkit_dir));
    return set;
}

}  // namespace rgpu::view
