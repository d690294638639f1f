// SPDX-License-Identifier: Apache-2.0
// What of nodes is read from what Slurm prints.
#include <criterion/criterion.h>

#include "slurm/terms/nodes.h"

using namespace rgpu::slurm;

Test(nodes, those_with_gpus_of_their_own_are_found)
{
    cr_expect(!names_node_gpus("rgpu:1024\n"));
    cr_expect(!names_node_gpus("(null)\nrgpu:gpu:8,mygpu:1\n"), "a type, and another GRES");
    cr_expect(names_node_gpus("rgpu:1024\ngpu:a100:2(S:0),rgpu:1024\n"));
    cr_expect(names_node_gpus("gpu(S:0)"));
    cr_expect(!names_node_gpus(""));
}
