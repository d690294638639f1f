// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/prelude.h"

#include <deque>

#include "softgpu/lower/prelude_library.h"

namespace rgpu::softgpu::lower {

void PreludeLibrary::define(std::string_view type, std::string_view name,
                            std::string_view parameters, std::string_view body)
{
    std::string text("define internal ");
    text.append(type).append(" @").append(name).append("(").append(parameters);
    text.append(") alwaysinline nounwind {").append(body).append("}\n\n");
    other(name, text);
}

void PreludeLibrary::other(std::string_view name, std::string_view text)
{
    texts_.emplace(name, text);
}

const std::string *PreludeLibrary::find(std::string_view name) const
{
    auto found = texts_.find(name);
    return found == texts_.end() ? nullptr : &found->second;
}

std::string fill(std::string_view text,
                 std::initializer_list<std::pair<std::string_view, std::string>> words)
{
    std::string out;
    for (size_t open; (open = text.find('{')) != text.npos;) {
        out += text.substr(0, open);
        text.remove_prefix(open);
        const size_t close = text.find('}');
        const std::string_view word = text.substr(1, close - 1);
        bool known = false;
        for (const auto &[name, value] : words) {
            if (name != word) continue;
            out += value;
            known = true;
        }
        if (!known) out += text.substr(0, close + 1);
        text.remove_prefix(close + 1);
    }
    return out += text;
}

namespace {

const PreludeLibrary &library()
{
    static const PreludeLibrary *lib = [] {
        auto *made = new PreludeLibrary;
        add_bit_fields(*made);
        add_permutes(*made);
        add_barriers(*made);
        add_directed_rounding(*made);
        add_rounding_to_odd(*made);
        add_halves(*made);
        add_tf32(*made);
        add_fp8(*made);
        add_functions(*made);
        return made;
    }();
    return *lib;
}

}  // namespace

Result<std::string> prelude(const std::set<std::string, std::less<>> &names,
                            std::set<std::string, std::less<>> &declarations)
{
    std::string text;
    std::set<std::string, std::less<>> done;
    std::deque<std::string> todo(names.begin(), names.end());
    while (!todo.empty()) {
        std::string name = todo.front();
        todo.pop_front();
        if (!done.insert(name).second) continue;
        const std::string *found = library().find(name);
        if (!found) return error(ErrorKind::internal, "no prelude function %s", name.c_str());
        const std::string &body = *found;
        if (body.starts_with("declare")) {
            declarations.insert(body.substr(0, body.size() - 1));
            continue;
        }
        text += body;
        // What it mentions in turn: @NAME after its own.
        for (size_t at = body.find('@', body.find(name) + name.size()); at != body.npos;
             at = body.find('@', at + 1)) {
            size_t end = body.find_first_of("(), \n", at);
            std::string used = body.substr(at + 1, end - at - 1);
            if (library().find(used)) todo.push_back(used);
        }
    }
    return text;
}

}  // namespace rgpu::softgpu::lower
