// SPDX-License-Identifier: Apache-2.0
// What stands for each piece of device memory, and what is given back when it goes.
#include "worker/limits/held_memory.h"

#include <criterion/criterion.h>

using namespace rgpu::worker;

static constexpr CUdeviceptr kBase = 64 * kMemoryPage;

template <class Handle> static Handle handle(uintptr_t n) { return reinterpret_cast<Handle>(n); }

Test(held_memory, small_pieces_share_pages)
{
    LinearMemory linear;
    cr_expect(!linear.has_shared_pages());
    cr_expect_eq(linear.new_pages(kBase, 512), kMemoryPage);
    linear.hold_small(kBase, {0, 512});
    cr_expect_eq(linear.new_pages(kBase + 512, 512), 0);
    linear.hold_small(kBase + 512, {0, 512});
    cr_expect_eq(linear.new_pages(kBase + kMemoryPage - 8, 16), kMemoryPage, "one page is there");
    cr_expect_eq(linear.freed(kBase)->bytes, 0, "its page has another piece");
    cr_expect(!linear.freed(kBase), "it is freed already");
    cr_expect_eq(linear.freed(kBase + 512)->bytes, kMemoryPage);
    cr_expect(!linear.has_shared_pages());
}

Test(held_memory, what_the_driver_does_not_free_stays)
{
    LinearMemory linear;
    linear.hold(kBase, {1, kMemoryPage});
    linear.hold_small(2 * kBase, {0, 512});
    linear.hold_small(2 * kBase + 512, {0, 512});
    for (CUdeviceptr address : {kBase, 2 * kBase + 512})
        linear.stays(address, *linear.freed(address));
    cr_expect_eq(linear.freed(kBase)->device, 1);
    cr_expect_eq(linear.freed(2 * kBase)->bytes, 0, "its page has another piece");
    cr_expect_eq(linear.freed(2 * kBase + 512)->bytes, kMemoryPage);
    cr_expect(!linear.has_shared_pages());
}

Test(held_memory, what_a_device_had_is_forgotten_with_it_alone)
{
    LinearMemory linear;
    linear.hold(kBase, {0, kMemoryPage});
    linear.hold(2 * kBase, {1, kMemoryPage});
    linear.hold_small(3 * kBase, {0, 512});
    linear.forget(0);
    cr_expect(!linear.freed(kBase) && !linear.freed(3 * kBase) && !linear.has_shared_pages());
    cr_expect_eq(linear.freed(2 * kBase)->device, 1);
}

Test(held_memory, what_is_opened_twice_counts_once)
{
    OpenedMemory opened;
    opened.open(kBase, {1, kMemoryPage});
    cr_expect(opened.is_open(kBase));
    opened.open(kBase, {1, 5 * kMemoryPage});
    cr_expect(!opened.closed(kBase));
    cr_expect_eq(opened.closed(kBase)->bytes, kMemoryPage);
    cr_expect(!opened.closed(kBase), "one close too many");
}

Test(held_memory, a_pool_leaves_its_pieces_behind)
{
    HeldPools pools;
    const auto pool = handle<CUmemoryPool>(1);
    pools.add(pool, 1);
    cr_expect_eq(*pools.device_of(pool), 1);
    pools.each(0, [](CUmemoryPool, uint64_t &) { cr_expect(false, "it is the other device's"); });
    pools.each(1, [](CUmemoryPool, uint64_t &counted) { counted = 3 * kMemoryPage; });
    pools.hold(kBase, pool, {1, kMemoryPage});
    const Held gone = pools.destroyed(pool);
    cr_expect(gone.device == 1 && gone.bytes == 2 * kMemoryPage);
    cr_expect(!pools.device_of(pool) && pools.knows(kBase));
    cr_expect_eq(pools.freed(kBase)->second.bytes, kMemoryPage);
    cr_expect(!pools.freed(kBase));
}

Test(held_memory, virtual_memory_lives_as_long_as_a_handle_or_a_mapping)
{
    PhysicalMemory physical;
    physical.made(7, {0, kMemoryPage});
    physical.retained(7);
    physical.mapped(kBase, kMemoryPage, 7);
    cr_expect(!physical.released(7) && !physical.released(7), "it is mapped");
    cr_expect_eq(physical.bytes_on(0), kMemoryPage);
    cr_expect(physical.unmapped(2 * kBase, kMemoryPage).empty());
    const auto given = physical.unmapped(kBase, kMemoryPage);
    cr_assert_eq(given.size(), 1);
    cr_expect_eq(given[0].bytes, kMemoryPage);
    cr_expect_eq(physical.bytes_on(0), 0);
}

Test(held_memory, the_driver_may_keep_what_a_graph_had)
{
    GraphMemory graphs(2, false);
    const auto one = handle<CUgraphExec>(1);
    cr_expect(graphs.is_first_launch(one) && !graphs.is_first_launch(one));
    graphs.set(one, {kMemoryPage, 0});
    graphs.live_more(0, kMemoryPage);
    cr_expect_eq(graphs.holds(0, 0), kMemoryPage, "before its launch, too");
    cr_expect_eq(graphs.ended(one)[0], kMemoryPage);
    graphs.live_less(0, kMemoryPage);
    cr_expect_eq(graphs.holds(0, kMemoryPage), kMemoryPage, "as the driver says");
    cr_expect_eq(graphs.holds(0, 0), 0);
    cr_expect(graphs.is_first_launch(one), "another graph may have its handle");
    cr_expect_eq(graphs.of(one)[0], 0);
}
