// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/device_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace rgpu::serverd {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEveryProgram[] = {"null", "zero", "full", "random", "urandom"};
constexpr const char *kNvidia[] = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"};

bool is_number(const std::string &text)
{
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What stands behind "NAME:" in a line of the driver's.
std::string behind(const std::string &line, const std::string &name)
{
    size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos) return "";
    size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

// UUID -> "nvidia0"
std::map<std::string, std::string> names_by_uuid(const std::string &proc)
{
    std::map<std::string, std::string> names;
    std::error_code failure;
    for (const fs::directory_entry &gpu : fs::directory_iterator(proc + "/gpus", failure)) {
        std::ifstream file(gpu.path() / "information");
        std::string uuid, minor;
        for (std::string line; std::getline(file, line);) {
            if (std::string text = behind(line, "GPU UUID"); !text.empty()) uuid = text;
            if (std::string text = behind(line, "Device Minor"); is_number(text)) minor = text;
        }
        if (!uuid.empty() && !minor.empty()) names[uuid] = "nvidia" + minor;
    }
    return names;
}

}  // namespace

std::vector<std::string> device_names(bool software, const std::vector<std::string> &uuids,
                                      const std::string &dev, const std::string &proc)
{
    std::vector<std::string> names(std::begin(kEveryProgram), std::end(kEveryProgram));
    if (!software) {
        names.insert(names.end(), std::begin(kNvidia), std::end(kNvidia));
        std::map<std::string, std::string> known = names_by_uuid(proc);
        bool all = uuids.empty();
        for (const std::string &uuid : uuids) {
            // Part of a GPU is reached through its own files, whose access the driver checks.
            auto found = known.find(uuid);
            if (found != known.end())
                names.push_back(found->second);
            else
                all = true;
            if (uuid.starts_with("MIG-")) names.push_back("nvidia-caps");
        }
        std::error_code failure;
        if (all)
            for (const fs::directory_entry &file : fs::directory_iterator(dev, failure))
                if (std::string name = file.path().filename();
                    name.starts_with("nvidia") && is_number(name.substr(6)))
                    names.push_back(name);
    }
    std::erase_if(names, [&](const std::string &name) {
        return access((dev + "/" + name).c_str(), F_OK) != 0;
    });
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

}  // namespace rgpu::serverd
