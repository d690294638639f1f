// SPDX-License-Identifier: Apache-2.0
// What rgpu slurm preempt reads of squeue and sacctmgr.
#include "slurm/quotas/books.h"

#include <criterion/criterion.h>

using namespace rgpu::slurm;

Test(books, read_what_squeue_prints)
{
    auto queue = parse_queue(
        "7|7_[3-5]|PENDING|Licenses|b|2026-11-23T01:17:00|1000000|1|1|ann|phys|all|rgpu:100,matlab:"
        "2|"
        "mine | rgpu: a|b\x1f\n"
        "8|8|RUNNING|None|a|2026-11-22T01:17:21|1|1|1|ann|phys|all|(null)|\x1f\n"
        "9|7_2|RUNNING|None|spare|2026-11-22T01:17:21|4294901757|1|0|ann|phys|a,b|"
        "matlab:1,rgpu:50,rgpu_a100:50|(null)\x1f\n"
        "11|10+1|RUNNING|None|spare|2026-11-22T01:17:21|1|0|1|ann|phys|all|rgpu:50|\x1f\n\n|||\n");
    cr_assert_eq(queue.size(), 3u, "the one without GPUs is left out");
    cr_expect_str_eq(queue[1].name.c_str(), "7_2",
                     "Slurm means the whole array by the number of one of its tasks");
    cr_expect_str_eq(queue[2].name.c_str(), "10", "a heterogeneous job is requeued by its leader");
    cr_expect(queue[2].het && !queue[0].het);
    cr_expect(queue[0].requeues && !queue[1].requeues && !queue[2].requeues);
    cr_expect_eq(queue[0].licences, 100u);
    cr_expect_eq(queue[0].reason, "Licenses");
    cr_expect(queue[0].user == "ann" && queue[0].account == "phys" && queue[0].partition == "all");
    cr_expect_str_eq(queue[0].comment.c_str(), "mine | rgpu: a|b");
    cr_expect(queue[1].comment.empty());
    cr_expect_eq(queue[1].qos, "spare");
    cr_expect_eq(queue[1].priority, 4294901757u);
    cr_expect_eq(queue[1].start, "2026-11-22T01:17:21");
    cr_expect_eq(queue[1].types["a100"], 50u);
    for (const char *none :
         {"", "\n", "slurm_load_jobs error: Unable to contact slurm controller\n"})
        cr_expect(parse_queue(none).empty());
}

Test(books, tasks_of_one_record_are_one)
{
    std::string printed;
    for (const char *task :
         {"7|7_3|PENDING", "7|7_4|PENDING", "9|7_1|PENDING", "7|7_12|PENDING", "8|7_2|RUNNING"})
        printed += std::string(task) + "|None|b|N/A|1|1|1|ann|phys|all|rgpu:100|\x1f\n";
    auto queue = parse_queue(printed);
    cr_assert_eq(queue.size(), 3u);
    cr_expect_str_eq(queue[0].name.c_str(), "7_[3,4,12]");
    cr_expect_str_eq(queue[1].name.c_str(), "7_1");
    cr_expect_str_eq(queue[2].name.c_str(), "7_2");
}

Test(books, read_what_sacctmgr_prints)
{
    auto qos = parse_qos("normal|0||\nspare|1||cpu=4\n"
                         "a|100|spare,scratch|cpu=8,license/rgpu=250,license/rgpu_a100=50\n");
    cr_assert_eq(qos.size(), 3u);
    cr_expect_not(qos[1].guarantee.has_value());
    cr_expect_eq(qos[2].priority, 100u);
    cr_expect_eq(qos[2].preempts, (std::vector<std::string>{"spare", "scratch"}));
    cr_expect_eq(qos[2].guarantee.value_or(0), 250u);
    cr_expect_eq(qos[2].of_types.at("a100"), 50u);
}
