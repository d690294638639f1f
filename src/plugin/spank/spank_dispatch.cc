// SPDX-License-Identifier: Apache-2.0
// spank_rgpu.so: which code runs in which of Slurm's processes, and nothing else.
#include "plugin/guard.h"
#include "plugin/spank/options.h"
#include "plugin/spank/remote.h"
#include "plugin/spank/shell.h"

using namespace rgpu::plugin;

#pragma GCC visibility push(default)
extern "C" {

extern const char plugin_name[] = "rgpu";
extern const char plugin_type[] = "spank";
extern const unsigned int plugin_version = SLURM_VERSION_NUMBER;
extern const unsigned int spank_plugin_version = 1;

int slurm_spank_init(spank_t spank, int, char **)
{
    return guard("init", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_LOCAL:
        case S_CTX_ALLOCATOR:
        case S_CTX_REMOTE: return register_options(spank);
        default: return ESPANK_SUCCESS;
        }
    });
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
    return guard("init_post_opt", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_REMOTE: return remote_post_opt(spank, count, arguments);
        case S_CTX_LOCAL: return shell_post_opt(spank, true);
        case S_CTX_ALLOCATOR: return shell_post_opt(spank, false);
        default: return ESPANK_SUCCESS;
        }
    });
}

int slurm_spank_local_user_init(spank_t spank, int, char **)
{
    return guard("local_user_init", ESPANK_ERROR, [&] { return shell_user_init(spank); });
}

int slurm_spank_user_init(spank_t spank, int count, char **arguments)
{
    return guard("user_init", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_REMOTE: return remote_user_init(spank, count, arguments);
        default: return ESPANK_SUCCESS;
        }
    });
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char **arguments)
{
    return guard("task_init_privileged", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_REMOTE: return remote_task_privileged(spank, count, arguments);
        default: return ESPANK_SUCCESS;
        }
    });
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
    return guard("task_init", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_REMOTE: return remote_task_init(spank, count, arguments);
        default: return ESPANK_SUCCESS;
        }
    });
}

int slurm_spank_exit(spank_t, int, char **)
{
    return guard("exit", ESPANK_ERROR, [&]() -> int {
        switch (spank_context()) {
        case S_CTX_REMOTE: return remote_exit();
        default: return ESPANK_SUCCESS;
        }
    });
}
}
