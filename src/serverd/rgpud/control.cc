#include "serverd/rgpud/control.h"

#include <httplib.h>
#include <pwd.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "pool/message_json.h"
#include "pool/sealed.h"
#include "serverd/rgpud/node_configs.h"
#include "serverd/rgpud/request_gate.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

using httplib::Request;
using httplib::Response;

// httplib's thread that accepts hands connections to the gate by itself.
class AtOnce : public httplib::TaskQueue {
public:
    using Taken = decltype(std::declval<httplib::TaskQueue &>().enqueue(nullptr));  // void in httplib 0.11, bool in 0.18
    Taken enqueue(std::function<void()> task) override
    {
        task();
        return Taken(true);
    }
    void shutdown() override {}
};

// A request that is there already, and the socket that its answer goes to.
class Collected : public httplib::Stream {
public:
    Collected(int socket, std::string &received) : socket_(socket), received_(received) {}
    ~Collected() override { received_.erase(0, at_); }

    bool is_readable() const override { return at_ < received_.size(); }
    bool is_writable() const override
    {
        pollfd look{socket_, POLLOUT, 0};
        return poll(&look, 1, kWriteTime) > 0;
    }
    ssize_t read(char *to, size_t size) override
    {
        size = std::min(size, received_.size() - at_);
        memcpy(to, received_.data() + at_, size);
        at_ += size;
        return static_cast<ssize_t>(size);
    }
    ssize_t write(const char *from, size_t size) override
    {
        return is_writable() ? send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    }
    void get_remote_ip_and_port(std::string &ip, int &port) const override { name(getpeername, ip, port); }
    void get_local_ip_and_port(std::string &ip, int &port) const override { name(getsockname, ip, port); }
    socket_t socket() const override { return socket_; }

private:
    static constexpr int kWriteTime = 5000;  // milliseconds until a reader counts as gone

    template <class Get> void name(Get get, std::string &ip, int &port) const
    {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
        auto *any = reinterpret_cast<sockaddr *>(&address);
        if (get(socket_, any, &size) == 0)
            getnameinfo(any, size, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
        ip = host;
        port = atoi(service);
    }

    int socket_;
    std::string &received_;
    size_t at_ = 0;
};

// httplib parses, routes and answers; reading from the network is the gate's.
class Server : public httplib::Server {
public:
    Server() : gate_([this](int socket, std::string &received, bool last) { return answer(socket, received, last); }) {}
    RequestGate &gate() { return gate_; }
    // httplib's own backlog is 5: of a burst of clients the sixth would try again a second later.
    void widen_backlog() { ::listen(svr_sock_, SOMAXCONN); }

private:
    bool process_and_close_socket(socket_t socket) override
    {
        gate_.add(Fd(socket));
        return true;
    }
    bool answer(int socket, std::string &received, bool last)
    {
        Collected request(socket, received);
        bool closed = false;
        return process(request, last, closed) && !closed;
    }
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
            return this->process_request(request, peer, peer_port, own, own_port, last, closed, nullptr);
        }
    }

    RequestGate gate_;
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
        if (c < 0x20 || c > 0x7e)
            c = '?';
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
    NodeConfigs node_configs;
    Server server;
    std::thread thread;

    // What a handler says: JSON, or why not.
    using Said = Result<std::string>;
    using Handler = Said (State::*)(const pool::Caller &, const Request &);

    State(const RgpudConfig &c, Service &s, pool::Verifier &v, Metrics &m)
        : config(c), service(s), verifier(v), metrics(m)
    {
    }

    void set_up();
    void routes();
    bool unfit(const Request &request, Response &response);
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
    Said checks(const pool::Caller &, const Request &) { return pool::encode(service.health()); }
    Said topology(const pool::Caller &, const Request &) { return pool::encode(service.topology()); }
    Said nodes(const pool::Caller &caller, const Request &)
    {
        return pool::encode(caller.admin ? node_configs.tell() : pool::NodeConfigs{});
    }
    Said probe(const pool::Caller &, const Request &request);
    Said offer(const pool::Caller &caller, const Request &request);
    Said accept(const pool::Caller &caller, const Request &request)
    {
        if (Result<void> able = can_tell(request); !able)
            return std::move(able).error();
        Result<int64_t> gpus = parse_integer(request.has_param("gpus") ? request.get_param_value("gpus") : "0", 0, defaults::kMaxGpusOfRequest);
        if (!gpus)
            return std::move(gpus).error().in("gpus");
        Result<pool::Lease> lease = service.accept(caller, request.matches[1], static_cast<int>(*gpus));
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
    Said release(const pool::Caller &caller, const Request &request)
    {
        Result<void> done = service.release(caller, request.matches[1]);
        pool::Released one;
        one.count = 1;
        return done ? Said(pool::encode(one)) : Said(std::move(done).error());
    }
    Said lend(const pool::Caller &caller, const Request &request)
    {
        if (Result<void> able = can_tell(request); !able)
            return std::move(able).error();
        Result<pool::Lend> wanted = pool::decode_lend(request.body);
        Result<pool::Lease> lease = wanted ? service.lend(caller, *wanted) : std::move(wanted).error();
        return lease ? with_secrets({std::move(*lease)}, request) : Said(std::move(lease).error());
    }
    Said withdraw(const pool::Caller &caller, const Request &request)
    {
        Result<void> done = service.withdraw(caller, request.matches[1]);
        return done ? Said("{}") : Said(std::move(done).error());
    }
    Said drain(const pool::Caller &caller, const Request &request) { return change(caller, request, &Service::drain); }
    Said resume(const pool::Caller &caller, const Request &request) { return change(caller, request, &Service::resume); }
    Said change(const pool::Caller &caller, const Request &request,
                Result<void> (Service::*how)(const pool::Caller &, pool::Drain))
    {
        Result<pool::Drain> drain = pool::decode_drain(request.body);
        Result<void> done = drain ? (service.*how)(caller, std::move(*drain)) : std::move(drain).error();
        return done ? Said("{}") : Said(std::move(done).error());
    }
    Said leases(const pool::Caller &caller, const Request &request)
    {
        Result<pool::LeaseFilter> filter = filter_of(request, true);
        if (!filter)
            return std::move(filter).error();
        if (filter->secrets)
            if (Result<void> able = can_tell(request); !able)
                return std::move(able).error();
        // A node's prolog. Its credential does not cover the header, which nothing but rgpu slurm check is told.
        if (caller.admin && filter->secrets && request.has_header("Rgpu-Node-Config"))
            node_configs.heard(filter->node, request.get_header_value("Rgpu-Node-Config"));
        return with_secrets(service.leases(caller, *filter), request);
    }
    Said release_job(const pool::Caller &caller, const Request &request)
    {
        Result<pool::LeaseFilter> filter = filter_of(request, false);
        if (!filter)
            return std::move(filter).error();
        if (filter->job.empty())
            return error(ErrorKind::invalid, "which job? DELETE /v1/leases needs ?job=");
        Result<pool::Released> released = service.release_job(caller, *filter);
        return released ? Said(pool::encode(*released)) : Said(std::move(released).error());
    }
};

// What is refused before a byte of the body is read.
bool Control::State::unfit(const Request &request, Response &response)
{
    auto say = [&](int status, const char *text) {
        refuse(response, status, Error{ErrorKind::invalid, text});
        // Its body is not read: nothing after it on this connection could be understood.
        response.set_header("Connection", "close");
        return true;
    };
    if (request.target.size() > defaults::kMaxRequestTarget)
        return say(414, "the request's target is too long");
    if (request.has_header("Transfer-Encoding") || request.has_header("Content-Encoding"))
        return say(411, "send the body plain, with Content-Length");
    if (request.method != "GET" && request.method != "HEAD" &&
        !request.has_header("Content-Length"))
        return say(411, "a Content-Length is needed, 0 where there is no body");
    Result<int64_t> length = parse_integer(
        request.has_header("Content-Length") ? request.get_header_value("Content-Length") : "0", 0,
        INT64_MAX);
    if (!length)
        return say(400, "Content-Length is no number");
    if (static_cast<size_t>(*length) > defaults::kMaxRequestBody)
        return say(413, "the body is too large");
    return false;
}

httplib::Server::Handler Control::State::checked(Handler handler)
{
    return [this, handler](const Request &request, Response &response) {
        Result<pool::Caller> caller =
            verifier.verify(request.get_header_value("Authorization"),
                            {config.name, request.method, request.target, request.body});
        if (!caller) {
            log_warning("control: %s %s from %s refused: %s", request.method.c_str(),
                        request.path.c_str(), request.remote_addr.c_str(),
                        caller.error().text.c_str());
            return refuse(
                response,
                caller.error().kind == ErrorKind::invalid ? 401 : status_of(caller.error().kind),
                std::move(caller).error());
        }
        Said said = (this->*handler)(*caller, request);
        if (said)
            return reply(response, 200, std::move(*said));
        log_debug("control: %s %s from %s: %s", request.method.c_str(), request.path.c_str(),
                  request.remote_addr.c_str(), said.error().text.c_str());
        int status = status_of(said.error().kind);
        refuse(response, status, std::move(said).error());
    };
}

Control::State::Said Control::State::offer(const pool::Caller &caller, const Request &request)
{
    Result<pool::Request> wanted = pool::decode_request(request.body);
    if (!wanted)
        return std::move(wanted).error();
    if (!caller.admin && wanted->owner.uid != caller.uid)
        return error(
            ErrorKind::invalid,
            "uid %u may not lease for uid %u: only root and [auth] admins lease for others",
            caller.uid, wanted->owner.uid);
    if (!caller.admin && !wanted->owner.qos.empty())
        return error(ErrorKind::invalid, "only root and [auth] admins say a job's qos");
    // A name that this host knows cannot be made up.
    std::string user = user_of(wanted->owner.uid);
    if (!user.empty() || !caller.admin)
        wanted->owner.user = user;
    Result<pool::Offer> offer = service.offer(caller, *wanted);
    return offer ? Said(pool::encode(*offer)) : Said(std::move(offer).error());
}

// Bytes that mean nothing, for whoever measures the way here.
Control::State::Said Control::State::probe(const pool::Caller &, const Request &request)
{
    Result<int64_t> bytes = parse_integer(request.get_param_value("bytes"), 1, static_cast<int64_t>(defaults::kMaxProbe));
    if (!bytes)
        return error(ErrorKind::invalid, "how many bytes? GET /v1/probe needs ?bytes=, 1 to %zu", defaults::kMaxProbe);
    return std::string(static_cast<size_t>(*bytes), ' ');
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

// Whether a secret can be told: on the network only to a key of the asker's. To be asked before anything is given.
Result<void> Control::State::can_tell(const Request &request)
{
    if (request.has_param("key")) {
        Result<std::string> sealed = pool::seal(request.get_param_value("key"), {}, {});
        return sealed ? Result<void>() : Result<void>(std::move(sealed).error());
    }
    if (is_loopback(request.remote_addr) || tells_none(request))
        return {};
    return error(ErrorKind::invalid, "a lease's secret is not sent in the clear: the request needs key= (doc/api.md); "
                                     "an rgpu older than this server's does not send it");
}

// Leases as they are told: their secrets, if any, sealed for the asker's key.
Result<std::string> Control::State::with_secrets(std::vector<pool::Lease> leases, const Request &request)
{
    const std::string key = request.get_param_value("key");
    for (pool::Lease &lease : leases) {
        if (tells_none(request))
            lease.secret.clear();
        if (lease.secret.empty() || key.empty())
            continue;
        Result<std::string> sealed = pool::seal(key, lease.id, lease.secret);
        if (!sealed)
            return std::move(sealed).error();
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
    server.Get("/v1/checks", checked(&State::checks));
    server.Get("/v1/topology", checked(&State::topology));
    server.Get("/v1/nodes", checked(&State::nodes));
    server.Get("/v1/probe", checked(&State::probe));
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
        response.set_content(metrics.text(service.count(), service.boards()), "text/plain; version=0.0.4");
    });
}

void Control::State::set_up()
{
    server.new_task_queue = [] { return new AtOnce; };
    server.set_payload_max_length(defaults::kMaxRequestBody);
    // Nobody waits for a body that would come after a word of ours.
    server.set_expect_100_continue_handler([](const Request &, Response &) { return 417; });
    server.set_tcp_nodelay(true);
    server.set_socket_options([](int socket) {
        // Not SO_REUSEPORT, httplib's own choice: two rgpud would share a port in silence.
        int yes = 1;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_pre_routing_handler([this](const Request &request, Response &response) {
        return unfit(request, response) ? httplib::Server::HandlerResponse::Handled
                                        : httplib::Server::HandlerResponse::Unhandled;
    });
    server.set_error_handler([](const Request &request, Response &response) {
        if (!response.body.empty())
            return;
        const char *text = response.status == 404   ? "there is no such thing here: see doc/api.md"
                           : response.status == 413 ? "the body is too large"
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
                 Metrics &metrics)
    : state_(std::make_unique<State>(config, service, verifier, metrics))
{
    state_->set_up();
}

Control::~Control()
{
    stop();
}

Result<int> Control::bind()
{
    const RgpudConfig &config = state_->config;
    int port = static_cast<int>(config.control_port);
    errno = 0;
    if (port == 0)
        port = state_->server.bind_to_any_port(config.listen);
    else if (!state_->server.bind_to_port(config.listen, port))
        port = -1;
    if (port < 0)
        return error(
            ErrorKind::unavailable,
            "cannot listen on %s:%lld: %s; see [rgpud] listen and control_port in rgpu.conf",
            config.listen.c_str(), static_cast<long long>(config.control_port),
            errno ? strerror(errno) : "no such address");
    state_->server.widen_backlog();
    return port;
}

Result<void> Control::start()
{
    Result<void> started = state_->server.gate().start();
    if (!started)
        return started;
    state_->thread = std::thread([this] { state_->server.listen_after_bind(); });
    return {};
}

void Control::stop()
{
    if (!state_->thread.joinable())
        return;
    // stop() does nothing before listen_after_bind() has begun.
    while (!state_->server.is_running())
        std::this_thread::yield();
    state_->server.stop();
    state_->thread.join();
    state_->server.gate().stop();
}

}  // namespace rgpu::serverd
