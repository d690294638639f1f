// SPDX-License-Identifier: Apache-2.0
// A relocatable x86-64 ELF object, read with every bound checked: sections, symbols, relocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <elf.h>

#include "util/result.h"

namespace rgpu::softgpu::exec {

struct ElfSection {
    std::string_view name;
    Elf64_Shdr header;
    std::span<const uint8_t> bytes;  // empty for NOBITS

    bool loaded() const { return header.sh_flags & SHF_ALLOC; }
    bool executable() const { return header.sh_flags & SHF_EXECINSTR; }
    bool writable() const { return header.sh_flags & SHF_WRITE; }
};

// A symbol of .symtab; whoever uses its section index checks it.
struct ElfSymbol {
    std::string_view name;
    Elf64_Sym entry;
};

// Owns nothing: it refers to the bytes it was made from, which must outlive it. Objects may come
// from a cache that anybody damaged, so nothing in them is believed.
class ElfObject {
public:
    // `invalid` on anything that is not a sound object of this kind.
    static Result<ElfObject> parse(std::span<const uint8_t>);

    std::span<const ElfSection> sections() const { return sections_; }
    std::span<const ElfSymbol> symbols() const { return symbols_; }
    // Of a section of type SHT_RELA.
    static Result<std::vector<Elf64_Rela>> relocations(const ElfSection &);

private:
    Result<void> read_sections(std::span<const uint8_t>, const Elf64_Ehdr &);
    Result<void> read_symbols();

    std::vector<ElfSection> sections_;
    std::vector<ElfSymbol> symbols_;
};

}  // namespace rgpu::softgpu::exec
