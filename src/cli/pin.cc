// SPDX-License-Identifier: Apache-2.0
// rgpu pin: the keys of servers' control ports, and what rgpu.conf says of them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/conf_file.h"
#include "cli/parts/table.h"
#include "pool/client/https.h"
#include "pool/credentials/server_key.h"
#include "util/next_token.h"

namespace rgpu::cli {
namespace {

// A server, the key that it presents, and what rgpu.conf says of that.
struct Seen {
    const ServerEntry *server;
    Result<std::string> pin;

    bool is_pinned() const
    {
        const auto pins = tokens(server->pin, ";");
        return pin && std::find(pins.begin(), pins.end(), *pin) != pins.end();
    }
    const char *in_file() const
    {
        if (!pin) return "";
        return is_pinned() ? "pinned" : server->pin.empty() ? "no pin" : "ANOTHER KEY IS PINNED";
    }
};

class Pin : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("server", servers_, "Servers of rgpu.conf; all without")
            ->type_name("SERVER");
        auto *store = app.add_flag("--store", store_, "Write the pins that are shown to rgpu.conf");
        app.add_flag("--replace", replace_,
                     "With --store: also where another key is pinned, because you know that the "
                     "server's was changed")
            ->needs(store);
        auto *own = app.add_flag("--own", own_, "Show the pin of this host's rgpud, from its key");
        auto *next = app.add_flag("--make-next", make_next_,
                                  "Make this host's next key, beside the one in use, and show "
                                  "its pin");
        auto *use = app.add_flag("--use-next", use_next_,
                                 "Put this host's next key in the place of the one in use");
        own->excludes(store)->excludes(next)->excludes(use);
        next->excludes(store)->excludes(use);
        use->excludes(store);
        app.add_flag("--json", json_, "Print JSON: server, address, pin, pinned, error");
        app.footer("A server's first pin is believed as the server tells it: compare it with what\n"
                   "rgpu pin --own shows on that host. To change a key: --make-next there, both\n"
                   "pins in rgpu.conf (pin = \"OLD;NEW\"), --use-next there, then the new one "
                   "alone.");
    }

    int run(Context &context) override
    {
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error());
        if (own_ || make_next_ || use_next_) return own_key(**config);
        return others(**config);
    }

private:
    int own_key(const Config &config)
    {
        const std::string path = config.rgpud.control_key(), next = path + ".next";
        if (make_next_ && access(next.c_str(), F_OK) != 0)
            if (Result<void> made = pool::make_server_key(next); !made) return fail(made.error());
        if (use_next_) {
            if (Result<pool::ServerKey> key = pool::read_server_key(next); !key)
                return fail(Error(key.error()).in("there is no next key (--make-next)"));
            if (rename(next.c_str(), path.c_str()) != 0)
                return fail(error(ErrorKind::invalid, "cannot write %s: %s", path.c_str(),
                                  strerror(errno)));
        }
        Result<pool::ServerKey> key = pool::read_server_key(make_next_ ? next : path);
        if (!key) return fail(key.error());
        const std::string pin = pool::pin_of_key(*key);
        if (!json_) return print(pin + "\n");
        return print(nlohmann::json{{"server", config.rgpud.name}, {"pin", pin}}.dump(2) + "\n");
    }

    int others(const Config &config)
    {
        for (const std::string &name : servers_)
            if (std::none_of(config.servers.begin(), config.servers.end(),
                             [&](const ServerEntry &s) { return s.name == name; }))
                return fail(error(ErrorKind::invalid, "no [[server]] of %s is named \"%s\"",
                                  config.path.c_str(), name.c_str()),
                            kUsage);
        std::vector<std::future<Seen>> asked;
        for (const ServerEntry &server : config.servers)
            if (servers_.empty() ||
                std::find(servers_.begin(), servers_.end(), server.name) != servers_.end())
                asked.push_back(std::async(std::launch::async, [&server, &config] {
                    return Seen{&server,
                                pool::presented_pin(server.address, config.client.server_timeout)};
                }));
        std::vector<Seen> seen;
        for (auto &one : asked) seen.push_back(one.get());
        if (int status = print(json_ ? as_json(seen) : as_text(seen))) return status;
        int status = kOk;
        for (const Seen &one : seen)
            if (!one.pin)
                status =
                    fail(Error(one.pin.error())
                             .in("server " + one.server->name + " (" + one.server->address + ")"),
                         kNoServer);
        if (store_)
            if (int stored = store(config, seen)) return stored;
        return status;
    }

    // All or nothing.
    int store(const Config &config, const std::vector<Seen> &seen) const
    {
        std::vector<ConfPin> pins;
        for (const Seen &one : seen) {
            if (!one.pin || one.is_pinned()) continue;
            if (!one.server->pin.empty() && !replace_)
                return fail(error(ErrorKind::invalid,
                                  "server %s has another key than the one that %s pins, and "
                                  "nothing is stored: somebody may be in between; --replace where "
                                  "you know that the key was changed",
                                  one.server->name.c_str(), config.path.c_str()));
            pins.push_back({one.server->name, *one.pin});
        }
        if (pins.empty()) return kOk;
        if (Result<void> written = write_pins(config, pins); !written) return fail(written.error());
        for (const ConfPin &one : pins)
            fprintf(stderr, "rgpu: %s: the pin of %s is stored\n", config.path.c_str(),
                    one.server.c_str());
        return kOk;
    }

    static std::string as_text(const std::vector<Seen> &seen)
    {
        std::vector<std::vector<std::string>> rows = {{"SERVER", "ADDRESS", "KEY", "RGPU.CONF"}};
        for (const Seen &one : seen)
            rows.push_back(
                {one.server->name, one.server->address, one.pin ? *one.pin : "-", one.in_file()});
        return table(rows);
    }

    static std::string as_json(const std::vector<Seen> &seen)
    {
        nlohmann::json all = nlohmann::json::array();
        for (const Seen &one : seen) {
            nlohmann::json entry = {{"server", one.server->name},
                                    {"address", one.server->address},
                                    {"pinned", one.is_pinned()}};
            if (one.pin)
                entry["pin"] = *one.pin;
            else
                entry["error"] = one.pin.error().text;
            all.push_back(std::move(entry));
        }
        return all.dump(2) + "\n";
    }

    std::vector<std::string> servers_;
    bool store_ = false, replace_ = false, own_ = false, make_next_ = false, use_next_ = false,
         json_ = false;
};

const Registered<Pin> pin{
    "", "pin", "Show and store the keys of servers' control ports (TLS certificate pin)"};

}  // namespace
}  // namespace rgpu::cli
