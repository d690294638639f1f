// SPDX-License-Identifier: Apache-2.0
// What rgpu slurm setup makes of a slurm.conf: line by line.
#include <criterion/criterion.h>

#include "slurm/conf/plan.h"

using namespace rgpu;
using namespace rgpu::slurm;

static const char *const kOwn = "# A file.\n"
                                "\n"
                                "# What is sold. And more\n"
                                "# of it.\n"
                                "Licenses=rgpu:400\n"
                                "\n"
                                "# How users ask.\n"
                                "GresTypes=rgpu\n"
                                "# The nodes.\n"
                                "#NodeName=cn[1-8] Gres=rgpu:1024\n"
                                "#SelectType=select/cons_tres\n"
                                "PluginDir=/usr/lib/ours:/usr\n"
                                "JobSubmitPlugins=rgpu\n"
                                "PrologSlurmctld=/bin/true\n"
                                "PrologFlags=Alloc\n"
                                "#SchedulerParameters=bf_licenses\n"
                                "#AccountingStorageTRES=gres/rgpu,license/rgpu\n";

static OwnLines own()
{
    OwnLines out;
    out.slurm = parse_own(kOwn, true);
    out.gres =
        parse_own("# Counted.\n# For --gres, a line.\nName=rgpu Count=1024 Flags=CountOnly\n",
                  false)
            .at(0);
    out.plugstack =
        parse_own("# Options.\n#\n# more\nrequired /lib/spank_rgpu.so rundir=/run/rgpu\n", false)
            .at(0);
    return out;
}

static Conf conf_of(const std::string &name, const std::string &text)
{
    Conf out;
    out.files.push_back({name, name, !text.empty(), text});
    for (ConfEntry &entry : parse_conf(text)) out.entries.push_back({0, std::move(entry)});
    return out;
}

static Plan planned(const std::string &slurm, Wishes wishes = {400, {}, {}},
                    const std::string &gres = "Name=rgpu Count=1\n",
                    const char *spank = "required spank_rgpu.so")
{
    Site site{conf_of("slurm.conf", slurm),
              conf_of("gres.conf", gres),
              {"plugstack.conf", "plugstack.conf", false, ""},
              spank};
    OwnLines lines = own();
    return plan_setup(site, lines, wishes);
}

static std::string after(const Plan &plan, const std::string &file = "slurm.conf")
{
    for (const ChangedFile &change : plan.files)
        if (change.path == file) return change.after;
    return {};
}

// A slurm.conf that has all; one line of it can be another.
static std::string whole(const std::string &key = "", const std::string &line = "")
{
    std::string out;
    for (std::string each :
         {"Licenses=rgpu:400", "GresTypes=rgpu", "PluginDir=/usr/lib/ours:/usr",
          "JobSubmitPlugins=rgpu", "PrologSlurmctld=/bin/true", "PrologFlags=Alloc",
          "SchedulerParameters=bf_licenses", "NodeName=cn1 Gres=rgpu:1024"}) {
        bool other = !key.empty() && each.starts_with(key + "=");
        out += other ? line + (line.empty() ? "" : "\n") : each + "\n";
    }
    return out;
}

// The one line that is changed.
static void expect(const std::string &key, const std::string &line, const std::string &now,
                   Wishes wishes = {400, {}, {}})
{
    Plan plan = planned(whole(key, line), std::move(wishes));
    cr_assert(plan.obstacles.empty(), "%s: %s", line.c_str(), plan.obstacles[0].found.c_str());
    if (now.empty()) {
        cr_expect(plan.lines.empty(), "%s became %s", line.c_str(),
                  plan.lines.empty() ? "" : plan.lines[0].now.c_str());
        return;
    }
    cr_assert_eq(plan.lines.size(), 1, "%s: %zu lines", line.c_str(), plan.lines.size());
    cr_expect(plan.lines[0].now == now, "%s became %s", line.c_str(), plan.lines[0].now.c_str());
    cr_expect(plan.lines[0].old == line, "%s is told as %s", line.c_str(),
              plan.lines[0].old.c_str());
    auto back = taken_back(plan.files.at(0), plan.files[0].after);
    cr_expect(back && *back == whole(key, line));
}

static void expect_text(const std::string &got, const char *wanted)
{
    cr_expect_str_eq(got.c_str(), wanted);
}

Test(plan, own_lines_have_their_reasons)
{
    auto lines = parse_own(kOwn, true);
    cr_assert_eq(lines.size(), 10);
    cr_expect(lines[0].why == "What is sold." && lines[0].text == "Licenses=rgpu:400");
    cr_expect(lines[1].why == "How users ask.");
    cr_expect(lines[2].why == "The nodes." && lines[2].entry.find("Gres")->value == "rgpu:1024");
    cr_expect_eq(parse_own(kOwn, false).size(), 6);
    cr_expect(own().plugstack.why == "Options." &&
              own().plugstack.text == "required /lib/spank_rgpu.so rundir=/run/rgpu");
}

Test(plan, adds_all_to_a_file_that_has_nothing)
{
    Plan plan = planned("ClusterName=c\nNodeName=cn1 CPUs=4\n", {400, {}, {}}, "", "");
    cr_assert(plan.obstacles.empty());
    expect_text(after(plan),
                "ClusterName=c\n"
                "NodeName=cn1 CPUs=4 Gres=rgpu:1024\n"
                "\n"
                "# rgpu, GPUs of other machines: rgpu slurm setup --undo takes these lines out.\n"
                "Licenses=rgpu:400\n"
                "GresTypes=rgpu\n"
                "PluginDir=/usr/lib/ours:/usr\n"
                "JobSubmitPlugins=rgpu\n"
                "PrologSlurmctld=/bin/true\n"
                "PrologFlags=Alloc\n"
                "SchedulerParameters=bf_licenses\n");
    expect_text(after(plan, "gres.conf"),
                "# rgpu, GPUs of other machines: rgpu slurm setup --undo takes these lines out.\n"
                "Name=rgpu Count=1024 Flags=CountOnly\n");
    expect_text(after(plan, "plugstack.conf"),
                "# rgpu, GPUs of other machines: rgpu slurm setup --undo takes these lines out.\n"
                "required /lib/spank_rgpu.so rundir=/run/rgpu\n");
    cr_expect(plan.lines[0].line == 2 && plan.lines[1].line == 5 && plan.lines[1].old.empty() &&
              plan.lines[1].why == "What is sold.");
    for (const ChangedFile &file : plan.files)
        cr_expect(*taken_back(file, file.after) == file.before);
}

Test(plan, has_nothing_to_do_where_all_is_there)
{
    cr_expect(planned(whole()).lines.empty() && planned(whole()).files.empty());
    // What it writes is all that it wants.
    Plan first = planned("NodeName=cn1\n");
    cr_expect(planned(after(first)).lines.empty());
}

Test(plan, appends_to_lists)
{
    expect("GresTypes", "GresTypes=gpu,mps", "GresTypes=gpu,mps,rgpu");
    expect("GresTypes", "grestypes = gpu   # of ours", "grestypes = gpu,rgpu   # of ours");
    expect("GresTypes", "GresTypes=\"gpu\"", "GresTypes=\"gpu,rgpu\"");
    expect("GresTypes", "GresTypes=gpu,\\\nmps", "GresTypes=gpu,\\\nmps,rgpu");
    expect("GresTypes", "GresTypes=rgpu,gpu", "");
    expect("GresTypes", "GresTypes=xrgpu", "GresTypes=xrgpu,rgpu");
    expect("SchedulerParameters", "SchedulerParameters=bf_interval=1",
           "SchedulerParameters=bf_interval=1,bf_licenses");
    expect("PluginDir", "PluginDir=/opt/slurm", "PluginDir=/opt/slurm:/usr/lib/ours");
}

Test(plan, the_last_of_repeated_lines_counts)
{
    expect("GresTypes", "GresTypes=rgpu\nGresTypes=rgpu", "");
    Plan plan = planned(whole("GresTypes", "GresTypes=rgpu\nGresTypes=gpu"));
    cr_assert_eq(plan.lines.size(), 1);
    cr_expect(plan.lines[0].old == "GresTypes=gpu" && plan.lines[0].now == "GresTypes=gpu,rgpu" &&
              plan.lines[0].line == 3);
}

Test(plan, comes_last_among_job_submit_plugins)
{
    expect("JobSubmitPlugins", "JobSubmitPlugins=lua", "JobSubmitPlugins=lua,rgpu");
    expect("JobSubmitPlugins", "JobSubmitPlugins=rgpu,lua,x", "JobSubmitPlugins=lua,x,rgpu");
    expect("JobSubmitPlugins", "JobSubmitPlugins=lua,job_submit/rgpu", "");
}

Test(plan, sells_what_it_is_told)
{
    expect("Licenses", "Licenses=matlab:10", "Licenses=matlab:10,rgpu:400");
    expect("Licenses", "Licenses=rgpu:200,matlab:1", "Licenses=matlab:1,rgpu:400");
    expect("Licenses", "Licenses=rgpu:200", "", {{}, {}, {}});
    Plan unknown = planned(whole("Licenses", "Licenses=matlab:10"), {{}, {}, {}});
    cr_assert_eq(unknown.obstacles.size(), 1);
    cr_expect(unknown.obstacles[0].cure.find("--licences 400") != std::string::npos);
}

Test(plan, knows_flags_that_imply_others)
{
    expect("PrologFlags", "PrologFlags=Contain", "");
    expect("PrologFlags", "PrologFlags=x11", "");
    expect("PrologFlags", "PrologFlags=Serial", "PrologFlags=Serial,Alloc");
}

Test(plan, gives_nodes_their_gres)
{
    expect("NodeName", "NodeName=cn1 CPUs=4 # big", "NodeName=cn1 CPUs=4 Gres=rgpu:1024 # big");
    expect("NodeName", "NodeName=cn1 Gres=gpu:2 CPUs=4",
           "NodeName=cn1 Gres=gpu:2,rgpu:1024 CPUs=4");
    expect("NodeName", "NodeName=cn1 Gres=rgpu:h100:8", "");
    expect("NodeName", "NodeName=cn1 \\\n  CPUs=4", "NodeName=cn1 \\\n  CPUs=4 Gres=rgpu:1024");
    expect("NodeName", "NodeName=cn1 Gres=gpu:1",
           "NodeName=cn1 Gres=gpu:1,rgpu:h100:1024,rgpu:a100:1024", {{}, {}, {"h100", "a100"}});
}

Test(plan, adds_to_the_gres_that_nodes_inherit)
{
    Plan plan =
        planned(whole("NodeName", "NodeName=DEFAULT Gres=gpu:2\nNodeName=cn1\nNodeName=cn2 "
                                  "Gres=mps:1\nNodeName=DEFAULT Gres=rgpu:8\nNodeName=cn3"));
    cr_assert_eq(plan.lines.size(), 2);
    cr_expect(plan.lines[0].now == "NodeName=cn1 Gres=gpu:2,rgpu:1024");
    cr_expect(plan.lines[1].now == "NodeName=cn2 Gres=mps:1,rgpu:1024");
}

Test(plan, leaves_other_nodes_alone)
{
    std::string nodes = "NodeName=cn[1-2]\nNodeName=cn3\nNodeName=gpu1";
    Plan some = planned(whole("NodeName", nodes), {400, {"cn1", "cn2", "gpu1"}, {}});
    cr_assert(some.obstacles.empty());
    cr_assert_eq(some.lines.size(), 2);
    cr_expect(some.lines[0].now == "NodeName=cn[1-2] Gres=rgpu:1024" &&
              some.lines[1].now == "NodeName=gpu1 Gres=rgpu:1024");
    Plan part = planned(whole("NodeName", nodes), {400, {"cn1", "cn9"}, {}});
    cr_assert_eq(part.obstacles.size(), 2);
    cr_expect(part.obstacles[0].cure == "make two lines of it");
    cr_expect(part.obstacles[1].found.find("cn9") != std::string::npos);
}

Test(plan, types_are_in_gres_conf_too)
{
    Plan plan = planned(whole("NodeName", "NodeName=cn1 Gres=rgpu:h100:8,rgpu:a100:8"),
                        {400, {}, {}}, "Name=gpu File=/dev/nvidia0\n");
    expect_text(after(plan, "gres.conf"),
                "Name=gpu File=/dev/nvidia0\n"
                "\n"
                "# rgpu, GPUs of other machines: rgpu slurm setup --undo takes these lines out.\n"
                "Name=rgpu Type=h100 Count=1024 Flags=CountOnly\n"
                "Name=rgpu Type=a100 Count=1024 Flags=CountOnly\n");
    cr_expect(planned(whole(), {400, {}, {}}, "NodeName=cn1 Name=rgpu Count=8\n").lines.empty());
}

Test(plan, refuses_types_where_nodes_have_none)
{
    const std::string nodes = "NodeName=cn1 Gres=rgpu:1024\nNodeName=cn2 Gres=rgpu:a100:8\n";
    Plan plan = planned(whole("NodeName", nodes), {400, {}, {"a100"}});
    cr_assert_eq(plan.obstacles.size(), 1);
    cr_expect(plan.obstacles[0].found.find(" has Gres=rgpu:1024 already, without all types") !=
              std::string::npos);
    cr_expect(plan.obstacles[0].cure.find("Gres=rgpu:a100:1024 there") != std::string::npos);
    cr_expect(planned(whole("NodeName", nodes), {400, {}, {}}).obstacles.empty());
}

Test(plan, refuses_where_another_script_is)
{
    Plan plan = planned(whole("PrologSlurmctld", "PrologSlurmctld=/bin/false"));
    cr_assert_eq(plan.obstacles.size(), 1);
    cr_expect(plan.obstacles[0].of == "PrologSlurmctld" &&
              plan.obstacles[0].found ==
                  "slurm.conf:5 has /bin/false already, and Slurm takes one");
    cr_expect(plan.obstacles[0].cure.find("exec /bin/true") != std::string::npos);
    expect("PrologSlurmctld", "PrologSlurmctld=/bin/tru[e]", "");
}

Test(plan, writes_how_nodes_are_selected_where_slurm_has_a_worse_default)
{
    Wishes old = {400, {}, {}};
    old.linear_by_default = true;
    Plan plan = planned(whole(), old);
    cr_assert_eq(plan.lines.size(), 1);
    cr_expect(plan.lines[0].now == "SelectType=select/cons_tres" && plan.lines[0].restart);
    cr_expect(plan.obstacles.empty() && forgets_jobs(plan));
    cr_expect(planned(whole()).lines.empty(), "a newer Slurm has this default");
    cr_expect_not(forgets_jobs(planned("")), "... and forgets nothing");
    for (const char *good : {"SelectType=select/cons_tres\n", "selecttype=select/cons_res\n"})
        for (const Wishes &wishes : {old, Wishes{400, {}, {}}})
            cr_expect(planned(good + whole(), wishes).lines.empty(), "%s", good);
    for (const char *bad : {"SelectType=select/linear\n", "SELECTTYPE=Linear\n"})
        for (const Wishes &wishes : {old, Wishes{400, {}, {}}}) {
            Plan refused = planned(bad + whole(), wishes);
            cr_assert_eq(refused.obstacles.size(), 1, "%s", bad);
            cr_expect(refused.obstacles[0].of == "SelectType");
            cr_expect(refused.obstacles[0].cure.find("forgets") != std::string::npos);
            cr_expect(refused.lines.empty());
        }
}

Test(plan, what_depends_on_the_site)
{
    expect("SchedulerParameters", "SchedulerType=sched/builtin", "");
}

Test(plan, accounts_where_a_slurmdbd_is)
{
    Plan plan = planned(whole() + "AccountingStorageType=accounting_storage/"
                                  "slurmdbd\nAccountingStorageTRES=gres/gpu,license/rgpu\n");
    cr_assert_eq(plan.lines.size(), 1);
    cr_expect(plan.lines[0].now == "AccountingStorageTRES=gres/gpu,license/rgpu,gres/rgpu");
}

Test(plan, fits_into_odd_files)
{
    struct {
        const char *before, *after;
    } cases[] = {
        {"SchedulerParameters=bf_licenses",
         "SchedulerParameters=bf_licenses\n\n#\nGresTypes=rgpu\n"},
        {"A=1\r\n", "A=1\r\n\r\n#\r\nGresTypes=rgpu\r\n"},
        {"A=1 \\", "A=1 \\\n\n\n#\nGresTypes=rgpu\n"},
        {"A=1 \\\n", "A=1 \\\n\n\n#\nGresTypes=rgpu\n"},
        {"", "#\nGresTypes=rgpu\n"},
    };
    for (const auto &c : cases) {
        Site site{conf_of("slurm.conf", c.before),
                  conf_of("gres.conf", "Name=rgpu\n"),
                  {},
                  "required spank_rgpu.so"};
        OwnLines lines = own();
        std::erase_if(lines.slurm, [](const OwnLine &line) {
            return line.entry.settings[0].key != "GresTypes";
        });
        Plan plan = plan_setup(site, lines, {400, {}, {}});
        std::string got = after(plan);
        size_t marker = got.find("# rgpu, ");
        cr_assert(marker != got.npos);
        got.erase(marker + 1, got.find_first_of("\r\n", marker) - marker - 1);
        cr_expect(got == c.after, "«%s» became «%s»", c.before, got.c_str());
        cr_expect(conf_of("", after(plan)).value("GresTypes") == "rgpu", "«%s»", c.before);
        cr_expect(*taken_back(plan.files[0], plan.files[0].after) == c.before);
    }
}

Test(plan, types_are_sold_beside_the_sum)
{
    Wishes wishes{400, {}, {"a100", "h100"}, {{"a100", 200}, {"h100", 200}}};
    auto line = [&](const std::string &there, const char *wanted) {
        std::string text = after(planned(there, wishes));
        cr_expect(text.find(wanted) != std::string::npos, "%s", text.c_str());
    };
    line("Licenses=matlab:1\n", "Licenses=matlab:1,rgpu:400,rgpu_a100:200,rgpu_h100:200\n");
    wishes.licences.reset();
    line("Licenses=rgpu:300\n", "Licenses=rgpu:300,rgpu_a100:200,rgpu_h100:200\n");
    line("Licenses=rgpu:300,rgpu_a100:100\n", "Licenses=rgpu:300,rgpu_a100:100,rgpu_h100:200\n");
    line("AccountingStorageType=accounting_storage/slurmdbd\n"
         "AccountingStorageTRES=license/rgpu\n",
         "AccountingStorageTRES=license/rgpu,gres/rgpu,license/rgpu_a100,license/rgpu_h100\n");
    wishes = {};
    std::string text = after(planned("Licenses=rgpu:300,rgpu_a100:100\nGresTypes=rgpu\n", wishes));
    cr_expect(text.find("\nLicenses=") == std::string::npos && text.find("_h100") == text.npos,
              "without types nothing is added");
}
