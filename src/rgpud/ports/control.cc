// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/control.h"

#include <httplib.h>
#include <pwd.h>

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "net/transport/socket.h"
#include "pool/credentials/sealed.h"
#include "pool/messages/error_json.h"
#include "pool/messages/host_json.h"
#include "pool/messages/inventory_json.h"
#include "pool/messages/lease_json.h"
#include "pool/messages/request_json.h"
#include "rgpud/ports/node_configs.h"
#include "rgpud/ports/request_gate.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

using httplib::Request;
using httplib::Response;

// A request that is there already, and where its answer goes.
class Collected : public httplib::Stream {
public:
    explicit Collected(const RequestGate::Call &call) : call_(call) {}

    bool is_readable() const override { return at_ < call_.request.size(); }
    bool is_writable() const override { return true; }
    ssize_t read(char *to, size_t size) override
    {
        size = call_.request.copy(to, size, at_);
        at_ += size;
        return static_cast<ssize_t>(size);
    }
    ssize_t write(const char *from, size_t size) override
    {
        return call_.give(from, size) ? static_cast<ssize_t>(size) : -1;
    }
    void get_remote_ip_and_port(std::string &ip, int &port) const override
    {
        name(getpeername, ip, port);
    }
    void get_local_ip_and_port(std::string &ip, int &port) const override
    {
        name(getsockname, ip, port);
    }
    // httplib refuses numbers that select(2) cannot take, and has no other use for it.
    socket_t socket() const override { return INVALID_SOCKET; }

private:
    template <class Get> void name(Get get, std::string &ip, int &port) const
    {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
        auto *any = reinterpret_cast<sockaddr *>(&address);
        if (get(call_.socket, any, &size) == 0)
            getnameinfo(any, size, host, sizeof host, service, sizeof service,
                        NI_NUMERICHOST | NI_NUMERICSERV);
        ip = host;
        port = atoi(service);
    }

    const RequestGate::Call &call_;
    size_t at_ = 0;
};

// httplib parses, routes and answers; the network is the gate's.
class Server : public httplib::Server {
public:
    // httplib takes a server without a socket for one that ends.
    void serves(int listening) { svr_sock_ = listening; }
    bool answer(const RequestGate::Call &call)
    {
        Collected request(call);
        bool closed = false;
        return process(request, call.last, closed) && !closed;
    }

private:
    // httplib 0.11 asks the stream for its ends, 0.18 wants to be told.
    template <class Stream> bool process(Stream &request, bool last, bool &closed)
    {
        if constexpr (requires { this->process_request(request, last, closed, nullptr); }) {
            return this->process_request(request, last, closed, nullptr);
        } else {
            std::string peer, own;
            int peer_port = 0, own_port = 0;
            request.get_remote_ip_and_port(peer, peer_port);
            request.get_local_ip_and_port(own, own_port);
            return this->process_request(request, peer, peer_port, own, own_port, last, closed,
                                         nullptr);
        }
    }
};

int status_of(ErrorKind kind)
{
    switch (kind) {
    case ErrorKind::invalid: return 400;
    case ErrorKind::unsupported: return 404;
    case ErrorKind::unavailable: return 503;
    case ErrorKind::exhausted: return 429;
    default: return 500;
    }
}

void reply(Response &response, int status, std::string json)
{
    response.status = status;
    response.set_content(std::move(json), "application/json");
}

void refuse(Response &response, int status, Error error)
{
    // A client takes nothing but printable ASCII.
    for (char &c : error.text)
        if (c < 0x20 || c > 0x7e) c = '?';
    reply(response, status, pool::encode_error(error));
}

std::string user_of(uint32_t uid)
{
    char buffer[16384];
    passwd entry, *found = nullptr;
    getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
    return found ? entry.pw_name : "";
}

}  // namespace

struct Control::State {
    const RgpudConfig &config;
    Service &service;
    pool::Verifier &verifier;
    Metrics &metrics;
    Audit &audit;
    NodeConfigs node_configs;
    Server server;
    Fd listening;
    RequestGate gate;  // the last: it ends first

    // What a handler says: JSON, or why not.
    using Said = Result<std::string>;
    using Handler = Said (State::*)(const pool::Caller &, const Request &);

    State(const RgpudConfig &c, Service &s, pool::Verifier &v, Metrics &m, Audit &a,
          TlsIdentity *identity)
        : config(c), service(s), verifier(v), metrics(m), audit(a),
          gate(
              [this](const RequestGate::Call &call) {
                  return call.head.status ? turn_away(call) : server.answer(call);
              },
              {c.max_silent_of_address, identity, c.tls == "required"})
    {}

    void set_up();
    void routes();
    bool turn_away(const RequestGate::Call &call);
    std::optional<pool::Caller> caller_of(const Request &request, Response &response);
    httplib::Server::Handler checked(Handler handler);
    Result<pool::LeaseFilter> filter_of(const Request &request, bool with_secrets);
    static bool tells_none(const Request &request);
    static Result<void> can_tell(const Request &request);
    Result<std::string> with_secrets(std::vector<pool::Lease> leases, const Request &request);
    std::string one_lease(pool::Lease lease)
    {
        return pool::encode(pool::Leases{service.data_port(), {std::move(lease)}});
    }

    Said inventory(const pool::Caller &caller, const Request &)
    {
        return pool::encode(service.inventory(caller));
    }
    Said sharing(const pool::Caller &caller, const Request &)
    {
        return pool::encode(service.sharing(caller));
    }
    Said usage(const pool::Caller &caller, const Request &request)
    {
        for (const auto &[name, value] : request.params)
            if (name != "job" || value.size() > defaults::kMaxText)
                return error(ErrorKind::invalid, "GET /v1/usage knows one parameter: job=");
        return pool::encode(service.usages(caller, request.get_param_value("job")));
    }
    Said checks(const pool::Caller &, const Request &) { return pool::encode(service.health()); }
    Said topology(const pool::Caller &, const Request &)
    {
        return pool::encode(service.topology());
    }
    Said nodes(const pool::Caller &caller, const Request &)
    {
        return pool::encode(caller.admin ? node_configs.tell() : pool::NodeConfigs{});
    }
    void probe(const Request &request, Response &response);
    Said offer(const pool::Caller &caller, const Request &request);
    Said accept(const pool::Caller &caller, const Request &request)
    {
        if (Result<void> able = can_tell(request); !able) return std::move(able).error();
        Result<int64_t> gpus =
            parse_integer(request.has_param("gpus") ? request.get_param_value("gpus") : "0", 0,
                          defaults::kMaxGpusOfRequest);
        if (!gpus) return std::move(gpus).error().in("gpus");
        Result<pool::Lease> lease =
            service.accept(caller, request.matches[1], static_cast<int>(*gpus));
        return lease ? with_secrets({std::move(*lease)}, request) : Said(std::move(lease).error());
    }
    Said reject(const pool::Caller &caller, const Request &request)
    {
        Result<void> done = service.reject(caller, request.matches[1]);
        return done ? Said("{}") : Said(std::move(done).error());
    }
    Said renew(const pool::Caller &caller, const Request &request)
    {
        Result<pool::Lease> lease = service.renew(caller, request.matches[1]);
        return lease ? Said(one_lease(std::move(*lease))) : Said(std::move(lease).error());
    }
    Said resize(const pool::Caller &caller, const Request &request)
    {
        Result<pool::Resize> wanted = pool::decode_resize(request.body);
        Result<pool::Lease> lease = wanted ? service.resize(caller, request.matches[1], *wanted)
                                           : std::move(wanted).error();
        return lease ? Said(one_lease(std::move(*lease))) : Said(std::move(lease).error());
    }
    Said end_resize(const pool::Caller &caller, const Request &request)
    {
        Result<pool::Lease> lease =
            service.end_resize(caller, request.matches[1], request.matches[2] == "keep");
        return lease ? Said(one_lease(std::move(*lease))) : Said(std::move(lease).error());
    }
    Said release(const pool::Caller &caller, const Request &request)
    {
        Result<void> done = service.release(caller, request.matches[1]);
        pool::Released one;
        one.count = 1;
        return done ? Said(pool::encode(one)) : Said(std::move(done).error());
    }
    Said lend(const pool::Caller &caller, const Request &request)
    {
        if (Result<void> able = can_tell(request); !able) return std::move(able).error();
        Result<pool::Lend> wanted = pool::decode_lend(request.body);
        Result<pool::Lease> lease = wanted ? service.lend(caller, *wanted)
                                           : std::move(wanted).error();
        return lease ? with_secrets({std::move(*lease)}, request) : Said(std::move(lease).error());
    }
    Said withdraw(const pool::Caller &caller, const Request &request)
    {
        Result<void> done = service.withdraw(caller, request.matches[1]);
        return done ? Said("{}") : Said(std::move(done).error());
    }
    Said drain(const pool::Caller &caller, const Request &request)
    {
        return change(caller, request, &Service::drain);
    }
    Said resume(const pool::Caller &caller, const Request &request)
    {
        return change(caller, request, &Service::resume);
    }
    Said change(const pool::Caller &caller, const Request &request,
                Result<void> (Service::*how)(const pool::Caller &, pool::Drain))
    {
        Result<pool::Drain> drain = pool::decode_drain(request.body);
        Result<void> done = drain ? (service.*how)(caller, std::move(*drain))
                                  : std::move(drain).error();
        return done ? Said("{}") : Said(std::move(done).error());
    }
    Said leases(const pool::Caller &caller, const Request &request)
    {
        Result<pool::LeaseFilter> filter = filter_of(request, true);
        if (!filter) return std::move(filter).error();
        if (filter->secrets)
            if (Result<void> able = can_tell(request); !able) return std::move(able).error();
        // A node's prolog. Its credential does not cover the header, which nothing but rgpu slurm
        // check is told.
        if (caller.admin && filter->secrets && request.has_header("Rgpu-Node-Config"))
            node_configs.heard(filter->node, request.get_header_value("Rgpu-Node-Config"));
        return with_secrets(service.leases(caller, *filter), request);
    }
    Said release_job(const pool::Caller &caller, const Request &request)
    {
        Result<pool::LeaseFilter> filter = filter_of(request, false);
        if (!filter) return std::move(filter).error();
        if (filter->job.empty())
            return error(ErrorKind::invalid, "which job? DELETE /v1/leases needs ?job=");
        Result<pool::Released> released = service.release_job(caller, *filter);
        return released ? Said(pool::encode(*released)) : Said(std::move(released).error());
    }
};

// An answer to what httplib does not get to see: its head says enough.
bool Control::State::turn_away(const RequestGate::Call &call)
{
    const auto &[body, status, why] = call.head;
    const std::string json = pool::encode_error(Error{ErrorKind::invalid, why});
    const std::string text = "HTTP/1.1 " + std::to_string(status) + " " + words_of(status) +
                             "\r\nContent-Type: application/json\r\nContent-Length: " +
                             std::to_string(json.size()) + "\r\nConnection: close\r\n\r\n" + json;
    metrics.control_request(status);
    call.give(text.data(), text.size());
    return false;
}

// Who asks; nobody: refused already.
std::optional<pool::Caller> Control::State::caller_of(const Request &request, Response &response)
{
    Result<pool::Caller> caller =
        verifier.verify(request.get_header_value("Authorization"),
                        {config.name, request.method, request.target, request.body});
    if (caller) {
        caller->from = request.remote_addr;
        return *caller;
    }
    audit.say({.act = Audit::kRefuse,
               .what = request.method + " " + request.path,
               .why = caller.error().text,
               .from = request.remote_addr});
    log_warning("control: %s %s from %s refused: %s", request.method.c_str(), request.path.c_str(),
                request.remote_addr.c_str(), caller.error().text.c_str());
    refuse(response,
           caller.error().kind == ErrorKind::invalid ? 401 : status_of(caller.error().kind),
           std::move(caller).error());
    return std::nullopt;
}

httplib::Server::Handler Control::State::checked(Handler handler)
{
    return [this, handler](const Request &request, Response &response) {
        std::optional<pool::Caller> caller = caller_of(request, response);
        if (!caller) return;
        Said said = (this->*handler)(*caller, request);
        if (said) return reply(response, 200, std::move(*said));
        log_debug("control: %s %s from %s: %s", request.method.c_str(), request.path.c_str(),
                  request.remote_addr.c_str(), said.error().text.c_str());
        audit.say({.act = Audit::kRefuse,
                   .what = request.method + " " + request.path,
                   .why = said.error().text,
                   .from = caller->from,
                   .uid = caller->uid});
        int status = status_of(said.error().kind);
        refuse(response, status, std::move(said).error());
    };
}

Control::State::Said Control::State::offer(const pool::Caller &caller, const Request &request)
{
    Result<pool::Request> wanted = pool::decode_request(request.body);
    if (!wanted) return std::move(wanted).error();
    if (!caller.admin && wanted->owner.uid != caller.uid)
        return error(
            ErrorKind::invalid,
            "uid %u may not lease for uid %u: only root and [auth] admins lease for others",
            caller.uid, wanted->owner.uid);
    if (!caller.admin && !(wanted->owner.qos.empty() && wanted->owner.account.empty()))
        return error(ErrorKind::invalid, "only root and [auth] admins say a job's qos and account");
    // A name that this host knows cannot be made up.
    std::string user = user_of(wanted->owner.uid);
    if (!user.empty() || !caller.admin) wanted->owner.user = user;
    Result<pool::Offer> offer = service.offer(caller, *wanted);
    return offer ? Said(pool::encode(*offer)) : Said(std::move(offer).error());
}

// Bytes that mean nothing, for whoever measures the way here; they are made as they go.
void Control::State::probe(const Request &request, Response &response)
{
    if (!caller_of(request, response)) return;
    Result<int64_t> bytes = parse_integer(request.get_param_value("bytes"), 1,
                                          static_cast<int64_t>(defaults::kMaxProbe));
    if (!bytes)
        return refuse(response, 400,
                      error(ErrorKind::invalid,
                            "how many bytes? GET /v1/probe needs ?bytes=, 1 to %zu",
                            defaults::kMaxProbe));
    response.status = 200;
    response.set_content_provider(static_cast<size_t>(*bytes), "text/plain",
                                  [](size_t, size_t left, httplib::DataSink &to) {
                                      std::string_view blank = RequestGate::blank().substr(0, left);
                                      return to.write(blank.data(), blank.size());
                                  });
}

Result<pool::LeaseFilter> Control::State::filter_of(const Request &request, bool with_secrets)
{
    pool::LeaseFilter filter;
    for (const auto &[name, value] : request.params) {
        if (value.size() > defaults::kMaxText)
            return error(ErrorKind::invalid, "a parameter is too long");
        if (name == "job")
            filter.job = value;
        else if (name == "node")
            filter.node = value;
        else if (name == "secrets" && with_secrets && value == "1")
            filter.secrets = true;
        else if (name == "key" && with_secrets)
            continue;  // with_secrets() uses it
        else if (name == "usage" && !with_secrets && value == "1")
            filter.usage = true;
        else if (name == "idle" && !with_secrets && value == "1")
            filter.idle = true;
        else if (name == "wait" && !with_secrets && value == "0")
            filter.wait = false;
        else
            return error(ErrorKind::invalid, "unknown parameter: job, node%s are known",
                         with_secrets ? ", secrets=1 and key" : ", usage=1, idle=1 and wait=0");
    }
    return filter;
}

// Who takes GPUs for a program that is to start elsewhere need not know the secret.
bool Control::State::tells_none(const Request &request)
{
    return request.get_param_value("secrets") == "0";
}

// Whether a secret can be told: on the network only to a key of the asker's. To be asked before
// anything is given.
Result<void> Control::State::can_tell(const Request &request)
{
    if (request.has_param("key")) {
        Result<std::string> sealed = pool::seal(request.get_param_value("key"), {}, {});
        return sealed ? Result<void>() : Result<void>(std::move(sealed).error());
    }
    if (is_loopback(request.remote_addr) || tells_none(request)) return {};
    return error(ErrorKind::invalid,
                 "a lease's secret is not sent in the clear: the request needs key= (doc/api.md); "
                 "an rgpu older than this server's does not send it");
}

// Leases as they are told: their secrets, if any, sealed for the asker's key.
Result<std::string> Control::State::with_secrets(std::vector<pool::Lease> leases,
                                                 const Request &request)
{
    const std::string key = request.get_param_value("key");
    for (pool::Lease &lease : leases) {
        if (tells_none(request)) lease.secret.clear();
        if (lease.secret.empty() || key.empty()) continue;
        Result<std::string> sealed = pool::seal(key, lease.id, lease.secret);
        if (!sealed) return std::move(sealed).error();
        lease.sealed = std::move(*sealed);
        lease.secret.clear();
    }
    return pool::encode(pool::Leases{service.data_port(), std::move(leases)});
}

void Control::State::routes()
{
    // Bounded repeats: std::regex must not recurse over what a stranger sends.
    const std::string offer_id = "/v1/offers/([0-9a-f]{32})",
                      lease_id = "/v1/leases/([0-9a-f]{32})";
    server.Get("/v1/inventory", checked(&State::inventory));
    server.Get("/v1/sharing", checked(&State::sharing));
    server.Get("/v1/usage", checked(&State::usage));
    server.Get("/v1/checks", checked(&State::checks));
    server.Get("/v1/topology", checked(&State::topology));
    server.Get("/v1/nodes", checked(&State::nodes));
    server.Get("/v1/probe",
               [this](const Request &request, Response &response) { probe(request, response); });
    server.Post("/v1/offers", checked(&State::offer));
    server.Post(offer_id + "/accept", checked(&State::accept));
    server.Delete(offer_id, checked(&State::reject));
    server.Post("/v1/lends", checked(&State::lend));
    server.Delete("/v1/lends/([0-9a-f]{32})", checked(&State::withdraw));
    server.Post("/v1/drain", checked(&State::drain));
    server.Post("/v1/resume", checked(&State::resume));
    server.Get("/v1/leases", checked(&State::leases));
    server.Delete("/v1/leases", checked(&State::release_job));
    server.Delete(lease_id, checked(&State::release));
    server.Post(lease_id + "/renew", checked(&State::renew));
    server.Post(lease_id + "/resize", checked(&State::resize));
    server.Post(lease_id + "/resize/(keep|undo)", checked(&State::end_resize));
    // These two say nothing of users and jobs, and ask for no credential.
    server.Get("/v1/health", [this](const Request &, Response &response) {
        using namespace std::chrono;
        int64_t time = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
        reply(response, 200, pool::encode(pool::Alive{config.name, RGPU_VERSION, time}));
    });
    server.Get("/metrics", [this](const Request &request, Response &response) {
        if (!config.open_metrics && !is_loopback(request.remote_addr))
            return refuse(response, 403,
                          error(ErrorKind::invalid,
                                "set [rgpud] open_metrics = true to read this from other hosts"));
        response.set_content(metrics.text(service.status(), service.boards()),
                             "text/plain; version=0.0.4");
    });
}

void Control::State::set_up()
{
    server.set_payload_max_length(defaults::kMaxRequestBody);
    server.set_error_handler([](const Request &request, Response &response) {
        if (!response.body.empty()) return;
        const char *text = response.status == 404 ? "there is no such thing here: see doc/api.md"
                                                  : "the request cannot be understood";
        refuse(response, response.status, Error{ErrorKind::invalid, text});
        (void)request;
    });
    server.set_exception_handler([](const Request &request, Response &response,
                                    std::exception_ptr) {
        log_error("control: %s %s: an exception", request.method.c_str(), request.path.c_str());
        refuse(response, 500, Error{ErrorKind::internal, "rgpud failed inside; its log says more"});
    });
    server.set_logger([this](const Request &, const Response &response) {
        metrics.control_request(response.status);
    });
    routes();
}

Control::Control(const RgpudConfig &config, Service &service, pool::Verifier &verifier,
                 Metrics &metrics, Audit &audit, TlsIdentity *identity)
    : state_(std::make_unique<State>(config, service, verifier, metrics, audit, identity))
{
    state_->set_up();
}

Control::~Control() { stop(); }

Result<int> Control::bind()
{
    const RgpudConfig &config = state_->config;
    const bool v6 = config.listen.find(':') != std::string::npos;
    Result<Fd> socket = net::listen((v6 ? "[" + config.listen + "]" : config.listen) + ":" +
                                    std::to_string(config.control_port));
    if (!socket)
        return error(socket.error().kind, "%s; see [rgpud] listen and control_port in rgpu.conf",
                     socket.error().text.c_str());
    fcntl(socket->get(), F_SETFL, fcntl(socket->get(), F_GETFL) | O_NONBLOCK);
    state_->listening = std::move(*socket);
    state_->server.serves(state_->listening.get());
    return net::local_port(state_->listening.get());
}

Result<void> Control::start() { return state_->gate.start(std::move(state_->listening)); }

void Control::stop() { state_->gate.stop(); }

}  // namespace rgpu::serverd
