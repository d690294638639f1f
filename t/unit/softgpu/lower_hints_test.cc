// SPDX-License-Identifier: Apache-2.0
// Instructions that are hints, or whose answer is always the same on this device: the value that
// they stand beside is not touched.
#include "lower_support.h"

using namespace lower_test;

#define OP(text, ...) \
    { \
        text, EXPECT_OF(__VA_ARGS__) \
    }

// %in5 is the address of the inputs in global memory (lower_support.h).
Test(lower_hints, what_only_hints_changes_nothing)
{
    check("u64 u64 u64",
          {
              OP("prefetch.global.L1 [%in5]; prefetch.global.L2 [%in5+8]; prefetch.L2 [%in5]; "
                 "prefetchu.L1 [%in5]; mov.u64 %d, %a;",
                 a),
              OP("prefetch.global.L2::evict_last [%in5]; prefetch.global.L2::evict_normal [%in5]; "
                 "mov.u64 %d, %a;",
                 a),
              OP("applypriority.global.L2::evict_normal [%in5], 128; mov.u64 %d, %b;", b),
              OP("{ .reg .b64 p, q; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 "
                 "p, 0.5; createpolicy.fractional.L2::evict_first.b64 q;"
                 "ld.global.L2::cache_hint.u64 %d, [%in5], p; }",
                 a),
              // Memory that may be given up keeps what it holds here, and takes what is written
              // behind that.
              OP("discard.global.L2 [%in5], 128; ld.global.u64 %d, [%in5];", a),
              OP("discard.L2 [%in5], 128; ld.u64 %d, [%in5+8];", b),
              OP("{ .reg .b64 x; discard.global.L2 [%in5], 128; st.global.u64 [%in5], %b; "
                 "ld.global.u64 x, [%in5]; st.global.u64 [%in5], %a; xor.b64 %d, x, %a; }",
                 a ^ b),
              // Without a debugger a thread goes on, whether all of the warp stop there or some.
              OP("brkpt; mov.u64 %d, %b;", b),
              OP("{ .reg .pred p; setp.gt.u64 p, %a, %b; @p brkpt; @!p brkpt; selp.u64 %d, %a, %b, "
                 "p; }",
                 a > b ? a : b),
              OP("ldu.global.u64 %d, [%in5+8];", b),
              OP("{ .reg .b64 x, y; ldu.global.v2.u64 {x, y}, [%in5]; xor.b64 %d, x, y; }", a ^ b),
              OP("pmevent 3; pmevent.mask 5; griddepcontrol.wait; "
                 "griddepcontrol.launch_dependents; mov.u64 %d, %a;",
                 a),
              OP("nanosleep.u32 1; setmaxnreg.inc.sync.aligned.u32 64; "
                 "setmaxnreg.dec.sync.aligned.u32 32; mov.u64 %d, %a;",
                 a),
              OP("{ .local .align 8 .b8 room[128]; .reg .b64 at; mov.u64 at, room; "
                 "prefetch.local.L1 [at]; st.local.u64 [at], %a; ld.local.u64 %d, [at]; }",
                 a),
          });
}

// A cluster has one block, whose rank is 0.
Test(lower_hints, a_cluster_of_one)
{
    check("u64 u64 u64",
          {
              OP("{ .shared .align 8 .b64 room; .reg .b64 at; .reg .b32 rank; cvta.shared.u64 at, "
                 "room; mapa.u64 at, at, 0; getctarank.u64 rank, at; cvt.u64.u32 %d, rank; }",
                 0),
              OP("{ .shared .align 8 .b64 room; .reg .b32 at, rank; mov.u32 at, room; "
                 "mapa.shared::cluster.u32 at, at, 0; getctarank.shared::cluster.u32 rank, at;"
                 "cvt.u64.u32 %d, rank; }",
                 0),
              OP("{ .reg .b32 x, y; mov.u32 x, %cluster_ctarank; mov.u32 y, %cluster_nctarank; "
                 "shl.b32 x, x, 8; or.b32 x, x, y; cvt.u64.u32 %d, x; }",
                 1),
              OP("{ .reg .pred p; .shared .align 8 .b64 room; .reg .b64 at; cvta.shared.u64 at, "
                 "room; isspacep.shared::cluster p, at; selp.u64 %d, 1, 0, p; }",
                 1),
              OP("{ .reg .pred p; isspacep.shared p, %in5; selp.u64 %d, 1, 0, p; }", 0),
              OP("{ .reg .pred p; isspacep.global p, %in5; selp.u64 %d, 1, 0, p; }", 1),
          });
}
