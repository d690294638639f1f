// SPDX-License-Identifier: Apache-2.0
// The contract inside softgpu between compiled kernels, the compiler that makes them
// (src/softgpu/ptx, lower, compile) and the engine that runs them (src/softgpu/exec).
//
// A kernel is compiled to a relocatable x86-64 ELF object whose entry is one of
//     void KERNEL(rgpu::softgpu::BlockState *)     kind block: runs every thread of the block
//     itself void KERNEL(rgpu::softgpu::ThreadState *)    kind thread: runs one thread, on a fiber
//     of its own
// It is "block" where no thread ever has to wait for another (no barrier, warp operation,
// or spin loop); the compiler then writes the loop over threads, so that LLVM can vectorise it.
// It is "block", too, where threads wait only at barriers and warp operations of the kernel's own
// body: then it is cut there into segments, and calls rt_run_warps (below).
//
// Undefined symbols of the object are: rt_* functions below, libm functions, and the module's
// global variables by their PTX names with the prefix "g." (device address of the variable),
// all resolved by the engine's loader through a resolver function.
//
// Addresses. Generic, global, const and local addresses are addresses of this process.
// A shared-space address is an offset into the block's shared memory (32 bits are enough);
// cvta.shared adds BlockState::shared, cvta.to.shared subtracts it. Param-space addresses of a
// kernel are BlockState::params + offset.
//
// A function that a kernel calls through its address may lie in an object of its own, which is made
// at the first such call (rt_function). Its entry is
//     bool FUNCTION(rgpu::softgpu::ThreadState *, void *result..., void *argument...)
// and says whether the thread has ended inside. Kernels that make such calls are of kind "thread".
//
// The layouts below are read by generated code: the compiler must use offsetof() on them,
// never literals.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::softgpu {

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
    uint64_t count() const { return uint64_t{x} * y * z; }
};

// What is the same for every thread of a grid. Lives while the grid runs.
struct GridState {
    Dim3 grid;                        // %nctaid
    Dim3 block;                       // %ntid
    const uint8_t *params = nullptr;  // the kernel's parameter block
    uint32_t dynamic_shared = 0;      // %dynamic_smem_size
    uint32_t total_shared = 0;        // static + dynamic
    uint64_t grid_id = 0;             // %gridid
    uint32_t sm_count = 1;            // %nsmid
    void *workspace =
        nullptr;  // cooperative grid workspace or null: %envreg1 = high, %envreg2 = low half
    void *engine = nullptr;  // the engine's own
};

// One block that runs now.
struct BlockState {
    const GridState *grid = nullptr;
    uint8_t *shared = nullptr;  // base of its shared memory
    Dim3 ctaid{0, 0, 0};        // %ctaid
    uint32_t sm_id = 0;         // %smid: the engine thread that runs it
    void *engine = nullptr;     // the engine's own
    // A "block" kernel may store its thread's %tid and a 1 here before it calls rt_assertfail,
    // rt_trap or rt_unknown, so that the report names the thread ("thread" kernels need not).
    uint32_t tid_x = 0, tid_y = 0, tid_z = 0, named = 0;
};

// One thread of a "thread" kernel. Threads are numbered x first; lane = number % 32.
struct ThreadState {
    BlockState *block = nullptr;
    uint32_t tid_x = 0, tid_y = 0, tid_z = 0;  // %tid
    uint32_t lane = 0, warp = 0;               // %laneid, %warpid
    void *engine = nullptr;                    // the engine's own
};

// How a thread votes, shuffles and so on: operand "op" of rt_* below.
enum class Shfl : uint32_t { up, down, bfly, idx };
enum class Vote : uint32_t { all, any, uni, ballot };
enum class Redux : uint32_t { add, min_s, max_s, min_u, max_u, and_, or_, xor_ };
enum class BarRed : uint32_t { popc, and_, or_ };

// What lanes meet for. The first ones are operations of a warp, the others of a block's barriers.
enum class WarpOp : uint32_t {
    sync,
    shfl,
    vote,
    match_any,
    match_all,
    redux,
    elect,
    matrix,
    bar_sync,
    bar_arrive,
    bar_red,
    step,  // none: lanes wait so that others of their warp are not behind
    ended
};

// What each lane of a warp brings to a meeting, and what it takes away. Of a matrix operation b and
// c are the halves of its code.
struct LaneValues {
    uint64_t value[32];  // of a matrix operation: its MatrixLane
    uint32_t b[32], c[32];
    uint32_t result[32], flag[32];
};

// A warp of a kernel that is cut into segments. Behind it lies its frame: what each lane keeps from
// one segment to the next.
struct alignas(64) WarpState {
    BlockState *block = nullptr;
    uint32_t warp = 0;   // %warpid
    uint32_t whole = 0;  // 1: the lanes that a call gets are all that are where its segment begins
    uint32_t next[32];   // where each lane has come to: see waiting_at()
    uint32_t mask[32];   // of the lanes that it meets there
    LaneValues values;   // at barriers b is the number, c the count, value the predicate
};
// A meeting as one number: the operation, its Shfl, Vote, Redux or BarRed, and the segment behind.
// The detail of bar_sync is a sum of these: all threads come to the same barriers; it is barrier 0.
// That of step is 1 where the lane may spin, and others go first.
constexpr uint32_t kLevel = 1, kWholeBlock = 2;
constexpr uint32_t kNoSegment = 0xFFFF;  // behind the end
constexpr uint32_t waiting_at(WarpOp op, uint32_t detail, uint32_t segment)
{
    return segment | static_cast<uint32_t>(op) << 16 | detail << 24;
}

// A matrix operation in one number: D[m][n] = A[m][k] * B[k][n] + C[m][n] and its types; of wmma's
// loads and stores the rows, the columns and one type.
enum class MatrixType : uint8_t { f16, bf16, tf32, f32, f64, s8, u8, s32, e4m3, e5m2 };
constexpr uint64_t matrix_code(unsigned m, unsigned n, unsigned k, MatrixType d, MatrixType a,
                               MatrixType b, MatrixType c)
{
    return m | n << 8 | k << 16 | uint64_t(d) << 32 | uint64_t(a) << 36 | uint64_t(b) << 40 |
           uint64_t(c) << 44;
}

// What a lane brings to a matrix operation and takes away: mma and wmma have its registers of A, B,
// C and D; load (ldmatrix) the address of a row in `a` and registers in `d`; store (stmatrix) that
// address and registers in `b`; turn (movmatrix) a register in `a` and one in `d`.
struct alignas(64) MatrixLane {
    static constexpr uint32_t kRegisters = 64;  // bytes
    uint8_t a[kRegisters], b[kRegisters], c[kRegisters], d[kRegisters];
};
enum class MatrixOp : uint32_t { mma, wmma, load, store, turn };
// With how many matrices of 8 x 8 are loaded or stored, and whether transposed.
constexpr uint32_t matrix_detail(MatrixOp op, uint32_t count, bool transposed)
{
    return static_cast<uint32_t>(op) | count << 3 | uint32_t{transposed} << 6;
}

}  // namespace rgpu::softgpu

// Called by generated code. Those that take a ThreadState may switch to another fiber and
// come back. `site` identifies the call site in the PTX (unique in the kernel, increasing in the
// order of the text), so that lanes that meet at the same instruction are treated as converged, and
// lanes that are behind go first. None of them ever throws.
extern "C" {
using rgpu_thread = rgpu::softgpu::ThreadState;
using rgpu_block = rgpu::softgpu::BlockState;

// barrier.sync / bar.sync id [,count]; count 0 = all threads of the block.
void rt_bar_sync(rgpu_thread *, uint32_t id, uint32_t count);
void rt_bar_arrive(rgpu_thread *, uint32_t id, uint32_t count);
uint32_t rt_bar_red(rgpu_thread *, uint32_t id, uint32_t count, uint32_t op, uint32_t predicate);
void rt_bar_warp_sync(rgpu_thread *, uint32_t site, uint32_t mask);

// shfl.sync: result value; *valid gets the predicate (0/1). c is PTX's operand (clamp | segmask <<
// 8).
uint32_t rt_shfl(rgpu_thread *, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                 uint32_t b, uint32_t c, uint32_t *valid);
uint32_t rt_vote(rgpu_thread *, uint32_t site, uint32_t op, uint32_t mask, uint32_t predicate);
uint32_t rt_match_any(rgpu_thread *, uint32_t site, uint32_t mask, uint64_t value);
uint32_t rt_match_all(rgpu_thread *, uint32_t site, uint32_t mask, uint64_t value,
                      uint32_t *predicate);
uint32_t rt_redux(rgpu_thread *, uint32_t site, uint32_t op, uint32_t mask, uint32_t value);
uint32_t rt_activemask(rgpu_thread *, uint32_t site);
// Around each call in a kernel that has rt_activemask: lanes are together that came the same way.
void rt_enter(rgpu_thread *, uint32_t site);
void rt_leave(rgpu_thread *);
// In such a kernel, at the header of each loop, with `nest` loops of the function around it; and
// behind loops, where the thread is in `nest` of them.
void rt_loop(rgpu_thread *, uint32_t nest, uint32_t site);
void rt_unloop(rgpu_thread *, uint32_t nest);
uint32_t rt_elect(rgpu_thread *, uint32_t site, uint32_t mask, uint32_t *predicate);

// Tensor cores: what all lanes do together; `what` as matrix_detail() has it. Every lane brings its
// registers of each matrix, as PTX lays fragments out (wmma's, which PTX leaves open, as
// exec/matrix.cc does).
void rt_matrix(rgpu_thread *, uint32_t site, uint32_t what, uint64_t code,
               rgpu::softgpu::MatrixLane *);
void rt_wmma_load(rgpu_thread *, uint64_t code, const void *memory, uint32_t stride,
                  uint32_t by_row, void *fragment);
void rt_wmma_store(rgpu_thread *, uint64_t code, void *memory, uint32_t stride, uint32_t by_row,
                   const void *fragment);
// Reads a texture (texture.h): `how` is a TextureAsk; four results. An object that is none ends the
// grid.
void rt_tex(rgpu_block *, uint64_t object, uint32_t how, const uint32_t *coordinates,
            uint32_t *out);

// The segment for `count` lanes from `lane` on, of which the first has the %tid x, y, z and each
// other one the next x. All of them must be where the segment begins. If WarpState::whole, lanes
// that come to a step further on in the text go on behind it, all those that are there together,
// when no others of them are further back.
using rgpu_segments = void(rgpu::softgpu::WarpState *, uint32_t segment, uint32_t lane,
                           uint32_t count, uint32_t x, uint32_t y, uint32_t z);
// Runs all threads of the block, warp by warp, each from segment 0 to its end.
void rt_run_warps(rgpu_block *, rgpu_segments *, uint32_t frame_bytes);

// The code (see above) of the function that the program calls through `address`; `signature` is a
// number for the sizes of what the call passes. The first call makes the code, while others of the
// block may run. Ends the grid where there is no such function, or no code can be made of it.
void *rt_function(rgpu_thread *, uint64_t address, uint64_t signature);

// A point at which a spinning thread lets others run: after a failed atom.cas or exch, a volatile
// or acquire load, an atom.add/or/and/exch whose result is used, or a fence, inside a loop.
void rt_yield(rgpu_thread *);
void rt_nanosleep(rgpu_thread *, uint32_t nanoseconds);

// Device-side library, with the GridState of the caller's block. vprintf's arguments are packed as
// CUDA's ABI packs them (each at its natural alignment).
int32_t rt_vprintf(rgpu_block *, const char *format, const void *arguments);
void *rt_malloc(rgpu_block *, uint64_t bytes);
void rt_free(rgpu_block *, void *pointer);
// Both end the grid with an error and never come back.
[[noreturn]] void rt_assertfail(rgpu_block *, const char *message, const char *file, uint32_t line,
                                const char *function, uint64_t char_size);
[[noreturn]] void rt_trap(rgpu_block *);
// The kernel came to an instruction that is not known; `text` says which.
[[noreturn]] void rt_unknown(rgpu_block *, const char *text);
// Some access was not aligned as its PTX type demands; `address` is 0 where it is not known.
[[noreturn]] void rt_misaligned(rgpu_block *, uint64_t address);
uint64_t rt_clock(void);        // %clock64
uint64_t rt_globaltimer(void);  // %globaltimer, nanoseconds
}
