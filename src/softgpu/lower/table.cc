// SPDX-License-Identifier: Apache-2.0
// Matches an opcode's modifiers against the table.
#include "softgpu/lower/table.h"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace rgpu::softgpu::lower {

namespace {

struct Set {
    std::string_view name, members;
};

constexpr Set kSets[] = {
    {"$int", "u16|s16|u32|s32|u64|s64"},
    {"$bits", "b16|b32|b64"},
    {"$any", "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f16|bf16|f16x2|bf16x2|f32|f64|b128"},
    {"$round", "rn|rz|rm|rp"},
    {"$compare", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"},
    {"$bool", "and|or|xor"},
    {"$space",
     "global|shared|shared::cta|shared::cluster|const|local|param|param::entry|param::func"},
    {"$scope", "cta|cluster|gpu|sys"},
    {"$order", "relaxed|acquire|release|acq_rel"},
    {"$evict",
     "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"},
    {"$evict2", "L2::evict_normal|L2::evict_first|L2::evict_last"},
    {"$prefetch", "L2::64B|L2::128B|L2::256B"},
};

std::string_view members(std::string_view token)
{
    if (token.starts_with('$'))
        for (const Set &s : kSets)
            if (s.name == token) return s.members;
    return token;
}

bool one_of(std::string_view word, std::string_view set)
{
    while (!set.empty()) {
        size_t bar = set.find('|');
        std::string_view first = set.substr(0, bar);
        if (first.starts_with('$') ? one_of(word, members(first)) : first == word) return true;
        if (bar == set.npos) return false;
        set.remove_prefix(bar + 1);
    }
    return false;
}

// Takes the next piece of s up to the separator.
std::string_view next(std::string_view &s, char separator)
{
    size_t n = s.find(separator);
    std::string_view piece = s.substr(0, n);
    s.remove_prefix(n == s.npos ? s.size() : n + 1);
    return piece;
}

void keep(Form &form, std::string_view word)
{
    form.modifiers[form.count++] = word;
    if (Type t = ptx::parse_type(word); t && form.type_count < form.types.size())
        form.types[form.type_count++] = t;
}

// Each word takes a token of the pattern that no other has taken; all that must be there are.
bool match_any_order(std::string_view pattern, std::string_view modifiers, Form &form)
{
    std::vector<std::pair<std::string_view, bool>> tokens;
    while (!pattern.empty()) tokens.emplace_back(next(pattern, ' '), false);
    auto alternatives = [](std::string_view token) { return token.substr(token.starts_with('?')); };
    while (!modifiers.empty()) {
        std::string_view word = next(modifiers, '.');
        bool taken = false;
        for (auto &[token, used] : tokens)
            if (!used && one_of(word, alternatives(token))) {
                taken = used = true;
                break;
            }
        if (!taken || form.count == Form::kMost) return false;
        keep(form, word);
    }
    for (const auto &[token, used] : tokens)
        if (!used && !token.starts_with('?')) return false;
    return true;
}

bool match(const Row &row, std::string_view modifiers, Form &form)
{
    form = Form{};
    form.row = &row;
    std::string_view pattern = row.modifiers;
    if (pattern.starts_with('~')) return match_any_order(pattern.substr(1), modifiers, form);
    bool have = !modifiers.empty();
    std::string_view word = next(modifiers, '.');
    while (!pattern.empty()) {
        std::string_view token = next(pattern, ' ');
        bool optional = token.starts_with('?');
        if (optional) token.remove_prefix(1);
        if (have && one_of(word, token)) {
            if (form.count == Form::kMost) return false;
            keep(form, word);
            have = !modifiers.empty();
            word = next(modifiers, '.');
        } else if (!optional) {
            return false;
        }
    }
    return !have;
}

class Table {
public:
    Table()
    {
        for (auto group : {integer_rows(), logic_rows(), float_rows(), half_rows(), compare_rows(),
                           convert_rows(), memory_rows(), atomic_rows(), control_rows(),
                           warp_rows(), async_rows(), matrix_rows(), texture_rows(), video_rows()})
            for (const Row &row : group) rows_[row.opcode].push_back(&row);
    }

    const Form *find(std::string_view opcode)
    {
        {
            std::shared_lock lock(mutex_);
            auto found = forms_.find(opcode);
            if (found != forms_.end()) return found->second;
        }
        size_t dot = opcode.find('.');
        auto rows = rows_.find(opcode.substr(0, dot));
        if (rows == rows_.end()) return nullptr;
        std::unique_lock lock(mutex_);
        const std::string &kept = texts_.emplace_back(opcode);
        std::string_view modifiers = dot == opcode.npos ? ""
                                                        : std::string_view(kept).substr(dot + 1);
        const Form *form = nullptr;
        Form candidate;
        for (const Row *row : rows->second)
            if (match(*row, modifiers, candidate)) {
                form = &store_.emplace_back(candidate);
                break;
            }
        if (form)
            forms_.emplace(kept, form);
        else
            texts_.pop_back();
        return form;
    }

private:
    std::unordered_map<std::string_view, std::vector<const Row *>> rows_;
    std::shared_mutex mutex_;
    std::deque<std::string> texts_;
    std::deque<Form> store_;
    std::unordered_map<std::string_view, const Form *> forms_;
};

}  // namespace

const Form *find_form(std::string_view opcode)
{
    static Table *table = new Table;  // never destroyed: programs call the driver during exit
    return table->find(opcode);
}

}  // namespace rgpu::softgpu::lower
