#include "cli/parts/command.h"

#include <cstdio>

namespace rgpu::cli {

Result<const Config *> Context::config()
{
    if (!config_) {
        Result<Config> loaded = load_config(config_path(config_option));
        if (!loaded) return std::move(loaded).error();
        config_ = std::move(*loaded);
    }
    return &*config_;
}

Result<pool::Client> Context::pool()
{
    Result<const Config *> read = config();
    if (!read) return std::move(read).error();
    return pool::Client::create(**read);
}

std::vector<CommandEntry> &commands()
{
    static std::vector<CommandEntry> all;
    return all;
}

int fail(const Error &error, int status)
{
    fprintf(stderr, "rgpu: %s\n", error.text.c_str());
    return status;
}

}  // namespace rgpu::cli
