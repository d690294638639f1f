// SPDX-License-Identifier: Apache-2.0
// Reads ELF. Nothing in the file is believed: each offset, size and index is checked before use.
#include "softgpu/exec/elf_object.h"

#include <cstring>
#include <optional>

#include "softgpu/exec/limits.h"

namespace rgpu::softgpu::exec {

namespace {

using Bytes = std::span<const uint8_t>;

Error damaged(const char *what)
{
    return error(ErrorKind::invalid, "kernel object is damaged: %s", what);
}

std::optional<Bytes> slice(Bytes b, uint64_t offset, uint64_t size)
{
    if (offset > b.size() || size > b.size() - offset) return {};
    return b.subspan(offset, size);
}

template <class T> T read(Bytes b, size_t index)
{
    T value;
    memcpy(&value, b.data() + index * sizeof(T), sizeof value);
    return value;
}

std::optional<std::string_view> string_at(Bytes table, uint64_t offset)
{
    if (offset >= table.size()) return {};
    auto *begin = reinterpret_cast<const char *>(table.data()) + offset;
    size_t room = table.size() - offset, length = strnlen(begin, room);
    if (length == room) return {};
    return std::string_view(begin, length);
}

}  // namespace

Result<ElfObject> ElfObject::parse(Bytes file)
{
    if (file.size() < sizeof(Elf64_Ehdr)) return damaged("shorter than its header");
    if (file.size() > kMaxObject) return damaged("too long");
    auto header = read<Elf64_Ehdr>(file, 0);
    const unsigned char expected[] = {ELFMAG0,    ELFMAG1,     ELFMAG2,   ELFMAG3,
                                      ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    if (memcmp(header.e_ident, expected, sizeof expected) != 0)
        return damaged("not a 64-bit ELF file");
    if (header.e_type != ET_REL || header.e_machine != EM_X86_64)
        return damaged("not a relocatable object for x86-64");
    ElfObject object;
    if (auto r = object.read_sections(file, header); !r) return std::move(r).error();
    if (auto r = object.read_symbols(); !r) return std::move(r).error();
    return object;
}

Result<void> ElfObject::read_sections(Bytes file, const Elf64_Ehdr &header)
{
    // More than 65279 sections are counted elsewhere; no kernel has as many.
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
        return damaged("its section table has the wrong form");
    auto table = slice(file, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    if (!table) return damaged("its section table lies outside");
    for (size_t i = 0; i < header.e_shnum; ++i) {
        ElfSection s{{}, read<Elf64_Shdr>(*table, i), {}};
        if (i == 0 || s.header.sh_type == SHT_NULL) s.header = {};
        if (s.header.sh_type != SHT_NOBITS && s.header.sh_type != SHT_NULL) {
            auto bytes = slice(file, s.header.sh_offset, s.header.sh_size);
            if (!bytes) return damaged("a section lies outside");
            s.bytes = *bytes;
        }
        uint64_t align = s.header.sh_addralign;
        if (align & (align - 1) || align > 4096)
            return damaged("a section has an impossible alignment");
        if (s.header.sh_size > kMaxImage) return damaged("a section is too big");
        sections_.push_back(s);
    }
    if (header.e_shstrndx >= sections_.size()) return damaged("its section names are missing");
    Bytes names = sections_[header.e_shstrndx].bytes;
    for (ElfSection &s : sections_) {
        auto name = string_at(names, s.header.sh_name);
        if (!name && s.header.sh_type != SHT_NULL) return damaged("a section's name lies outside");
        s.name = name.value_or("");
    }
    return {};
}

Result<void> ElfObject::read_symbols()
{
    const ElfSection *table = nullptr;
    for (const ElfSection &s : sections_) {
        if (s.header.sh_type != SHT_SYMTAB) continue;
        if (table) return damaged("it has two symbol tables");
        table = &s;
    }
    if (!table) return damaged("it has no symbols");
    if (table->header.sh_entsize != sizeof(Elf64_Sym) || table->bytes.size() % sizeof(Elf64_Sym))
        return damaged("its symbol table has the wrong form");
    if (table->header.sh_link >= sections_.size()) return damaged("its symbol names are missing");
    Bytes names = sections_[table->header.sh_link].bytes;
    for (size_t i = 0; i < table->bytes.size() / sizeof(Elf64_Sym); ++i) {
        ElfSymbol symbol{{}, read<Elf64_Sym>(table->bytes, i)};
        auto name = string_at(names, symbol.entry.st_name);
        if (!name) return damaged("a symbol's name lies outside");
        symbol.name = *name;
        symbols_.push_back(symbol);
    }
    return {};
}

Result<std::vector<Elf64_Rela>> ElfObject::relocations(const ElfSection &s)
{
    if (s.header.sh_entsize != sizeof(Elf64_Rela) || s.bytes.size() % sizeof(Elf64_Rela))
        return damaged("a relocation table has the wrong form");
    std::vector<Elf64_Rela> all(s.bytes.size() / sizeof(Elf64_Rela));
    for (size_t i = 0; i < all.size(); ++i) all[i] = read<Elf64_Rela>(s.bytes, i);
    return all;
}

}  // namespace rgpu::softgpu::exec
