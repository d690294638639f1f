// SPDX-License-Identifier: Apache-2.0
// Places a relocatable object in memory: layout, symbols, relocations, protection.
//
// The image is one mapping of three parts, each whole pages: code and stubs (read and execute),
// constants and the table of external addresses (read), data (read and write). It is filled while
// writable and not executable, then sealed: no page is ever both.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <unordered_map>

#include <sys/mman.h>

#include "softgpu/exec/elf_object.h"
#include "softgpu/exec/limits.h"
#include "softgpu/exec/loaded_kernel.h"
#include "softgpu/exec/symbols.h"

namespace rgpu::softgpu::exec {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStub = 16;  // jmp *slot(%rip), padded
constexpr uint64_t kSlot = 8;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

Error damaged(const char *what)
{
    return error(ErrorKind::invalid, "kernel object is damaged: %s", what);
}

enum Part { code_part, constant_part, data_part, parts };

Part part_of(const ElfSection &s)
{
    return s.executable() ? code_part : s.writable() ? data_part : constant_part;
}

// Unwinding tables are of no use here, and would have to be relocated.
bool wanted(const ElfSection &s)
{
    return s.loaded() && s.name != ".eh_frame" && s.header.sh_type != SHT_NOTE &&
           s.header.sh_type != SHT_REL;
}

class Loader {
public:
    Loader(const ElfObject &object, const SymbolResolver &resolver, FunctionSource functions)
        : object_(object), resolver_(resolver), functions_(std::move(functions))
    {}
    ~Loader()
    {
        if (image_) munmap(image_, bytes_);
    }

    Result<std::shared_ptr<const LoadedKernel>> load(const CompiledKernel &);

private:
    Result<void> lay_out();
    Result<void> map();
    Result<void> resolve_symbols();
    Result<uint64_t> resolve(const ElfSymbol &);
    Result<void> relocate();
    Result<void> relocate_section(const ElfSection &table);
    Result<void> apply(const ElfSection &, uint8_t *place, uint64_t room, const Elf64_Rela &);
    uint64_t slot(uint32_t symbol);
    uint64_t stub(uint32_t symbol);
    bool seal();

    const ElfObject &object_;
    const SymbolResolver &resolver_;
    FunctionSource functions_;
    std::vector<uint64_t> placed_;  // offset of each section in the image
    std::vector<bool> has_place_;
    std::vector<uint64_t> values_;   // address of each symbol
    std::vector<uint64_t> commons_;  // offset of each common symbol
    std::unordered_map<uint32_t, uint64_t> slots_, stubs_;
    uint8_t *image_ = nullptr;
    uint64_t bytes_ = 0;
    uint64_t begin_[parts + 1] = {};
    uint64_t next_stub_ = 0, next_slot_ = 0;
    uint64_t end_stubs_ = 0, end_slots_ = 0;
};

Result<void> Loader::lay_out()
{
    auto sections = object_.sections();
    uint64_t references = object_.symbols().size();
    placed_.assign(sections.size(), 0);
    has_place_.assign(sections.size(), false);
    commons_.assign(object_.symbols().size(), 0);
    uint64_t at = 0;
    for (int part = 0; part < parts; ++part) {
        begin_[part] = at = round_up(at, kPage);
        for (size_t i = 0; i < sections.size(); ++i) {
            const ElfSection &s = sections[i];
            if (!wanted(s) || part_of(s) != part) continue;
            at = round_up(at, std::max<uint64_t>(1, s.header.sh_addralign));
            placed_[i] = at;
            has_place_[i] = true;
            at += s.header.sh_size;
            if (at > kMaxImage) return damaged("it is too big");
        }
        // Room for every symbol to have one of each.
        if (part == code_part) {
            next_stub_ = at = round_up(at, kStub);
            end_stubs_ = at += references * kStub;
        } else if (part == constant_part) {
            next_slot_ = at = round_up(at, kSlot);
            end_slots_ = at += references * kSlot;
        }
    }
    for (size_t i = 0; i < object_.symbols().size(); ++i) {
        const Elf64_Sym &e = object_.symbols()[i].entry;
        if (e.st_shndx != SHN_COMMON) continue;
        uint64_t align = std::max<uint64_t>(1, e.st_value);
        if (align & (align - 1) || align > kPage || e.st_size > kMaxImage)
            return damaged("a common symbol is impossible");
        commons_[i] = at = round_up(at, align);
        at += e.st_size;
        if (at > kMaxImage) return damaged("it is too big");
    }
    begin_[parts] = bytes_ = round_up(std::max<uint64_t>(at, 1), kPage);
    return {};
}

Result<void> Loader::map()
{
    void *map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return error(ErrorKind::exhausted, "no memory for a kernel's code (%" PRIu64 " bytes)",
                     bytes_);
    image_ = static_cast<uint8_t *>(map);
    auto sections = object_.sections();
    for (size_t i = 0; i < sections.size(); ++i)
        if (has_place_[i] && !sections[i].bytes.empty())
            memcpy(image_ + placed_[i], sections[i].bytes.data(), sections[i].bytes.size());
    return {};
}

Result<uint64_t> Loader::resolve(const ElfSymbol &symbol)
{
    if (uint64_t a = runtime_symbol(symbol.name)) return a;
    if (uint64_t a = resolver_ ? resolver_(symbol.name) : 0) return a;
    if (ELF64_ST_BIND(symbol.entry.st_info) == STB_WEAK) return uint64_t{0};
    return error(ErrorKind::unavailable, "the kernel needs \"%.*s\", which nobody offers",
                 static_cast<int>(std::min<size_t>(symbol.name.size(), 200)), symbol.name.data());
}

Result<void> Loader::resolve_symbols()
{
    auto symbols = object_.symbols();
    values_.assign(symbols.size(), 0);
    for (size_t i = 1; i < symbols.size(); ++i) {
        const Elf64_Sym &e = symbols[i].entry;
        auto type = ELF64_ST_TYPE(e.st_info);
        if (type == STT_FILE) continue;
        if (type == STT_TLS || type == STT_GNU_IFUNC)
            return error(ErrorKind::invalid,
                         "kernel object has a symbol of a kind that kernels cannot have");
        if (e.st_shndx == SHN_UNDEF) {
            if (symbols[i].name == "_GLOBAL_OFFSET_TABLE_") {
                values_[i] = reinterpret_cast<uint64_t>(image_) + begin_[constant_part];
                continue;
            }
            auto address = resolve(symbols[i]);
            if (!address) return std::move(address).error();
            values_[i] = *address;
        } else if (e.st_shndx == SHN_ABS) {
            values_[i] = e.st_value;
        } else if (e.st_shndx == SHN_COMMON) {
            values_[i] = reinterpret_cast<uint64_t>(image_) + commons_[i];
        } else if (e.st_shndx >= object_.sections().size()) {
            return damaged("a symbol lies in no section");
        } else if (has_place_[e.st_shndx]) {
            if (e.st_value > object_.sections()[e.st_shndx].header.sh_size)
                return damaged("a symbol lies outside its section");
            values_[i] = reinterpret_cast<uint64_t>(image_) + placed_[e.st_shndx] + e.st_value;
        }
    }
    return {};
}

// The symbol's entry in the table of addresses (GOT); 0 when there is no room, which cannot be.
uint64_t Loader::slot(uint32_t symbol)
{
    auto [at, fresh] = slots_.try_emplace(symbol, next_slot_);
    if (fresh) {
        memcpy(image_ + next_slot_, &values_[symbol], kSlot);
        next_slot_ += kSlot;
    }
    return reinterpret_cast<uint64_t>(image_) + at->second;
}

// Code in the image that jumps to the symbol, however far it is (PLT).
uint64_t Loader::stub(uint32_t symbol)
{
    auto [at, fresh] = stubs_.try_emplace(symbol, next_stub_);
    uint64_t address = reinterpret_cast<uint64_t>(image_) + at->second;
    if (fresh) {
        auto distance = static_cast<uint32_t>(slot(symbol) - (address + 6));
        uint8_t code[kStub] = {0xFF, 0x25};
        memcpy(code + 2, &distance, sizeof distance);
        memset(code + 6, 0xCC, kStub - 6);
        memcpy(image_ + next_stub_, code, kStub);
        next_stub_ += kStub;
    }
    return address;
}

Result<void> Loader::relocate()
{
    for (const ElfSection &s : object_.sections()) {
        if (s.header.sh_type == SHT_REL) return damaged("it has relocations without addends");
        if (s.header.sh_type != SHT_RELA) continue;
        if (auto r = relocate_section(s); !r) return r;
    }
    return {};
}

Result<void> Loader::relocate_section(const ElfSection &table)
{
    uint32_t target = table.header.sh_info;
    if (target >= object_.sections().size()) return damaged("relocations are for no section");
    if (!has_place_[target]) return {};
    const ElfSection &section = object_.sections()[target];
    auto all = ElfObject::relocations(table);
    if (!all) return std::move(all).error();
    for (const Elf64_Rela &r : *all) {
        if (ELF64_R_SYM(r.r_info) >= values_.size())
            return damaged("a relocation is for no symbol");
        if (section.header.sh_type == SHT_NOBITS || r.r_offset >= section.header.sh_size)
            return damaged("a relocation lies outside its section");
        auto done = apply(section, image_ + placed_[target] + r.r_offset,
                          section.header.sh_size - r.r_offset, r);
        if (!done) return done;
    }
    return {};
}

template <class T> Result<void> store(uint8_t *place, uint64_t room, uint64_t value, bool is_signed)
{
    if (room < sizeof(T)) return damaged("a relocation lies outside its section");
    auto narrow = static_cast<T>(value);
    bool fits = is_signed ? static_cast<uint64_t>(static_cast<int64_t>(
                                static_cast<std::make_signed_t<T>>(narrow))) == value
                          : static_cast<uint64_t>(narrow) == value;
    if (!fits)
        return error(ErrorKind::invalid, "kernel object is damaged: a relocation does not fit");
    memcpy(place, &narrow, sizeof narrow);
    return {};
}

// Names and formulas: System V ABI, AMD64 supplement, 4.4.
Result<void> Loader::apply(const ElfSection &section, uint8_t *place, uint64_t room,
                           const Elf64_Rela &r)
{
    auto symbol = static_cast<uint32_t>(ELF64_R_SYM(r.r_info));
    auto here = reinterpret_cast<uint64_t>(place);
    auto addend = static_cast<uint64_t>(r.r_addend);
    uint64_t value = values_[symbol] + addend;
    uint64_t got = reinterpret_cast<uint64_t>(image_) + begin_[constant_part];
    switch (ELF64_R_TYPE(r.r_info)) {
    case R_X86_64_NONE: return {};
    case R_X86_64_64: return store<uint64_t>(place, room, value, false);
    case R_X86_64_32: return store<uint32_t>(place, room, value, false);
    case R_X86_64_32S: return store<uint32_t>(place, room, value, true);
    case R_X86_64_PC64: return store<uint64_t>(place, room, value - here, false);
    case R_X86_64_PC32: {
        // A direct call or jump to something far goes by a stub; data cannot.
        auto distance = static_cast<int64_t>(value - here);
        bool far = distance != static_cast<int32_t>(distance);
        bool branch = section.executable() && r.r_offset > 0 &&
                      (place[-1] == 0xE8 || place[-1] == 0xE9);
        if (far && branch) value = stub(symbol) + addend;
        return store<uint32_t>(place, room, value - here, true);
    }
    case R_X86_64_PLT32: {
        auto distance = static_cast<int64_t>(value - here);
        if (distance != static_cast<int32_t>(distance)) value = stub(symbol) + addend;
        return store<uint32_t>(place, room, value - here, true);
    }
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        return store<uint32_t>(place, room, slot(symbol) + addend - here, true);
    case R_X86_64_GOTPCREL64:
        return store<uint64_t>(place, room, slot(symbol) + addend - here, false);
    case R_X86_64_GOTPC32: return store<uint32_t>(place, room, got + addend - here, true);
    case R_X86_64_GOTPC64: return store<uint64_t>(place, room, got + addend - here, false);
    case R_X86_64_GOTOFF64:
    case R_X86_64_PLTOFF64: return store<uint64_t>(place, room, value - got, false);
    case R_X86_64_GOT64: return store<uint64_t>(place, room, slot(symbol) - got + addend, false);
    }
    return error(ErrorKind::invalid,
                 "kernel object has a relocation of type %u, which kernels cannot have",
                 static_cast<unsigned>(ELF64_R_TYPE(r.r_info)));
}

bool Loader::seal()
{
    const int protection[parts] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (int part = 0; part < parts; ++part) {
        uint64_t size = begin_[part + 1] - begin_[part];
        if (size && mprotect(image_ + begin_[part], size, protection[part]) != 0) return false;
    }
    return true;
}

Result<std::shared_ptr<const LoadedKernel>> Loader::load(const CompiledKernel &kernel)
{
    if (auto r = lay_out(); !r) return std::move(r).error();
    if (auto r = map(); !r) return std::move(r).error();
    if (auto r = resolve_symbols(); !r) return std::move(r).error();
    if (auto r = relocate(); !r) return std::move(r).error();

    uint64_t entry = 0;
    auto symbols = object_.symbols();
    for (size_t i = 0; i < symbols.size(); ++i) {
        uint16_t section = symbols[i].entry.st_shndx;
        bool function = ELF64_ST_TYPE(symbols[i].entry.st_info) == STT_FUNC;
        if (!function || symbols[i].name != kernel.entry || section >= has_place_.size()) continue;
        const ElfSection &s = object_.sections()[section];
        if (has_place_[section] && s.executable() && symbols[i].entry.st_value < s.header.sh_size)
            entry = values_[i];
    }
    if (!entry) return damaged("its entry is missing");
    if (kernel.stack_bytes > kMaxStack - kStackReserve)
        return error(ErrorKind::exhausted,
                     "the kernel needs a stack of %u bytes a thread; %zu can be had",
                     kernel.stack_bytes, kMaxStack - kStackReserve);
    if (!seal()) return error(ErrorKind::exhausted, "the kernel's code cannot be made executable");
    auto code = std::make_shared<KernelCode>(
        image_, bytes_, entry, kernel.per_thread,
        std::bit_ceil(std::max(kMinStack, kernel.stack_bytes + kStackReserve)),
        std::move(functions_));
    image_ = nullptr;
    return std::shared_ptr<const LoadedKernel>(std::move(code));
}

}  // namespace

KernelCode::~KernelCode() { munmap(image_, bytes_); }

uint64_t entry_of(const LoadedKernel &kernel)
{
    return static_cast<const KernelCode &>(kernel).entry;
}

}  // namespace rgpu::softgpu::exec

namespace rgpu::softgpu {

Result<std::shared_ptr<const LoadedKernel>> LoadedKernel::load(const CompiledKernel &kernel,
                                                               const SymbolResolver &resolver,
                                                               FunctionSource functions)
{
    auto object = exec::ElfObject::parse(kernel.object);
    if (!object) return std::move(object).error();
    return exec::Loader(*object, resolver, std::move(functions)).load(kernel);
}

}  // namespace rgpu::softgpu
