// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank/advice.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <netdb.h>
#include <unistd.h>

#include "util/next_token.h"

namespace rgpu::plugin {

std::string interposer_advice(const Settings &settings)
{
    const std::string library = settings.interposer + "/libcuda.so.1";
    if (access(library.c_str(), R_OK) == 0) return {};
    return "programs find no GPU here: " + library + ": " + strerror(errno) +
           "; install rgpu on this node, or correct interposer= in plugstack.conf";
}

std::string devices_advice(const std::string &visible, unsigned gpus)
{
    std::string_view rest = visible;
    while (!rest.empty()) {
        std::string_view word = next_token(rest, ",");
        unsigned number = 0;
        auto [stop, ec] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (ec != std::errc() || stop != word.data() + word.size() || number < gpus) continue;
        return "CUDA_VISIBLE_DEVICES=" + visible + " hides GPUs: the job has " +
               (gpus == 1 ? "one here, number 0"
                          : std::to_string(gpus) + " here, 0 to " + std::to_string(gpus - 1)) +
               ", and CUDA stops at the first number that is none; leave the variable out, or use "
               "--rgpu-bind";
    }
    return {};
}

std::string master_advice(const std::string &master)
{
    if (master.empty()) return {};
    addrinfo *found = nullptr;
    const int failure = getaddrinfo(master.c_str(), nullptr, nullptr, &found);
    if (failure == 0) {
        freeaddrinfo(found);
        return {};
    }
    return "MASTER_ADDR=" + master.substr(0, 200) + " cannot be resolved on this node (" +
           gai_strerror(failure) +
           "): ranks will not find each other; set it to a name that the nodes know: "
           "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)";
}

namespace {

// "--rgpu-span, --rgpu-share=50": several are joined by commas.
std::string as_typed(const JobOptions &options)
{
    std::string out;
    for (const auto &[name, value] : options)
        out += (out.empty() ? "--" : ", --") + name + (value.empty() ? "" : "=") + value;
    return out;
}

}  // namespace

std::string step_advice(const JobOptions &options, uint32_t job)
{
    if (options.empty()) return {};
    return as_typed(options) + (options.size() == 1 ? " changes" : " change") + " nothing: job " +
           std::to_string(job) +
           " has its GPUs already, as it was submitted; such options are for sbatch, salloc, and "
           "srun outside a job";
}

bool names_job(const std::vector<std::string> &line, size_t program)
{
    for (size_t i = 1; i + program < line.size(); ++i)
        for (std::string_view option : {"--jobid", "--jobi"})
            if (line[i] == option || line[i].starts_with(std::string(option) + "=")) return true;
    return false;
}

std::string all_devices(unsigned gpus)
{
    std::string out;
    for (unsigned gpu = 0; gpu < gpus; ++gpu) out += (gpu ? "," : "") + std::to_string(gpu);
    return out;
}

}  // namespace rgpu::plugin
