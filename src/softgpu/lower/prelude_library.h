// SPDX-License-Identifier: Apache-2.0
// Inside lower/: how the functions of the prelude are written down.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace rgpu::softgpu::lower {

// The texts by name. Made once, at the first use; the add_* functions below fill it.
class PreludeLibrary {
public:
    // "define internal TYPE @NAME(PARAMETERS) alwaysinline nounwind {BODY}"
    void define(std::string_view type, std::string_view name, std::string_view parameters,
                std::string_view body);
    // What functions mention that is none of these: "declare ..." or "@NAME = ...".
    void other(std::string_view name, std::string_view text);

    // Null when there is none of this name.
    const std::string *find(std::string_view name) const;

private:
    std::map<std::string, std::string, std::less<>> texts_;
};

// The text with what stands for each {word} in it; words that are not listed stay.
std::string fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string>> words);

// The groups.
void add_bit_fields(PreludeLibrary &);         // prelude_integer.cc
void add_permutes(PreludeLibrary &);           // prelude_integer.cc
void add_barriers(PreludeLibrary &);           // prelude_integer.cc
void add_directed_rounding(PreludeLibrary &);  // prelude_rounding.cc
void add_rounding_to_odd(PreludeLibrary &);    // prelude_rounding.cc
void add_halves(PreludeLibrary &);             // prelude_float.cc
void add_tf32(PreludeLibrary &);               // prelude_float.cc
void add_fp8(PreludeLibrary &);                // prelude_float.cc
void add_functions(PreludeLibrary &);          // prelude_float.cc

}  // namespace rgpu::softgpu::lower
