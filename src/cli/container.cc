// SPDX-License-Identifier: Apache-2.0
// rgpu container: a job's GPUs in a container that is about to start.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/container_parts.h"
#include "cli/parts/lease_file.h"
#include "util/fd.h"

namespace rgpu::cli {
namespace {

constexpr const char *kFooter =
    "Puts the lease file and rgpu's libraries in: below /run/rgpu, and over or beside the image's "
    "own libraries, so that\n"
    "programs find them whatever LD_LIBRARY_PATH is inside. A job without GPUs of the pool leaves "
    "all as it is.\n"
    "With ROOTFS it only says what is needed, for runtimes other than these.\n"
    "\n"
    "Exit status: 0 done, or nothing to do; 1 the GPUs cannot be put into this container.";

Environment own_environment()
{
    Environment environment;
    for (char **entry = environ; *entry; ++entry) environment.push_back(*entry);
    return environment;
}

Result<std::string> read_text(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    return text;
}

Result<void> append(const std::string &path, const std::string &text)
{
    Fd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    return {};
}

// With the old one's rights, and all of it or nothing.
Result<void> replace(const std::string &path, const std::string &text)
{
    std::string fresh = path + ".rgpu";
    struct stat status;
    if (stat(path.c_str(), &status) != 0)
        return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    unlink(fresh.c_str());
    Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fchmod(fd.get(), status.st_mode & 07777) != 0 || rename(fresh.c_str(), path.c_str()) != 0) {
        Error failed = error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
        unlink(fresh.c_str());
        return failed;
    }
    return {};
}

void warn(const std::vector<std::string> &warnings)
{
    for (const std::string &warning : warnings) fprintf(stderr, "rgpu: %s\n", warning.c_str());
}

class ContainerCommand : public Command {
public:
    void options(CLI::App &app) override
    {
        auto *rootfs = app.add_option("ROOTFS", rootfs_,
                                      "Print what a container with this root directory needs");
        auto *oci =
            app.add_option("--oci", bundle_,
                           "Add it to this OCI bundle's config.json (for oci.conf's RunTimeRun)");
        oci->type_name("BUNDLE");
        auto *enroot =
            app.add_flag("--enroot", enroot_,
                         "As a hook of enroot: add it to $ENROOT_MOUNTS and $ENROOT_ENVIRON");
        app.add_flag("--json", json_, "Print JSON");
        oci->excludes(rootfs)->excludes(enroot);
        enroot->excludes(rootfs);
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        if (rootfs_.empty() && bundle_.empty() && !enroot_) {
            fprintf(stderr, "rgpu: container wants a root directory, --oci BUNDLE or --enroot; see "
                            "rgpu container --help\n");
            return kUsage;
        }
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error());
        interposer_ = interposer_dir((*config)->client);
        const SlurmConfig &slurm = (*config)->slurm;
        Result<void> done = !bundle_.empty() ? into_bundle(slurm)
                            : enroot_        ? into_enroot(slurm)
                                             : print(slurm);
        return done ? kOk : fail(done.error());
    }

private:
    Result<void> into_bundle(const SlurmConfig &slurm)
    {
        std::string path = bundle_ + "/config.json";
        auto text = read_text(path);
        if (!text) return std::move(text).error();
        try {
            auto before = nlohmann::ordered_json::parse(*text);
            auto after = before;
            auto warnings = add_to_bundle(after, bundle_, own_environment(), slurm, interposer_);
            if (!warnings) return std::move(warnings).error();
            warn(*warnings);
            return after == before ? Result<void>() : replace(path, after.dump(2) + "\n");
        } catch (const nlohmann::json::exception &wrong) {
            return error(ErrorKind::invalid, "%s: %s", path.c_str(), wrong.what());
        }
    }

    // enroot runs hooks with the job's environment; that of the container is in a file, where the
    // last line of a name counts.
    Result<void> into_enroot(const SlurmConfig &slurm)
    {
        for (const char *name : {"ENROOT_ROOTFS", "ENROOT_ENVIRON", "ENROOT_MOUNTS"})
            if (!getenv(name))
                return error(ErrorKind::invalid,
                             "%s is not set: --enroot is for a hook (hooks.d) of enroot", name);
        std::string lease = lease_of(own_environment(), slurm);
        if (lease.empty()) return {};
        auto text = read_text(getenv("ENROOT_ENVIRON"));
        if (!text) return std::move(text).error();
        Container container{getenv("ENROOT_ROOTFS"), {}, {}};
        for (size_t at = 0; at < text->size();) {
            size_t end = std::min(text->find('\n', at), text->size());
            if (size_t equals = text->find('=', at); equals < end)
                set_variable(container.environment, text->substr(at, equals - at),
                             text->substr(equals + 1, end - equals - 1));
            at = end + 1;
        }
        auto parts = parts_for(container, lease, interposer_);
        if (!parts) return std::move(parts).error();
        warn(parts->warnings);
        std::string lines = text->empty() || text->back() == '\n' ? "" : "\n";
        for (const auto &[name, value] : parts->environment) lines += name + "=" + value + "\n";
        if (auto done = append(getenv("ENROOT_ENVIRON"), lines); !done) return done;
        return append(getenv("ENROOT_MOUNTS"), as_fstab(*parts));
    }

    Result<void> print(const SlurmConfig &slurm)
    {
        ContainerParts parts;
        if (std::string lease = lease_of(own_environment(), slurm); !lease.empty()) {
            struct stat status;
            if (stat(rootfs_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
                return error(ErrorKind::invalid, "%s is no directory", rootfs_.c_str());
            auto found = parts_for({rootfs_, {}, {}}, lease, interposer_);
            if (!found) return std::move(found).error();
            parts = std::move(*found);
        }
        warn(parts.warnings);
        fputs((json_ ? as_json(parts) : as_text(parts)).c_str(), stdout);
        return fflush(stdout) == 0 ? Result<void>()
                                   : error(ErrorKind::internal, "cannot write to stdout");
    }

    static std::string as_text(const ContainerParts &parts)
    {
        std::string text = parts.empty() ? "" : "tmpfs " + parts.directory + "\n";
        for (const BindMount &mount : parts.mounts)
            text += "mount " + mount.source + " " + mount.destination + "\n";
        for (const BindMount &device : parts.devices)
            text += "device " + device.source + " " + device.destination + "\n";
        for (const auto &[name, value] : parts.environment)
            text += "set " + name + "=" + value + "\n";
        return text;
    }

    static std::string as_json(const ContainerParts &parts)
    {
        using Json = nlohmann::ordered_json;
        Json json = {{"tmpfs", Json::array()},
                     {"mounts", Json::array()},
                     {"devices", Json::array()},
                     {"environment", Json::object()}};
        if (!parts.empty()) json["tmpfs"].push_back(parts.directory);
        for (const BindMount &mount : parts.mounts)
            json["mounts"].push_back(
                {{"source", mount.source}, {"destination", mount.destination}});
        for (const BindMount &device : parts.devices)
            json["devices"].push_back(
                {{"source", device.source}, {"destination", device.destination}});
        for (const auto &[name, value] : parts.environment) json["environment"][name] = value;
        return json.dump(2) + "\n";
    }

    std::string rootfs_, bundle_, interposer_;
    bool enroot_ = false, json_ = false;
};

const Registered<ContainerCommand> container{"", "container", "Put a job's GPUs into a container"};

}  // namespace
}  // namespace rgpu::cli
