// SPDX-License-Identifier: Apache-2.0
// A large copy to the host where the driver has copied by the time its call returns, as the
// recorder does: each chunk is sent before the next one is taken, so that one buffer is enough, and
// the processor's cache holds it.
#include <criterion/criterion.h>
#include <unistd.h>

#include "interpose/state/ranges.h"
#include "interpose/stream/copies.h"
#include "t/unit/recorder/support.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr unsigned kLimit = 60;  // seconds: a test that hangs ends here
constexpr size_t kBytes = 2 * worker::Copies::kLarge, kChunk = worker::Staging::kChunkBytes;

// How many buffers the worker has after a copy.
uint64_t buffers_for_copy(bool wait)
{
    alarm(kLimit);
    use_recorder();
    Wire &wire = *new Wire;  // its threads never end
    const CUstream stream = wire.handle(reinterpret_cast<CUstream>(0x57ea0));
    interpose::note_allocation(recorder::kMemory, kBytes);
    Bytes to(kBytes);
    cr_assert(interpose::copy_to_host(to.data(), recorder::kMemory, to.size(), stream, wait) ==
              CUDA_SUCCESS);
    cr_assert(interpose::remote<CallId::cuStreamSynchronize>(stream) == CUDA_SUCCESS);
    cr_assert(note_of(CallId::cuMemcpyDtoHAsync_v2).out == Bytes(to.end() - kChunk, to.end()),
              "the last chunk is what the driver gave last");
    return note_of(CallId::cuEventCreate).calls;  // each has one
}

}  // namespace

Test(large_copy, one_that_is_waited_for_takes_one_buffer)
{
    cr_expect_eq(buffers_for_copy(true), 1);
}

Test(large_copy, one_that_is_not_waited_for_takes_one_buffer)
{
    cr_expect_eq(buffers_for_copy(false), 1);
}

Test(large_copy, a_driver_that_has_not_copied_yet_is_given_two_chunks)
{
    use_recorder();
    answer(CUDA_ERROR_NOT_READY);
    cr_expect_eq(worker::Copies::ahead({}), 2);
    answer(CUDA_SUCCESS);
    cr_expect_eq(worker::Copies::ahead({}), 1);
}
