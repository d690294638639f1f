// SPDX-License-Identifier: Apache-2.0
// Where a job's files lie on its node.
#include <criterion/criterion.h>

#include "slurm/terms/paths.h"

using namespace rgpu::slurm;

Test(paths, lease_files_lie_apart_by_job_and_by_node_where_asked)
{
    cr_expect(lease_path("/run/rgpu", "cn1", "17") == "/run/rgpu/17/lease.json");
    cr_expect(lease_path("/x/%n/r", "cn1", "17") == "/x/cn1/r/17/lease.json");
    cr_expect(lease_path("/x/%n", "a%nb", "17") == "/x/a%nb/17/lease.json");
    cr_expect(error_path("/run/rgpu/17/lease.json") == "/run/rgpu/17/error");
}
