// SPDX-License-Identifier: Apache-2.0
#include "pool/client/client.h"

#include <algorithm>
#include <future>
#include <map>

#include "pool/client/http.h"
#include "pool/client/https.h"
#include "pool/credentials/auth.h"
#include "pool/credentials/sealed.h"
#include "pool/ledger/placement.h"
#include "pool/ledger/span.h"
#include "pool/messages/error_json.h"
#include "pool/messages/host_json.h"
#include "pool/messages/inventory_json.h"
#include "pool/messages/lease_json.h"
#include "pool/messages/request_json.h"

namespace rgpu::pool {
namespace {

// A part of a target, as RFC 3986 wants it.
std::string escaped(const std::string &text)
{
    std::string out;
    for (unsigned char c : text) {
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '-' || c == '_' || c == '.' || c == '~';
        char hex[4];
        snprintf(hex, sizeof hex, "%%%02X", c);
        out += plain ? std::string(1, static_cast<char>(c)) : hex;
    }
    return out;
}

std::string leases_target(const LeaseFilter &filter, const std::string &key = {})
{
    std::string query;
    auto add = [&](const std::string &name, const std::string &value) {
        if (!value.empty()) query += (query.empty() ? "?" : "&") + name + "=" + escaped(value);
    };
    add("job", filter.job);
    add("node", filter.node);
    add("secrets", filter.secrets ? "1" : "");
    add("key", key);
    add("usage", filter.usage ? "1" : "");
    add("idle", filter.idle ? "1" : "");
    add("wait", filter.wait ? "" : "0");
    return "/v1/leases" + query;
}

// "gpu1, gpu2: it has 2 GPUs, 6 are wanted; gpu3: ...": equal reasons together.
class Reasons {
public:
    // An empty server: the reason names it.
    void add(const std::string &server, const std::string &reason)
    {
        auto known = std::find_if(reasons_.begin(), reasons_.end(),
                                  [&](const auto &r) { return r.first == reason; });
        if (known == reasons_.end()) known = reasons_.insert(reasons_.end(), {reason, {}});
        if (!server.empty()) known->second.push_back(server);
    }

    std::string text() const
    {
        constexpr size_t kNamed = 8;
        std::string all;
        for (const auto &[reason, servers] : reasons_) {
            all += all.empty() ? "" : "; ";
            for (size_t i = 0; i < servers.size() && i < kNamed; ++i)
                all += (i ? ", " : "") + servers[i];
            if (servers.size() > kNamed)
                all += " and " + std::to_string(servers.size() - kNamed) + " more";
            all += (servers.empty() ? "" : ": ") + reason;
        }
        return all;
    }

private:
    std::vector<std::pair<std::string, std::vector<std::string>>> reasons_;
};

}  // namespace

struct Client::State {
    std::vector<ServerEntry> servers;
    std::string here;    // the node whose servers are preferred
    bool spans = false;  // GPUs of several servers will do
    Milliseconds timeout{0};
    std::unique_ptr<Signer> signer;
    Http http;
    Https https;
    std::optional<SealKey> own_key;
    std::string node_config;  // goes with each request, unless it is empty
    bool secrets = true;      // of leases that are granted

    // How a request for leases says which secrets it is to be told, for its target.
    Result<std::string> secrets_for()
    {
        if (!secrets) return std::string("secrets=0");
        Result<std::string> made = key();
        return made ? Result<std::string>("key=" + *made) : std::move(made).error();
    }

    // The key that secrets are sealed for; made at the first use.
    Result<std::string> key()
    {
        if (!own_key) {
            Result<SealKey> made = SealKey::make();
            if (!made) return std::move(made).error();
            own_key = std::move(*made);
        }
        return own_key->text();
    }
    // In place, with the key that was sent.
    Result<void> unseal(std::vector<Lease> &leases) const
    {
        for (Lease &lease : leases) {
            if (lease.sealed.empty()) continue;
            Result<std::string> secret = own_key->open(lease.sealed, lease.id);
            if (!secret) return std::move(secret).error();
            lease.secret = std::move(*secret);
            lease.sealed.clear();
        }
        return {};
    }

    // Requests, all at once: what comes back, in the order given.
    struct Question {
        const ServerEntry *server;
        std::string method, target, body;
    };
    std::vector<Result<HttpReply>> send(const std::vector<Question> &questions);
    // What rejects these offers, but for those of some servers.
    std::vector<Question> rejections(const std::vector<Told<Offer>> &offers,
                                     const std::vector<std::string> &but) const;

    // One request to several servers: what each says, decoded, in the order given.
    template <class T> std::vector<Told<T>> ask(
        const std::vector<std::pair<const ServerEntry *, std::string>> &targets, const char *method,
        const std::string &body, Result<T> (*decode)(std::string_view));

    template <class T> std::vector<Told<T>> ask_all(const char *method, const std::string &target,
                                                    const std::string &body,
                                                    Result<T> (*decode)(std::string_view))
    {
        std::vector<std::pair<const ServerEntry *, std::string>> targets;
        for (const ServerEntry &server : servers) targets.emplace_back(&server, target);
        return ask(targets, method, body, decode);
    }

    template <class T>
    Result<T> ask_one(const std::string &name, const char *method, const std::string &target,
                      Result<T> (*decode)(std::string_view), const std::string &body = {})
    {
        const ServerEntry *server = find(name);
        if (!server)
            return error(ErrorKind::invalid, "no [[server]] of rgpu.conf is named \"%s\"",
                         name.c_str());
        return std::move(ask<T>({{server, target}}, method, body, decode)[0].answer);
    }

    const ServerEntry *find(const std::string &name) const
    {
        for (const ServerEntry &server : servers)
            if (server.name == name) return &server;
        return nullptr;
    }

    // Where programs reach this server: its control address's host, its own data port.
    std::string data_address(const std::string &name, int port) const
    {
        const std::string &control = find(name)->address;
        return control.substr(0, control.rfind(':')) + ":" + std::to_string(port);
    }
};

namespace {

// An error with the server's name and address in front, once.
template <class T> Result<T> of_server(Result<T> answer, const ServerEntry &server)
{
    if (answer) return answer;
    return std::move(answer).error().in("server " + server.name + " (" + server.address + ")");
}

template <class T> Result<T> decoded(Result<HttpReply> reply, Result<T> (*decode)(std::string_view))
{
    if (!reply) return std::move(reply).error();
    if (reply->status < 200 || reply->status > 299) return decode_error(reply->body, reply->status);
    return decode(reply->body);
}

Result<bool> decode_nothing(std::string_view) { return true; }

}  // namespace

std::vector<Result<HttpReply>> Client::State::send(const std::vector<Question> &questions)
{
    std::vector<HttpCall> calls;
    std::vector<size_t> asked;  // positions in questions
    std::vector<Result<HttpReply>> answers;
    for (const auto &[server, method, target, body] : questions) {
        const Result<std::string> authorization =
            signer->sign({server->name, method, target, body});
        answers.push_back(authorization ? error(ErrorKind::internal, "not asked")
                                        : authorization.error());
        if (!authorization) continue;
        asked.push_back(answers.size() - 1);
        calls.push_back({method, server->address, target, *authorization, body, node_config,
                         server->pin, server->ca_file});
    }
    std::vector<HttpCall> in_clear, in_tls;
    for (const HttpCall &call : calls) (call.in_tls() ? in_tls : in_clear).push_back(call);
    // All at once, also while a pool changes over from one to the other.
    std::future<std::vector<Result<HttpReply>>> others;
    if (!in_tls.empty() && !in_clear.empty())
        others = std::async(std::launch::async, [&] { return https.perform(in_tls, timeout); });
    std::vector<Result<HttpReply>> clear = http.perform(in_clear, timeout);
    std::vector<Result<HttpReply>> tls = others.valid() ? others.get()
                                                        : https.perform(in_tls, timeout);
    for (size_t i = 0, of_clear = 0, of_tls = 0; i < calls.size(); ++i)
        answers[asked[i]] = std::move(calls[i].in_tls() ? tls[of_tls++] : clear[of_clear++]);
    return answers;
}

template <class T> std::vector<Told<T>> Client::State::ask(
    const std::vector<std::pair<const ServerEntry *, std::string>> &targets, const char *method,
    const std::string &body, Result<T> (*decode)(std::string_view))
{
    std::vector<Question> questions;
    for (const auto &[server, target] : targets)
        questions.push_back({server, method, target, body});
    std::vector<Told<T>> told;
    for (Result<HttpReply> &reply : send(questions))
        told.push_back(
            {targets[told.size()].first->name,
             of_server(decoded<T>(std::move(reply), decode), *targets[told.size()].first)});
    return told;
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::Client(Client &&) noexcept = default;
Client &Client::operator=(Client &&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::create(const Config &config)
{
    if (config.servers.empty())
        return error(ErrorKind::invalid, "%s names no server: add [[server]] with name and address",
                     config.path.c_str());
    if (config.auth.method == "none")
        for (const ServerEntry &server : config.servers)
            if (Result<HostPort> address = parse_address(server.address);
                !address || !is_loopback(address->host))
                return error(ErrorKind::invalid,
                             "%s: [auth] method = \"none\" is for loopback only, and server %s is "
                             "at %s: use munge or key",
                             config.path.c_str(), server.name.c_str(), server.address.c_str());
    Result<std::unique_ptr<Signer>> signer = make_signer(config.auth);
    if (!signer) return std::move(signer).error();
    auto state = std::make_unique<State>();
    state->servers = config.servers;
    state->timeout = config.client.server_timeout;
    state->signer = std::move(*signer);
    return Client(std::move(state));
}

namespace {

// A server of an rgpu before this one refuses a request with a field that it does not know, in
// these words since the first.
bool is_unknown_there(const Error &error, const std::string &field)
{
    return error.kind == ErrorKind::invalid &&
           error.text.find("unknown field \"" + field + "\"") != error.text.npos;
}

}  // namespace

std::vector<Told<Offer>> Client::offers(const Request &request)
{
    auto told = state_->ask_all<Offer>("POST", "/v1/offers", encode(request), decode_offer);
    // Such a server never gives what is asked for; others may.
    for (Told<Offer> &one : told)
        if (!one.answer && !request.span.empty() && is_unknown_there(one.answer.error(), "span"))
            one.answer = Offer{Answer::never,
                               "its rgpu is older and shares no request with other servers",
                               {},
                               {},
                               {},
                               {}};
        else if (!one.answer && !request.filter.driver.empty() &&
                 is_unknown_there(one.answer.error(), "driver"))
            one.answer = Offer{Answer::never,
                               "its rgpu is older and does not tell its driver's release, " +
                                   request.filter.driver + " or newer is wanted",
                               {},
                               {},
                               {},
                               {}};
    return told;
}

// The one lease that the answer to a request of this kind holds, with its secret.
Result<Grant> Client::granted(const std::string &server, const std::string &target,
                              const std::string &body)
{
    Result<std::string> secrets = state_->secrets_for();
    if (!secrets) return std::move(secrets).error();
    return grant_of(server, state_->ask_one<Leases>(server, "POST", target + "?" + *secrets,
                                                    decode_leases, body));
}

Result<Grant> Client::grant_of(const std::string &server, Result<Leases> told)
{
    if (!told) return std::move(told).error();
    if (Result<void> unsealed = state_->unseal(told->leases); !unsealed)
        return std::move(unsealed).error().in("server " + server);
    if (told->leases.size() != 1)
        return error(ErrorKind::internal, "server %s: its answer holds no lease", server.c_str());
    return Grant{server, state_->data_address(server, told->data_port), std::move(told->leases[0])};
}

Result<Grant> Client::accept(const std::string &server, const std::string &offer)
{
    return granted(server, "/v1/offers/" + offer + "/accept");
}

Result<Grant> Client::lend(const std::string &server, const Lend &lend)
{
    return granted(server, "/v1/lends", encode(lend));
}

Result<void> Client::withdraw(const std::string &server, const std::string &lend)
{
    Result<bool> done =
        state_->ask_one<bool>(server, "DELETE", "/v1/lends/" + lend, decode_nothing);
    return done ? Result<void>() : Result<void>(std::move(done).error());
}

namespace {

bool is_now(const Told<Offer> &told) { return told.answer && told.answer->answer == Answer::now; }

}  // namespace

std::vector<Client::State::Question> Client::State::rejections(
    const std::vector<Told<Offer>> &offers, const std::vector<std::string> &but) const
{
    std::vector<Question> questions;
    for (const Told<Offer> &told : offers)
        if (is_now(told) && std::find(but.begin(), but.end(), told.server) == but.end())
            questions.push_back({find(told.server), "DELETE", "/v1/offers/" + told.answer->id, ""});
    return questions;
}

void Client::reject(const std::vector<Told<Offer>> &offers, const std::vector<std::string> &but)
{
    // What does not arrive expires by itself.
    state_->send(state_->rejections(offers, but));
}

namespace {

// How much would be left of each type of GPU that is offered, on all servers together.
std::map<std::string, int> left_of_types(const std::vector<Told<Offer>> &offers)
{
    std::map<std::string, int> left;
    for (const Told<Offer> &told : offers)
        if (is_now(told) && !told.answer->gpus.empty())
            left[told.answer->gpus[0].name] += told.answer->fit.share_left;
    return left;
}

// Whom any type would do gets the one of which most is free: requests for a type of which little is
// left can be served that much longer.
const Told<Offer> *best_of(const std::vector<Told<Offer>> &offers)
{
    std::map<std::string, int> left = left_of_types(offers);
    auto left_of = [&](const Offer &offer) {
        return offer.gpus.empty() ? 0 : left[offer.gpus[0].name];
    };
    const Told<Offer> *best = nullptr;
    for (const Told<Offer> &told : offers) {
        if (!is_now(told)) continue;
        if (!best) {
            best = &told;
            continue;
        }
        const Offer &a = *told.answer, &b = *best->answer;
        const bool more = left_of(a) > left_of(b), less = left_of(a) < left_of(b);
        if (a.fit.here != b.fit.here ? a.fit.here : more || (!less && better(a.fit, b.fit)))
            best = &told;
    }
    return best;
}

// What each server's offer comes to, where nothing can be accepted. `free` of `fitting` GPUs are
// what a span would have.
struct Summary {
    Reasons reasons;
    size_t later = 0, never = 0, wrong = 0;
    int free = 0, fitting = 0;
    const Error *first_wrong = nullptr;
};

Summary sum_up(const std::vector<Told<Offer>> &offers)
{
    Summary s;
    for (const Told<Offer> &told : offers) {
        if (told.answer) {
            const Offer &offer = *told.answer;
            (offer.answer == Answer::never ? s.never : s.later)++;
            s.free += static_cast<int>(offer.gpus.size());
            s.fitting += offer.fitting;
            s.reasons.add(told.server, offer.answer != Answer::now
                                           ? offer.reason
                                           : std::to_string(offer.gpus.size()) + " of " +
                                                 std::to_string(offer.fitting) +
                                                 " that would do are free");
            continue;
        }
        const Error &failure = told.answer.error();
        bool hopeless = failure.kind != ErrorKind::disconnected &&
                        failure.kind != ErrorKind::unavailable &&
                        failure.kind != ErrorKind::exhausted;
        if (hopeless && !s.first_wrong) s.first_wrong = &failure;
        s.wrong += hopeless;
        s.reasons.add("", failure.text);
    }
    return s;
}

// What offers without any "now" come to.
Result<Outcome> without_offer(const std::vector<Told<Offer>> &offers)
{
    const Summary s = sum_up(offers);
    if (s.wrong == offers.size()) return *s.first_wrong;
    Outcome outcome;
    outcome.reason = s.reasons.text();
    if (s.later)
        outcome.kind = Outcome::later;
    else if (s.never == offers.size())
        outcome.kind = Outcome::never;
    else
        outcome.kind = s.never ? Outcome::later : Outcome::unreachable;
    return outcome;
}

// What offers come to that together have too few GPUs for a span.
Result<Outcome> with_too_few(const std::vector<Told<Offer>> &offers, int gpus)
{
    const Summary s = sum_up(offers);
    if (s.wrong == offers.size()) return *s.first_wrong;
    const bool all_told = s.later + s.never == offers.size();
    Outcome outcome;
    if (s.fitting < gpus && all_told)
        outcome.kind = Outcome::never;
    else
        outcome.kind = s.later + s.never ? Outcome::later : Outcome::unreachable;
    const std::string wanted = std::to_string(gpus) + (gpus == 1 ? " GPU is" : " GPUs are") +
                               " wanted, ";
    outcome.reason = outcome.kind == Outcome::later
                         ? wanted + std::to_string(s.free) + " in all can be had now: "
                     : outcome.kind == Outcome::never
                         ? wanted + "all servers together have " + std::to_string(s.fitting) + ": "
                         : "";
    outcome.reason += s.reasons.text();
    return outcome;
}

}  // namespace

Result<Outcome> Client::acquire(const Request &wanted)
{
    Request request = wanted;
    if (state_->spans) request.span = random_id();
    std::vector<Told<Offer>> told = offers(request);
    for (Told<Offer> &one : told)
        if (one.answer) one.answer->fit.here = state_->find(one.server)->node == state_->here;
    if (state_->spans) return acquire_span(request, std::move(told));
    const Told<Offer> *best = best_of(told);
    if (!best) return without_offer(told);
    Result<std::string> secrets = state_->secrets_for();
    if (!secrets) return std::move(secrets).error();
    const ServerEntry *taken = state_->find(best->server);
    std::vector<State::Question> questions = state_->rejections(told, {best->server});
    questions.insert(questions.begin(),
                     {taken, "POST", "/v1/offers/" + best->answer->id + "/accept?" + *secrets, ""});
    Result<Grant> grant = grant_of(
        best->server,
        of_server(decoded<Leases>(std::move(state_->send(questions)[0]), decode_leases), *taken));
    Outcome outcome;
    if (grant) {
        outcome.kind = Outcome::granted;
        outcome.grants.push_back(std::move(*grant));
    } else {
        outcome.kind = Outcome::later;
        outcome.reason = grant.error().text;
    }
    return outcome;
}

Result<Outcome> Client::acquire_span(const Request &request, std::vector<Told<Offer>> told)
{
    std::vector<Choice> choices(told.size());
    for (size_t i = 0; i < told.size(); ++i)
        if (told[i].answer && told[i].answer->answer == Answer::now)
            choices[i] = {std::min(request.gpus, static_cast<int>(told[i].answer->gpus.size())),
                          told[i].answer->fit};
    const std::vector<Part> parts = parts_for(request.gpus, choices);
    Result<std::string> secrets = parts.empty() ? std::string() : state_->secrets_for();
    if (parts.empty() || !secrets) {
        reject(told);
        return secrets ? with_too_few(told, request.gpus) : std::move(secrets).error();
    }
    std::vector<std::pair<const ServerEntry *, std::string>> targets;
    std::vector<std::string> servers;
    for (const Part &part : parts) {
        servers.push_back(told[part.choice].server);
        targets.emplace_back(state_->find(servers.back()),
                             "/v1/offers/" + told[part.choice].answer->id + "/accept?" + *secrets +
                                 "&gpus=" + std::to_string(part.gpus));
    }
    Outcome outcome;
    outcome.kind = Outcome::granted;
    for (Told<Leases> &one : state_->ask<Leases>(targets, "POST", "", decode_leases)) {
        Result<Grant> grant = grant_of(one.server, std::move(one.answer));
        if (grant) {
            outcome.grants.push_back(std::move(*grant));
        } else {
            outcome.kind = Outcome::later;
            outcome.reason = grant.error().text;
        }
    }
    reject(told, servers);
    if (outcome.kind == Outcome::later) {
        if (Result<void> released = release(outcome.grants); !released)
            outcome.reason += "; giving the others back: " + released.error().text;
        outcome.grants.clear();
    }
    return outcome;
}

bool Client::span_would_do(const Request &wanted)
{
    Request request = wanted;
    request.span = random_id();
    const std::vector<Told<Offer>> told = offers(request);
    reject(told);
    int fitting = 0;
    for (const Told<Offer> &one : told) fitting += one.answer ? one.answer->fitting : 0;
    return fitting >= request.gpus;
}

void Client::without_secrets() { state_->secrets = false; }

std::vector<Told<std::vector<Lease>>> Client::leases(const LeaseFilter &filter)
{
    std::vector<Told<std::vector<Lease>>> all;
    for (Told<Leases> &told :
         state_->ask_all<Leases>("GET", leases_target(filter), "", decode_leases)) {
        if (told.answer)
            all.push_back({told.server, std::move(told.answer->leases)});
        else
            all.push_back({told.server, std::move(told.answer).error()});
    }
    return all;
}

std::vector<Told<NodeConfigs>> Client::node_configs()
{
    return state_->ask_all<NodeConfigs>("GET", "/v1/nodes", "", decode_node_configs);
}

Result<std::vector<Grant>> Client::grants(const std::string &job, const std::string &node,
                                          const std::string &config)
{
    state_->node_config = config;
    std::vector<Grant> grants;
    std::optional<Error> failure;
    LeaseFilter filter{job, node, true};
    Result<std::string> key = state_->key();
    if (!key) return std::move(key).error();
    for (Told<Leases> &told :
         state_->ask_all<Leases>("GET", leases_target(filter, *key), "", decode_leases)) {
        if (told.answer)
            if (Result<void> unsealed = state_->unseal(told.answer->leases); !unsealed)
                told.answer = std::move(unsealed).error().in("server " + told.server);
        if (!told.answer) {
            if (!failure) failure = std::move(told.answer).error();
            continue;
        }
        for (Lease &lease : told.answer->leases)
            grants.push_back({told.server,
                              state_->data_address(told.server, told.answer->data_port),
                              std::move(lease)});
    }
    int last = -1;
    for (const Grant &grant : grants) last = std::max(last, grant.lease.owner.run);
    std::erase_if(grants, [last](const Grant &grant) { return grant.lease.owner.run != last; });
    // Where all of a request are there, they are all, whoever else is away.
    if (failure && whole_request(grants).empty()) return std::move(*failure);
    return grants;
}

Result<void> Client::release(const std::string &server, const std::string &lease)
{
    Result<Released> released =
        state_->ask_one<Released>(server, "DELETE", "/v1/leases/" + lease, decode_released);
    if (!released && released.error().kind != ErrorKind::unsupported)
        return std::move(released).error();
    return {};
}

Result<void> Client::release(const std::vector<Grant> &grants)
{
    std::vector<std::pair<const ServerEntry *, std::string>> targets;
    for (const Grant &grant : grants)
        targets.emplace_back(state_->find(grant.server), "/v1/leases/" + grant.lease.id);
    std::optional<Error> failure;
    for (Told<Released> &told : state_->ask<Released>(targets, "DELETE", "", decode_released))
        if (!told.answer && told.answer.error().kind != ErrorKind::unsupported && !failure)
            failure = std::move(told.answer).error();
    return failure ? Result<void>(std::move(*failure)) : Result<void>();
}

Result<int> Client::release_job(const std::string &job, const std::string &node)
{
    if (job.empty())
        return error(ErrorKind::invalid, "a job id is needed to release a job's leases");
    int released = 0;
    std::optional<Error> failure;
    for (Told<Released> &told : release_each(job, node)) {
        if (told.answer)
            released += told.answer->count;
        else if (!failure)
            failure = std::move(told.answer).error();
    }
    if (failure) return std::move(*failure);
    return released;
}

std::vector<Told<Released>> Client::release_each(const std::string &job, const std::string &node)
{
    return state_->ask_all<Released>("DELETE", leases_target({job, node, false}), "",
                                     decode_released);
}

std::vector<Told<Released>> Client::end_job(const std::string &job, bool idle, bool usage)
{
    LeaseFilter filter;
    filter.job = job;
    filter.usage = filter.wait = usage;
    filter.idle = idle;
    return state_->ask_all<Released>("DELETE", leases_target(filter), "", decode_released);
}

Result<void> Client::renew(const std::string &server, const std::string &lease)
{
    Result<Leases> renewed =
        state_->ask_one<Leases>(server, "POST", "/v1/leases/" + lease + "/renew", decode_leases);
    if (!renewed) return std::move(renewed).error();
    return {};
}

namespace {

Result<Lease> only_lease(Result<Leases> told)
{
    if (!told) return std::move(told).error();
    if (told->leases.size() != 1)
        return error(ErrorKind::disconnected, "answered with %zu leases", told->leases.size());
    return std::move(told->leases.front());
}

}  // namespace

Result<Lease> Client::resize(const std::string &server, const std::string &lease,
                             const Resize &resize)
{
    return only_lease(state_->ask_one<Leases>(server, "POST", "/v1/leases/" + lease + "/resize",
                                              decode_leases, encode(resize)));
}

Result<Lease> Client::end_resize(const std::string &server, const std::string &lease, bool keep)
{
    return only_lease(state_->ask_one<Leases>(
        server, "POST", "/v1/leases/" + lease + (keep ? "/resize/keep" : "/resize/undo"),
        decode_leases));
}

Result<void> Client::drain(const std::string &server, const Drain &drain)
{
    Result<bool> done =
        state_->ask_one<bool>(server, "POST", "/v1/drain", decode_nothing, encode(drain));
    return done ? Result<void>() : Result<void>(std::move(done).error());
}

Result<void> Client::resume(const std::string &server, const std::string &gpu)
{
    Result<bool> done = state_->ask_one<bool>(server, "POST", "/v1/resume", decode_nothing,
                                              encode(Drain{gpu, "", 0}));
    return done ? Result<void>() : Result<void>(std::move(done).error());
}

Result<void> Client::only(const std::vector<std::string> &servers)
{
    std::vector<ServerEntry> chosen;
    for (const std::string &wanted : servers) {
        auto fits = [&](const ServerEntry &server) {
            return server.name == wanted || server.address == wanted ||
                   server.address.substr(0, server.address.rfind(':')) == wanted;
        };
        if (std::none_of(state_->servers.begin(), state_->servers.end(), fits))
            return error(ErrorKind::invalid, "no [[server]] of rgpu.conf is \"%s\"",
                         wanted.c_str());
        for (const ServerEntry &server : state_->servers)
            if (fits(server) &&
                std::none_of(chosen.begin(), chosen.end(),
                             [&](const ServerEntry &c) { return c.name == server.name; }))
                chosen.push_back(server);
    }
    if (!servers.empty()) state_->servers = std::move(chosen);
    return {};
}

void Client::without(const std::vector<std::string> &servers)
{
    std::vector<ServerEntry> rest = state_->servers;
    std::erase_if(rest, [&](const ServerEntry &server) {
        return std::find(servers.begin(), servers.end(), server.name) != servers.end();
    });
    if (!rest.empty()) state_->servers = std::move(rest);
}

void Client::span() { state_->spans = true; }

void Client::prefer(const std::string &node) { state_->here = node; }

std::vector<Told<Inventory>> Client::inventory()
{
    return state_->ask_all<Inventory>("GET", "/v1/inventory", "", decode_inventory);
}

Result<Inventory> Client::inventory_of(const std::string &server)
{
    return state_->ask_one<Inventory>(server, "GET", "/v1/inventory", decode_inventory);
}

size_t unanswered(const Inventories &inventories)
{
    return static_cast<size_t>(std::count_if(inventories.begin(), inventories.end(),
                                             [](const auto &told) { return !told.answer; }));
}

std::vector<Told<Health>> Client::health()
{
    return state_->ask_all<Health>("GET", "/v1/checks", "", decode_health);
}

std::vector<Told<Topology>> Client::topology()
{
    return state_->ask_all<Topology>("GET", "/v1/topology", "", decode_topology);
}

Result<Alive> Client::alive(const std::string &server)
{
    return state_->ask_one<Alive>(server, "GET", "/v1/health", decode_alive);
}

Result<size_t> Client::probe(const std::string &server, size_t bytes)
{
    return state_->ask_one<size_t>(
        server, "GET", "/v1/probe?bytes=" + std::to_string(bytes),
        [](std::string_view body) { return Result<size_t>(body.size()); });
}

std::vector<Told<Usages>> Client::usages(const std::string &job)
{
    return state_->ask_all<Usages>("GET", "/v1/usage" + (job.empty() ? "" : "?job=" + escaped(job)),
                                   "", decode_usages);
}

std::vector<Told<Sharing>> Client::sharing()
{
    return state_->ask_all<Sharing>("GET", "/v1/sharing", "", decode_sharing);
}

}  // namespace rgpu::pool
