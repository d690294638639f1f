// SPDX-License-Identifier: Apache-2.0
#include "nvml/forward.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "nvml/pool.h"
#include "wire/codec.h"

namespace rgpu::nvml {
namespace {

using calls::NvmlFunction;
using calls::NvmlParameter;

uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
template <class T> T *pointer(uint64_t word) { return reinterpret_cast<T *>(word); }

// One call: its arguments walked twice, on the way there and back.
class Question {
public:
    Question(const NvmlFunction &function, const NvmlArguments &arguments, const Pool &pool)
        : function_(function), arguments_(arguments), pool_(pool),
          parameters_(calls::nvml_parameters(function.parameters))
    {}

    int ask()
    {
        Device *device = pool_.find(pointer<void>(arguments_[0]));
        if (!device) return calls::kNvmlInvalidArgument;
        link_ = device->link;
        const int number = link_->number(device->gpu.uuid);
        if (number < 0) return calls::kNvmlUnknown;
        wire::Writer w(body_);
        w.string(function_.name);
        w.value(static_cast<uint32_t>(number));
        for (const NvmlParameter &p : parameters_) {
            const int r = put(w, p);
            if (r == kApart) return give_apart();
            if (r) return r;
        }
        auto answer = link_->nvml(body_);
        if (!answer) return calls::kNvmlUnknown;
        wire::Reader r(answer->data(), answer->size());
        const int result = r.value<int>();
        next_ = 1;
        if (result == calls::kNvmlSuccess || result == calls::kNvmlInsufficientSize)
            for (const NvmlParameter &p : parameters_)
                if (!get(r, p)) return r.left() ? calls::kNvmlInsufficientSize : result;
        return r.ok() ? result : calls::kNvmlUnknown;
    }

private:
    static constexpr int kApart = -1;

    uint64_t take() { return next_ < arguments_.size() ? arguments_[next_++] : 0; }

    int put(wire::Writer &w, const NvmlParameter &p)
    {
        const uint64_t word = take();
        switch (p.kind) {
        case 'v': return w.value(uint64_t{low(word)}), 0;
        case 'p': return put_peer(w, pointer<void>(word));
        case 's': return put_room(w, word, low(take()));
        case 'a': return put_list(w, pointer<uint32_t>(word), take());
        case 'f': return w.value(low(word)), put_bytes(w, take(), uint64_t{low(word)} * p.bytes);
        case 'o': return put_bytes(w, word, p.bytes);
        default: break;
        }
        if (!word) return calls::kNvmlInvalidArgument;
        // NVML_STRUCT_VERSION: the size, and the version above it.
        uint32_t size = 0;
        memcpy(&size, pointer<void>(word), sizeof size);
        size &= 0xffffff;
        if (size < sizeof size || size > calls::kMostNvmlBytes)
            return calls::kNvmlArgumentVersionMismatch;
        return w.value(size), put_bytes(w, word, size);
    }

    int put_peer(wire::Writer &w, const void *handle)
    {
        Device *peer = pool_.find(handle);
        if (!peer) return calls::kNvmlInvalidArgument;
        if (peer->link != link_) return kApart;
        const int number = link_->number(peer->gpu.uuid);
        if (number < 0) return calls::kNvmlUnknown;
        return w.value(static_cast<uint32_t>(number)), 0;
    }

    static int put_room(wire::Writer &w, uint64_t text, uint32_t room)
    {
        if (!text) return calls::kNvmlInvalidArgument;
        return w.value(std::min(room, calls::kMostNvmlBytes)), 0;
    }

    static int put_list(wire::Writer &w, const uint32_t *count, uint64_t list)
    {
        if (!count) return calls::kNvmlInvalidArgument;
        return w.value(list ? *count : 0u), 0;
    }

    static int put_bytes(wire::Writer &w, uint64_t from, uint64_t bytes)
    {
        if (!from || bytes > calls::kMostNvmlBytes) return calls::kNvmlInvalidArgument;
        return w.bytes(pointer<void>(from), bytes), 0;
    }

    // What is given where the other device of two is on another server.
    int give_apart() const
    {
        uint32_t *to = pointer<uint32_t>(arguments_[parameters_.size()]);
        if (!to) return calls::kNvmlInvalidArgument;
        *to = static_cast<uint32_t>(function_.apart);
        return calls::kNvmlSuccess;
    }

    // False where there is too little room, or nothing more.
    bool get(wire::Reader &r, const NvmlParameter &p)
    {
        const uint64_t word = take();
        switch (p.kind) {
        case 'v':
        case 'p': return true;
        case 's': return get_text(r, pointer<char>(word), low(take()));
        case 'a': return get_list(r, pointer<uint32_t>(word), pointer<void>(take()), p.bytes);
        default: break;
        }
        const uint32_t size = p.kind == 'f'   ? low(word) * p.bytes
                              : p.kind == 'o' ? p.bytes
                                              : *pointer<uint32_t>(word) & 0xffffff;
        void *to = pointer<void>(p.kind == 'f' ? take() : word);
        const uint8_t *bytes = r.bytes(size);
        if (!bytes) return false;
        memcpy(to, bytes, size);
        if (function_.name.starts_with("nvmlDeviceGetNvLinkRemotePciInfo")) readdress(to);
        return true;
    }

    static bool get_text(wire::Reader &r, char *to, uint32_t room)
    {
        const std::string_view text = r.string();
        if (!r.ok() || text.size() >= room) return false;
        memcpy(to, text.data(), text.size());
        to[text.size()] = 0;
        return true;
    }

    static bool get_list(wire::Reader &r, uint32_t *count, void *to, uint32_t each)
    {
        const uint32_t found = r.value<uint32_t>(), given = r.value<uint32_t>();
        const uint8_t *bytes = r.bytes(size_t{given} * each);
        if (!bytes || given > *count) return false;
        *count = found;
        if (to && given) memcpy(to, bytes, size_t{given} * each);
        return true;
    }

    // nvmlPciInfo_t: a GPU of the lease has another address for the program.
    void readdress(void *info)
    {
        struct Pci {
            char legacy[16];
            unsigned domain, bus, device, ids, subsystem;
            char id[32];
        } pci;
        memcpy(&pci, info, sizeof pci);
        char there[32];
        snprintf(there, sizeof there, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
        const std::string here = link_->address_of(there);
        if (sscanf(here.c_str(), "%x:%x:%x", &pci.domain, &pci.bus, &pci.device) != 3) return;
        snprintf(pci.legacy, sizeof pci.legacy, "%04X:%02X:%02X.0", pci.domain & 0xffff,
                 pci.bus & 0xff, pci.device & 0xff);
        snprintf(pci.id, sizeof pci.id, "%08X:%02X:%02X.0", pci.domain, pci.bus & 0xff,
                 pci.device & 0xff);
        memcpy(info, &pci, sizeof pci);
    }

    const NvmlFunction &function_;
    const NvmlArguments &arguments_;
    const Pool &pool_;
    const std::vector<NvmlParameter> parameters_;
    Link *link_ = nullptr;
    std::vector<uint8_t> body_;
    size_t next_ = 1;
};

}  // namespace

int forward(const NvmlFunction &function, const NvmlArguments &arguments)
{
    try {
        const Pool *pool = pool_in_use();
        return pool ? Question(function, arguments, *pool).ask() : calls::kNvmlUninitialized;
    } catch (abi::__forced_unwind &) {  // a thread that the program cancels
        throw;
    } catch (const std::bad_alloc &) {
        return calls::kNvmlMemory;
    } catch (...) {
        return calls::kNvmlUnknown;
    }
}

}  // namespace rgpu::nvml
