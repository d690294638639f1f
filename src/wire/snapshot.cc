// SPDX-License-Identifier: Apache-2.0
// The snapshot's layout. Both directions walk the fields in one function.
#include "wire/snapshot.h"

#include "wire/codec.h"

namespace rgpu::wire {

namespace {

// field() with a Writer writes, with a Reader reads.
template <class T> void field(Writer &w, const T &v) { w.value(v); }
void field(Writer &w, const std::string &s) { w.string(s); }
template <class T> void field(Reader &r, T &v) { v = r.value<T>(); }
void field(Reader &r, std::string &s) { s = r.string(); }

template <class T> constexpr size_t min_size = std::is_trivially_copyable_v<T> ? sizeof(T) : 4;
void field(Writer &w, const DeviceSnapshot &d);
void field(Reader &r, DeviceSnapshot &d);

template <class T> void field(Writer &w, const std::vector<T> &v)
{
    w.value(uint64_t{v.size()});
    for (const T &x : v) field(w, x);
}
template <class T> void field(Reader &r, std::vector<T> &v)
{
    v.resize(r.count(min_size<T>));
    for (T &x : v) field(r, x);
}

template <class Coder, class Device> void device(Coder &c, Device &d)
{
    field(c, d.name);
    field(c, d.uuid);
    field(c, d.pci_bus_id);
    field(c, d.total_memory);
    field(c, d.attributes);
    field(c, d.attribute_status);
    field(c, d.can_access_peer);
}
void field(Writer &w, const DeviceSnapshot &d) { device(w, d); }
void field(Reader &r, DeviceSnapshot &d) { device(r, d); }

template <class Coder, class S> void snapshot(Coder &c, S &s)
{
    field(c, s.server);
    field(c, s.driver_version);
    field(c, s.worker_pid);
    field(c, s.device_base);
    field(c, s.device_size);
    field(c, s.devices);
    field(c, s.keeps_images);
    field(c, s.images);
    field(c, s.calls);
    field(c, s.served);
}

}  // namespace

std::vector<uint8_t> encode(const Snapshot &s)
{
    std::vector<uint8_t> bytes;
    Writer w(bytes);
    snapshot(w, s);
    return bytes;
}

Result<Snapshot> decode_snapshot(const void *data, size_t bytes)
{
    Snapshot s;
    Reader r(data, bytes);
    snapshot(r, s);
    if (!r.at_end()) return error(ErrorKind::invalid, "the server's snapshot is damaged");
    for (const DeviceSnapshot &d : s.devices)
        if (d.attributes.size() != d.attribute_status.size() ||
            d.can_access_peer.size() != s.devices.size())
            return error(ErrorKind::invalid, "the server's snapshot contradicts itself");
    if (s.calls.size() != s.served.size())
        return error(ErrorKind::invalid, "the server's snapshot contradicts itself");
    return s;
}

}  // namespace rgpu::wire
