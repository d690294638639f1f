// SPDX-License-Identifier: Apache-2.0
// What a server may answer on the control port, and lease files, which the user may write.
#include <string_view>

#include "pool/messages/error_json.h"
#include "pool/messages/host_json.h"
#include "pool/messages/inventory_json.h"
#include "pool/messages/lease_json.h"
#include "pool/messages/request_json.h"

using namespace rgpu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    const std::string_view text(reinterpret_cast<const char *>(data) + 1, bytes - 1);
    switch (data[0] % 12) {
    case 0: (void)pool::decode_error(text, 400); break;
    case 1: (void)pool::decode_health(text).has_value(); break;
    case 2: (void)pool::decode_alive(text).has_value(); break;
    case 3: (void)pool::decode_node_configs(text).has_value(); break;
    case 4: (void)pool::decode_topology(text).has_value(); break;
    case 5: (void)pool::decode_inventory(text).has_value(); break;
    case 6: (void)pool::decode_sharing(text).has_value(); break;
    case 7: (void)pool::decode_leases(text).has_value(); break;
    case 8: (void)pool::decode_released(text).has_value(); break;
    case 9: (void)pool::decode_offer(text).has_value(); break;
    case 10: (void)pool::decode_driver_inventory(text).has_value(); break;
    default:
        // What was understood can be said, and is understood again.
        if (auto grants = pool::decode_lease_file(text))
            if (!pool::decode_lease_file(pool::lease_file("17", *grants))) __builtin_trap();
    }
    return 0;
}
