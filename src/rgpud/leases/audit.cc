// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "util/log.h"

namespace rgpu::serverd {
namespace {

// The event's members in their order; what is not known is left out.
std::vector<std::pair<const char *, std::string>> members(const Audit::Event &event)
{
    std::vector<std::pair<const char *, std::string>> all;
    auto add = [&](const char *name, const std::string &value) {
        if (!value.empty()) all.emplace_back(name, value);
    };
    add("act", std::string(event.act));
    add("what", event.what);
    add("gpus", event.gpus);
    if (const pool::Owner *owner = event.owner) {
        add("owner_uid", std::to_string(owner->uid));
        add("user", owner->user);
        add("account", owner->account);
        add("job", owner->job);
        add("node", owner->node);
        add("host", owner->host);
        if (owner->pid) add("pid", std::to_string(owner->pid));
    }
    if (event.uid) add("uid", std::to_string(*event.uid));
    add("from", event.from);
    add("why", event.why);
    return all;
}

// A value as it stands behind "name=": in quotes where it must be. Nothing in it makes a line.
std::string quoted(const std::string &value)
{
    bool plain = true;
    std::string out;
    for (const char c : value) {
        const bool printable = c >= 0x20 && c <= 0x7e;
        plain = plain && printable && c != ' ' && c != '"' && c != '\\' && c != '=';
        if (c == '"' || c == '\\') out += '\\';
        out += printable ? c : '?';
    }
    return plain ? out : '"' + out + '"';
}

std::string time_text()
{
    timespec now{};
    tm parts{};
    char seconds[32], text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    snprintf(text, sizeof text, "%s.%03dZ", seconds,
             static_cast<int>(now.tv_nsec / 1'000'000 % 1000));
    return text;
}

}  // namespace

Result<std::unique_ptr<Audit>> Audit::open(const RgpudConfig &config)
{
    const Form form = config.audit == "json"   ? Form::json
                      : config.audit == "text" ? Form::text
                                               : Form::off;
    std::unique_ptr<Audit> audit(new Audit(form, config.audit_file));
    if (form != Form::off && !config.audit_file.empty() && !audit->open_file())
        return error(ErrorKind::invalid, "[rgpud] audit_file %s: %s", config.audit_file.c_str(),
                     strerror(errno));
    return audit;
}

// Again where the file is another than the one that is open, or none.
bool Audit::open_file()
{
    struct stat named {
    }, opened{};
    if (file_ && stat(path_.c_str(), &named) == 0 && fstat(file_.get(), &opened) == 0 &&
        named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
        return true;
    file_.reset(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    return static_cast<bool>(file_);
}

void Audit::write(const std::string &line)
{
    if (path_.empty()) return log_info("audit: %s", line.c_str());
    const std::string whole = line + "\n";
    if (open_file() &&
        ::write(file_.get(), whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()))
        return;
    log_error("audit: %s cannot be written (%s): %s", path_.c_str(), strerror(errno), line.c_str());
}

TokenBucket &Audit::bucket_of(const Event &event)
{
    if (event.act != kRefuse) return of_deeds_;
    return event.uid ? of_members_ : of_strangers_;
}

void Audit::say(const Event &event)
{
    if (form_ == Form::off) return;
    std::lock_guard lock(mutex_);
    const Time time = now();
    TokenBucket &lines = bucket_of(event);
    if (lines.due(time) > time) {
        ++left_out_;
        return;
    }
    lines.take(time);
    const std::string left_out = std::to_string(std::exchange(left_out_, 0));
    std::string line;
    if (form_ == Form::json) {
        // In one object; the time is the first member.
        line = "{\"time\":\"" + time_text() + "\"," +
               (left_out == "0" ? "" : "\"left_out\":" + left_out + ",") + json_of(event).substr(1);
    } else {
        // The log has the time.
        if (!path_.empty()) line = time_text() + " ";
        if (left_out != "0") line += "left_out=" + left_out + " ";
        line += text_of(event);
    }
    write(line);
}

std::string Audit::text_of(const Event &event)
{
    std::string line;
    for (const auto &[name, value] : members(event))
        line += std::string(line.empty() ? "" : " ") + name + "=" + quoted(value);
    return line;
}

std::string Audit::json_of(const Event &event)
{
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto &[name, value] : members(event)) object[name] = value;
    return object.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rgpu::serverd
