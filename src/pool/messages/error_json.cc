// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/error_json.h"

#include "pool/messages/fields.h"

namespace rgpu::pool {

std::string encode_error(const Error &error)
{
    return dump({{"error", {{"kind", name(error.kind)}, {"text", error.text}}}});
}

Error decode_error(std::string_view text, long status)
{
    Error otherwise = error(ErrorKind::disconnected,
                            "answered HTTP %ld: is this the control port of an rgpud?", status);
    struct Told {
        Error error;
    };
    Result<Told> told = decode<Told>(text, [](const Json &json) -> Result<Told> {
        Reader outer(json, "reply");
        Told told;
        if (const Json *member = outer.member("error")) {
            Reader reader(*member, "error");
            told.error.text = reader.text("text", true, 4096);
            std::string kind = reader.text("kind");
            for (ErrorKind known :
                 {ErrorKind::invalid, ErrorKind::unsupported, ErrorKind::unavailable,
                  ErrorKind::disconnected, ErrorKind::exhausted, ErrorKind::internal})
                if (kind == name(known)) told.error.kind = known;
            Result<void> read = reader.done();
            if (!read) return std::move(read).error();
        }
        Result<void> read = outer.done();
        if (!read) return std::move(read).error();
        return told;
    });
    return told ? told->error : otherwise;
}

}  // namespace rgpu::pool
