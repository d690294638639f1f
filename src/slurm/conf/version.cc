// SPDX-License-Identifier: Apache-2.0
// Reads versions of Slurm and of its plugins.
#include "slurm/conf/version.h"

#include <charconv>
#include <cstring>
#include <elf.h>

#include "slurm/conf/conf.h"

namespace rgpu::slurm {
namespace {

// A T at this place of the bytes, wherever it is; nothing behind their end.
template <class T> std::optional<T> get(std::string_view bytes, uint64_t at)
{
    T out;
    if (at > bytes.size() || bytes.size() - at < sizeof out) return {};
    memcpy(&out, bytes.data() + at, sizeof out);
    return out;
}

std::optional<Elf64_Shdr> section(std::string_view object, const Elf64_Ehdr &head, uint64_t n)
{
    if (n >= head.e_shnum || head.e_shoff > object.size()) return {};
    return get<Elf64_Shdr>(object, head.e_shoff + n * sizeof(Elf64_Shdr));
}

bool is_named(std::string_view object, const Elf64_Shdr &names, uint32_t at, std::string_view name)
{
    if (names.sh_offset > object.size() || at > object.size() - names.sh_offset) return false;
    std::string_view rest = object.substr(names.sh_offset + at);
    return rest.substr(0, rest.find('\0')) == name;
}

}  // namespace

std::optional<SlurmVersion> parse_slurm_version(std::string_view text)
{
    if (size_t space = text.find_last_of(' '); space != text.npos) text.remove_prefix(space + 1);
    SlurmVersion out = 0;
    for (int part = 0; part < 3; ++part) {
        unsigned number = 0;
        auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (wrong != std::errc() || number > 255) return {};
        out = out << 8 | number;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        if (part < 2 && !text.starts_with(".")) return {};
        text.remove_prefix(part < 2);
    }
    return out;
}

std::string to_text(SlurmVersion version)
{
    char out[32];
    snprintf(out, sizeof out, "%u.%02u.%u", version >> 16 & 255, version >> 8 & 255, version & 255);
    return out;
}

bool selects_linear(SlurmVersion running) { return running < 0x170b00; }

bool slurm_loads(SlurmVersion running, SlurmVersion plugin, bool spank)
{
    SlurmVersion counts = spank ? 0xffff00 : 0xffffff;
    return (running & counts) == (plugin & counts);
}

std::optional<SlurmVersion> plugin_version_in(std::string_view object)
{
    auto head = get<Elf64_Ehdr>(object, 0);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(Elf64_Shdr))
        return {};
    for (uint64_t n = 0; n < head->e_shnum; ++n) {
        auto symbols = section(object, *head, n);
        auto names = symbols && symbols->sh_type == SHT_DYNSYM
                         ? section(object, *head, symbols->sh_link)
                         : std::nullopt;
        if (!names || symbols->sh_offset > object.size() ||
            symbols->sh_size > object.size() - symbols->sh_offset)
            continue;
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->sh_size; at += sizeof(Elf64_Sym)) {
            auto symbol = get<Elf64_Sym>(object, symbols->sh_offset + at);
            if (!symbol || !is_named(object, *names, symbol->st_name, "plugin_version")) continue;
            auto data = section(object, *head, symbol->st_shndx);
            if (!data || data->sh_type != SHT_PROGBITS || symbol->st_value < data->sh_addr ||
                data->sh_offset > object.size())
                return {};
            return get<SlurmVersion>(object.substr(data->sh_offset),
                                     symbol->st_value - data->sh_addr);
        }
    }
    return {};
}

Result<SlurmVersion> plugin_version_of(const std::string &path)
{
    auto object = read_bytes(path);
    if (!object) return std::move(object).error();
    auto version = plugin_version_in(*object);
    return version ? Result<SlurmVersion>(*version)
                   : error(ErrorKind::invalid, "%s is no plugin of Slurm", path.c_str());
}

}  // namespace rgpu::slurm
