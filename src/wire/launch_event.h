// SPDX-License-Identifier: Apache-2.0
// Launch attributes that hold an event's handle, for which its number goes over the wire.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::wire {

// The place of the event in an attribute that makes the launch record one; null in others.
inline CUevent *event_of(CUlaunchAttribute &a)
{
    if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) return &a.value.programmaticEvent.event;
#if CUDA_VERSION >= 12030
    if (a.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        return &a.value.launchCompletionEvent.event;
#endif
    return nullptr;
}

}  // namespace rgpu::wire
