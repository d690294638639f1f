#include "pool/messages/message_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "util/defaults.h"
#include "util/driver_release.h"
#include "util/sha256.h"

namespace rgpu::pool {
namespace {

using Json = nlohmann::json;

// Reads the members of one object. The first thing that is wrong is kept, and all that comes
// after it is default values: check once, with done().
class Reader {
public:
    Reader(const Json &json, std::string where) : json_(json), where_(std::move(where))
    {
        if (!json_.is_object()) wrong("must be an object");
    }

    std::string text(const char *key, bool needed = true, size_t limit = defaults::kMaxText)
    {
        const Json *value = find(key, needed);
        if (!value) return "";
        if (!value->is_string()) return wrong(key, "must be a text"), "";
        auto text = value->get<std::string>();
        auto odd = [](char c) { return c < 0x20 || c > 0x7e; };
        if (text.size() > limit || std::any_of(text.begin(), text.end(), odd))
            return wrong(key, "must be at most " + std::to_string(limit) +
                                  " printable ASCII characters"),
                   "";
        return text;
    }

    int64_t number(const char *key, int64_t low, int64_t high, bool needed = true,
                   int64_t otherwise = 0)
    {
        const Json *value = find(key, needed);
        if (!value) return otherwise;
        bool whole =
            value->is_number_integer() &&
            !(value->is_number_unsigned() &&
              value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
        if (!whole || value->get<int64_t>() < low || value->get<int64_t>() > high) {
            wrong(key, "must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high));
            return otherwise;
        }
        return value->get<int64_t>();
    }

    template <class T = int> T count(const char *key, bool needed = true, T otherwise = 0)
    {
        constexpr auto high = std::min<uint64_t>(std::numeric_limits<T>::max(), uint64_t{1} << 62);
        return static_cast<T>(
            number(key, 0, static_cast<int64_t>(high), needed, static_cast<int64_t>(otherwise)));
    }

    double real(const char *key)
    {
        const Json *value = find(key, false);
        if (value && !value->is_number()) wrong(key, "must be a number");
        return value && value->is_number() ? value->get<double>() : 0;
    }

    bool flag(const char *key)
    {
        const Json *value = find(key, false);
        if (value && !value->is_boolean()) wrong(key, "must be true or false");
        return value && value->is_boolean() && value->get<bool>();
    }

    // The member itself; null when it is missing.
    const Json *member(const char *key, bool needed = true) { return find(key, needed); }

    // Calls read(element) for each of an array; read returns what is wrong, or nothing.
    template <class F> void each(const char *key, F read)
    {
        const Json *value = find(key, true);
        if (!value) return;
        if (!value->is_array()) return wrong(key, "must be an array");
        for (const Json &element : *value) {
            Result<void> done = read(element);
            if (!done && error_.empty()) error_ = done.error().text;
        }
    }

    void wrong(const std::string &key, const std::string &what) { wrong(key + " " + what); }

    Result<void> done() const
    {
        if (error_.empty()) return {};
        return Error{ErrorKind::invalid, error_};
    }

    // The same, and no member was there that nobody asked for.
    Result<void> done_strictly()
    {
        if (error_.empty())
            for (const auto &[key, value] : json_.items())
                if (!seen_.count(key)) wrong("has the unknown field \"" + printable(key) + "\"");
        return done();
    }

private:
    const Json *find(const char *key, bool needed)
    {
        seen_.insert(key);
        if (!error_.empty()) return nullptr;
        auto value = json_.find(key);
        if (value != json_.end()) return &*value;
        if (needed) wrong("lacks \"" + std::string(key) + "\"");
        return nullptr;
    }

    void wrong(const std::string &what)
    {
        if (error_.empty()) error_ = where_ + ": " + what;
    }

    static std::string printable(std::string text)
    {
        text.resize(std::min<size_t>(text.size(), 40));
        for (char &c : text)
            if (c < 0x20 || c > 0x7e) c = '?';
        return text;
    }

    const Json &json_;
    std::string where_;
    std::string error_;
    std::set<std::string> seen_;
};

// Parses text and hands it to read(const Json &) -> Result<T>. No exception leaves.
template <class T, class F> Result<T> decode(std::string_view text, F read)
{
    try {
        Json json = Json::parse(text, nullptr, false);
        if (json.is_discarded()) return error(ErrorKind::invalid, "the body is not JSON");
        return read(json);
    } catch (const std::exception &failure) {
        return error(ErrorKind::invalid, "the body cannot be read: %s", failure.what());
    }
}

// Text that came from outside must not make the encoder throw.
std::string dump(const Json &json, int indent = -1)
{
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const Owner &owner)
{
    Json json = {{"uid", owner.uid}, {"user", owner.user}};
    if (!owner.job.empty()) {
        json["job"] = owner.job;
        json["node"] = owner.node;
        if (!owner.qos.empty()) json["qos"] = owner.qos;
        if (owner.run >= 0) json["run"] = owner.run;
    } else {
        json["host"] = owner.host;
        json["pid"] = owner.pid;
    }
    return json;
}

Owner read_owner(Reader &reader)
{
    Owner owner;
    owner.uid = reader.count<uint32_t>("uid");
    owner.user = reader.text("user", false);
    owner.job = reader.text("job", false);
    owner.node = reader.text("node", false);
    owner.qos = reader.text("qos", false);
    owner.run = static_cast<int>(reader.number("run", 0, INT32_MAX, false, -1));
    owner.host = reader.text("host", false);
    owner.pid = reader.count<uint32_t>("pid", false);
    return owner;
}

Json to_json(const std::vector<Portion> &portions)
{
    Json json = Json::array();
    for (const Portion &portion : portions)
        json.push_back({{"index", portion.index},
                        {"uuid", portion.uuid},
                        {"name", portion.name},
                        {"share", portion.share},
                        {"most", portion.most},
                        {"memory", portion.memory}});
    return json;
}

Result<void> read_portion(const Json &json, std::vector<Portion> &portions)
{
    Reader reader(json, "gpu");
    Portion portion;
    portion.index = reader.count("index");
    portion.uuid = reader.text("uuid");
    portion.name = reader.text("name");
    portion.share = static_cast<int>(reader.number("share", 0, kWholeGpu));
    portion.most = static_cast<int>(reader.number("most", std::max(1, portion.share), kWholeGpu,
                                                  false, std::max(1, portion.share)));
    portion.memory = reader.count<uint64_t>("memory");
    portions.push_back(std::move(portion));
    return reader.done();
}

Json to_json(const Lease &lease)
{
    Json json = {{"id", lease.id},
                 {"owner", to_json(lease.owner)},
                 {"gpus", to_json(lease.gpus)},
                 {"term_ms", lease.term.count()},
                 {"expires_in_ms", lease.expires_in.count()},
                 {"granted_at", lease.granted_at},
                 {"workers", lease.workers}};
    if (!lease.boot.empty()) json["boot"] = lease.boot;
    if (!lease.span.id.empty()) json["span"] = {{"id", lease.span.id}, {"gpus", lease.span.gpus}};
    if (!lease.secret.empty()) json["secret"] = to_hex(lease.secret.data(), lease.secret.size());
    if (!lease.sealed.empty()) json["sealed"] = to_hex(lease.sealed.data(), lease.sealed.size());
    return json;
}

Result<void> read_lease(const Json &json, std::vector<Lease> &leases)
{
    Reader reader(json, "lease");
    Lease lease;
    lease.id = reader.text("id");
    std::string secret = reader.text("secret", false);
    if (!from_hex(secret, lease.secret)) reader.wrong("secret", "must be hex digits");
    if (!from_hex(reader.text("sealed", false), lease.sealed))
        reader.wrong("sealed", "must be hex digits");
    if (const Json *owner = reader.member("owner")) {
        Reader owner_reader(*owner, "owner");
        lease.owner = read_owner(owner_reader);
        Result<void> read = owner_reader.done();
        if (!read) return read;
    }
    reader.each("gpus", [&](const Json &gpu) { return read_portion(gpu, lease.gpus); });
    lease.term = Milliseconds(reader.count<int64_t>("term_ms"));
    lease.expires_in = Milliseconds(reader.count<int64_t>("expires_in_ms"));
    lease.granted_at = reader.count<int64_t>("granted_at");
    lease.workers = reader.count("workers");
    lease.boot = reader.text("boot", false);
    if (const Json *span = reader.member("span", false)) {
        Reader span_reader(*span, "span");
        lease.span = {span_reader.text("id"), span_reader.count("gpus")};
        if (Result<void> read = span_reader.done(); !read) return read;
    }
    leases.push_back(std::move(lease));
    return reader.done();
}

Json to_json(const std::vector<Lease> &leases)
{
    Json json = Json::array();
    for (const Lease &lease : leases) json.push_back(to_json(lease));
    return json;
}

Result<void> read_gpu(const Json &json, std::vector<GpuState> &gpus, bool with_free)
{
    Reader reader(json, "gpu");
    GpuState gpu;
    gpu.index = reader.count("index");
    gpu.uuid = reader.text("uuid");
    gpu.name = reader.text("name");
    gpu.memory = reader.count<uint64_t>("memory");
    gpu.compute_capability = reader.text("compute_capability");
    gpu.pci = reader.text("pci", false);
    gpu.drained = reader.text("drained", false);
    gpu.free_memory = gpu.memory;
    if (with_free) {
        gpu.free_share = static_cast<int>(reader.number("free_share", 0, kWholeGpu));
        gpu.free_memory = reader.count<uint64_t>("free_memory");
    }
    gpus.push_back(std::move(gpu));
    return reader.done();
}

constexpr size_t kIdDigits = 32;  // of random_id()

// An array of texts that may be missing.
void read_words(Reader &reader, const char *key, std::vector<std::string> &to)
{
    constexpr size_t kMostWords = 64;
    const Json *array = reader.member(key, false);
    if (!array) return;
    if (!array->is_array() || array->size() > kMostWords)
        return reader.wrong(key, "must be an array of at most 64 texts");
    for (const Json &word : *array) {
        if (!word.is_string() || word.get<std::string>().size() > defaults::kMaxText)
            return reader.wrong(key, "must hold texts of at most 255 characters");
        to.push_back(word.get<std::string>());
    }
}

// The owner as a request names it.
Result<void> read_asker(Reader &reader, Owner &to)
{
    const Json *owner = reader.member("owner");
    if (!owner) return {};
    Reader owner_reader(*owner, "owner");
    to = read_owner(owner_reader);
    Result<void> read = owner_reader.done_strictly();
    if (read && to.job.empty() && to.host.empty())
        reader.wrong("owner", "must name a job, or a host and a pid");
    return read;
}

Result<void> read_wanted(Reader &reader, Wanted &wanted)
{
    read_words(reader, "names", wanted.names);
    read_words(reader, "uuids", wanted.uuids);
    wanted.memory = static_cast<uint64_t>(reader.number("memory", 0, int64_t{1} << 50, false));
    wanted.compute_capability =
        static_cast<int>(reader.number("compute_capability", 0, 10000, false));
    wanted.cuda = static_cast<int>(reader.number("cuda", 0, 1000000, false));
    wanted.driver = reader.text("driver", false);
    if (!wanted.driver.empty() && !is_driver_release(wanted.driver))
        reader.wrong("driver", "must be numbers with dots between them, like 570.86.10");
    return reader.done_strictly();
}

}  // namespace

std::string encode(const Request &request)
{
    Json json = {{"gpus", request.gpus},
                 {"share", request.share},
                 {"most", request.most},
                 {"memory", request.memory},
                 {"term_ms", request.term.count()},
                 {"owner", to_json(request.owner)}};
    if (!request.span.empty()) json["span"] = request.span;
    const Wanted &wanted = request.wanted;
    // Where nothing is filtered it is not said: older servers understand that.
    if (!wanted.empty())
        json["wanted"] = {{"names", wanted.names},
                          {"uuids", wanted.uuids},
                          {"memory", wanted.memory},
                          {"compute_capability", wanted.compute_capability},
                          {"cuda", wanted.cuda}};
    if (!wanted.driver.empty()) json["wanted"]["driver"] = wanted.driver;
    return dump(json);
}

std::string encode(const Drain &drain)
{
    return dump({{"gpu", drain.gpu}, {"reason", drain.reason}});
}

Result<Drain> decode_drain(std::string_view text)
{
    return decode<Drain>(text, [](const Json &json) -> Result<Drain> {
        Reader reader(json, "drain");
        Drain drain;
        drain.gpu = reader.text("gpu", false);
        drain.reason = reader.text("reason", false);
        Result<void> read = reader.done_strictly();
        if (!read) return std::move(read).error();
        return drain;
    });
}

std::string encode(const Lend &lend)
{
    return dump(
        {{"gpus", lend.gpus}, {"grace_ms", lend.grace.count()}, {"owner", to_json(lend.owner)}});
}

Result<Lend> decode_lend(std::string_view text)
{
    return decode<Lend>(text, [](const Json &json) -> Result<Lend> {
        Reader reader(json, "lend");
        Lend lend;
        read_words(reader, "gpus", lend.gpus);
        lend.grace = Milliseconds(reader.number("grace_ms", 0, 86400 * 1000));
        if (lend.gpus.empty()) reader.wrong("gpus", "must name at least one");
        Result<void> read = read_asker(reader, lend.owner);
        if (read) read = reader.done_strictly();
        if (!read) return std::move(read).error();
        return lend;
    });
}

Result<Request> decode_request(std::string_view text)
{
    return decode<Request>(text, [](const Json &json) -> Result<Request> {
        Reader reader(json, "request");
        Request request;
        request.gpus = static_cast<int>(reader.number("gpus", 1, defaults::kMaxGpusOfRequest));
        // A share alone is the most, too. Only a range may begin at nothing.
        request.share = static_cast<int>(
            reader.number("share", json.contains("most") ? 0 : 1, kWholeGpu, false, kWholeGpu));
        int least = std::max(1, request.share);
        request.most = static_cast<int>(reader.number("most", least, kWholeGpu, false, least));
        request.memory = static_cast<uint64_t>(reader.number("memory", 0, int64_t{1} << 50, false));
        request.term = Milliseconds(reader.number("term_ms", 0, 366LL * 86400 * 1000, false));
        request.span = reader.text("span", false, kIdDigits);
        if (request.share == 0 && request.memory == 0)
            reader.wrong("memory",
                         "must be given with share 0: no part of the GPU's memory follows from it");
        if (const Json *wanted = reader.member("wanted", false)) {
            Reader wanted_reader(*wanted, "wanted");
            Result<void> read = read_wanted(wanted_reader, request.wanted);
            if (!read) return std::move(read).error();
        }
        Result<void> read = read_asker(reader, request.owner);
        if (read) read = reader.done_strictly();
        if (!read) return std::move(read).error();
        return request;
    });
}

std::string encode(const Offer &offer)
{
    Json json = {{"answer", name(offer.answer)}};
    if (offer.fitting) json["fitting"] = offer.fitting;
    if (offer.answer != Answer::now) {
        json["reason"] = offer.reason;
        return dump(json);
    }
    json["id"] = offer.id;
    json["expires_in_ms"] = offer.expires_in.count();
    json["gpus"] = to_json(offer.gpus);
    json["fit"] = {{"whole_taken", offer.fit.whole_taken},
                   {"whole_left", offer.fit.whole_left},
                   {"share_left", offer.fit.share_left},
                   {"distance", offer.fit.distance},
                   {"load", offer.fit.load}};
    return dump(json);
}

Result<Offer> decode_offer(std::string_view text)
{
    return decode<Offer>(text, [](const Json &json) -> Result<Offer> {
        Reader reader(json, "offer");
        Offer offer;
        std::string answer = reader.text("answer");
        for (Answer known : {Answer::now, Answer::later, Answer::never})
            if (answer == name(known)) offer.answer = known;
        if (answer != name(offer.answer)) reader.wrong("answer", "must be now, later or never");
        offer.fitting = reader.count("fitting", false);
        if (offer.answer != Answer::now) {
            offer.reason = reader.text("reason");
        } else {
            offer.id = reader.text("id");
            offer.expires_in = Milliseconds(reader.count<int64_t>("expires_in_ms"));
            reader.each("gpus", [&](const Json &gpu) { return read_portion(gpu, offer.gpus); });
            if (const Json *fit = reader.member("fit")) {
                Reader fit_reader(*fit, "fit");
                offer.fit.whole_taken = fit_reader.count("whole_taken");
                offer.fit.whole_left = fit_reader.count("whole_left");
                offer.fit.share_left = fit_reader.count("share_left");
                offer.fit.distance = fit_reader.count("distance");
                offer.fit.load = fit_reader.count("load");
                Result<void> read = fit_reader.done();
                if (!read) return std::move(read).error();
            }
        }
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return offer;
    });
}

std::string encode(const Inventory &inventory)
{
    Json gpus = Json::array();
    for (const GpuState &gpu : inventory.gpus)
        gpus.push_back({{"index", gpu.index},
                        {"uuid", gpu.uuid},
                        {"name", gpu.name},
                        {"memory", gpu.memory},
                        {"compute_capability", gpu.compute_capability},
                        {"pci", gpu.pci},
                        {"free_share", gpu.free_share},
                        {"free_memory", gpu.free_memory},
                        {"drained", gpu.drained}});
    return dump({{"name", inventory.name},
                 {"version", inventory.version},
                 {"driver_version", inventory.driver_version},
                 {"driver_release", inventory.driver_release},
                 {"software", inventory.software},
                 {"data_port", inventory.data_port},
                 {"gpus", std::move(gpus)},
                 {"leases", to_json(inventory.leases)}});
}

Result<Inventory> decode_inventory(std::string_view text)
{
    return decode<Inventory>(text, [](const Json &json) -> Result<Inventory> {
        Reader reader(json, "inventory");
        Inventory inventory;
        inventory.name = reader.text("name");
        inventory.version = reader.text("version");
        inventory.driver_version = reader.count("driver_version");
        inventory.driver_release = reader.text("driver_release", false);
        inventory.software = reader.flag("software");
        inventory.data_port = static_cast<int>(reader.number("data_port", 0, 65535));
        reader.each("gpus", [&](const Json &gpu) { return read_gpu(gpu, inventory.gpus, true); });
        reader.each("leases",
                    [&](const Json &lease) { return read_lease(lease, inventory.leases); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return inventory;
    });
}

namespace {

// A millionth is enough for people.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

Json to_json(const TenantShare &t)
{
    Json json = {{"least", t.least},
                 {"most", t.most},
                 {"weight", t.weight},
                 {"workers", t.workers},
                 {"running", t.running},
                 {"waiting", t.waiting},
                 {"due", rounded(t.due)},
                 {"given_1s", rounded(t.given_1s)},
                 {"given_10s", rounded(t.given_10s)},
                 {"given_1min", rounded(t.given_1min)},
                 {"given_s", rounded(t.given_s)},
                 {"owed_s", rounded(t.owed_s)},
                 {"turns", t.turns},
                 {"launches", t.launches},
                 {"bytes", t.bytes},
                 {"launches_per_s", rounded(t.launches_per_s)},
                 {"bytes_per_s", rounded(t.bytes_per_s)},
                 {"memory_used", t.memory_used},
                 {"longest_s", rounded(t.longest_s)},
                 {"running_s", rounded(t.running_s)}};
    if (!t.lease.empty()) {
        json["lease"] = t.lease;
        json["owner"] = to_json(t.owner);
        json["memory"] = t.memory;
    }
    return json;
}

Result<void> read_tenant(const Json &json, std::vector<TenantShare> &tenants)
{
    Reader reader(json, "tenant");
    TenantShare t;
    t.lease = reader.text("lease", false);
    if (const Json *owner = reader.member("owner", false)) {
        Reader owner_reader(*owner, "owner");
        t.owner = read_owner(owner_reader);
    }
    t.least = reader.count("least");
    t.most = reader.count("most");
    t.weight = reader.real("weight");
    t.workers = reader.count("workers");
    t.running = reader.flag("running");
    t.waiting = reader.flag("waiting");
    t.due = reader.real("due");
    t.given_1s = reader.real("given_1s");
    t.given_10s = reader.real("given_10s");
    t.given_1min = reader.real("given_1min");
    t.given_s = reader.real("given_s");
    t.owed_s = reader.real("owed_s");
    t.turns = reader.count<uint64_t>("turns", false);
    t.launches = reader.count<uint64_t>("launches", false);
    t.bytes = reader.count<uint64_t>("bytes", false);
    t.launches_per_s = reader.real("launches_per_s");
    t.bytes_per_s = reader.real("bytes_per_s");
    t.memory = reader.count<uint64_t>("memory", false);
    t.memory_used = reader.count<uint64_t>("memory_used", false);
    t.longest_s = reader.real("longest_s");
    t.running_s = reader.real("running_s");
    tenants.push_back(std::move(t));
    return reader.done();
}

Result<void> read_gpu_sharing(const Json &json, std::vector<GpuSharing> &gpus)
{
    Reader reader(json, "gpu");
    GpuSharing gpu;
    gpu.index = reader.count("index");
    gpu.uuid = reader.text("uuid");
    reader.each("tenants", [&](const Json &tenant) { return read_tenant(tenant, gpu.tenants); });
    gpus.push_back(std::move(gpu));
    return reader.done();
}

}  // namespace

std::string encode(const Sharing &sharing)
{
    Json gpus = Json::array();
    for (const GpuSharing &gpu : sharing.gpus) {
        Json tenants = Json::array();
        for (const TenantShare &tenant : gpu.tenants) tenants.push_back(to_json(tenant));
        gpus.push_back({{"index", gpu.index}, {"uuid", gpu.uuid}, {"tenants", std::move(tenants)}});
    }
    return dump({{"name", sharing.name}, {"gpus", std::move(gpus)}});
}

Result<Sharing> decode_sharing(std::string_view text)
{
    return decode<Sharing>(text, [](const Json &json) -> Result<Sharing> {
        Reader reader(json, "sharing");
        Sharing sharing;
        sharing.name = reader.text("name");
        reader.each("gpus", [&](const Json &gpu) { return read_gpu_sharing(gpu, sharing.gpus); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return sharing;
    });
}

namespace {

// Values and cures are sentences.
constexpr size_t kMostSentence = 2000;

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

// What a host calls its things may hold anything; a client takes printable ASCII.
std::string printable(std::string text, size_t most)
{
    text.resize(std::min(text.size(), most));
    for (char &c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

}  // namespace

std::string encode(const Health &health)
{
    Json findings = Json::array();
    for (const Finding &f : health.findings)
        findings.push_back({{"check", f.check},
                            {"of", printable(f.of, defaults::kMaxText)},
                            {"verdict", name(f.verdict)},
                            {"value", printable(f.value, kMostSentence)},
                            {"limit", printable(f.limit, kMostSentence)},
                            {"cure", printable(f.cure, kMostSentence)}});
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

std::string encode(const Leases &leases)
{
    return dump({{"data_port", leases.data_port}, {"leases", to_json(leases.leases)}});
}

Result<Leases> decode_leases(std::string_view text)
{
    return decode<Leases>(text, [](const Json &json) -> Result<Leases> {
        Reader reader(json, "reply");
        Leases leases;
        leases.data_port = static_cast<int>(reader.number("data_port", 0, 65535));
        reader.each("leases", [&](const Json &lease) { return read_lease(lease, leases.leases); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return leases;
    });
}

namespace {

Json to_json(const LeaseUsage &usage)
{
    Json gpus = Json::array();
    for (const GpuUsage &gpu : usage.gpus)
        gpus.push_back({{"uuid", gpu.uuid},
                        {"name", gpu.name},
                        {"share", gpu.share},
                        {"busy_s", rounded(gpu.busy_s)},
                        {"blocked_s", rounded(gpu.blocked_s)},
                        {"throttled_s", rounded(gpu.throttled_s)},
                        {"memory_peak", gpu.memory_peak},
                        {"launches", gpu.launches}});
    return {{"lease", usage.lease},
            {"owner", to_json(usage.owner)},
            {"held_s", rounded(usage.held_s)},
            {"bytes_in", usage.bytes_in},
            {"bytes_out", usage.bytes_out},
            {"gpus", std::move(gpus)}};
}

Result<void> read_gpu_usage(const Json &json, std::vector<GpuUsage> &gpus)
{
    Reader reader(json, "gpu");
    GpuUsage gpu;
    gpu.uuid = reader.text("uuid");
    gpu.name = reader.text("name");
    gpu.share = static_cast<int>(reader.number("share", 0, kWholeGpu));
    gpu.busy_s = reader.real("busy_s");
    gpu.blocked_s = reader.real("blocked_s");
    gpu.throttled_s = reader.real("throttled_s");
    gpu.memory_peak = reader.count<uint64_t>("memory_peak");
    gpu.launches = reader.count<uint64_t>("launches");
    gpus.push_back(std::move(gpu));
    return reader.done();
}

Result<void> read_usage(const Json &json, std::vector<LeaseUsage> &usages)
{
    Reader reader(json, "usage");
    LeaseUsage usage;
    usage.lease = reader.text("lease");
    if (const Json *owner = reader.member("owner")) {
        Reader owner_reader(*owner, "owner");
        usage.owner = read_owner(owner_reader);
    }
    usage.held_s = reader.real("held_s");
    usage.bytes_in = reader.count<uint64_t>("bytes_in");
    usage.bytes_out = reader.count<uint64_t>("bytes_out");
    reader.each("gpus", [&](const Json &gpu) { return read_gpu_usage(gpu, usage.gpus); });
    usages.push_back(std::move(usage));
    return reader.done();
}

}  // namespace

std::string encode(const Released &released)
{
    Json json = {{"released", released.count}, {"lost", released.lost}};
    if (released.gpus) json["gpus"] = released.gpus;
    if (released.busy) json["busy"] = released.busy;
    if (released.withdrawn) json["withdrawn"] = released.withdrawn;
    for (const LeaseUsage &usage : released.usage) json["usage"].push_back(to_json(usage));
    return dump(json);
}

Result<Released> decode_released(std::string_view text)
{
    return decode<Released>(text, [](const Json &json) -> Result<Released> {
        Reader reader(json, "reply");
        Released released;
        released.count = reader.count("released");
        released.lost = reader.count<int>("lost", false);
        released.gpus = reader.count<int>("gpus", false);
        released.busy = reader.count<int>("busy", false);
        released.withdrawn = reader.count<int>("withdrawn", false);
        if (reader.member("usage", false))
            reader.each("usage",
                        [&](const Json &usage) { return read_usage(usage, released.usage); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return released;
    });
}

std::string encode_error(const Error &error)
{
    return dump({{"error", {{"kind", name(error.kind)}, {"text", error.text}}}});
}

Error decode_error(std::string_view text, long status)
{
    Error otherwise = error(ErrorKind::disconnected,
                            "answered HTTP %ld: is this the control port of an rgpud?", status);
    struct Told {
        Error error;
    };
    Result<Told> told = decode<Told>(text, [](const Json &json) -> Result<Told> {
        Reader outer(json, "reply");
        Told told;
        if (const Json *member = outer.member("error")) {
            Reader reader(*member, "error");
            told.error.text = reader.text("text", true, 4096);
            std::string kind = reader.text("kind");
            for (ErrorKind known :
                 {ErrorKind::invalid, ErrorKind::unsupported, ErrorKind::unavailable,
                  ErrorKind::disconnected, ErrorKind::exhausted, ErrorKind::internal})
                if (kind == name(known)) told.error.kind = known;
            Result<void> read = reader.done();
            if (!read) return std::move(read).error();
        }
        Result<void> read = outer.done();
        if (!read) return std::move(read).error();
        return told;
    });
    return told ? told->error : otherwise;
}

Result<DriverInventory> decode_driver_inventory(std::string_view text)
{
    return decode<DriverInventory>(text, [](const Json &json) -> Result<DriverInventory> {
        Reader reader(json, "inventory");
        DriverInventory inventory;
        inventory.driver_version = reader.count("driver_version");
        inventory.driver_release = reader.text("driver_release", false);
        reader.each("gpus", [&](const Json &gpu) { return read_gpu(gpu, inventory.gpus, false); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return inventory;
    });
}

std::string lease_file(const std::string &job, const std::vector<Grant> &grants)
{
    Json servers = Json::array();
    for (const Grant &grant : grants)
        servers.push_back({{"name", grant.server},
                           {"address", grant.data_address},
                           {"lease", grant.lease.id},
                           {"secret", to_hex(grant.lease.secret.data(), grant.lease.secret.size())},
                           {"gpus", to_json(grant.lease.gpus)}});
    return dump({{"version", 1}, {"job", job}, {"servers", std::move(servers)}}, 1) + "\n";
}

}  // namespace rgpu::pool
