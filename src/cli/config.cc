// SPDX-License-Identifier: Apache-2.0
// rgpu config: every key of rgpu.conf, its value here, and what it means.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"

namespace rgpu::cli {
namespace {

class ShowConfig : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_flag("--defaults", defaults_, "Show the defaults, and read no file");
        app.add_flag("--json", json_, "Print JSON");
    }

    int run(Context &context) override
    {
        Config config;
        if (!defaults_) {
            Result<const Config *> loaded = context.config();
            if (!loaded) return fail(loaded.error());
            config = **loaded;
        }
        if (defaults_) config.servers.emplace_back();
        fputs(json_ ? as_json(config).c_str() : as_text(config).c_str(), stdout);
        return kOk;
    }

private:
    // As the file would be written, each key with its meaning above it.
    static std::string as_text(Config &config)
    {
        std::string text;
        for (ServerEntry &server : config.servers) text += part("server", config, server);
        ServerEntry none;
        for (const char *table : {"auth", "rgpud", "client", "slurm", "pool"})
            text += part(table, config, none);
        return text;
    }

    static std::string part(const std::string &table, Config &config, ServerEntry &server)
    {
        std::string text = table == "server" ? "[[server]]\n" : "[" + table + "]\n";
        for (const ConfigKey &key : config_keys())
            if (key.table == table)
                text += std::string("# ") + key.help + "\n" + key.name + " = " +
                        written(key.field(config, server)) + "\n";
        return text + "\n";
    }

    static std::string as_json(Config &config)
    {
        nlohmann::json keys = nlohmann::json::array();
        for (const ConfigKey &key : config_keys()) {
            ServerEntry none;
            ConfigField field = key.field(config, none);
            nlohmann::json entry = {{"key", std::string(key.table) + "." + key.name},
                                    {"type", type_of(field)},
                                    {"help", key.help}};
            if (std::string("server") != key.table) entry["value"] = written(field);
            keys.push_back(std::move(entry));
        }
        nlohmann::json servers = nlohmann::json::array();
        for (const ServerEntry &server : config.servers)
            if (!server.name.empty())
                servers.push_back(
                    {{"name", server.name}, {"address", server.address}, {"node", server.node}});
        return nlohmann::json{{"file", config.path}, {"servers", servers}, {"keys", keys}}.dump(2) +
               "\n";
    }

    bool defaults_ = false, json_ = false;
};

const Registered<ShowConfig> config{"", "config",
                                    "Show every key of rgpu.conf with its value and meaning"};

}  // namespace
}  // namespace rgpu::cli
