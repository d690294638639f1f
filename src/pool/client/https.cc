// SPDX-License-Identifier: Apache-2.0
#include "pool/client/https.h"

#include <algorithm>
#include <chrono>

#include "pool/client/curl_library.h"
#include "pool/credentials/server_key.h"
#include "util/defaults.h"

namespace rgpu::pool {
namespace {

using Clock = std::chrono::steady_clock;

struct EndHandle {
    void operator()(CURL *handle) const { ((*curl_library())->curl_easy_cleanup)(handle); }
};
struct EndList {
    void operator()(curl_slist *list) const { ((*curl_library())->curl_slist_free_all)(list); }
};
struct EndMulti {
    void operator()(CURLM *multi) const { ((*curl_library())->curl_multi_cleanup)(multi); }
};
using Handle = std::unique_ptr<CURL, EndHandle>;

size_t take_body(char *data, size_t, size_t bytes, void *to)
{
    auto &body = *static_cast<std::string *>(to);
    if (bytes > defaults::kMaxReplyBody - std::min(body.size(), defaults::kMaxReplyBody)) return 0;
    body.append(data, bytes);
    return bytes;
}

size_t drop_body(char *, size_t, size_t bytes, void *) { return bytes; }

// Sets options of a handle. One that libcurl refuses fails the request: without a pin, say, it
// would be sent to anybody.
class Options {
public:
    Options(const CurlLibrary &curl, CURL *handle) : curl_(curl), handle_(handle) {}

    template <class T> void set(CURLoption option, T value)
    {
        const CURLcode code = (curl_.curl_easy_setopt)(handle_, option, value);
        if (code != CURLE_OK && code_ == CURLE_OK) code_ = code;
    }
    // Of the first that was refused.
    CURLcode code() const { return code_; }

private:
    const CurlLibrary &curl_;
    CURL *const handle_;
    CURLcode code_ = CURLE_OK;
};

// What every request to one of our servers needs.
void set_common(Options &options, const std::string &url, Milliseconds timeout)
{
    auto set = [&](CURLoption option, auto value) { options.set(option, value); };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_3));
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TCP_NODELAY, 1L);
    const auto time = std::max<long>(1, static_cast<long>(timeout.count()));
    set(CURLOPT_TIMEOUT_MS, time);
    set(CURLOPT_CONNECTTIMEOUT_MS, time);
}

// What a failure means to who reads it.
Error said(const CurlLibrary &curl, CURLcode code, const char *detail)
{
    switch (code) {
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
        return error(ErrorKind::invalid,
                     "its key is not the one that rgpu.conf pins: somebody is in between, or the "
                     "key was changed; compare with what rgpu pin --own shows on that host");
    case CURLE_PEER_FAILED_VERIFICATION:
        return error(ErrorKind::invalid, "its certificate is not what ca_file asks for: %s",
                     *detail ? detail : (curl.curl_easy_strerror)(code));
    case CURLE_SSL_CACERT_BADFILE:
        return error(ErrorKind::invalid, "ca_file cannot be used: %s",
                     *detail ? detail : (curl.curl_easy_strerror)(code));
    case CURLE_SSL_CONNECT_ERROR:
        return error(ErrorKind::disconnected,
                     "no TLS with it: %s; [rgpud] tls is off there, its rgpu is older, or another "
                     "program listens",
                     *detail ? detail : (curl.curl_easy_strerror)(code));
    case CURLE_UNKNOWN_OPTION:
    case CURLE_NOT_BUILT_IN:
    case CURLE_BAD_FUNCTION_ARGUMENT:
        return error(ErrorKind::unsupported,
                     "this host's libcurl cannot ask in TLS 1.3 with a pinned key or ca_file (%s): "
                     "install a newer one",
                     (curl.curl_easy_strerror)(code));
    case CURLE_OPERATION_TIMEDOUT:
        return error(ErrorKind::disconnected, "it did not answer within the time");
    case CURLE_WRITE_ERROR:
        return error(ErrorKind::disconnected, "its answer cannot be used: it is too long");
    default:
        return error(ErrorKind::disconnected, "%s",
                     *detail ? detail : (curl.curl_easy_strerror)(code));
    }
}

// One request under way.
struct Exchange {
    Handle handle;
    std::unique_ptr<curl_slist, EndList> fields;
    HttpReply reply;
    char detail[CURL_ERROR_SIZE] = "";
    CURLcode code = CURLE_OPERATION_TIMEDOUT;

    // False: `code` says why it cannot be sent.
    bool begin(const CurlLibrary &curl, const HttpCall &call, Milliseconds timeout);
    Result<HttpReply> take(const CurlLibrary &curl);
};

bool Exchange::begin(const CurlLibrary &curl, const HttpCall &call, Milliseconds timeout)
{
    handle.reset((curl.curl_easy_init)());
    if (!handle) return code = CURLE_OUT_OF_MEMORY, false;
    Options options(curl, handle.get());
    set_common(options, "https://" + call.address + call.target, timeout);
    auto set = [&](CURLoption option, auto value) { options.set(option, value); };
    auto add = [&](const std::string &field) {
        // The list as it was stays valid where there is no memory.
        if (curl_slist *longer = (curl.curl_slist_append)(fields.get(), field.c_str()))
            (void)fields.release(), fields.reset(longer);
    };
    if (!call.authorization.empty()) add("Authorization: " + call.authorization);
    if (!call.node_config.empty()) add("Rgpu-Node-Config: " + call.node_config);
    if (call.method != "GET") {
        add("Content-Type: application/json");
        add("Expect:");
        set(CURLOPT_POSTFIELDSIZE, static_cast<long>(call.body.size()));
        set(CURLOPT_COPYPOSTFIELDS, call.body.c_str());
        set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
    }
    set(CURLOPT_HTTPHEADER, fields.get());
    set(CURLOPT_ERRORBUFFER, static_cast<char *>(detail));
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, &reply.body);
    set(CURLOPT_PRIVATE, this);
    if (!call.pin.empty()) set(CURLOPT_PINNEDPUBLICKEY, call.pin.c_str());
    const bool by_authority = !call.ca_file.empty();
    set(CURLOPT_SSL_VERIFYPEER, by_authority ? 1L : 0L);
    set(CURLOPT_SSL_VERIFYHOST, by_authority ? 2L : 0L);
    if (by_authority) set(CURLOPT_CAINFO, call.ca_file.c_str());
    if (options.code() != CURLE_OK) code = options.code();
    return options.code() == CURLE_OK;
}

Result<HttpReply> Exchange::take(const CurlLibrary &curl)
{
    if (code != CURLE_OK) return said(curl, code, detail);
    long status = 0;
    (curl.curl_easy_getinfo)(handle.get(), CURLINFO_RESPONSE_CODE, &status);
    reply.status = static_cast<unsigned>(status);
    return std::move(reply);
}

}  // namespace

// The connections that are kept, and what is under way on them.
struct Https::Multi {
    std::unique_ptr<CURLM, EndMulti> handle;
};

Https::Https() = default;
Https::Https(Https &&) noexcept = default;
Https &Https::operator=(Https &&) noexcept = default;
Https::~Https() = default;

std::vector<Result<HttpReply>> Https::perform(const std::vector<HttpCall> &calls,
                                              Milliseconds timeout)
{
    const Clock::time_point deadline = Clock::now() + timeout;
    std::vector<Result<HttpReply>> replies;
    if (calls.empty()) return replies;
    const Result<const CurlLibrary *> library = curl_library();
    if (library && !multi_)
        multi_ = std::make_unique<Multi>(
            Multi{std::unique_ptr<CURLM, EndMulti>(((*library)->curl_multi_init)())});
    if (!library || !multi_->handle) {
        const Error why = library ? error(ErrorKind::exhausted, "no memory for libcurl")
                                  : library.error();
        replies.assign(calls.size(), why);
        return replies;
    }
    const CurlLibrary &curl = **library;
    CURLM *multi = multi_->handle.get();
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (const HttpCall &call : calls) {
        exchanges.push_back(std::make_unique<Exchange>());
        if (exchanges.back()->begin(curl, call, timeout))
            (curl.curl_multi_add_handle)(multi, exchanges.back()->handle.get());
    }
    for (int running = 1; running > 0;) {
        if ((curl.curl_multi_perform)(multi, &running) != CURLM_OK) break;
        const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) break;
        if (running) (curl.curl_multi_wait)(multi, nullptr, 0, static_cast<int>(left), nullptr);
    }
    int more = 0;
    while (const CURLMsg *message = (curl.curl_multi_info_read)(multi, &more)) {
        Exchange *of = nullptr;
        (curl.curl_easy_getinfo)(message->easy_handle, CURLINFO_PRIVATE, &of);
        if (of && message->msg == CURLMSG_DONE) of->code = message->data.result;
    }
    for (auto &exchange : exchanges) {
        if (exchange->handle) (curl.curl_multi_remove_handle)(multi, exchange->handle.get());
        replies.push_back(exchange->take(curl));
    }
    return replies;
}

Result<std::string> presented_pin(const std::string &address, Milliseconds timeout)
{
    const Result<const CurlLibrary *> library = curl_library();
    if (!library) return library.error();
    const CurlLibrary &curl = **library;
    const Handle handle((curl.curl_easy_init)());
    if (!handle) return error(ErrorKind::exhausted, "no memory for libcurl");
    char detail[CURL_ERROR_SIZE] = "";
    Options options(curl, handle.get());
    set_common(options, "https://" + address + "/v1/health", timeout);
    auto set = [&](CURLoption option, auto value) { options.set(option, value); };
    set(CURLOPT_ERRORBUFFER, static_cast<char *>(detail));
    set(CURLOPT_WRITEFUNCTION, drop_body);
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
    set(CURLOPT_CERTINFO, 1L);
    const CURLcode code = options.code() == CURLE_OK ? (curl.curl_easy_perform)(handle.get())
                                                     : options.code();
    if (code != CURLE_OK) return said(curl, code, detail);
    const curl_certinfo *chain = nullptr;
    (curl.curl_easy_getinfo)(handle.get(), CURLINFO_CERTINFO, &chain);
    constexpr std::string_view kField = "Cert:";
    for (const curl_slist *at = chain && chain->num_of_certs > 0 ? chain->certinfo[0] : nullptr; at;
         at = at->next)
        if (const std::string_view field = at->data; field.starts_with(kField))
            return pin_of_certificate(field.substr(kField.size()));
    return error(ErrorKind::disconnected, "this host's libcurl does not tell certificates");
}

}  // namespace rgpu::pool
