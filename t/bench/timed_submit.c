// SPDX-License-Identifier: Apache-2.0
// For slurm.bench: a job_submit plugin that calls rgpu's and notes how long each call took.
//
// RGPU_TIMED_PLUGIN is the plugin, RGPU_TIMED_NOTES the file: a line for each call, in nanoseconds.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <slurm/slurm.h>

const char plugin_name[] = "times rgpu's job_submit";
const char plugin_type[] = "job_submit/timed";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

static void *real;
static FILE *notes;

int init(void)
{
    real = dlopen(getenv("RGPU_TIMED_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    notes = fopen(getenv("RGPU_TIMED_NOTES"), "a");
    if (!real || !notes) return SLURM_ERROR;
    int (*begin)(void) = (int (*)(void))dlsym(real, "init");
    return begin ? begin() : SLURM_SUCCESS;
}

int job_submit(job_desc_msg_t *job, uint32_t uid, char **message)
{
    int (*theirs)(job_desc_msg_t *, uint32_t, char **) =
        (int (*)(job_desc_msg_t *, uint32_t, char **))dlsym(real, "job_submit");
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int rc = theirs(job, uid, message);
    clock_gettime(CLOCK_MONOTONIC, &after);
    fprintf(notes, "%ld\n",
            (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec);
    fflush(notes);
    return rc;
}

int job_modify(job_desc_msg_t *job, void *record, uint32_t uid)
{
    int (*theirs)(job_desc_msg_t *, void *, uint32_t) =
        (int (*)(job_desc_msg_t *, void *, uint32_t))dlsym(real, "job_modify");
    return theirs(job, record, uid);
}
