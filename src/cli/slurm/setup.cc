// SPDX-License-Identifier: Apache-2.0
// rgpu slurm setup: puts rgpu's lines into a site's slurm.conf, gres.conf and plugstack.conf, and
// takes them out again.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/pool_view.h"
#include "cli/slurm/tool.h"
#include "slurm/conf/hostlist.h"
#include "slurm/conf/plan.h"
#include "slurm/conf/version.h"
#include "slurm/terms/filters.h"
#include "slurm/terms/licences.h"
#include "slurm/terms/snapshot.h"
#include "util/format.h"
#include "util/next_token.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

constexpr const char *kSpank = "spank_rgpu.so";

constexpr const char *kFooter = "The files are gres.conf and plugstack.conf beside slurm.conf, and "
                                "what slurm.conf includes. --apply and --undo write all\n"
                                "of them or none; what they were is kept in rgpu-setup/ beside "
                                "slurm.conf. Where something must be decided first,\n"
                                "nothing is written.\n"
                                "\n"
                                "Exit status: 0 nothing is left to do, 3 --dry-run found lines to "
                                "write, 4 something stands in the way, 1 an error.";

nlohmann::json as_json(const std::vector<slurm::Obstacle> &obstacles)
{
    nlohmann::json out = nlohmann::json::array();
    for (const slurm::Obstacle &o : obstacles)
        out.push_back({{"of", o.of}, {"found", o.found}, {"cure", o.cure}});
    return out;
}

std::string dump(const nlohmann::json &all)
{
    return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Each line of a text with something in front.
std::string behind(const char *mark, const std::string &text)
{
    std::string out = mark;
    for (char c : text) {
        out += c;
        if (c == '\n') out += mark;
    }
    return out + "\n";
}

// The Slurm of this host: that of slurmctld, else of the commands.
std::optional<slurm::SlurmVersion> version_here()
{
    for (const char *program :
         {"slurmctld", "/usr/sbin/slurmctld", "/usr/local/sbin/slurmctld", "sinfo"})
        if (auto told = run_tool({program, "-V"}))
            if (auto version = slurm::parse_slurm_version(told->substr(0, told->find('\n'))))
                return version;
    return {};
}

// The plugins that the lines name are there, and of this Slurm.
void look_at_plugins(const slurm::OwnLines &own, std::optional<slurm::SlurmVersion> running,
                     std::vector<slurm::Obstacle> &obstacles)
{
    std::string folders = own.value("PluginDir"), first = folders.substr(0, folders.find(':'));
    for (const char *name : {"job_submit_rgpu.so", kSpank}) {
        std::string path = first + "/" + name;
        auto built = slurm::plugin_version_of(path);
        if (!built)
            obstacles.push_back(
                {name, built.error().text, "make install, on this machine and on the nodes"});
        else if (running && !slurm::slurm_loads(*running, *built, name[0] == 's'))
            obstacles.push_back({name,
                                 path + " is built for Slurm " + slurm::to_text(*built) +
                                     ", and here is " + slurm::to_text(*running),
                                 "build rgpu with this Slurm's headers: ./configure "
                                 "--with-slurm=DIR, make install"});
    }
}

class Setup : public Command {
public:
    void options(CLI::App &app) override
    {
        auto *dry = app.add_flag("-n,--dry-run", dry_run_,
                                 "Say which lines would be added or changed, and why (what is done "
                                 "unless told otherwise)");
        auto *apply = app.add_flag("--apply", apply_, "Add and change them");
        auto *undo = app.add_flag("--undo", undo_, "Take back what --apply did");
        dry->excludes(apply)->excludes(undo);
        apply->excludes(undo);
        app.add_option("--conf", conf_,
                       "The slurm.conf to set up ($SLURM_CONF, or " RGPU_SLURM_CONF ")")
            ->type_name("FILE");
        app.add_option("--licences", licences_,
                       "How much Slurm sells, in hundredths of a GPU (what the servers have)")
            ->type_name("N");
        app.add_option("--nodes", nodes_,
                       "The nodes whose jobs may use the pool, as slurm.conf names them (all)")
            ->type_name("LIST");
        app.add_option("--types", types_,
                       "Types of GPUs that users can name, as in --gres=rgpu:h100:1 (none)")
            ->type_name("A,B");
        app.add_option("--lines", lines_, "Where rgpu's own lines are (" RGPU_LINES_DIR ")")
            ->type_name("DIR");
        app.add_flag("--json", json_, "Print JSON");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        if (const char *named = getenv("SLURM_CONF"); conf_.empty() && named) conf_ = named;
        if (conf_.empty()) conf_ = RGPU_SLURM_CONF;
        const bool installed = lines_.empty();
        if (installed) lines_ = RGPU_LINES_DIR;
        auto wishes = wished();
        if (!wishes) return fail(wishes.error(), kUsage);
        std::error_code wrong;
        std::string real = std::filesystem::canonical(conf_, wrong);
        if (wrong)
            return fail(error(ErrorKind::invalid,
                              "%s: %s: name Slurm's configuration with --conf or SLURM_CONF",
                              conf_.c_str(), wrong.message().c_str()));
        // The record is read from other directories, too.
        conf_ = std::filesystem::absolute(conf_);
        record_ = slurm::record_folder(real);
        if (undo_) return undo();
        auto site = slurm::read_site(conf_);
        if (!site) return fail(site.error());
        auto own = slurm::read_own_lines(lines_);
        if (!own) {
            Error what = std::move(own).error();
            what.text += installed
                             ? "; make install puts them there, and --lines names another place"
                             : "; --lines names the directory in which make install puts them";
            return fail(what);
        }
        const std::vector<std::string> types = wishes->types.empty() ? slurm::types_of(*site)
                                                                     : wishes->types;
        if ((!wishes->licences && slurm::needs_licences(*site)) || !types.empty())
            if (auto sold = pool_licences(context, types)) {
                if (!wishes->licences && slurm::needs_licences(*site)) wishes->licences = sold->sum;
                wishes->type_licences = sold->types;
            }
        const auto running = version_here();
        wishes->linear_by_default = !running || slurm::selects_linear(*running);
        slurm::Plan plan = slurm::plan_setup(*site, *own, *wishes);
        look_at_plugins(*own, running, plan.obstacles);
        look_at_config(context, *site, *own, plan.obstacles);
        return apply_ ? apply(*site, plan) : tell(*site, plan);
    }

private:
    Result<slurm::Wishes> wished() const
    {
        slurm::Wishes out;
        auto nodes = slurm::expand_hostlist(nodes_);
        if (!nodes) return std::move(nodes).error().in("--nodes");
        out.nodes = std::move(*nodes);
        for (std::string_view rest = types_; !rest.empty();) {
            std::string_view type = next_token(rest, ",");
            if (type.empty() || type.find_first_of(":=# \t\"\\") != type.npos)
                return error(ErrorKind::invalid,
                             "--types %s: names with commas are wanted, as in h100,a100",
                             types_.c_str());
            out.types.emplace_back(type);
        }
        constexpr unsigned long kMost = 100'000'000;  // Slurm counts in 32 bits
        if (licences_ && (*licences_ == 0 || *licences_ > kMost))
            return error(ErrorKind::invalid,
                         "--licences %lu: the pool's GPUs times 100 are wanted, as in 400",
                         *licences_);
        out.licences = licences_;
        return out;
    }

    // Hundredths of all GPUs, and of those of each type: of servers that are away what they had at
    // the last sync. Nothing where it is not known.
    static std::optional<slurm::OwnLicences> pool_licences(Context &context,
                                                           const std::vector<std::string> &types)
    {
        auto config = context.config();
        auto client = config ? context.pool() : Result<pool::Client>(config.error());
        if (!client) return {};
        slurm::OwnLicences out;
        pool::Inventories pool = client->inventory();
        if (unanswered(pool) != 0) {
            auto known = slurm::read_snapshot((*config)->slurm.snapshot);
            if (!known || known->total_gpus == 0) return {};
            out.sum = known->total_gpus * static_cast<unsigned long>(kWholeGpu);
            for (const slurm::PoolServer &server : known->servers)
                for (const std::string &type : types)
                    if (known->complete() && !server.models.empty())
                        out.types[type] += gpus_of_type(server, type) *
                                           static_cast<unsigned long>(kWholeGpu);
            return out;
        }
        for (const auto &told : pool)
            for (const pool::GpuState &gpu : told.answer->gpus) {
                out.sum += kWholeGpu;
                for (const std::string &type : types)
                    if (slurm::is_of_type(gpu.name, type)) out.types[type] += kWholeGpu;
            }
        return out.sum ? std::optional(out) : std::nullopt;
    }

    // What Slurm's scripts need of rgpu.conf.
    static void look_at_config(Context &context, const slurm::Site &site,
                               const slurm::OwnLines &own, std::vector<slurm::Obstacle> &obstacles)
    {
        auto config = context.config();
        if (!config) {
            obstacles.push_back({"rgpu.conf", config.error().text,
                                 "write it first (rgpu.conf(5)); rgpu list shows that it is good"});
            return;
        }
        std::string user = site.slurm.value("SlurmUser").value_or("root");
        const std::vector<std::string> &admins = (*config)->auth.admins;
        if (std::find(admins.begin(), admins.end(), user) == admins.end())
            obstacles.push_back(
                {"rgpu.conf", "SlurmUser is " + user + ", who may not lease for others",
                 "add \"" + user +
                     "\" to admins below [auth], also on the GPU hosts, and restart rgpud"});
        if ((*config)->slurm.over_quota &&
            site.slurm.value("PreemptType").value_or("") != "preempt/qos")
            obstacles.push_back(
                {"rgpu.conf", "over_quota is set, and slurm.conf has no PreemptType=preempt/qos",
                 "include quotas.conf in slurm.conf, and run quotas.sh (doc/admin.md), or set "
                 "over_quota = false"});
        std::string told = " rundir=" + (*config)->slurm.rundir + " ";
        if (site.spank.empty() && (own.plugstack.text + " ").find(told) == std::string::npos)
            obstacles.push_back({"rgpu.conf",
                                 "rundir is " + (*config)->slurm.rundir +
                                     ", and rgpu's line for plugstack.conf has another one",
                                 "make them the same: [slurm] rundir in rgpu.conf, rundir= in " +
                                     own.plugstack.text});
    }

    // --- what is said

    static std::vector<std::string> next_steps(const slurm::Site &site,
                                               const std::vector<std::string> &files, bool restart)
    {
        std::string all;
        for (const std::string &file : files) all += (all.empty() ? "" : ", ") + file;
        std::string parameters = site.slurm.value("SlurmctldParameters").value_or("");
        std::transform(parameters.begin(), parameters.end(), parameters.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        std::vector<std::string> out;
        if (parameters.find("enable_configless") == parameters.npos)
            out.push_back("have the same on every machine of the cluster, unless it is shared: " +
                          all);
        if (restart)
            out.push_back("systemctl restart slurmctld, then slurmd on every node: scontrol "
                          "reconfigure does not take new GRES and plugins");
        else
            out.push_back("scontrol reconfigure");
        return out;
    }

    static std::vector<std::string> next_steps(const slurm::Site &site, const slurm::Plan &plan)
    {
        std::vector<std::string> files;
        for (const slurm::ChangedFile &file : plan.files) files.push_back(file.path);
        auto any = [&](auto which) {
            return std::any_of(plan.lines.begin(), plan.lines.end(), which);
        };
        auto out =
            next_steps(site, files, any([](const slurm::PlannedLine &l) { return l.restart; }));
        if (slurm::forgets_jobs(plan))
            out.insert(out.end() - 1, "wait until squeue -a shows no job: slurmctld forgets all "
                                      "jobs when it starts with another SelectType");
        if (any([](const slurm::PlannedLine &l) {
                return l.now.starts_with("PluginDir=") || l.now.find(kSpank) != std::string::npos;
            }))
            out.insert(out.begin(), "have rgpu installed on every machine with this slurm.conf, "
                                    "login nodes, too: Slurm's commands and daemons "
                                    "do not start where a directory of PluginDir is missing");
        out.push_back("systemctl enable --now rgpu-sync.timer, on this machine");
        out.push_back("rgpu slurm check; srun --gres=rgpu:1 sh -c 'echo $RGPU_LEASE'");
        return out;
    }

    std::string as_text(const slurm::Site &site, const slurm::Plan &plan) const
    {
        std::string out;
        for (const slurm::PlannedLine &line : plan.lines) {
            out += line.file + ":" + std::to_string(line.line) +
                   (line.old.empty() ? ": add\n" : ": change\n");
            if (!line.old.empty()) out += behind("  - ", line.old);
            out += behind("  + ", line.now) + "    " + line.why + "\n";
        }
        return out + told(plan.obstacles) + summary(site, plan);
    }

    static std::string told(const std::vector<slurm::Obstacle> &obstacles)
    {
        std::string out;
        for (const slurm::Obstacle &o : obstacles)
            out += "in the way: " + o.of + ": " + o.found + "\n    " + o.cure + "\n";
        return out;
    }

    static std::string summary(const slurm::Site &site, const slurm::Plan &plan)
    {
        const std::string &conf = site.slurm.files[0].path;
        if (!plan.obstacles.empty()) return conf + ": nothing is written before that is done\n";
        if (plan.lines.empty()) return conf + ": all that rgpu needs is there\n";
        return counted(plan.lines.size(), "line") + " to write: rgpu slurm setup --apply\n";
    }

    std::string plan_json(const slurm::Site &site, const slurm::Plan &plan, bool applied) const
    {
        nlohmann::json lines = nlohmann::json::array();
        for (const slurm::PlannedLine &line : plan.lines)
            lines.push_back({{"file", line.file},
                             {"line", line.line},
                             {"old", line.old},
                             {"new", line.now},
                             {"why", line.why},
                             {"restart", line.restart}});
        return dump(
            {{"conf", conf_},
             {"applied", applied},
             {"lines", lines},
             {"in_the_way", as_json(plan.obstacles)},
             {"next", plan.lines.empty() ? std::vector<std::string>{} : next_steps(site, plan)}});
    }

    int tell(const slurm::Site &site, const slurm::Plan &plan) const
    {
        fputs((json_ ? plan_json(site, plan, false) : as_text(site, plan)).c_str(), stdout);
        return !plan.obstacles.empty() ? kFatal : plan.lines.empty() ? kOk : kMarginal;
    }

    // --- what is done

    int apply(const slurm::Site &site, const slurm::Plan &plan)
    {
        if (!plan.obstacles.empty() || plan.lines.empty()) return tell(site, plan);
        std::vector<slurm::FileWrite> writes;
        for (const slurm::ChangedFile &file : plan.files) writes.push_back({file.real, file.after});
        // The record first: whatever happens behind it can be taken back.
        auto before = slurm::read_record(record_);
        auto done = before ? slurm::add_to_record(record_, plan.files)
                           : Result<void>(before.error());
        if (done) done = slurm::write_files(writes, site.slurm.files[0].real);
        if (!done) {
            bool none = std::all_of(plan.files.begin(), plan.files.end(),
                                    [](const slurm::ChangedFile &file) {
                                        auto now = slurm::read_bytes(file.real);
                                        return now ? *now == file.before : !file.existed;
                                    });
            if (before && none) (void)slurm::remove_from_record(record_, before->size());
            return fail(std::move(done).error().in(
                none ? "nothing was changed"
                     : "not all was changed; rgpu slurm setup --undo takes it back"));
        }
        if (json_) {
            fputs(plan_json(site, plan, true).c_str(), stdout);
            return kOk;
        }
        for (const slurm::ChangedFile &file : plan.files)
            printf("%s: %zu %s written%s\n", file.path.c_str(), lines_of(plan, file.path),
                   lines_of(plan, file.path) == 1 ? "line" : "lines",
                   file.existed ? "" : ", a new file");
        print_steps("next:", next_steps(site, plan));
        return kOk;
    }

    static size_t lines_of(const slurm::Plan &plan, const std::string &path)
    {
        return static_cast<size_t>(
            std::count_if(plan.lines.begin(), plan.lines.end(),
                          [&](const slurm::PlannedLine &l) { return l.file == path; }));
    }

    static void print_steps(const char *title, const std::vector<std::string> &steps)
    {
        puts(title);
        for (size_t i = 0; i < steps.size(); ++i) printf("  %zu. %s\n", i + 1, steps[i].c_str());
    }

    // A file that was changed, once or several times.
    struct Target {
        const slurm::ChangedFile *first;
        std::optional<std::string> found;  // nothing where there is no such file
        std::string text;                  // as it is to be

        bool as_it_was() const { return text == first->before; }
        bool gone() const { return !first->existed && text.empty(); }
    };

    // What every file was before the first change that is recorded of it.
    static Result<std::vector<Target>> undone(
        const std::vector<std::vector<slurm::ChangedFile>> &times)
    {
        std::vector<Target> all;
        for (auto time = times.rbegin(); time != times.rend(); ++time)
            for (const slurm::ChangedFile &change : *time) {
                auto target = std::find_if(all.begin(), all.end(), [&](const Target &t) {
                    return t.first->real == change.real;
                });
                if (target == all.end()) {
                    auto now = slurm::read_bytes(change.real);
                    if (!now && now.error().kind != ErrorKind::unavailable)
                        return std::move(now).error();
                    target = all.insert(all.end(), {&change, {}, {}});
                    if (now) target->found = target->text = *now;
                }
                target->first = &change;
            }
        for (Target &target : all) {
            bool is_before = target.first->existed ? target.found == target.first->before
                                                   : !target.found;
            for (auto time = times.rbegin(); time != times.rend() && !is_before; ++time)
                for (const slurm::ChangedFile &change : *time)
                    if (change.real == target.first->real) {
                        auto text = slurm::taken_back(change, target.text);
                        if (!text) return std::move(text).error();
                        target.text = std::move(*text);
                    }
        }
        return all;
    }

    int undo()
    {
        auto times = slurm::read_record(record_);
        if (!times) return fail(times.error());
        auto targets = undone(*times);
        if (!targets) return fail(std::move(targets).error().in("nothing was changed"), kFatal);
        std::vector<slurm::FileWrite> writes;
        for (const Target &target : *targets)
            if (target.gone() ? target.found.has_value() : target.found != target.text)
                writes.push_back({target.first->real, target.text, target.gone()});
        if (auto done = slurm::write_files(writes, conf_); !done)
            return fail(std::move(done).error().in("the rest can be undone again"));
        if (auto done = slurm::remove_from_record(record_, 0); !done) return fail(done.error());
        tell_undone(*targets);
        return kOk;
    }

    void tell_undone(const std::vector<Target> &targets) const
    {
        std::vector<std::string> paths;
        for (const Target &target : targets) paths.push_back(target.first->path);
        if (json_) {
            fputs(dump({{"conf", conf_}, {"undone", paths}}).c_str(), stdout);
            return;
        }
        if (targets.empty()) {
            printf("%s: rgpu slurm setup has changed nothing here\n", conf_.c_str());
            return;
        }
        for (const Target &target : targets)
            printf("%s: %s\n", target.first->path.c_str(),
                   target.gone()        ? "gone, as it was"
                   : target.as_it_was() ? "as it was"
                                        : "rgpu's lines are out, and what was edited since stays");
        auto site = slurm::read_site(conf_);
        auto steps = next_steps(site ? *site : slurm::Site{}, paths, true);
        steps.insert(steps.begin(), "systemctl disable --now rgpu-sync.timer, on this machine");
        print_steps("next:", steps);
    }

    bool dry_run_ = false, apply_ = false, undo_ = false, json_ = false;
    std::string conf_, nodes_, types_, lines_, record_;
    std::optional<unsigned long> licences_;
};

const Registered<Setup> setup{
    "slurm", "setup",
    "write what rgpu needs into slurm.conf, gres.conf and plugstack.conf, or take it out"};

}  // namespace
}  // namespace rgpu::cli
