// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/advices.h"

#include "interpose/state/client.h"

namespace rgpu::interpose {

calls::Advices &advices() { return client_part<calls::Advices>(Part::advice); }

}  // namespace rgpu::interpose
