// SPDX-License-Identifier: Apache-2.0
// What rgpu slurm setup would change in a site's configuration, and what stands in its way.
//
// rgpu's own lines, with the reasons for them, are those of etc/ as `make install` has filled them
// in; here is only how each of them goes together with what a site has.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slurm/conf/changes.h"
#include "slurm/conf/conf.h"

namespace rgpu::slurm {

// A line of rgpu's own.
struct OwnLine {
    ConfEntry entry;   // no settings for plugstack.conf
    std::string text;  // as it is written
    std::string why;   // the first sentence of the comment above it
};

struct OwnLines {
    std::vector<OwnLine> slurm;  // those behind a # too: they depend on the site
    OwnLine gres, plugstack;

    // The value of a line of slurm.conf; empty where there is none.
    std::string value(std::string_view key) const;
};

// The lines of such a file; `commented`: also what follows a # without a space.
std::vector<OwnLine> parse_own(std::string_view text, bool commented);
// slurm.conf, gres.conf and plugstack.conf.d/rgpu.conf of this folder.
Result<OwnLines> read_own_lines(const std::string &folder);

struct Site {
    Conf slurm, gres;
    ConfFile plugstack;
    std::string
        spank;  // the line of plugstack.conf, or of what it includes, that names spank_rgpu.so
};
// gres.conf lies beside slurm.conf, and plugstack.conf, too, unless slurm.conf says otherwise.
Result<Site> read_site(const std::string &slurm_conf);

struct Wishes {
    std::optional<unsigned long>
        licences;  // how many rgpu: Slurm is to sell; nothing leaves a number that is there
    std::vector<std::string> nodes;  // those that may use the pool; empty: all
    std::vector<std::string> types;  // of GPUs, that --gres=rgpu:TYPE:N can name
    // How many rgpu_TYPE: Slurm is to sell; with `licences` also in the place of a number that is
    // there.
    std::map<std::string, unsigned long> type_licences = {};
    bool linear_by_default = false;  // Slurm selects nodes by select/linear unless told otherwise
};

// Something that only a person can decide.
struct Obstacle {
    std::string of;     // what it is about: "PrologSlurmctld", "job_submit_rgpu.so"
    std::string found;  // a sentence
    std::string cure;   // what to do
};

struct PlannedLine {
    std::string file;
    size_t line = 0;       // where it stands; for a new one, where it will
    std::string old, now;  // nothing of old: it is added
    std::string why;
    bool restart = false;  // scontrol reconfigure does not take it
};

struct Plan {
    std::vector<ChangedFile> files;
    std::vector<PlannedLine> lines;
    std::vector<Obstacle> obstacles;  // nothing may be written
};

Plan plan_setup(const Site &site, const OwnLines &own, const Wishes &wishes);

// Whether the steps of jobs get GRES where Slurm selects nodes in this way (SelectType).
bool gives_steps_gres(std::string_view select_type);

// A number of licences must be known for the plan: slurm.conf sells none yet.
bool needs_licences(const Site &site);

// The plan changes how Slurm selects nodes: it forgets its jobs then.
bool forgets_jobs(const Plan &plan);

// The types that the site's nodes have (Gres=rgpu:TYPE:N).
std::vector<std::string> types_of(const Site &site);

}  // namespace rgpu::slurm
