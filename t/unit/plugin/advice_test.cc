// SPDX-License-Identifier: Apache-2.0
// What is said of a task's surroundings.
#include <criterion/criterion.h>

#include "plugin/spank/advice.h"

using namespace rgpu;
using namespace rgpu::plugin;

Test(advice, remarks_on_devices_that_the_job_does_not_have)
{
    cr_expect(devices_advice("", 2).empty());
    cr_expect(devices_advice("0,1", 2).empty());
    cr_expect(devices_advice("GPU-1234,MIG-x,-1", 2).empty(), "UUIDs, and none, are no numbers");
    cr_expect(devices_advice("0,2", 2).find("the job has 2 here, 0 to 1") != std::string::npos);
    cr_expect(devices_advice("99999999999999999999", 2).empty(), "what is no number is CUDA's");
}

Test(advice, lists_all_devices)
{
    cr_expect(all_devices(0).empty());
    cr_expect(all_devices(3) == "0,1,2");
}

Test(advice, names_the_library_that_is_not_there)
{
    Settings settings;
    settings.interposer = "/nonexistent";
    cr_expect(interposer_advice(settings).find("/nonexistent/libcuda.so.1: No such file") !=
              std::string::npos);
}

Test(advice, resolves_the_master)
{
    cr_expect(master_advice("").empty());
    cr_expect(master_advice("127.0.0.1").empty());
    cr_expect(master_advice("no-such-host.invalid").find("cannot be resolved") !=
              std::string::npos);
}

Test(advice, names_the_options_that_change_nothing_in_a_step)
{
    cr_expect(step_advice({}, 7).empty());
    cr_expect(step_advice({{"rgpu-share", "5"}}, 7)
                  .starts_with("--rgpu-share=5 changes nothing: job 7 has its GPUs already"));
    cr_expect(step_advice({{"rgpu-span", ""}, {"rgpu-mem", "8G"}}, 7)
                  .starts_with("--rgpu-mem=8G, --rgpu-span change nothing: "));
}

Test(advice, knows_a_step_of_a_named_job_from_its_program)
{
    cr_expect(names_job({"srun", "--jobid=7", "true"}, 1));
    cr_expect(names_job({"srun", "--jobid", "7", "true"}, 1));
    cr_expect(!names_job({"srun", "--job-name=7", "prog", "--jobid=7"}, 2), "its program's");
    cr_expect(!names_job({"srun", "--jobid=7"}, 5), "a program of more words than there are");
}
