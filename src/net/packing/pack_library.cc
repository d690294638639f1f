// SPDX-License-Identifier: Apache-2.0
// dlopen, and the few functions that are called.
#include "net/packing/pack_library.h"

#include <dlfcn.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdlib>

namespace rgpu::net {

namespace {

using wire::PackMethod;

#define RGPU_LZ4_FUNCTIONS(F) \
    F(LZ4_sizeofState) F(LZ4_compress_fast_extState) F(LZ4_decompress_safe)
#define RGPU_ZSTD_FUNCTIONS(F) \
    F(ZSTD_createCCtx) \
    F(ZSTD_freeCCtx) \
    F(ZSTD_compressCCtx) F(ZSTD_createDCtx) F(ZSTD_freeDCtx) F(ZSTD_decompressDCtx) F(ZSTD_isError)

struct Functions {
#define RGPU_MEMBER(name) decltype(&::name) name = nullptr;
    RGPU_LZ4_FUNCTIONS(RGPU_MEMBER)
    RGPU_ZSTD_FUNCTIONS(RGPU_MEMBER)
#undef RGPU_MEMBER
} functions;

// The fastest of its ordinary levels: above it a processor is slower than the links that this is
// for.
constexpr int kZstdLevel = 1;

template <class F> bool find(void *library, const char *name, F &f)
{
    return (f = reinterpret_cast<F>(dlsym(library, name)));
}

bool open_lz4()
{
    void *library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define RGPU_FIND(name) \
    if (!find(library, #name, functions.name)) return false;
    RGPU_LZ4_FUNCTIONS(RGPU_FIND)
    return true;
}

bool open_zstd()
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    RGPU_ZSTD_FUNCTIONS(RGPU_FIND)
#undef RGPU_FIND
    return true;
}

}  // namespace

const PackLibrary &PackLibrary::here()
{
    static const PackLibrary &library = *new PackLibrary;
    return library;
}

PackLibrary::PackLibrary()
{
    const auto note = [&](bool opened, PackMethod method) {
        if (opened) {
            methods_ |= wire::bit(method);
            return;
        }
        const char *why = dlerror();
        missing_ += (missing_.empty() ? "" : "; ") + std::string(why ? why : "it cannot be opened");
    };
    note(open_lz4(), PackMethod::lz4);
    note(open_zstd(), PackMethod::zstd);
}

PackLibrary::Memory::~Memory()
{
    free(lz4_);
    if (zstd_packer_) functions.ZSTD_freeCCtx(static_cast<ZSTD_CCtx *>(zstd_packer_));
    if (zstd_unpacker_) functions.ZSTD_freeDCtx(static_cast<ZSTD_DCtx *>(zstd_unpacker_));
}

size_t PackLibrary::pack(PackMethod method, const void *from, size_t bytes, void *to, size_t room,
                         Memory &memory) const
{
    if (!(methods_ & wire::bit(method))) return 0;
    if (method == PackMethod::lz4) {
        if (!memory.lz4_) memory.lz4_ = malloc(static_cast<size_t>(functions.LZ4_sizeofState()));
        if (!memory.lz4_) return 0;
        const int n = functions.LZ4_compress_fast_extState(
            memory.lz4_, static_cast<const char *>(from), static_cast<char *>(to),
            static_cast<int>(bytes), static_cast<int>(room), 1);
        return n > 0 ? static_cast<size_t>(n) : 0;
    }
    if (!memory.zstd_packer_) memory.zstd_packer_ = functions.ZSTD_createCCtx();
    if (!memory.zstd_packer_) return 0;
    const size_t n = functions.ZSTD_compressCCtx(static_cast<ZSTD_CCtx *>(memory.zstd_packer_), to,
                                                 room, from, bytes, kZstdLevel);
    return functions.ZSTD_isError(n) ? 0 : n;
}

bool PackLibrary::unpack(PackMethod method, const void *from, size_t bytes, void *to, size_t room,
                         Memory &memory) const
{
    if (!(methods_ & wire::bit(method))) return false;
    if (method == PackMethod::lz4) {
        const int n =
            functions.LZ4_decompress_safe(static_cast<const char *>(from), static_cast<char *>(to),
                                          static_cast<int>(bytes), static_cast<int>(room));
        return n >= 0 && static_cast<size_t>(n) == room;
    }
    if (!memory.zstd_unpacker_) memory.zstd_unpacker_ = functions.ZSTD_createDCtx();
    if (!memory.zstd_unpacker_) return false;
    const size_t n = functions.ZSTD_decompressDCtx(static_cast<ZSTD_DCtx *>(memory.zstd_unpacker_),
                                                   to, room, from, bytes);
    return !functions.ZSTD_isError(n) && n == room;
}

}  // namespace rgpu::net
