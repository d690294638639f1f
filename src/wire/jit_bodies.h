// SPDX-License-Identifier: Apache-2.0
// Bodies of the just-in-time compiler and linker. As in bodies.h each layout is written and read
// here only. Both halves give plain numbers: the wire does not know CUDA's types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calls/handles.h"
#include "util/result.h"
#include "wire/codec.h"
#include "wire/image.h"

namespace rgpu::wire {

// A CUjit_option and its value, where that is a number: none that is an address in the program.
struct JitOption {
    uint32_t option = 0;
    uint64_t value = 0;
};

// The options of a load, of a link or of one of its inputs.
struct JitOptionList {
    std::vector<JitOption> options;

    void write(Writer &w) const
    {
        w.value(static_cast<uint32_t>(options.size()));
        for (const JitOption &o : options) w.value(o.option), w.value(o.value);
    }
    // At most kMaxJitOptions.
    static Result<JitOptionList> read(Reader &r)
    {
        JitOptionList list;
        const auto count = r.value<uint32_t>();
        if (count > kMaxJitOptions) return error(ErrorKind::invalid, "%u options", count);
        for (uint32_t i = 0; i < count && r.ok(); i++) {
            JitOption o;
            o.option = r.value<uint32_t>(), o.value = r.value<uint64_t>();
            list.options.push_back(o);
        }
        return list;
    }
};

// What compiler and linker said. Every answer to a load, to an input and to the end of a link
// begins with it; a load's has ImageAnswer in front.
struct JitLogs {
    std::string_view info, errors;  // read: they lie in the answer

    void write(Writer &w) const { w.string(info), w.string(errors); }
    static JitLogs read(Reader &r)
    {
        JitLogs logs;
        logs.info = r.string(), logs.errors = r.string();
        return logs;
    }
};

// An input of a link. Behind it: a JitOptionList, then the data as an image (wire/image.h).
// A link's beginning is its state's number and a JitOptionList; its end is the number, answered
// with JitLogs and the finished image.
struct LinkInput {
    calls::HandleId state = 0;
    uint32_t type = 0;  // CUjitInputType
    std::string name;

    void write(Writer &w) const { w.value(state), w.value(type), w.string(name); }
    static LinkInput read(Reader &r)
    {
        LinkInput in;
        in.state = r.value<calls::HandleId>(), in.type = r.value<uint32_t>();
        in.name = r.string();
        return in;
    }
};

}  // namespace rgpu::wire
