// SPDX-License-Identifier: Apache-2.0
// Puts rgpu's lines together with a site's; plan.h says by what rules.
#include "slurm/conf/plan.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <glob.h>
#include <set>
#include <unistd.h>

#include "slurm/conf/hostlist.h"
#include "slurm/terms/licences.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

constexpr const char *kMarker =
    "# rgpu, GPUs of other machines: rgpu slurm setup --undo takes these lines out.";

constexpr const char *kSelectType = "SelectType";

// --- words

std::vector<std::string> words_of(std::string_view list) { return tokens(list, ","); }

bool has(const std::vector<std::string> &words, std::string_view word)
{
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string &w) { return same_key(w, word); });
}

// "gpu:1,rgpu:2" has "rgpu".
bool has_gres(std::string_view list, std::string_view name)
{
    for (const std::string &word : words_of(list))
        if (word.substr(0, word.find(':')) == name) return true;
    return false;
}

// Of "rgpu:h100:8,gpu:1": h100.
std::vector<std::string> types_in(std::string_view list)
{
    std::vector<std::string> out;
    for (const std::string &word : words_of(list)) {
        std::vector<std::string> parts = tokens(word, ":");
        if (parts.size() > 2 && parts[0] == "rgpu" && parts[1] != "no_consume")
            out.push_back(parts[1]);
    }
    return out;
}

std::string first_sentence(const std::string &text)
{
    size_t end = text.find(". ");
    return end == text.npos ? text : text.substr(0, end + 1);
}

std::vector<std::string> globbed(const std::string &pattern)
{
    std::vector<std::string> out;
    glob_t found = {};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    return out;
}

// --- the rules: how a line of ours goes together with one that is there

enum class Merge {
    list,     // a word of a list with commas, anywhere
    last,     // ... which must be the last
    path,     // a directory of a list with colons
    flags,    // a flag that others imply
    script,   // a file that runs; there can be one
    licence,  // NAME:COUNT of a list
    nodes,    // a setting of lines that the site has
    choice,   // one of several values: another is for people to change
};

struct Rule {
    const char *key;
    Merge how;
    bool restart;           // Slurm takes a change when it starts only
    const char *verb = "";  // script: rgpu slurm VERB
};

constexpr Rule kRules[] = {
    {"Licenses", Merge::licence, false},
    {"GresTypes", Merge::list, true},
    {"NodeName", Merge::nodes, true},
    {kSelectType, Merge::choice, true},
    {"PluginDir", Merge::path, true},
    {"JobSubmitPlugins", Merge::last, true},
    {"PrologSlurmctld", Merge::script, false, "prolog"},
    {"EpilogSlurmctld", Merge::script, false, "epilog"},
    {"Prolog", Merge::script, false, "node-prolog"},
    {"Epilog", Merge::script, false, "node-epilog"},
    {"PrologFlags", Merge::flags, false},
    {"SchedulerParameters", Merge::list, false},
    {"AccountingStorageTRES", Merge::list, true},
};

struct Edit {
    const ConfEntry *entry;
    size_t at, end;
    std::string text, why;
    bool restart;
};

struct Addition {
    std::string text, why;
    bool restart;
};

struct FilePlan {
    const ConfFile *file;
    std::vector<Edit> edits = {};
    std::vector<Addition> added = {};
};

// Builds the text after, with its hunks, and the lines as people are told of them.
class Builder {
public:
    Builder(FilePlan plan, Plan &out) : plan_(std::move(plan)), out_(out) {}

    void build()
    {
        const ConfFile &file = *plan_.file;
        change_ = {file.path, file.real, file.exists, file.text, {}, {}};
        std::stable_sort(plan_.edits.begin(), plan_.edits.end(),
                         [](const Edit &a, const Edit &b) { return a.at < b.at; });
        // A file that is included twice has each line twice.
        plan_.edits.erase(
            std::unique(plan_.edits.begin(), plan_.edits.end(),
                        [](const Edit &a, const Edit &b) { return a.entry->at == b.entry->at; }),
            plan_.edits.end());
        for (const Edit &edit : plan_.edits) replace(edit);
        change_.after.append(file.text, taken_);
        if (!plan_.added.empty()) append();
        if (!change_.hunks.empty()) out_.files.push_back(std::move(change_));
    }

private:
    static std::string shown(std::string_view lines)
    {
        std::string out(lines.substr(0, lines.find_last_not_of("\r\n") + 1));
        std::erase(out, '\r');
        return out;
    }

    size_t line_now() const
    {
        return static_cast<size_t>(std::count(change_.after.begin(), change_.after.end(), '\n')) +
               1;
    }

    void replace(const Edit &edit)
    {
        const std::string &text = plan_.file->text;
        const ConfEntry &entry = *edit.entry;
        change_.after.append(text, taken_, entry.at - taken_);
        std::string old = text.substr(entry.at, entry.end - entry.at);
        std::string now = text.substr(entry.at, edit.at - entry.at) + edit.text +
                          text.substr(edit.end, entry.end - edit.end);
        change_.hunks.push_back({entry.at, old.size(), change_.after.size(), now.size()});
        change_.after += now;
        taken_ = entry.end;
        out_.lines.push_back(
            {plan_.file->path, entry.line, shown(old), shown(now), edit.why, edit.restart});
    }

    void append_line(const std::string &text)
    {
        change_.hunks.push_back({plan_.file->text.size(), 0, change_.after.size(), text.size()});
        change_.after += text;
    }

    void append()
    {
        const std::string &text = plan_.file->text;
        size_t newline = text.find('\n');
        std::string end = newline != text.npos && newline > 0 && text[newline - 1] == '\r' ? "\r\n"
                                                                                           : "\n";
        if (!text.empty() && text.back() != '\n') change_.after += end;
        if (ends_open(text)) change_.after += end;
        if (text.find(kMarker) == text.npos) append_line((text.empty() ? "" : end) + kMarker + end);
        for (const Addition &line : plan_.added) {
            out_.lines.push_back(
                {plan_.file->path, line_now(), "", line.text, line.why, line.restart});
            append_line(line.text + end);
        }
    }

    FilePlan plan_;
    Plan &out_;
    ChangedFile change_;
    size_t taken_ = 0;
};

class Planner {
public:
    Planner(const Site &site, const OwnLines &own, const Wishes &wishes)
        : site_(site), own_(own), wishes_(wishes)
    {}

    Plan plan()
    {
        types_ = wishes_.types.empty() ? types_of(site_) : wishes_.types;
        for (const OwnLine &line : own_.slurm)
            if (applies(line.entry.settings[0].key)) put(line);
        put_gres();
        if (site_.spank.empty())
            of(site_.plugstack).added.push_back({own_.plugstack.text, own_.plugstack.why, false});
        for (FilePlan &file : files_) Builder(std::move(file), out_).build();
        return std::move(out_);
    }

private:
    FilePlan &of(const ConfFile &file)
    {
        for (FilePlan &known : files_)
            if (known.file == &file) return known;
        return files_.emplace_back(FilePlan{&file});
    }

    void refuse(std::string what, std::string found, std::string cure)
    {
        out_.obstacles.push_back({std::move(what), std::move(found), std::move(cure)});
    }

    bool applies(const std::string &key) const
    {
        if (same_key(key, "AccountingStorageTRES"))
            return same_key(site_.slurm.value("AccountingStorageType").value_or(""),
                            "accounting_storage/slurmdbd");
        if (same_key(key, "SchedulerParameters"))
            return same_key(site_.slurm.value("SchedulerType").value_or("sched/backfill"),
                            "sched/backfill");
        if (same_key(key, kSelectType))
            return wishes_.linear_by_default || site_.slurm.last(kSelectType);
        return true;
    }

    void add(const OwnLine &line, const Rule &rule, const std::string &value)
    {
        of(site_.slurm.files[0])
            .added.push_back({line.entry.settings[0].key + "=" + value, line.why, rule.restart});
    }

    void edit(const PlacedEntry &there, size_t at, size_t end, std::string text,
              const OwnLine &line, const Rule &rule)
    {
        of(site_.slurm.files[there.file])
            .edits.push_back({&there.entry, at, end, std::move(text), line.why, rule.restart});
    }

    void append(const PlacedEntry &there, const std::string &text, const OwnLine &line,
                const Rule &rule)
    {
        size_t end = there.entry.settings[0].end;
        edit(there, end, end, text, line, rule);
    }

    void replace(const PlacedEntry &there, const std::string &value, const OwnLine &line,
                 const Rule &rule)
    {
        const ConfSetting &setting = there.entry.settings[0];
        edit(there, setting.at, setting.end, conf_escaped(value), line, rule);
    }

    void put(const OwnLine &line)
    {
        const ConfSetting &own = line.entry.settings[0];
        auto rule = std::find_if(std::begin(kRules), std::end(kRules),
                                 [&](const Rule &r) { return same_key(r.key, own.key); });
        if (rule == std::end(kRules)) {
            refuse(own.key, "rgpu's own lines have it, and setup does not know how to put it in",
                   "write it into slurm.conf by hand");
            return;
        }
        const PlacedEntry *there = site_.slurm.last(own.key);
        switch (rule->how) {
        case Merge::list:
        case Merge::last: put_words(line, *rule, there); break;
        case Merge::path: put_path(line, *rule, there); break;
        case Merge::flags: put_flags(line, *rule, there); break;
        case Merge::script: put_script(line, *rule, there); break;
        case Merge::licence: put_licence(line, *rule, there); break;
        case Merge::nodes: put_nodes(line, *rule); break;
        case Merge::choice: put_choice(line, *rule, there); break;
        }
    }

    // Slurm's accounting counts the licences of types, too.
    std::string own_words(const OwnLine &line) const
    {
        std::string out = line.entry.settings[0].value;
        if (same_key(line.entry.settings[0].key, "AccountingStorageTRES"))
            for (const std::string &type : types_) out += ",license/rgpu_" + type;
        return out;
    }

    void put_words(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        const std::string own = own_words(line);
        if (!there) return add(line, rule, own);
        std::vector<std::string> words = words_of(there->entry.settings[0].value);
        std::string missing;
        for (const std::string &word : words_of(own))
            if (!has(words, word) && !has(words, "job_submit/" + word)) missing += "," + word;
        if (!missing.empty()) return append(*there, missing, line, rule);
        auto is_own = [&](const std::string &word) {
            return word == own || word == "job_submit/" + own;
        };
        if (rule.how != Merge::last || is_own(words.back())) return;
        std::erase_if(words, is_own);
        std::string value;
        for (const std::string &word : words) value += word + ",";
        replace(*there, value + own, line, rule);
    }

    // The first of our directories has our plugins, the others are Slurm's own, for where none is
    // named.
    void put_path(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        const std::string &own = line.entry.settings[0].value;
        std::vector<std::string> folders = tokens(own, ":");
        if (there) {
            if (!has(tokens(there->entry.settings[0].value, ":"), folders[0]))
                append(*there, ":" + folders[0], line, rule);
            return;
        }
        for (size_t i = 1; i < folders.size(); ++i)
            if (access(folders[i].c_str(), X_OK) != 0)
                return refuse("PluginDir",
                              "it is not set, and Slurm's own plugins are not in " + folders[i],
                              "add the line PluginDir= with the directory of Slurm's plugins "
                              "(scontrol show config names it)");
        add(line, rule, own);
    }

    void put_flags(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        const std::string &own = line.entry.settings[0].value;
        if (!there) return add(line, rule, own);
        std::vector<std::string> words = words_of(there->entry.settings[0].value);
        // Both imply Alloc.
        if (!has(words, own) && !has(words, "Contain") && !has(words, "X11"))
            append(*there, "," + own, line, rule);
    }

    void put_choice(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        const std::string &own = line.entry.settings[0].value;
        if (!there) return add(line, rule, own);
        const std::string &value = there->entry.settings[0].value;
        if (gives_steps_gres(value)) return;
        refuse(rule.key, where(*there) + " has " + value + ", and job steps get no GRES with it",
               "write " + std::string(rule.key) + "=" + own +
                   " there, at a time without jobs: slurmctld forgets all of them when it starts "
                   "with it");
    }

    static bool calls(const std::string &script, const std::string &own, const std::string &verb)
    {
        auto text = read_bytes(script);
        if (!text) return false;
        std::string_view rest = *text;
        while (!rest.empty()) {
            std::string_view line = next_token(rest, "\n");
            line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
            if (!line.starts_with("#") &&
                (line.find(own) != line.npos || line.find("slurm " + verb) != line.npos))
                return true;
        }
        return false;
    }

    void put_script(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        const std::string &own = line.entry.settings[0].value;
        if (access(own.c_str(), X_OK) != 0)
            refuse(rule.key, own + " cannot be run here: " + strerror(errno),
                   "make install, on this machine and on the nodes");
        if (!there) return add(line, rule, own);
        const std::string &value = there->entry.settings[0].value;
        if (value == own) return;
        for (const std::string &script : globbed(value))
            if (real_path(script) == real_path(own) || calls(script, own, rule.verb)) return;
        bool pattern = value.find_first_of("*?[") != value.npos;
        refuse(rule.key, where(*there) + " has " + value + " already, and Slurm takes one",
               pattern ? "link rgpu's into that directory: ln -s " + own + " " +
                             value.substr(0, value.find_last_of('/') + 1) + "90-rgpu"
                       : "let it call rgpu's as its last line, exec " + own +
                             ", which passes the exit status on; then run setup again");
    }

    std::string where(const PlacedEntry &there) const
    {
        return site_.slurm.files[there.file].path + ":" + std::to_string(there.entry.line);
    }

    // What Slurm is to sell, where it sells this now.
    OwnLicences sold_after(OwnLicences now) const
    {
        if (wishes_.licences) now.sum = *wishes_.licences;
        for (const std::string &type : types_) {
            auto known = wishes_.type_licences.find(type);
            if (known != wishes_.type_licences.end() && known->second != 0 &&
                (wishes_.licences || !now.types.contains(type)))
                now.types[type] = known->second;
        }
        return now;
    }

    void put_licence(const OwnLine &line, const Rule &rule, const PlacedEntry *there)
    {
        std::string value = there ? there->entry.settings[0].value : "";
        const OwnLicences now = own_licences(value), wanted = sold_after(now);
        if (now.sum != 0 && now == wanted) return;
        if (wanted.sum == 0)
            return refuse(rule.key, "no server of the pool tells how many GPUs there are",
                          "give their number in hundredths: --licences 400");
        if (!there) return add(line, rule, to_text(wanted));
        if (!names_rgpu(value)) return append(*there, "," + to_text(wanted), line, rule);
        auto all = with_rgpu(value, wanted);
        if (!all)
            return refuse(rule.key, where(*there) + ": " + all.error().text,
                          "write " + to_text(wanted) + " into it by hand");
        replace(*there, *all, line, rule);
    }

    // --- nodes

    // "rgpu:1024" with each type.
    std::string node_gres(const std::string &untyped) const
    {
        std::string out;
        for (const std::string &type : types_)
            out += (out.empty() ? "" : ",") + ("rgpu:" + type + untyped.substr(untyped.find(':')));
        return out.empty() ? untyped : out;
    }

    // Which of the wished nodes this line names: all, none, or a part, which is refused.
    bool wished(const PlacedEntry &placed, std::set<std::string> &found)
    {
        if (wishes_.nodes.empty()) return true;
        auto names = expand_hostlist(placed.entry.settings[0].value);
        if (!names) {
            refuse("NodeName", where(placed) + ": " + names.error().text,
                   "leave --nodes out, or add Gres= by hand");
            return false;
        }
        size_t those = 0;
        for (const std::string &name : *names)
            if (std::find(wishes_.nodes.begin(), wishes_.nodes.end(), name) !=
                wishes_.nodes.end()) {
                ++those;
                found.insert(name);
            }
        if (those != 0 && those != names->size())
            refuse("NodeName", where(placed) + " is for nodes that --nodes names and for others",
                   "make two lines of it");
        return those == names->size();
    }

    // Slurm knows the types of a node when all that names them does: gres.conf, too.
    void refuse_other_types(const PlacedEntry &placed, const std::string &there,
                            const std::string &wanted)
    {
        const std::vector<std::string> types = types_in(there);
        if (std::all_of(wishes_.types.begin(), wishes_.types.end(),
                        [&](const std::string &type) { return has(types, type); }))
            return;
        refuse("NodeName",
               where(placed) + " has Gres=" + there + " already, without all types of --types",
               "rgpu slurm setup --undo and then --apply --types, where setup wrote it; else write "
               "Gres=" +
                   wanted + " there, and a line with each Type= into gres.conf");
    }

    void put_nodes(const OwnLine &line, const Rule &rule)
    {
        const ConfSetting *own = line.entry.find("Gres");
        std::string gres = node_gres(own ? own->value : "rgpu:1024"), inherited;
        std::set<std::string> found;
        for (const PlacedEntry &placed : site_.slurm.entries) {
            const ConfSetting &name = placed.entry.settings[0];
            if (!same_key(name.key, "NodeName")) continue;
            const ConfSetting *has_own = placed.entry.find("Gres");
            if (same_key(name.value, "DEFAULT")) {
                inherited = has_own ? has_own->value : inherited;
                continue;
            }
            const std::string there = has_own ? has_own->value : inherited;
            if (!wished(placed, found)) continue;
            if (has_gres(there, "rgpu")) {
                refuse_other_types(placed, there, gres);
                continue;
            }
            if (has_own)
                edit(placed, has_own->end, has_own->end, "," + gres, line, rule);
            else
                edit(placed, placed.entry.tail, placed.entry.tail,
                     " Gres=" + (inherited.empty() ? "" : conf_escaped(inherited) + ",") + gres,
                     line, rule);
        }
        for (const std::string &node : wishes_.nodes)
            if (!found.contains(node))
                refuse("NodeName", "no line of slurm.conf is for the node " + node + " of --nodes",
                       "write the name as slurm.conf does");
    }

    // --- gres.conf

    void put_gres()
    {
        for (const PlacedEntry &placed : site_.gres.entries)
            if (const ConfSetting *name = placed.entry.find("Name"); name && name->value == "rgpu")
                return;
        const OwnLine &own = own_.gres;
        FilePlan &file = of(site_.gres.files[0]);
        if (types_.empty()) file.added.push_back({own.text, own.why, true});
        size_t behind = own.entry.settings[0].end;
        for (const std::string &type : types_)
            file.added.push_back(
                {own.text.substr(0, behind) + " Type=" + type + own.text.substr(behind), own.why,
                 true});
    }

    const Site &site_;
    const OwnLines &own_;
    const Wishes &wishes_;
    std::vector<std::string> types_;
    std::vector<FilePlan> files_;
    Plan out_;
};

}  // namespace

std::string OwnLines::value(std::string_view key) const
{
    for (const OwnLine &line : slurm)
        if (same_key(line.entry.settings[0].key, key)) return line.entry.settings[0].value;
    return {};
}

std::vector<OwnLine> parse_own(std::string_view text, bool commented)
{
    std::vector<OwnLine> out;
    std::string comment;
    bool above = false;  // the line above was of the comment
    while (!text.empty()) {
        std::string_view line = next_token(text, "\n");
        bool hidden = line.starts_with("#") && !line.starts_with("# ") && line.size() > 1;
        if (line.starts_with("#") && !(hidden && commented)) {
            comment = (above ? comment + " " : "") +
                      std::string(
                          line.substr(std::min<size_t>(line.find_first_not_of("# "), line.size())));
            above = true;
            continue;
        }
        above = false;
        std::string own(line.substr(hidden ? 1 : 0));
        if (own.empty()) {
            comment.clear();
            continue;
        }
        std::vector<ConfEntry> parsed = parse_conf(own);
        out.push_back({parsed.empty() ? ConfEntry{} : parsed[0], own, first_sentence(comment)});
    }
    return out;
}

Result<OwnLines> read_own_lines(const std::string &folder)
{
    OwnLines out;
    std::vector<OwnLine> gres, plugstack;
    struct {
        const char *name;
        std::vector<OwnLine> *to;
    } files[] = {{"/slurm.conf", &out.slurm},
                 {"/gres.conf", &gres},
                 {"/plugstack.conf.d/rgpu.conf", &plugstack}};
    for (const auto &file : files) {
        auto text = read_bytes(folder + file.name);
        if (!text) return std::move(text).error().in("rgpu's own lines");
        *file.to = parse_own(*text, file.to == &out.slurm);
    }
    std::erase_if(out.slurm, [](const OwnLine &line) { return line.entry.settings.empty(); });
    if (out.slurm.empty() || gres.size() != 1 || gres[0].entry.settings.empty() ||
        plugstack.size() != 1)
        return error(ErrorKind::invalid,
                     "%s does not have rgpu's lines, as make install puts them there",
                     folder.c_str());
    out.gres = gres[0];
    out.plugstack = plugstack[0];
    return out;
}

namespace {

constexpr int kDeepest = 16;  // includes in includes

std::string spank_line(const std::string &text, const std::string &folder, int depth)
{
    std::string_view rest = text;
    while (!rest.empty()) {
        std::string line(next_token(rest, "\n"));
        line = line.substr(0, line.find('#'));
        std::vector<std::string> words = tokens(line, " \t\r");
        if (words.size() < 2) continue;
        if (same_key(words[0], "include")) {
            std::string pattern = words[1][0] == '/' ? words[1] : folder + words[1];
            for (const std::string &file :
                 depth < kDeepest ? globbed(pattern) : std::vector<std::string>{})
                if (auto included = read_bytes(file))
                    if (std::string found = spank_line(*included, folder, depth + 1);
                        !found.empty())
                        return found;
        } else if (words[1].substr(words[1].find_last_of('/') + 1) == "spank_rgpu.so") {
            std::string out;
            for (const std::string &word : words) out += (out.empty() ? "" : " ") + word;
            return out;
        }
    }
    return {};
}

std::string folder_with_slash(const std::string &path)
{
    return path.substr(0, path.find_last_of('/') + 1);
}

}  // namespace

Result<Site> read_site(const std::string &slurm_conf)
{
    Site out;
    auto slurm = read_conf(slurm_conf);
    if (!slurm) return std::move(slurm).error();
    out.slurm = std::move(*slurm);
    std::string folder = folder_with_slash(slurm_conf);
    auto gres = read_conf(folder + "gres.conf", out.slurm.value("ClusterName").value_or(""));
    if (!gres) return std::move(gres).error();
    out.gres = std::move(*gres);
    std::string path = out.slurm.value("PlugStackConfig").value_or("plugstack.conf");
    path = path.starts_with("/") ? path : folder + path;
    // Its lines are no settings: of this file the text alone is used.
    auto plugstack = read_bytes(path);
    if (!plugstack && plugstack.error().kind != ErrorKind::unavailable)
        return std::move(plugstack).error();
    out.plugstack = {path, real_path(path), plugstack.has_value(),
                     plugstack ? *plugstack : std::string()};
    out.spank = spank_line(out.plugstack.text, folder_with_slash(path), 0);
    return out;
}

Plan plan_setup(const Site &site, const OwnLines &own, const Wishes &wishes)
{
    return Planner(site, own, wishes).plan();
}

std::vector<std::string> types_of(const Site &site)
{
    std::vector<std::string> out;
    for (const PlacedEntry &placed : site.slurm.entries) {
        const ConfSetting *gres = same_key(placed.entry.settings[0].key, "NodeName")
                                      ? placed.entry.find("Gres")
                                      : nullptr;
        for (const std::string &type : types_in(gres ? gres->value : ""))
            if (std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
    }
    return out;
}

bool gives_steps_gres(std::string_view select_type)
{
    constexpr std::string_view kFolder = "select/";
    if (select_type.starts_with(kFolder)) select_type.remove_prefix(kFolder.size());
    return !same_key(select_type, "linear");
}

bool forgets_jobs(const Plan &plan)
{
    return std::any_of(plan.lines.begin(), plan.lines.end(), [](const PlannedLine &line) {
        return line.now.starts_with(std::string(kSelectType) + "=");
    });
}

bool needs_licences(const Site &site)
{
    return !names_rgpu(site.slurm.value("Licenses").value_or(""));
}

}  // namespace rgpu::slurm
