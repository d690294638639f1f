// SPDX-License-Identifier: Apache-2.0
// The call table as C++: identifiers, and what each line says.
//
// A CallId is a call's position in the table. It means the same only to programs with the same
// table; the two sides of a connection compare tables by name (see wire/hello.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "calls/cuda_api.h"
#include "calls/facts.h"

namespace rgpu::calls {

enum class Mode : uint8_t { local, post, ask, wait, none, via };
enum class Code : uint8_t { plain, client, server, both };

constexpr bool by_client(Code c) { return c == Code::client || c == Code::both; }
constexpr bool by_server(Code c) { return c == Code::server || c == Code::both; }

enum class CallId : uint16_t {
#define ROW(symbol, ...) symbol,
#include "calls/table.def"
};

struct CallInfo {
    std::string_view symbol;  // ABI name
    int since;                // CUDA version
    Mode mode;
    Code code;
    std::string_view text;  // roles; for Mode::none why it is not carried out
    Facts facts;
};

namespace words {  // the table's
inline constexpr CallInfo kCalls[] = {
#define ROW(symbol, since, mode, code, text, facts) \
    {#symbol, since, Mode::mode, Code::code, text, facts},
#include "calls/table.def"
};
}  // namespace words
using words::kCalls;
inline constexpr size_t kCallCount = sizeof kCalls / sizeof *kCalls;

constexpr const CallInfo &info(CallId id) { return kCalls[static_cast<size_t>(id)]; }

// The variants that use the calling thread's default stream, and how long their suffix is.
constexpr bool is_per_thread(std::string_view symbol)
{
    return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
}
inline constexpr size_t kPerThreadSuffix = 5;

// Whether frames of a line with this mode exist.
constexpr bool travels(Mode m) { return m == Mode::post || m == Mode::ask || m == Mode::wait; }
// Whether a client sends frames of this call: the server takes no others.
constexpr bool is_sent(const CallInfo &c) { return travels(c.mode) && !is_per_thread(c.symbol); }

// A call that is sent: whoever sends another does not compile. Numbers past the table are the
// wire's own (doc/protocol.md).
class SentCall {
public:
    consteval SentCall(CallId id) : id_(id)
    {
        if (static_cast<size_t>(id) < kCallCount && !is_sent(info(id)))
            throw "calls/table: the line says that this call is never sent";
    }
    constexpr operator CallId() const { return id_; }

private:
    CallId id_;
};

// A line at compile time: Row<CallId::cuInit>::Function is the type of a pointer to cuInit.
template <CallId> struct Row;
#define ROW(symbol_, ...) \
    template <> struct Row<CallId::symbol_> { \
        using Function = decltype(&::symbol_); \
        static constexpr CallInfo info = kCalls[static_cast<size_t>(CallId::symbol_)]; \
    };
#include "calls/table.def"

// A digest of the table's names in order, and how each is carried out: equal digests mean equal
// CallIds on both sides, and that both sides carry out the same calls.
constexpr uint64_t table_digest()
{
    uint64_t h = 0xcbf29ce484222325;  // FNV-1a
    for (const CallInfo &c : kCalls) {
        for (char ch : c.symbol) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001b3;
        h = (h ^ (0x80u | static_cast<unsigned>(c.mode) << 2 | static_cast<unsigned>(c.code))) *
            0x100000001b3;
    }
    return h;
}

}  // namespace rgpu::calls
