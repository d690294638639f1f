// SPDX-License-Identifier: Apache-2.0
// Registers the options and checks their values; their effect is in job_submit and the prolog.
#include "plugin/spank/options.h"

#include "plugin/guard.h"
#include "slurm/terms/filters.h"
#include "slurm/terms/request.h"

namespace rgpu::plugin {
namespace {

template <class Value> int check(const Result<Value> &value)
{
    if (value) return ESPANK_SUCCESS;
    slurm_error("rgpu: %s", value.error().text.c_str());
    return ESPANK_BAD_ARG;
}

JobOptions typed;

// Keeps an option of the whole job as it was typed. SPANK hands its value over again on the node
// (remote), where it was checked before.
template <class Parse> int take(const char *name, const char *value, int remote, Parse &&parse)
{
    return guard(name, ESPANK_ERROR, [&]() -> int {
        if (remote) return ESPANK_SUCCESS;
        const std::string text = value ? value : "";
        if (int rc = check(parse(text)); rc != ESPANK_SUCCESS) return rc;
        typed[name] = text;
        return ESPANK_SUCCESS;
    });
}

int take_share(int, const char *value, int remote)
{
    return take("rgpu-share", value, remote, slurm::parse_share);
}

int take_memory(int, const char *value, int remote)
{
    return take("rgpu-mem", value, remote, slurm::parse_memory);
}

int take_span(int, const char *, int remote)
{
    return take(slurm::kSpanOption, nullptr, remote,
                [](std::string_view) { return Result<void>(); });
}

// `row` is the option's place among filter_options().
int take_filter(int row, const char *value, int remote)
{
    const slurm::FilterOption &option = slurm::filter_options()[static_cast<size_t>(row)];
    return take(option.name, value, remote, [&](std::string_view text) {
        slurm::Filters filters;
        return slurm::add_filter(option, text, filters);
    });
}

StepOptions step;

// Keeps the value: this is its step, or the command that starts it.
template <class T> int keep(Result<T> value, T &out)
{
    if (value) out = *value;
    return check(value);
}

int check_bind(int, const char *value, int)
{
    return guard("--rgpu-bind", ESPANK_ERROR,
                 [&] { return keep(parse_bind(value ? value : ""), step.bind); });
}

int check_per_step(int, const char *value, int)
{
    return guard("--rgpus-per-step", ESPANK_ERROR,
                 [&] { return keep(parse_per_step(value ? value : ""), step.per_step); });
}

int note_no_devices(int, const char *, int)
{
    step.no_devices = true;
    return ESPANK_SUCCESS;
}

// SPANK's table wants char *, and writes to none of them.
spank_option option(const char *name, const char *argument, const char *help, int value,
                    spank_opt_cb_f check)
{
    return {const_cast<char *>(name),
            const_cast<char *>(argument),
            const_cast<char *>(help),
            argument != nullptr,
            value,
            check};
}

int register_one(spank_t spank, spank_option option)
{
    spank_err_t rc = spank_option_register(spank, &option);
    if (rc != ESPANK_SUCCESS)
        slurm_error("rgpu: option --%s cannot be registered: %s", option.name, spank_strerror(rc));
    return rc;
}

}  // namespace

const JobOptions &typed_job_options() { return typed; }

const StepOptions &step_options() { return step; }

int register_options(spank_t spank)
{
    int rc = register_one(
        spank,
        option("rgpu-share", "PCT[-PCT]",
               "[rgpu] percent of each GPU's time: guaranteed, or guaranteed-most", 0, take_share));
    if (rc == ESPANK_SUCCESS)
        rc = register_one(spank, option("rgpu-mem", "SIZE",
                                        "[rgpu] memory on each GPU, with its unit: 512M, 8G", 0,
                                        take_memory));
    if (rc == ESPANK_SUCCESS)
        rc = register_one(spank,
                          option("rgpu-bind", "HOW",
                                 "[rgpu] GPUs of each task: none (all), single:N, map:0,1, closest",
                                 0, check_bind));
    if (rc == ESPANK_SUCCESS)
        rc = register_one(spank,
                          option("rgpus-per-step", "N",
                                 "[rgpu] GPUs on each node that no other step with this option has",
                                 0, check_per_step));
    if (rc == ESPANK_SUCCESS)
        rc = register_one(
            spank, option(slurm::kSpanOption, nullptr,
                          "[rgpu] Allow GPUs of several servers where no single server has enough",
                          0, take_span));
    if (rc == ESPANK_SUCCESS)
        rc = register_one(
            spank, option("rgpu-no-devices", nullptr,
                          "[rgpu] no device files of the GPUs: for rootless containers in the job",
                          0, note_no_devices));
    auto filters = slurm::filter_options();
    for (size_t row = 0; row < filters.size() && rc == ESPANK_SUCCESS; ++row)
        rc = register_one(spank, option(filters[row].name, filters[row].argument, filters[row].help,
                                        static_cast<int>(row), take_filter));
    return rc;
}

}  // namespace rgpu::plugin
