// SPDX-License-Identifier: Apache-2.0
// What whoever connects to the control port may say: the head of a request, and the bodies.
#include <string_view>

#include "pool/messages/host_json.h"
#include "pool/messages/request_json.h"
#include "rgpud/ports/request_head.h"
#include "wire/lease_name.h"

using namespace rgpu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    const std::string_view text(reinterpret_cast<const char *>(data) + 1, bytes - 1);
    switch (data[0] % 5) {
    case 0:
        (void)serverd::read_head(text);
        (void)serverd::stray_line_feed(text, data[0] % (text.size() + 1));
        break;
    case 1:
        // What was understood can be said, and is understood again.
        if (auto request = pool::decode_request(text))
            if (!pool::decode_request(pool::encode(*request))) __builtin_trap();
        break;
    case 2: (void)pool::decode_drain(text).has_value(); break;
    case 3: (void)pool::decode_lend(text).has_value(); break;
    default: (void)wire::parse_lease_name(text); break;
    }
    return 0;
}
