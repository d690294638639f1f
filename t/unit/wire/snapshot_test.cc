// SPDX-License-Identifier: Apache-2.0
// The codec and the snapshot: what goes in comes out, and damage is told.
#include <criterion/criterion.h>

#include "wire/codec.h"
#include "wire/snapshot.h"

using namespace rgpu;
using namespace rgpu::wire;

static Snapshot example()
{
    Snapshot s;
    s.server = "gpu1";
    s.driver_version = 13000;
    s.worker_pid = 4711;
    s.device_base = 0x200000000000;
    s.device_size = 1ull << 40;
    for (int i = 0; i < 2; i++) {
        DeviceSnapshot d;
        d.name = "device " + std::to_string(i);
        d.uuid.bytes[3] = static_cast<char>(i);
        d.pci_bus_id = "0000:01:00.0";
        d.total_memory = 2ull << 30;
        d.attributes = {0, 1024, -1};
        d.attribute_status = {1, 0, 1};
        d.can_access_peer = {0, 1};
        s.devices.push_back(d);
    }
    s.keeps_images = 1;
    s.images = {7, 0x123456789abcdef0};
    s.calls = {"cuInit", "cuMemAlloc_v2"};
    s.served = {0, 1};
    return s;
}

Test(snapshot, goes_both_ways)
{
    Snapshot in = example();
    std::vector<uint8_t> bytes = encode(in);
    auto out = decode_snapshot(bytes.data(), bytes.size());
    cr_assert(out, "%s", out ? "" : out.error().text.c_str());
    cr_expect(encode(*out) == bytes);
    cr_expect(out->devices[1].name == "device 1");
    cr_expect(out->devices[1].attributes[2] == -1);
    cr_expect(out->calls[1] == "cuMemAlloc_v2");
    cr_expect(out->served == in.served);
    cr_expect(out->images == in.images);
}

Test(snapshot, is_refused_when_cut_anywhere)
{
    std::vector<uint8_t> bytes = encode(example());
    for (size_t n = 0; n < bytes.size(); n++)
        cr_expect(!decode_snapshot(bytes.data(), n), "%zu bytes", n);
    bytes.push_back(0);
    cr_expect(!decode_snapshot(bytes.data(), bytes.size()));
}

// Damaged lengths must neither crash nor reserve more memory than the bytes could fill.
Test(snapshot, survives_every_damaged_byte)
{
    const std::vector<uint8_t> good = encode(example());
    for (size_t i = 0; i < good.size(); i++)
        for (uint8_t bits : {0x01, 0x80, 0xff}) {
            std::vector<uint8_t> bad = good;
            bad[i] ^= bits;
            auto out = decode_snapshot(bad.data(), bad.size());
            if (out) cr_expect(out->devices.size() <= bad.size());
        }
}

Test(codec, a_count_that_cannot_be_is_refused)
{
    std::vector<uint8_t> bytes;
    Writer(bytes).value(uint64_t{1} << 60);
    Reader r(bytes.data(), bytes.size());
    cr_expect(r.count(8) == 0);
    cr_expect(!r.ok());
    cr_expect(r.value<uint32_t>() == 0);
}
