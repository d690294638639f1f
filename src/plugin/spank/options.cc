// Registers the options and checks their values; their effect is in job_submit and the prolog.
#include "plugin/spank/options.h"

#include "plugin/guard.h"
#include "plugin/request.h"

namespace rgpu::plugin {
namespace {

template <class Value> int check(const Result<Value> &value)
{
    if (value)
        return ESPANK_SUCCESS;
    slurm_error("rgpu: %s", value.error().text.c_str());
    return ESPANK_BAD_ARG;
}

// SPANK hands a value over again on the node (remote), where it was checked before.
int check_share(int, const char *value, int remote)
{
    return guard("--rgpu-share", ESPANK_ERROR,
                 [&] { return remote ? int(ESPANK_SUCCESS) : check(parse_share(value ? value : "")); });
}

int check_memory(int, const char *value, int remote)
{
    return guard("--rgpu-mem", ESPANK_ERROR,
                 [&] { return remote ? int(ESPANK_SUCCESS) : check(parse_memory(value ? value : "")); });
}

// SPANK's table wants char *, and writes to none of them.
spank_option options[] = {
    {const_cast<char *>("rgpu-share"), const_cast<char *>("PCT[-PCT]"),
     const_cast<char *>("[rgpu] percent of each GPU's time: guaranteed, or guaranteed-most"), 1, 0, check_share},
    {const_cast<char *>("rgpu-mem"), const_cast<char *>("SIZE"),
     const_cast<char *>("[rgpu] memory on each GPU, with its unit: 512M, 8G"), 1, 0, check_memory},
};

}  // namespace

int register_options(spank_t spank)
{
    for (spank_option &option : options) {
        if (spank_err_t rc = spank_option_register(spank, &option); rc != ESPANK_SUCCESS) {
            slurm_error("rgpu: option --%s cannot be registered: %s", option.name, spank_strerror(rc));
            return rc;
        }
    }
    return ESPANK_SUCCESS;
}

}  // namespace rgpu::plugin
