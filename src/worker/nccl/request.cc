// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/request.h"

#include <algorithm>
#include <cstring>

#include "worker/driver/driver.h"

namespace rgpu::worker::nccl {
namespace {

template <class T> uint64_t word(T *p) { return reinterpret_cast<uint64_t>(p); }

Error lie(const calls::NcclFunction &f, const char *what)
{
    return error(ErrorKind::invalid, "%s: %s", f.name.data(), what);
}

// More than any site has: NCCL takes memory for each.
constexpr int kMostRanks = 1 << 16;

uint64_t unsigned_of(int n) { return static_cast<uint32_t>(n); }

}  // namespace

Result<Request> Request::read(wire::Reader &r, Session &s, Objects &objects)
{
    Request q;
    const std::string_view name = r.string();
    const auto context = r.value<HandleId>();
    q.function_ = calls::find_nccl(name);
    if (!r.ok() || !q.function_ ||
        (q.function_->way != calls::NcclWay::grouped && q.function_->way != calls::NcclWay::once))
        return error(ErrorKind::invalid, "a call of NCCL that no client sends");
    // Without a context goes what needs none.
    if (s.objects.get(context, q.context_)) q.context_ = nullptr;
    q.words_.resize(calls::kMostNcclParameters);
    for (size_t i = 0; i < q.function_->parameters.size(); i++)
        if (auto read = q.read_one(r, i, s, objects); !read) return std::move(read).error();
    if (!r.ok()) return lie(*q.function_, "its body does not fit its parameters");
    q.check(s, objects);
    return q;
}

void Request::refuse(int result, const char *why)
{
    if (!refusal_) refusal_ = result, why_ = why;
}

Result<void> Request::read_one(wire::Reader &r, size_t place, Session &s, Objects &objects)
{
    uint64_t &to = words_[place];
    switch (function_->parameters[place]) {
    case 'c':
    case 'e':
        if (Communicator *c = objects.find(r.value<uint32_t>()))
            uses_.push_back(c);
        else
            refuse(calls::kNcclInvalidArgument, "a communicator that is none, or has ended");
        return {};
    case 'N': return read_made(r, objects, false);
    case 'A': return read_made(r, objects, true);
    case 'l': return read_list(r, place);
    case 'u': return read_ids(r, place, false);
    case 'U': return read_ids(r, place, true);
    case 'f': return read_config(r, place);
    case 'i':
    case 'p':
    case 't':
    case 'k':
    case 'o': to = unsigned_of(r.value<int>()); return {};
    case 'O': {
        const int number = r.value<int>();
        operator_ = objects.make_operator(number, calls::kFirstNcclOperator);
        if (!operator_) return lie(*function_, "an operator's number that was given");
        to = word(keep(std::vector<uint8_t>(sizeof(int))));
        return {};
    }
    case 'x': {
        CUstream stream = nullptr;
        if (s.objects.get(r.value<HandleId>(), stream))
            refuse(calls::kNcclInvalidArgument, "a stream that is none");
        to = word(stream);
        return {};
    }
    case 'Y': to = word(keep(std::vector<uint8_t>(sizeof(calls::NcclUniqueId)))); return {};
    case 'H':
    case 'I':
    case 'V':
    case 'L': to = word(keep(std::vector<uint8_t>(sizeof(uint64_t)))); return {};
    default: to = r.value<uint64_t>(); return {};
    }
}

Result<void> Request::read_made(wire::Reader &r, Objects &objects, bool several)
{
    const uint32_t count = several ? r.value<uint32_t>() : 1;
    if (!count || count > static_cast<uint32_t>(calls::kMostNcclList))
        return lie(*function_, "more communicators than there are");
    for (uint32_t i = 0; i < count; i++) {
        Communicator *const made = objects.make(r.value<uint32_t>());
        if (!made) return lie(*function_, "a communicator's number that was given");
        makes_.push_back(made);
    }
    words_[function_->place(several ? 'A' : 'N')] =
        several ? word(keep(std::vector<uint8_t>(count * sizeof(void *)))) : word(&makes_[0]->real);
    return {};
}

Result<void> Request::read_list(wire::Reader &r, size_t place)
{
    const bool there = r.value<uint8_t>();
    const uint32_t count = r.value<uint32_t>();
    const uint8_t *bytes = r.bytes(size_t{count} * sizeof(int));
    if (!bytes || count > static_cast<uint32_t>(calls::kMostNcclList))
        return lie(*function_, "a list that is too long");
    std::vector<uint8_t> copy(bytes, bytes + count * sizeof(int));
    copy.reserve(sizeof(int));
    words_[place] = there ? word(keep(std::move(copy))) : 0;
    list_ = there ? static_cast<int>(count) : -1;
    return {};
}

Result<void> Request::read_ids(wire::Reader &r, size_t place, bool several)
{
    constexpr size_t kBytes = sizeof(calls::NcclUniqueId);
    const uint32_t count = several ? r.value<uint32_t>() : 1;
    if (count > r.left() / kBytes) return lie(*function_, "more ids than came");
    const uint8_t *bytes = r.bytes(count * kBytes);
    words_[place] = word(keep(std::vector<uint8_t>(bytes, bytes + count * kBytes)));
    ids_ = static_cast<int>(count);
    return {};
}

Result<void> Request::read_config(wire::Reader &r, size_t place)
{
    if (!r.value<uint8_t>()) return {};
    const size_t bytes = r.value<uint32_t>();
    if (bytes < calls::kNcclLeastConfigBytes || bytes > calls::kNcclConfigBytes)
        return lie(*function_, "a config that no NCCL has");
    const uint8_t *from = r.bytes(bytes);
    if (!from) return lie(*function_, "a config that did not come");
    std::vector<uint8_t> config(from, from + bytes);
    memcpy(config.data(), &bytes, sizeof bytes);
    for (size_t at : {calls::kNcclNetName, calls::kNcclCommName}) {
        const bool there = r.value<uint8_t>();
        const std::string_view text = there ? r.string() : std::string_view();
        if (text.size() > calls::kMostNcclText) return lie(*function_, "a text that is too long");
        const char *kept = nullptr;
        if (there && !makes_.empty()) kept = makes_[0]->texts.emplace_back(text).c_str();
        if (bytes >= at + sizeof kept) memcpy(&config[at], &kept, sizeof kept);
    }
    words_[place] = word(keep(std::move(config)));
    return {};
}

// --- held against what there is

void Request::check(Session &s, Objects &objects)
{
    const auto &f = *function_;
    if (f.has('k')) {
        if (number('k') < 0 || (list_ >= 0 && number('k') != list_) ||
            (ids_ >= 0 && f.has('U') && number('k') != ids_) ||
            (f.has('A') && unsigned_of(number('k')) != makes_.size()))
            refuse(calls::kNcclInvalidArgument, "lists of another length");
    }
    if (f.has('l') && !f.has('A')) check_ranks();
    if (f.name.starts_with("ncclCommInitRank")) {
        if (number('i') < 1 || number('i') > kMostRanks || number('p') < 0 ||
            number('p') >= number('i'))
            refuse(calls::kNcclInvalidArgument, "a rank that is none");
        makes_[0]->ranks = number('i'), makes_[0]->rank = number('p');
    }
    for (size_t i = 0; f.has('A') && i < makes_.size(); i++)
        makes_[i]->ranks = static_cast<int>(makes_.size()), makes_[i]->rank = static_cast<int>(i);
    if (f.has('t') && !calls::nccl_type_bytes(number('t')))
        refuse(calls::kNcclInvalidArgument, "a type that is none");
    if (f.has('O') && operator_ && !uses_.empty()) operator_->of = uses_[0];
    if (f.has('v') && number('i') != 1 && !refusal_ &&
        !s.addresses.has(value('v'), calls::nccl_type_bytes(number('t'))))
        refuse(calls::kNcclInvalidArgument, "memory that is not this program's");
    if (f.has('h')) {
        registration_ = objects.find_registration(value('h'));
        if (!registration_ || uses_.empty() || registration_->of != uses_[0])
            refuse(calls::kNcclInvalidArgument, "a buffer that is not registered");
        else
            registration_->ended = true;
    }
    if (f.has('H') && !uses_.empty()) {
        registration_ = objects.make_registration(registration_number_);
        if (registration_)
            registration_->of = uses_[0];
        else
            refuse(calls::kNcclSystemError, "too many registered buffers");
    }
    if (f.has('o')) check_operator(objects);
    for (size_t i = 0; i < f.parameters.size() && !refusal_; i++)
        if (strchr("sSdDbaqrGB", f.parameters[i])) check_memory(s, i);
    // Last: a call that is refused ends nothing.
    if (!refusal_ && f.has('e')) uses_[0]->ended = true;
    if (!refusal_ && f.name == "ncclRedOpDestroy" && operator_) operator_->ended = true;
    // What it makes is never there then.
    for (Communicator *made : makes_)
        if (refusal_) made->ended = true;
    if (refusal_ && f.has('O') && operator_) operator_->ended = true;
    if (refusal_ && f.has('H') && registration_) registration_->ended = true;
}

// Of another communicator's ranks; NCCL counts on them.
void Request::check_ranks()
{
    const int ranks = uses_.empty() ? -1 : uses_[0]->ranks.load();
    const int *const list = reinterpret_cast<const int *>(value('l'));
    const auto is_rank = [ranks](int r) { return r >= 0 && r < ranks; };
    if (number('k') > std::max(list_, 0) || (list && !std::all_of(list, list + list_, is_rank)))
        refuse(calls::kNcclInvalidArgument, "a list of what are no ranks");
}

void Request::check_operator(Objects &objects)
{
    const int given = number('o');
    if (given >= 0 && given < calls::kFirstNcclOperator) return;
    operator_ = objects.find_operator(given);
    if (!operator_ || uses_.empty() || operator_->of != uses_[0] || operator_->real < 0)
        refuse(calls::kNcclInvalidArgument, "an operator that is none of this communicator's");
    else
        words_[function_->place('o')] = unsigned_of(operator_->real);
}

// A kernel of NCCL would read and write whatever address it is told.
void Request::check_memory(Session &s, size_t place)
{
    const char letter = function_->parameters[place];
    uint64_t bytes = function_->has('w') ? value('w') : 0;
    if (letter != 'B') {
        const int ranks = uses_[0]->ranks, rank = uses_[0]->rank;
        if (ranks < 1) return refuse(calls::kNcclInvalidUsage, "a communicator that is being made");
        if (function_->has('p') && (number('p') < 0 || number('p') >= ranks))
            return refuse(calls::kNcclInvalidArgument, "a rank that is none");
        if (strchr("aqrG", letter) && number('p') != rank) {
            words_[place] = 0;  // NCCL does not look at it
            return;
        }
        const bool of_each = strchr("SDqG", letter);
        if (__builtin_mul_overflow(value('z'), calls::nccl_type_bytes(number('t')), &bytes) ||
            __builtin_mul_overflow(bytes, of_each ? static_cast<uint64_t>(ranks) : 1, &bytes))
            return refuse(calls::kNcclInvalidArgument, "more elements than memory holds");
    }
    if (bytes && !s.addresses.has(words_[place], bytes))
        refuse(calls::kNcclInvalidArgument,
               "a buffer that is not, or not all, memory of this program's GPUs");
}

// --- carried out

int Request::carry_out(Library &library)
{
    void *const function = library.function(function_->name);
    if (!function) return calls::kNcclInvalidUsage;
    if (DRIVER(cuCtxSetCurrent)(context_)) return calls::kNcclUnhandledCudaError;
    for (size_t i = 0; i < function_->parameters.size(); i++) switch (function_->parameters[i]) {
        case 'c':
        case 'e':
            words_[i] = word(uses_[0]->real_now());
            if (!words_[i] || uses_[0]->failed) return calls::kNcclInvalidArgument;
            break;
        case 'h': words_[i] = word(registration_->real.load()); break;
        case 'v':
            if (number('i') == 1) scalar_ = words_[i], words_[i] = word(&scalar_);
            break;
        default: break;
        }
    const std::vector<uint64_t> &w = words_;
    if (function_->has('u')) {
        using WithId = int (*)(uint64_t, uint64_t, calls::NcclUniqueId, uint64_t, uint64_t);
        calls::NcclUniqueId id;
        memcpy(&id, reinterpret_cast<const void *>(w[2]), sizeof id);
        return reinterpret_cast<WithId>(function)(w[0], w[1], id, w[3], w[4]);
    }
    using Plain =
        int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
    return reinterpret_cast<Plain>(function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
}

void Request::learn(Library &library, int result)
{
    const auto of = [&](const char *name, void *communicator) {
        const auto f = reinterpret_cast<int (*)(void *, int *)>(library.function(name));
        int number = -1;
        return f && f(communicator, &number) == calls::kNcclSuccess ? number : -1;
    };
    const auto measure = [&](Communicator &c) {
        if (c.ranks > 0 || !c.real_now()) return;
        const int ranks = of("ncclCommCount", c.real_now());
        c.rank = of("ncclCommUserRank", c.real_now());
        c.ranks = ranks;
    };
    if (result != calls::kNcclSuccess && result != calls::kNcclInProgress) {
        for (Communicator *made : makes_) made->failed = true;
        return;
    }
    if (function_->has('A'))
        for (size_t i = 0; i < makes_.size(); i++)
            __atomic_store_n(&makes_[i]->real, reinterpret_cast<void **>(value('A'))[i],
                             __ATOMIC_RELEASE);
    if (function_->has('O')) operator_->real = *reinterpret_cast<int *>(value('O'));
    if (function_->has('H')) registration_->real = *reinterpret_cast<void **>(value('H'));
    if (result != calls::kNcclSuccess) return;
    for (Communicator *made : makes_) measure(*made);
    // One that was made without waiting is complete now.
    if (function_->name == "ncclCommGetAsyncError" && *reinterpret_cast<int *>(value('I')) == 0)
        measure(*uses_[0]);
}

void Request::write(wire::Writer &w) const
{
    for (size_t i = 0; i < function_->parameters.size(); i++) {
        const void *const at = reinterpret_cast<const void *>(words_[i]);
        switch (function_->parameters[i]) {
        case 'N':
        case 'A':
            for (const Communicator *made : makes_) w.value(uint8_t{made->real_now() != nullptr});
            break;
        case 'I':
        case 'V': w.bytes(at, sizeof(int)); break;
        case 'L': w.bytes(at, sizeof(uint64_t)); break;
        case 'H': w.value(registration_number_); break;
        case 'Y': w.bytes(at, sizeof(calls::NcclUniqueId)); break;
        default: break;
        }
    }
}

}  // namespace rgpu::worker::nccl
