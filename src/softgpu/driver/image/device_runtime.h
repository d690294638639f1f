// SPDX-License-Identifier: Apache-2.0
// What libcudadevrt.a has for kernels, as far as it is written here: that library's own PTX is for
// newer devices than most claim to be. Given to every link that a library takes part in; weak, so
// that the library's own wins.
#pragma once

namespace rgpu::softgpu::driver {

// Cooperative groups by calls, as numba makes them (nvcc's headers have the barrier inline). The
// grid's workspace and its barrier, the second word, are those of cooperative_groups' driver_abi.h.
inline constexpr char kDeviceRuntime[] = R"(
.version 7.0
.target sm_70
.address_size 64

// The workspace's address is the handle: there is one kind of group.
.weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    mov.u32 %r1, %envreg1;
    mov.u32 %r2, %envreg2;
    mov.b64 %rd1, {%r2, %r1};
    st.param.b64 [handle], %rd1;
    ret;
}

// Block 0 adds what the others leave to the highest bit: it changes when all have come.
.weak .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .b32 %r<20>;
    .reg .b64 %rd<2>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [handle];
    mov.u32 %r1, 1;
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra DONE;
    barrier.sync 0;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, %tid.z;
    or.b32 %r2, %r2, %r3;
    or.b32 %r2, %r2, %r4;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra TOGETHER;
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r6, %ctaid.y;
    mov.u32 %r7, %ctaid.z;
    or.b32 %r5, %r5, %r6;
    or.b32 %r5, %r5, %r7;
    mov.u32 %r8, %nctaid.x;
    mov.u32 %r9, %nctaid.y;
    mov.u32 %r10, %nctaid.z;
    mul.lo.u32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, %r10;
    sub.u32 %r11, -2147483647, %r8;
    setp.eq.u32 %p2, %r5, 0;
    selp.b32 %r12, %r11, 1, %p2;
    fence.acq_rel.gpu;
    atom.global.add.u32 %r13, [%rd1+4], %r12;
WAIT:
    ld.volatile.global.u32 %r14, [%rd1+4];
    xor.b32 %r15, %r14, %r13;
    setp.ge.s32 %p3, %r15, 0;
    @%p3 bra WAIT;
    fence.acq_rel.gpu;
TOGETHER:
    barrier.sync 0;
    mov.u32 %r1, 0;
DONE:
    st.param.b32 [result], %r1;
    ret;
}
)";

}  // namespace rgpu::softgpu::driver
