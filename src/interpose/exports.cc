// Every symbol of libcuda.so.1: an exported name for each line of the table.
//
// The dynamic loader asks each symbol's resolver which function it stands for (GNU ifunc); the
// prototype is cuda.h's own, so there is nothing to copy. entry() in entry.h is that choice. A resolver runs before the libraries
// that this one needs are ready, a sanitizer's too.
#include "interpose/entry.h"

using namespace rgpu::interpose;

#define ROW(symbol, since, mode, code, text) \
    extern "C" [[gnu::visibility("default")]] decltype(::symbol) symbol \
        __attribute__((ifunc("rgpu_resolve_" #symbol))); \
    extern "C" [[gnu::no_sanitize("thread")]] decltype(&::symbol) rgpu_resolve_##symbol() { return entry<rgpu::calls::CallId::symbol>(); }
#include "calls/table.def"
