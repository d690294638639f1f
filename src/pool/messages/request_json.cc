// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/request_json.h"

#include "pool/messages/fields.h"
#include "pool/messages/lease_parts.h"
#include "util/driver_release.h"

namespace rgpu::pool {
namespace {

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

Result<void> read_wanted(Reader &reader, GpuFilter &wanted)
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
    const GpuFilter &wanted = request.filter;
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

std::string encode(const Resize &resize)
{
    Json json = Json::object();
    if (resize.share) json["share"] = *resize.share;
    if (resize.most) json["most"] = *resize.most;
    if (resize.memory) json["memory"] = resize.memory;
    if (resize.hold) json["hold"] = true;
    return dump(json);
}

Result<Resize> decode_resize(std::string_view text)
{
    return decode<Resize>(text, [](const Json &json) -> Result<Resize> {
        Reader reader(json, "resize");
        Resize resize;
        if (reader.member("share", false)) {
            resize.share = static_cast<int>(reader.number("share", 0, kWholeGpu));
            resize.most = static_cast<int>(
                reader.number("most", std::max(1, *resize.share), kWholeGpu, false, *resize.share));
            if (*resize.most == 0) reader.wrong("share", "is 0, and needs \"most\"");
        }
        resize.memory = reader.count<uint64_t>("memory", false);
        resize.hold = reader.flag("hold");
        if (!resize.share && !resize.memory) reader.wrong("needs", "\"share\" or \"memory\"");
        Result<void> read = reader.done_strictly();
        if (!read) return std::move(read).error();
        return resize;
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
        lend.grace = Milliseconds(reader.number("grace_ms", 0, kLongestGrace.count()));
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
            Result<void> read = read_wanted(wanted_reader, request.filter);
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

}  // namespace rgpu::pool
