// SPDX-License-Identifier: Apache-2.0
// Bodies of modules and libraries: loads, look-ups of functions and variables, and what is
// answered. As in bodies.h each layout is written and read here only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calls/handles.h"
#include "util/result.h"
#include "wire/codec.h"

namespace rgpu::wire {

inline constexpr uint32_t kMostImageParts = 4096;

// What nvcc's host code passes for a fat binary.
enum class ImageWrapping : uint8_t {
    none,
    objects,  // a wrapper of one fat binary, or of those that nvcc -rdc has not linked yet
    linked,   // the first part is what nvcc -rdc made of the others (kTakesLinked)
};

// A load. Behind it: the compiler's options, then the image (wire/image.h), which is the parts one
// after the other.
struct LoadHead {
    calls::HandleId made = 0;
    ImageWrapping wrapping = ImageWrapping::none;
    std::vector<uint64_t> parts;  // their bytes

    void write(Writer &w) const
    {
        w.value(made), w.value(wrapping), w.value(static_cast<uint32_t>(parts.size()));
        for (uint64_t bytes : parts) w.value(bytes);
    }
    // An image has a part at least.
    static Result<LoadHead> read(Reader &r)
    {
        LoadHead h;
        h.made = r.value<calls::HandleId>();
        h.wrapping = r.value<ImageWrapping>();
        if (h.wrapping > ImageWrapping::linked)
            return error(ErrorKind::invalid, "wrapping %u", static_cast<unsigned>(h.wrapping));
        const auto count = r.value<uint32_t>();
        if (count == 0 || count > kMostImageParts)
            return error(ErrorKind::invalid, "%u parts", count);
        for (uint32_t i = 0; i < count && r.ok(); i++) h.parts.push_back(r.value<uint64_t>());
        if (!r.ok()) return error(ErrorKind::invalid, "its parts do not fit its body");
        return h;
    }
};

struct FunctionParameter {
    uint32_t offset = 0, bytes = 0;
};

// What is told of a function or kernel. An answer to a look-up has the LaunchLimits behind it. That
// to a load has a u32 count, so many of these, and then the limits of each; a server may say
// nothing of all that, or leave the limits out.
struct FunctionText {
    std::string name;
    std::vector<FunctionParameter> parameters;

    void write(Writer &w) const
    {
        w.string(name);
        w.value(uint64_t{parameters.size()});
        w.bytes(parameters.data(), parameters.size() * sizeof(FunctionParameter));
    }
    static FunctionText read(Reader &r)
    {
        FunctionText t;
        t.name = r.string();
        t.parameters.resize(r.count(sizeof(FunctionParameter)));
        for (FunctionParameter &p : t.parameters) p = r.value<FunctionParameter>();
        return t;
    }
};

// A function of `owner`, a module, library or kernel, is looked up, and is `found` from now on.
struct FunctionLookUp {
    calls::HandleId found = 0, owner = 0;
    std::string name;

    void write(Writer &w) const { w.value(found), w.value(owner), w.string(name); }
    static FunctionLookUp read(Reader &r)
    {
        FunctionLookUp l;
        l.found = r.value<calls::HandleId>(), l.owner = r.value<calls::HandleId>();
        l.name = r.string();
        return l;
    }
};

// All functions of an owner, as many as there is room for. The answer: a u32 count, and for each
// its number and its FunctionText.
struct FunctionList {
    calls::HandleId owner;
    uint32_t room;
};

// A variable of a module or library is looked up; and the answer.
struct VariableLookUp {
    calls::HandleId owner = 0;
    std::string name;

    void write(Writer &w) const { w.value(owner), w.string(name); }
    static VariableLookUp read(Reader &r)
    {
        VariableLookUp l;
        l.owner = r.value<calls::HandleId>(), l.name = r.string();
        return l;
    }
};
struct Variable {
    uint64_t address = 0, bytes = 0;
    bool managed = false;

    void write(Writer &w) const { w.value(address), w.value(bytes), w.value(uint8_t{managed}); }
    static Variable read(Reader &r)
    {
        Variable v;
        v.address = r.value<uint64_t>(), v.bytes = r.value<uint64_t>();
        v.managed = r.value<uint8_t>();
        return v;
    }
};

}  // namespace rgpu::wire
