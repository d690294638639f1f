// SPDX-License-Identifier: Apache-2.0
// Image formats, as far as their length goes.
#include "interpose/code/image.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace rgpu::interpose {

namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1, kFatMagic = 0xBA55ED50;
constexpr size_t kMaxParts = 4096;

struct Wrapper {
    uint32_t magic, version;
    const void *data;
    const void *const *objects;  // version 2: NULL-ended
};

struct FatHeader {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;  // of what follows the header
};

// 0 when it is no cubin. Only what says that it is one is read further: there is no size to check
// against.
size_t elf_bytes(const char *p)
{
    constexpr unsigned kCudaMachine = 190;  // EM_CUDA
    Elf64_Ehdr h;
    memcpy(&h, p, sizeof h);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
        h.e_machine != kCudaMachine || (h.e_shoff && h.e_shentsize != sizeof(Elf64_Shdr)))
        return 0;
    size_t end = std::max<size_t>(h.e_shoff + size_t{h.e_shnum} * h.e_shentsize,
                                  h.e_phoff + size_t{h.e_phnum} * h.e_phentsize);
    for (unsigned i = 0; h.e_shoff && i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, p + h.e_shoff + size_t{i} * h.e_shentsize, sizeof s);
        if (s.sh_type != SHT_NOBITS) end = std::max<size_t>(end, s.sh_offset + s.sh_size);
    }
    return end;
}

Result<std::string_view> part(const void *image)
{
    auto p = static_cast<const char *>(image);
    uint32_t magic;
    memcpy(&magic, p, sizeof magic);
    if (magic == kFatMagic) {
        FatHeader h;
        memcpy(&h, p, sizeof h);
        return std::string_view(p, h.header_bytes + h.bytes);
    }
    if (memcmp(p, ELFMAG, SELFMAG) == 0) {
        if (size_t bytes = elf_bytes(p)) return std::string_view(p, bytes);
        return error(ErrorKind::unsupported, "an ELF file that holds no code for GPUs");
    }
    // PTX is text that ends with a NUL.
    if (*p == '.' || *p == '/' || isspace(static_cast<unsigned char>(*p)))
        return std::string_view(p, strlen(p) + 1);
    return error(ErrorKind::invalid, "neither PTX, cubin nor fat binary");
}

}  // namespace

Result<Image> measure_image(const void *image, bool takes_linked)
{
    Image out;
    std::vector<const void *> parts{image};
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == kWrapperMagic) {
        Wrapper w;
        memcpy(&w, image, sizeof w);
        out.wrapping = wire::ImageWrapping::objects;
        parts = {w.data};
        if (w.version == 2 && w.objects) {
            if (takes_linked && w.data)
                out.wrapping = wire::ImageWrapping::linked;
            else
                parts.clear();
            for (size_t i = 0; w.objects[i] && i < kMaxParts; i++) parts.push_back(w.objects[i]);
        }
    }
    for (const void *p : parts) {
        auto bytes = part(p);
        if (!bytes) return std::move(bytes).error();
        out.parts.push_back(*bytes);
    }
    return out;
}

}  // namespace rgpu::interpose
