// SPDX-License-Identifier: Apache-2.0
// Loads, stores and address conversions.
#include "softgpu/lower/memory.h"

namespace rgpu::softgpu::lower {

Space space_of(const Lower &l)
{
    struct Name {
        std::string_view ptx;
        Space space;
    };
    static constexpr Name names[] = {
        {"global", Space::global},      {"shared", Space::shared},
        {"shared::cta", Space::shared}, {"shared::cluster", Space::shared},
        {"const", Space::constant},     {"local", Space::local},
        {"param", Space::param},        {"param::entry", Space::param},
        {"param::func", Space::param}};
    for (const Name &n : names)
        if (l.has(n.ptx)) return n.space;
    return Space::none;
}

std::string ordering(const Lower &l, bool load, bool store)
{
    if (l.has("acq_rel")) return "acq_rel";
    if (l.has("acquire") && load) return "acquire";
    if (l.has("release") && store) return "release";
    return "monotonic";
}

namespace {

unsigned vector_size(const Lower &l)
{
    for (std::string_view v : {"v2", "v4", "v8"})
        if (l.has(v)) return static_cast<unsigned>(v[1] - '0');
    return 1;
}

bool strong(const Lower &l)
{
    // A block runs on one OS thread, and lanes wait for each other before they would see it.
    if (l.is_cut() && l.has("volatile") && space_of(l) == Space::shared) return false;
    return l.has("volatile") || l.has("relaxed") || l.has("acquire") || l.has("release") ||
           l.has("mmio");
}

// Of the parameter block nothing is known but that it is there.
std::string alignment(Space space, unsigned bytes)
{
    return ", align " + std::to_string(space == Space::param ? 1 : bytes);
}

bool constant_memory(const Lower &l, Space space, const Operand &address)
{
    if (space == Space::constant || l.has("nc")) return true;
    return space == Space::param && l.function().kernel && address.count &&
           l.child(address, 0).kind != Operand::variable;
}

// What other blocks may write at the same time comes and goes whole, up to sixteen bytes, as it
// does on GPUs: the PTX ISA promises it for scalars only, but CUB's look-back counts on it for
// vectors (ScanTileState, ReduceByKeyScanTileState). As what a strong access of so many bytes is
// made; empty: it is made in its elements.
std::string whole(const Lower &l, Space space, unsigned bytes)
{
    if (!strong(l) || space == Space::param || space == Space::constant) return {};
    return bytes <= 8 ? ll_int(8 * bytes) : bytes == 16 ? "<2 x i64>" : "";
}

// One move of an aligned vector register is one access wherever there is AVX (Intel SDM, volume 3,
// "Guaranteed Atomic Operations"); being volatile it stays one.
bool is_register(const std::string &type) { return type.starts_with('<'); }

V load_whole(Lower &l, const V &p, const std::string &type, unsigned bytes)
{
    const std::string order = ordering(l, true, false), place = join(type, ", ptr ", p);
    if (!is_register(type)) return l.def("load atomic ", place, " ", order, ", align ", bytes);
    V v = l.def("load volatile ", place, ", align ", bytes);
    if (order != "monotonic") l.emit("fence ", order);
    return v;
}

void store_whole(Lower &l, const V &v, const V &p, const std::string &type, unsigned bytes)
{
    const std::string order = ordering(l, false, true), what = join(type, " ", v, ", ptr ", p);
    if (!is_register(type)) return l.emit("store atomic ", what, " ", order, ", align ", bytes);
    if (order != "monotonic") l.emit("fence ", order);
    l.emit("store volatile ", what, ", align ", bytes);
}

// A load of one value as an integer, or of a vector's elements.
void load(Lower &l)
{
    Type t = l.form().types[l.form().type_count - 1];
    unsigned n = vector_size(l);
    Space space = space_of(l);
    const Operand &d = l.operand(0);
    if (n > 1 && (d.kind != Operand::vector || d.count != n))
        return l.fail("as many registers as elements are expected");
    l.check_alignment(l.operand(1), space, n * t.bytes());
    V p = l.address(l.operand(1), space);
    std::string element = ll(t), meta = l.metadata(space);
    if (constant_memory(l, space, l.operand(1))) meta += ", !invariant.load !0";
    const unsigned bytes = n * t.bytes();
    const std::string bits = ll_int(t.total()),
                      parts = n > 1 ? join("<", std::to_string(n), " x ", bits, ">") : bits;
    if (const std::string type = whole(l, space, bytes); !type.empty()) {
        const V v = l.cast(load_whole(l, p, type, bytes), type, parts);
        for (unsigned i = 0; i < n; ++i) {
            const Operand &to = n > 1 ? l.child(d, i) : d;
            if (to.kind != Operand::sink)
                l.write(to,
                        l.cast(n > 1 ? l.def("extractelement ", parts, " ", v, ", i32 ", i) : v,
                               bits, element),
                        t);
        }
        return l.yield();
    }
    if (strong(l) && t.total() <= 64) {
        for (unsigned i = 0; i < n; ++i) {
            V at = i ? l.def("getelementptr i8, ptr ", p, ", i64 ", i * t.bytes()) : p;
            V v = l.def("load atomic ", ll_int(t.total()), ", ptr ", at, " ",
                        ordering(l, true, false), ", align ", t.bytes());
            l.write(n > 1 ? l.child(d, i) : d, l.cast(v, ll_int(t.total()), element), t);
        }
        return l.yield();
    }
    if (n == 1) {
        if (d.kind == Operand::reg && l.is_pointer(d)) {
            V v = l.def("load ptr, ptr ", p, alignment(space, t.bytes()), meta);
            l.set(l.def("ptrtoint ptr ", v, " to i64"), t);
            return l.write_pointer(d, v);
        }
        return l.set(l.def("load ", element, ", ptr ", p, alignment(space, t.bytes()), meta), t);
    }
    std::string type = join("<", std::to_string(n), " x ", element, ">");
    V v = l.def("load ", type, ", ptr ", p, alignment(space, n * t.bytes()), meta);
    for (unsigned i = 0; i < n; ++i)
        if (l.child(d, i).kind != Operand::sink)
            l.write(l.child(d, i), l.def("extractelement ", type, " ", v, ", i32 ", i), t);
}

void store(Lower &l)
{
    Type t = l.form().types[l.form().type_count - 1];
    unsigned n = vector_size(l);
    Space space = space_of(l);
    const Operand &s = l.operand(1);
    if (n > 1 && (s.kind != Operand::vector || s.count != n))
        return l.fail("as many registers as elements are expected");
    l.check_alignment(l.operand(0), space, n * t.bytes());
    V p = l.address(l.operand(0), space);
    std::string element = ll(t);
    const unsigned bytes = n * t.bytes();
    const std::string bits = ll_int(t.total()),
                      parts = n > 1 ? join("<", std::to_string(n), " x ", bits, ">") : bits;
    if (const std::string type = whole(l, space, bytes); !type.empty()) {
        V v = n > 1 ? V("poison") : l.cast(l.read(s, t), element, bits);
        for (unsigned i = 0; n > 1 && i < n; ++i)
            v = l.def("insertelement ", parts, " ", v, ", ", bits, " ",
                      l.cast(l.read(l.child(s, i), t), element, bits), ", i32 ", i);
        return store_whole(l, l.cast(v, parts, type), p, type, bytes);
    }
    if (strong(l) && t.total() <= 64) {
        for (unsigned i = 0; i < n; ++i) {
            V at = i ? l.def("getelementptr i8, ptr ", p, ", i64 ", i * t.bytes()) : p;
            V v = l.cast(l.read(n > 1 ? l.child(s, i) : s, t), element, ll_int(t.total()));
            l.emit("store atomic ", ll_int(t.total()), " ", v, ", ptr ", at, " ",
                   ordering(l, false, true), ", align ", t.bytes());
        }
        return;
    }
    if (n == 1) {
        l.emit("store ", element, " ", l.read(s, t), ", ptr ", p, alignment(space, t.bytes()),
               l.metadata(space));
        return;
    }
    std::string type = join("<", std::to_string(n), " x ", element, ">");
    V v = "poison";
    for (unsigned i = 0; i < n; ++i) {
        V x = l.read(l.child(s, i), t);
        v = l.def("insertelement ", type, " ", v, ", ", element, " ", x, ", i32 ", i);
    }
    l.emit("store ", type, " ", v, ", ptr ", p, alignment(space, n * t.bytes()), l.metadata(space));
}

// cvta.space: to generic; cvta.to.space: back. Only shared addresses differ.
void cvta(Lower &l)
{
    Type t = l.type();
    bool to = l.has("to");
    if (space_of(l) == Space::shared) {
        V a = l.resize(l.get(1, t), t.width, 64, false);
        V base = l.def("ptrtoint ptr ", l.shared_base(), " to i64");
        V r = l.def(to ? "sub i64 " : "add i64 ", a, ", ", base);
        return l.set(l.resize(r, 64, t.width, false), t);
    }
    l.set(l.get(1, t), t);
    if (l.is_pointer(l.operand(0))) l.write_pointer(l.operand(0), l.pointer(l.operand(1)));
}

void isspacep(Lower &l)
{
    V a = l.get(1, kB64);
    auto inside = [&](const V &base, const V &size) {
        return l.def("icmp ult i64 ", l.def("sub i64 ", a, ", ", base), ", ", size);
    };
    V shared = inside(l.def("ptrtoint ptr ", l.shared_base(), " to i64"),
                      l.def("zext i32 ", l.state("total"), " to i64"));
    // Thread-local memory is on this stack, within a megabyte.
    V frame = l.def("ptrtoint ptr ", l.intrinsic("ptr", "llvm.frameaddress.p0", {{"i32", "0"}}),
                    " to i64");
    V local = inside(l.def("sub i64 ", frame, ", 1048576"), "2097152");
    Space s = space_of(l);
    if (s == Space::shared) return l.set(shared, kPred);
    if (s == Space::local) return l.set(local, kPred);
    if (s != Space::global) return l.set("false", kPred);
    l.set(l.def("xor i1 ", l.def("or i1 ", shared, ", ", local), ", true"), kPred);
}

void nothing(Lower &) {}

// A cluster is one block: an address in it is the block's own.
void mapa(Lower &l) { l.set(l.get(1, l.type()), l.type()); }
void zero(Lower &l) { l.set("0", l.type()); }

// Memory of the running function, freed when it returns or by stackrestore.
void alloca_(Lower &l)
{
    Type t = l.type();
    V bytes = l.resize(l.get(1, t), t.width, 64, false);
    std::string align = l.operands() > 2 ? std::to_string(l.operand(2).value) : "16";
    l.set(l.resize(
              l.def("ptrtoint ptr ", l.def("alloca i8, i64 ", bytes, ", align ", align), " to i64"),
              64, t.width, false),
          t);
}

void stacksave(Lower &l)
{
    V p = l.intrinsic("ptr", "llvm.stacksave.p0", {});
    l.set(l.resize(l.def("ptrtoint ptr ", p, " to i64"), 64, l.type().width, false), l.type());
}

void stackrestore(Lower &l)
{
    l.intrinsic("void", "llvm.stackrestore.p0", {{"ptr", l.pointer(l.operand(0))}});
}

#define TYPES "$any"

const Row kRows[] = {
    {"ld",
     "?weak ?$space ?ca|cg|cs|lu|cv ?nc ?$evict ?$evict2 ?L2::cache_hint ?$prefetch "
     "?v2|v4|v8 " TYPES,
     2, 3, load},
    {"ld", "volatile ?$space ?$prefetch ?v2|v4|v8 " TYPES, 2, 2, load, kSpins},
    {"ld",
     "~relaxed|acquire ?$scope ?$space ?$evict ?$evict2 ?L2::cache_hint ?$prefetch "
     "?v2|v4|v8 " TYPES,
     2, 3, load, kSpins},
    {"ld", "mmio relaxed sys ?global " TYPES, 2, 2, load, kSpins},
    {"ldu", "?$space ?v2|v4 " TYPES, 2, 2, load},
    {"st", "?weak ?$space ?wb|cg|cs|wt ?$evict ?$evict2 ?L2::cache_hint ?v2|v4|v8 " TYPES, 2, 3,
     store},
    {"st", "volatile ?$space ?v2|v4|v8 " TYPES, 2, 2, store},
    {"st", "~relaxed|release ?$scope ?$space ?$evict ?$evict2 ?L2::cache_hint ?v2|v4|v8 " TYPES, 2,
     3, store},
    {"st", "mmio relaxed sys ?global " TYPES, 2, 2, store},
    {"cvta", "?to $space u32|u64", 2, 2, cvta},
    {"isspacep", "$space", 2, 2, isspacep},
    {"alloca", "u32|u64", 2, 3, alloca_},
    {"stacksave", "u32|u64", 1, 1, stacksave},
    {"stackrestore", "u32|u64", 1, 1, stackrestore},
    {"mapa", "?shared::cluster u32|u64", 3, 3, mapa},
    {"getctarank", "?shared::cluster u32|u64", 2, 2, zero},
    {"prefetch", "?$space ?tensormap L1|L2|L2::evict_last|L2::evict_normal", 1, 1, nothing},
    {"prefetchu", "L1", 1, 1, nothing},
    {"applypriority", "?global L2::evict_normal", 2, 2, nothing},
    {"discard", "?global L2", 2, 2, nothing},
    {"createpolicy",
     "fractional|range ?global $evict2|L2::evict_unchanged ?$evict2|L2::evict_unchanged b64", 1, 4,
     zero},
};

}  // namespace

std::span<const Row> memory_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
