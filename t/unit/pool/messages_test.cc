// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/error_json.h"
#include "pool/messages/host_json.h"
#include "pool/messages/inventory_json.h"
#include "pool/messages/lease_json.h"
#include "pool/messages/request_json.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

static std::string wrong(const std::string &json)
{
    auto request = decode_request(json);
    return request ? "" : request.error().text;
}

static const char kGood[] = R"({"gpus":2,"share":50,"memory":1048576,"term_ms":60000,)"
                            R"("owner":{"uid":1001,"user":"alice","job":"17","node":"cn1"}})";

Test(messages, a_request_is_read_back_as_it_was)
{
    auto request = decode_request(kGood);
    cr_assert(request.has_value(), "%s", wrong(kGood).c_str());
    auto again = decode_request(encode(*request));
    cr_assert(again.has_value());
    cr_assert_eq(again->gpus, 2);
    cr_assert_eq(again->share, 50);
    cr_assert_eq(again->memory, 1048576u);
    cr_assert_eq(again->term.count(), 60000);
    cr_assert_eq(again->owner.uid, 1001u);
    cr_assert_eq(again->owner.job, "17");
    cr_assert_eq(again->owner.node, "cn1");
}

Test(messages, ranges_of_shares)
{
    auto alone = decode_request(kGood);
    cr_assert(alone.has_value());
    cr_expect_eq(alone->most, 50, "a share alone is the most, too");
    auto range = decode_request(R"({"gpus":1,"share":0,"most":80,"memory":1,)"
                                R"("owner":{"uid":1,"job":"1","qos":"high",)"
                                R"("account":"physics","run":2}})");
    cr_assert(range.has_value(), "%s", range.error().text.c_str());
    auto again = decode_request(encode(*range));
    cr_assert(again.has_value());
    cr_expect(again->share == 0 && again->most == 80 && again->owner.qos == "high" &&
              again->owner.account == "physics" && again->owner.run == 2);
    cr_expect_not(wrong(R"({"gpus":1,"share":0,"most":80,"owner":{"uid":1,"job":"1"}})").empty(),
                  "no memory follows");
    cr_expect_not(wrong(R"({"gpus":1,"share":50,"most":40,"owner":{"uid":1,"job":"1"}})").empty());
    cr_expect_not(wrong(R"({"gpus":1,"share":50,"most":101,"owner":{"uid":1,"job":"1"}})").empty());
}

Test(messages, how_tenants_stand_is_read_back)
{
    Sharing sharing;
    sharing.name = "gpu1";
    TenantShare mine, others;
    mine.lease = "0123";
    mine.owner.user = "alice";
    mine.owner.job = "17";
    mine.least = 30;
    mine.given_10s = 0.3125;
    mine.owed_s = -1.5;
    mine.launches = 7;
    mine.running = true;
    sharing.gpus.push_back({1, "GPU-1", {mine, others}});
    auto again = decode_sharing(encode(sharing));
    cr_assert(again.has_value(), "%s", again.error().text.c_str());
    cr_assert(again->gpus.size() == 1 && again->gpus[0].tenants.size() == 2);
    const TenantShare &t = again->gpus[0].tenants[0];
    cr_expect(t.lease == "0123" && t.owner.job == "17" && t.least == 30 && t.given_10s == 0.3125 &&
              t.owed_s == -1.5 && t.launches == 7 && t.running);
    cr_expect(again->gpus[0].tenants[1].lease.empty());
    std::string good = encode(sharing);
    for (size_t n = 0; n < good.size(); ++n)
        cr_assert_not(decode_sharing(good.substr(0, n)).has_value(), "cut at %zu", n);
}

Test(messages, a_request_cut_at_any_byte_is_refused)
{
    std::string good = kGood;
    for (size_t n = 0; n < good.size(); ++n)
        cr_assert_not(wrong(good.substr(0, n)).empty(), "cut at %zu", n);
}

Test(messages, what_a_request_may_not_say_is_refused_in_words)
{
    struct {
        const char *json;
        const char *part;
    } rows[] = {
        {"", "not JSON"},
        {"[]", "object"},
        {"{}", "gpus"},
        {R"({"gpus":0,"owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":-1,"owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":100000,"owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":18446744073709551615,"owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":1.5,"owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":"1","owner":{"uid":1,"host":"h"}})", "gpus must be"},
        {R"({"gpus":1,"share":0,"owner":{"uid":1,"host":"h"}})", "share must be"},
        {R"({"gpus":1,"share":101,"owner":{"uid":1,"host":"h"}})", "share must be"},
        {R"({"gpus":1,"memory":-1,"owner":{"uid":1,"host":"h"}})", "memory must be"},
        {R"({"gpus":1,"term_ms":1e300,"owner":{"uid":1,"host":"h"}})", "term_ms must be"},
        {R"({"gpus":1})", "owner"},
        {R"({"gpus":1,"owner":7})", "owner: must be an object"},
        {R"({"gpus":1,"owner":{"uid":1}})", "job"},
        {R"({"gpus":1,"owner":{"uid":-1,"host":"h"}})", "uid must be"},
        {R"({"gpus":1,"owner":{"uid":4294967296,"host":"h"}})", "uid must be"},
        {R"({"gpus":1,"owner":{"uid":1,"host":"a\nb"}})", "printable"},
        {R"({"gpus":1,"owner":{"uid":1,"host":"h","admin":true}})", "unknown field \"admin\""},
        {R"({"gpus":1,"wanted":{"driver":"new"},"owner":{"uid":1,"host":"h"}})",
         "wanted: driver must be numbers"},
        {R"({"gpus":1,"type":"h100","owner":{"uid":1,"host":"h"}})", "unknown field \"type\""},
    };
    for (auto &row : rows)
        cr_assert(wrong(row.json).find(row.part) != std::string::npos, "%s gave: %s", row.json,
                  wrong(row.json).c_str());
    std::string deep(60000, '[');
    cr_assert_not(wrong(deep).empty());
    std::string longer = R"({"gpus":1,"owner":{"uid":1,"host":")" + std::string(256, 'a') +
                         R"("}})";
    cr_assert_not(wrong(longer).empty());
}

Test(messages, an_offer_is_read_back_as_it_was)
{
    Offer offer;
    offer.answer = Answer::now;
    offer.id = "00ff";
    offer.expires_in = Milliseconds(5000);
    offer.gpus = {{3, "GPU-3", "Name", 50, 4096}};
    offer.fit.whole_left = 7;
    auto again = decode_offer(encode(offer));
    cr_assert(again.has_value());
    cr_assert_eq(again->gpus[0].uuid, "GPU-3");
    cr_assert_eq(again->fit.whole_left, 7);
    auto never =
        decode_offer(encode(Offer{Answer::never, "it has no GPU", "", Milliseconds(0), {}, {}}));
    cr_assert(never.has_value());
    cr_assert_eq(never->answer, Answer::never);
    cr_assert_eq(never->reason, "it has no GPU");
}

Test(messages, a_lease_carries_its_secret_only_when_it_has_one)
{
    Lease lease;
    lease.id = "ab";
    lease.owner.host = "h";
    lease.gpus = {{0, "GPU-0", "Name", 100, 1}};
    std::string without = encode(Leases{7711, {lease}});
    cr_assert_eq(without.find("secret"), std::string::npos);
    lease.secret = std::string("\x00\xff\x10", 3);
    auto again = decode_leases(encode(Leases{7711, {lease}}));
    cr_assert(again.has_value());
    cr_assert_eq(again->data_port, 7711);
    cr_assert_eq(again->leases[0].secret, lease.secret);
}

Test(messages, a_span_is_said_only_where_there_is_one)
{
    auto request = decode_request(kGood);
    cr_assert(request.has_value());
    cr_expect(encode(*request).find("span") == std::string::npos,
              "servers before this one know no such field");
    request->span = "00112233445566778899aabbccddeeff";
    auto again = decode_request(encode(*request));
    cr_assert(again.has_value(), "%s", again ? "" : again.error().text.c_str());
    cr_expect_eq(again->span, request->span);
    cr_expect_not(wrong(R"({"gpus":1,"span":true,"owner":{"uid":1,"host":"h"}})").empty());
    cr_expect_not(
        wrong(R"({"gpus":1,"span":")" + std::string(33, 'a') + R"(","owner":{"uid":1,"host":"h"}})")
            .empty());

    Offer offer{Answer::later, "in use", "", {}, {}, {}, 3};
    auto told = decode_offer(encode(offer));
    cr_assert(told.has_value() && told->fitting == 3);

    Lease lease;
    lease.id = "ab";
    cr_expect(encode(Leases{1, {lease}}).find("span") == std::string::npos);
    lease.span = {"5a", 4};
    auto leases = decode_leases(encode(Leases{1, {lease}}));
    cr_assert(leases.has_value(), "%s", leases ? "" : leases.error().text.c_str());
    cr_expect(leases->leases[0].span.id == "5a" && leases->leases[0].span.gpus == 4);

    Released released;
    released.count = 2;
    released.gpus = 3;
    auto ended = decode_released(encode(released));
    cr_assert(ended.has_value() && ended->count == 2 && ended->gpus == 3);
}

Test(messages, a_wanted_driver_is_said_only_where_one_is_wanted)
{
    auto request = decode_request(kGood);
    cr_assert(request.has_value());
    request->filter.cuda = 12040;
    cr_expect(encode(*request).find("driver") == std::string::npos,
              "servers before this one know no such field");
    request->filter.driver = "570.86.10";
    auto again = decode_request(encode(*request));
    cr_assert(again.has_value(), "%s", again ? "" : again.error().text.c_str());
    cr_expect(again->filter.driver == "570.86.10" && again->filter.cuda == 12040);
}

Test(messages, an_error_comes_back_with_its_kind)
{
    Error told = decode_error(encode_error(error(ErrorKind::exhausted, "too many")), 429);
    cr_assert_eq(told.kind, ErrorKind::exhausted);
    cr_assert_eq(told.text, "too many");
    Error page = decode_error("<html>", 502);
    cr_assert_eq(page.kind, ErrorKind::disconnected);
    cr_assert(page.text.find("502") != std::string::npos);
}

Test(messages, a_driver_s_inventory_is_checked)
{
    auto good =
        decode_driver_inventory(R"({"driver_version":13000,"gpus":[{"index":0,"uuid":"GPU-0",)"
                                R"("name":"N","memory":1024,"compute_capability":"8.0"}]})");
    cr_assert(good.has_value(), "%s", good ? "" : good.error().text.c_str());
    cr_assert_eq(good->gpus[0].free_memory, 1024u);
    cr_expect(good->driver_release.empty());
    auto told = decode_driver_inventory(
        R"({"driver_version":13000,"driver_release":"580.95.05","gpus":[]})");
    cr_assert(told.has_value() && told->driver_release == "580.95.05");
    cr_assert_not(decode_driver_inventory(R"({"driver_version":13000})").has_value());
    cr_assert_not(decode_driver_inventory("Segmentation fault").has_value());
}

Test(messages, a_lease_file_is_what_the_interposer_reads)
{
    Grant grant{"gpu1", "127.0.0.1:7711", {}};
    grant.lease.id = "5d41";
    grant.lease.secret = "\x01\x02";
    grant.lease.gpus = {{0, "GPU-0", "Name", 100, 2048}};
    std::string text = lease_file("17", {grant});
    for (const char *part :
         {"\"version\": 1", "\"job\": \"17\"", "\"address\": \"127.0.0.1:7711\"",
          "\"secret\": \"0102\"", "\"lease\": \"5d41\"", "\"uuid\": \"GPU-0\"", "\"memory\": 2048"})
        cr_assert(text.find(part) != std::string::npos, "%s in %s", part, text.c_str());
    auto read = decode_lease_file(text);
    cr_assert(read && read->size() == 1);
    cr_expect_eq(read->front().server, grant.server);
    cr_expect_eq(read->front().data_address, grant.data_address);
    cr_expect_eq(read->front().lease.id, grant.lease.id);
    cr_expect(read->front().lease.secret.empty());
    cr_expect_eq(read->front().lease.gpus.size(), size_t{1});
    cr_expect_eq(read->front().lease.gpus[0].memory, uint64_t{2048});
    for (const char *wrong : {R"({"servers": []})", R"({"servers": [{"name": "a"}]})", "[]", ""})
        cr_expect_not(decode_lease_file(wrong).has_value(), "%s", wrong);
}

Test(messages, health_and_topology_go_there_and_back)
{
    Health health{"gpu1",
                  1500,
                  {{"ECC", "GPU 0", Verdict::fatal, "a row \x7f", "none", "reset it"},
                   {"P2P", "", Verdict::skipped, "one GPU", "", ""}}};
    auto read = decode_health(encode(health));
    cr_assert(read, "%s", read ? "" : read.error().text.c_str());
    cr_assert_eq(read->findings.size(), size_t{2});
    cr_assert_eq(read->findings[0].verdict, Verdict::fatal);
    cr_assert_eq(read->findings[0].value, "a row ?");
    cr_assert_eq(read->findings[1].verdict, Verdict::skipped);
    cr_assert_not(
        decode_health(R"({"name": "x", "age_ms": 0, )"
                      R"("checks": [{"check": "ECC", "verdict": "GOOD", "value": ""}]})"));
    Topology topology{"gpu1",
                      "eth0",
                      {{0, "GPU-a", "H100", "0000:3b:00.0", 1, "0-7", {Link::pix, Link::nv}},
                       {1, "GPU-b", "H100", "", -1, "", {Link::nv, Link::sys}}}};
    auto lies = decode_topology(encode(topology));
    cr_assert(lies, "%s", lies ? "" : lies.error().text.c_str());
    cr_assert_eq(lies->gpus[0].links, topology.gpus[0].links);
    cr_assert_eq(lies->gpus[1].numa, -1);
    auto alive = decode_alive(encode(Alive{"gpu1", "0.1.0", 1790000000000}));
    cr_assert_eq(alive->time_ms, 1790000000000);
    cr_assert_eq(decode_alive(R"({"status": "ok", "name": "gpu1", "version": "0"})")->time_ms, 0,
                 "an older server does not tell");
}

Test(messages, nodes_and_what_they_said)
{
    auto told = pool::decode_node_configs(
        pool::encode(pool::NodeConfigs{{{"cn1", "client:1", 2000}, {"cn2", "client:2", 0}}}));
    cr_assert(told.has_value());
    cr_assert_eq(told->nodes.size(), 2u);
    cr_expect(told->nodes[0].node == "cn1" && told->nodes[0].config == "client:1" &&
              told->nodes[0].age_ms == 2000);
    cr_expect_not(pool::decode_node_configs("{\"nodes\": [{\"node\": \"cn1\"}]}").has_value());
}

Test(messages, a_release_tells_what_was_used)
{
    pool::Released released;
    released.count = 2;
    released.lost = 1;
    auto bare = pool::decode_released(pool::encode(released));
    cr_assert(bare.has_value());
    cr_expect_eq(bare->count, 2);
    cr_expect_eq(bare->lost, 1);
    cr_expect(bare->usage.empty());
    pool::LeaseUsage usage;
    usage.lease = "5d41";
    usage.owner.uid = 7;
    usage.owner.job = "17";
    usage.owner.node = "cn1";
    usage.held_s = 12.5;
    usage.bytes_in = uint64_t{1} << 40;
    usage.bytes_out = 3;
    usage.gpus.push_back({"GPU-1", "H100", 0, 1.5, 0.25, 0.125, uint64_t{80} << 30, 9});
    released.withdrawn = 3;
    released.usage = {usage, usage};
    released.usage[1].gpus[0].energy_j = 34.5;
    auto back = pool::decode_released(pool::encode(released));
    cr_expect(back && back->withdrawn == 3);
    cr_assert(back.has_value());
    cr_assert_eq(back->usage.size(), 2u);
    const pool::LeaseUsage &one = back->usage[1];
    cr_expect_eq(one.owner.job, "17");
    cr_expect_float_eq(one.held_s, 12.5, 1e-9);
    cr_expect_eq(one.bytes_in, usage.bytes_in);
    cr_assert_eq(one.gpus.size(), 1u);
    cr_expect_eq(one.gpus[0].name, "H100");
    cr_expect_eq(one.gpus[0].share, 0);
    cr_expect_float_eq(one.gpus[0].busy_s, 1.5, 1e-9);
    cr_expect_float_eq(one.gpus[0].blocked_s, 0.25, 1e-9);
    cr_expect_float_eq(one.gpus[0].throttled_s, 0.125, 1e-9);
    cr_expect_eq(one.gpus[0].memory_peak, usage.gpus[0].memory_peak);
    cr_expect_eq(one.gpus[0].launches, 9u);
    cr_expect_eq(one.gpus[0].energy_j, 34.5);
    cr_expect(!back->usage[0].gpus[0].energy_j);
    cr_expect_not(
        pool::decode_released("{\"released\": 1, \"usage\": [{\"lease\": \"5d41\"}]}").has_value());
}

Test(messages, a_lend_and_what_is_wrong_with_one)
{
    pool::Lend lend{{"0", "GPU-1"}, Milliseconds(30000), {}};
    lend.owner.job = "17";
    lend.owner.node = "cn1";
    auto back = pool::decode_lend(pool::encode(lend));
    cr_assert(back.has_value(), "%s", back ? "" : back.error().text.c_str());
    cr_expect(back->gpus == lend.gpus && back->grace == lend.grace && back->owner.job == "17" &&
              back->owner.node == "cn1");
    for (const char *wrong :
         {R"({"gpus": [], "grace_ms": 0, "owner": {"uid": 0, "job": "1"}})",
          R"({"gpus": [0], "grace_ms": 0, "owner": {"uid": 0, "job": "1"}})",
          R"({"gpus": ["0"], "owner": {"uid": 0, "job": "1"}})",
          R"({"gpus": ["0"], "grace_ms": -1, "owner": {"uid": 0, "job": "1"}})",
          R"({"gpus": ["0"], "grace_ms": 0, "owner": {"uid": 0}})",
          R"({"gpus": ["0"], "grace_ms": 0})",
          R"({"gpus": ["0"], "grace_ms": 0, "owner": {"uid": 0, "job": "1"}, "forever": true})"})
        cr_expect_not(pool::decode_lend(wrong).has_value(), "%s", wrong);
}

Test(messages, a_resize_and_what_is_wrong_with_one)
{
    Resize wanted;
    wanted.share = 30, wanted.most = 80, wanted.memory = 5ull << 30, wanted.hold = true;
    auto back = decode_resize(encode(wanted));
    cr_assert(back.has_value());
    cr_expect(back->share == 30 && back->most == 80 && back->memory == 5ull << 30 && back->hold);
    back = decode_resize(R"({"memory": 1})");
    cr_expect(back && !back->share && !back->most && back->memory == 1 && !back->hold);
    back = decode_resize(R"({"share": 30})");
    cr_expect(back && back->share == 30 && back->most == 30);
    for (const char *bad :
         {"{}", R"({"most": 50})", R"({"share": 101})", R"({"share": -1})",
          R"({"share": 50, "most": 40})", R"({"share": 0})", R"({"share": 0, "most": 0})",
          R"({"memory": -1})", R"({"memory": "5G"})", R"({"share": 50, "mem": 1})"})
        cr_expect(!decode_resize(bad), "%s", bad);
}
