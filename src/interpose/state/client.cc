// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/client.h"

#include <type_traits>

namespace rgpu::interpose {

namespace {

// Without a destructor it is there before the first call and after the last one.
static_assert(std::is_trivially_destructible_v<Client>);
constinit Client the_process;

}  // namespace

constinit std::atomic<Client *> Client::current_{&the_process};

}  // namespace rgpu::interpose
