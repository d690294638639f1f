// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/host_json.h"

#include "pool/messages/fields.h"

namespace rgpu::pool {
namespace {

Result<void> read_finding(const Json &json, std::vector<Finding> &findings)
{
    Reader reader(json, "check");
    Finding finding;
    finding.check = reader.text("check");
    finding.of = reader.text("of", false);
    std::string verdict = reader.text("verdict");
    finding.value = reader.text("value", true, kMostSentence);
    finding.limit = reader.text("limit", false, kMostSentence);
    finding.cure = reader.text("cure", false, kMostSentence);
    bool known = false;
    for (Verdict one : {Verdict::pass, Verdict::skipped, Verdict::marginal, Verdict::fatal})
        if (verdict == name(one)) {
            finding.verdict = one;
            known = true;
        }
    if (!known) reader.wrong("verdict", "must be PASS, SKIPPED, MARGINAL or FATAL");
    if (reader.flag("informs") && finding.verdict == Verdict::pass) finding.verdict = Verdict::info;
    findings.push_back(std::move(finding));
    return reader.done();
}

Result<void> read_placed_gpu(const Json &json, std::vector<Topology::Gpu> &gpus)
{
    Reader reader(json, "gpu");
    Topology::Gpu gpu;
    gpu.index = reader.count("index");
    gpu.uuid = reader.text("uuid");
    gpu.name = reader.text("name");
    gpu.pci = reader.text("pci", false);
    gpu.numa = static_cast<int>(reader.number("numa", -1, 65536, false, -1));
    gpu.cpus = reader.text("cpus", false, kMostSentence);
    reader.each("links", [&](const Json &link) -> Result<void> {
        gpu.links.push_back(Link::unknown);
        for (Link one : {Link::nv, Link::pix, Link::pxb, Link::phb, Link::node, Link::sys})
            if (link.is_string() && link.get<std::string>() == name(one)) gpu.links.back() = one;
        return {};
    });
    gpus.push_back(std::move(gpu));
    return reader.done();
}

}  // namespace

std::string encode(const Health &health)
{
    Json findings = Json::array();
    for (const Finding &f : health.findings) {
        // Clients before this one know four verdicts.
        const bool informs = f.verdict == Verdict::info;
        findings.push_back({{"check", f.check},
                            {"of", printable(f.of, defaults::kMaxText)},
                            {"verdict", name(informs ? Verdict::pass : f.verdict)},
                            {"value", printable(f.value, kMostSentence)},
                            {"limit", printable(f.limit, kMostSentence)},
                            {"cure", printable(f.cure, kMostSentence)}});
        if (informs) findings.back()["informs"] = true;
    }
    return dump(
        {{"name", health.name}, {"age_ms", health.age_ms}, {"checks", std::move(findings)}});
}

Result<Health> decode_health(std::string_view text)
{
    return decode<Health>(text, [](const Json &json) -> Result<Health> {
        Reader reader(json, "health");
        Health health;
        health.name = reader.text("name");
        health.age_ms = reader.count<int64_t>("age_ms");
        reader.each("checks",
                    [&](const Json &finding) { return read_finding(finding, health.findings); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return health;
    });
}

std::string encode(const Alive &alive)
{
    return dump({{"status", "ok"},
                 {"name", alive.name},
                 {"version", alive.version},
                 {"time_ms", alive.time_ms}});
}

Result<Alive> decode_alive(std::string_view text)
{
    return decode<Alive>(text, [](const Json &json) -> Result<Alive> {
        Reader reader(json, "reply");
        Alive alive;
        alive.name = reader.text("name");
        alive.version = reader.text("version");
        alive.time_ms = reader.count<int64_t>("time_ms", false);
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return alive;
    });
}

std::string encode(const NodeConfigs &configs)
{
    Json nodes = Json::array();
    for (const NodeConfig &one : configs.nodes)
        nodes.push_back({{"node", one.node}, {"config", one.config}, {"age_ms", one.age_ms}});
    return dump({{"nodes", std::move(nodes)}});
}

Result<NodeConfigs> decode_node_configs(std::string_view text)
{
    return decode<NodeConfigs>(text, [](const Json &json) -> Result<NodeConfigs> {
        Reader reader(json, "reply");
        NodeConfigs configs;
        reader.each("nodes", [&](const Json &node) -> Result<void> {
            Reader one(node, "node");
            configs.nodes.push_back(
                {one.text("node"), one.text("config"), one.count<int64_t>("age_ms")});
            return one.done();
        });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return configs;
    });
}

std::string encode(const Topology &topology)
{
    Json gpus = Json::array();
    for (const Topology::Gpu &gpu : topology.gpus) {
        Json links = Json::array();
        for (Link link : gpu.links) links.push_back(name(link));
        gpus.push_back({{"index", gpu.index},
                        {"uuid", gpu.uuid},
                        {"name", gpu.name},
                        {"pci", gpu.pci},
                        {"numa", gpu.numa},
                        {"cpus", printable(gpu.cpus, kMostSentence)},
                        {"links", std::move(links)}});
    }
    return dump({{"name", topology.name},
                 {"card", printable(topology.card, defaults::kMaxText)},
                 {"gpus", std::move(gpus)}});
}

Result<Topology> decode_topology(std::string_view text)
{
    return decode<Topology>(text, [](const Json &json) -> Result<Topology> {
        Reader reader(json, "topology");
        Topology topology;
        topology.name = reader.text("name");
        topology.card = reader.text("card", false);
        reader.each("gpus", [&](const Json &gpu) { return read_placed_gpu(gpu, topology.gpus); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return topology;
    });
}

}  // namespace rgpu::pool
