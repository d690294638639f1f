#include "share/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>

namespace rgpu::share {
namespace {

constexpr char kMagic[8] = "rgpushr";
constexpr uint32_t kVersion = 2;
// Whoever waits looks after this time at the latest whether the holder still lives.
constexpr int64_t kLook = 5 * kMillisecond;
// A turn that should have ended, and whose work does not: after this the token goes on without it. The short one holds
// where all of it stands behind host functions.
constexpr int64_t kStuck = 10 * kSecond, kStuckAtGate = 50 * kMillisecond;
// A process that holds the lock for longer is not working: it was stopped, or means harm.
constexpr int64_t kLockLimit = 2 * kSecond;
// Unfinished work of a tenant: that of one that is alone, so that a second one need not wait long; the least of one that
// is not, so that the GPU does not run dry.
constexpr int64_t kMostAhead = 200 * kMillisecond, kLeastAhead = 4 * kMillisecond;

timespec to_timespec(int64_t ns)
{
    return {ns / kSecond, ns % kSecond};
}

void wake(std::atomic<uint32_t> &word)
{
    word.fetch_add(1);
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void make_robust(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &a);
    pthread_mutexattr_destroy(&a);
}

Error failed(const char *doing, const std::string &path)
{
    return error(ErrorKind::internal, "%s %s: %s", doing, path.c_str(), strerror(errno));
}

// Fresh memory becomes a board; one that is there stays as it is. Under the file's lock.
Result<void> prepare(int fd, const std::string &path)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return failed("reading", path);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1 || (status.st_mode & 077))
        return error(ErrorKind::invalid, "%s is not a file of this user alone: remove it", path.c_str());
    if (status.st_size == sizeof(Memory))
        return {};
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, sizeof(Memory)) != 0)
        return failed("making", path);
    void *p = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return failed("mapping", path);
    auto m = static_cast<Memory *>(p);
    make_robust(&m->lock);
    reset(m->state, clock_now());
    m->version = kVersion;
    m->bytes = sizeof(Memory);
    memcpy(m->magic, kMagic, sizeof kMagic);
    munmap(p, sizeof(Memory));
    return {};
}

// What a broken process left there is no time that is believed.
int64_t take_given(Tenant &t)
{
    int64_t fresh = std::max<int64_t>(0, t.given - t.collected);
    t.collected = t.given;
    return fresh;
}

}  // namespace

int64_t clock_now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * kSecond + t.tv_nsec;
}

// The board's lock. Not held (false) where its owner keeps it for too long: then nothing is changed.
class Board::Lock {
public:
    explicit Lock(Board &b) : lock_(b.memory_->lock)
    {
        int rc = pthread_mutex_trylock(&lock_);
        if (rc == EBUSY)
            rc = wait();
        if (rc == EOWNERDEAD) {
            b.recover();
            rc = pthread_mutex_consistent(&lock_);
        }
        held_ = rc == 0;
    }
    Lock(const Lock &) = delete;
    ~Lock()
    {
        if (held_)
            pthread_mutex_unlock(&lock_);
    }
    explicit operator bool() const { return held_; }

private:
    int wait()
    {
#ifdef __SANITIZE_THREAD__  // g++ 12's does not know clocklock
        timespec limit;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += kLockLimit / kSecond;
        return pthread_mutex_timedlock(&lock_, &limit);
#else
        timespec limit = to_timespec(clock_now() + kLockLimit);
        return pthread_mutex_clocklock(&lock_, CLOCK_MONOTONIC, &limit);
#endif
    }

    pthread_mutex_t &lock_;
    bool held_ = false;
};

Result<Fd> Board::file(const std::string &path)
{
    Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return failed("opening", path);
    if (flock(fd.get(), LOCK_EX) != 0)
        return failed("locking", path);
    Result<void> prepared = prepare(fd.get(), path);
    flock(fd.get(), LOCK_UN);
    if (!prepared)
        return std::move(prepared).error();
    return fd;
}

Result<Board> Board::map(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size != sizeof(Memory))
        return error(ErrorKind::invalid, "descriptor %d is no scheduler's memory of this version", fd);
    void *p = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return error(ErrorKind::exhausted, "mapping the scheduler's memory: %s", strerror(errno));
    Board board(static_cast<Memory *>(p));
    if (memcmp(board.memory_->magic, kMagic, sizeof kMagic) || board.memory_->version != kVersion)
        return error(ErrorKind::invalid, "descriptor %d is no scheduler's memory of this version", fd);
    return board;
}

Board::Board(Board &&other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

Board &Board::operator=(Board &&other) noexcept
{
    std::swap(memory_, other.memory_);
    return *this;
}

Board::~Board()
{
    if (memory_)
        munmap(memory_, sizeof(Memory));
}

// A process died while it changed the board. Every number is made one that can be borne, and what can be counted is
// counted anew.
void Board::recover()
{
    Memory &m = *memory_;
    const int64_t now = clock_now();
    m.seat_end = std::clamp(m.seat_end, 0, kMaxWorkers);
    repair(m.state, now);
    for (int i = 0; i < m.state.tenant_end; ++i)
        m.state.tenants[i].workers = m.state.tenants[i].waiting = 0;
    for (int i = 0; i < m.seat_end; ++i) {
        Seat &s = m.seats[i];
        if (!s.used || s.tenant < 0 || s.tenant >= m.state.tenant_end)
            continue;
        m.state.tenants[s.tenant].workers++;
        m.state.tenants[s.tenant].waiting += s.waiting != 0;
    }
    m.tenants = static_cast<uint32_t>(tenants_with_workers(m.state));
    m.closing_at = std::clamp(m.closing_at, now - kHorizon, now);
    // Whoever has the token asks for it anew.
    m.token = m.state.holder == kNobody ? 0 : (static_cast<uint32_t>(m.state.holder) + 1) | kClosing;
}

// Its life lock tells; taken over for cleaning if so.
bool Board::dead(Seat &s)
{
    int rc = pthread_mutex_trylock(&s.alive);
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&s.alive);
    if (rc != 0 && rc != EOWNERDEAD)
        return false;
    pthread_mutex_unlock(&s.alive);
    return true;
}

void Board::bury(Seat &s, int64_t now)
{
    Memory &m = *memory_;
    count(s, now);
    if (s.waiting && s.tenant >= 0 && s.tenant < m.state.tenant_end)
        unwant(m.state, s.tenant);
    leave(m.state, s.tenant, now);
    s.used = 0;
    s.waiting = 0;
    s.tenant = kNobody;
    s.memory = 0;
    s.under_way = 0;
    m.tenants = static_cast<uint32_t>(tenants_with_workers(m.state));
}

Result<int> Board::sit(const std::string &lease, Terms terms)
{
    sweep(clock_now());
    Lock lock(*this);
    if (!lock)
        return error(ErrorKind::unavailable, "the GPU's scheduler does not answer");
    Memory &m = *memory_;
    int place = 0;
    while (place < m.seat_end && m.seats[place].used)
        ++place;
    if (place == kMaxWorkers)
        return error(ErrorKind::exhausted, "the GPU has %d workers already", kMaxWorkers);
    int64_t now = clock_now();
    int tenant = join(m.state, lease.c_str(), terms, now);
    if (tenant == kNobody)
        return error(ErrorKind::exhausted, "the GPU has %d tenants already", kMaxTenants);
    Seat &s = m.seats[place];
    make_robust(&s.alive);
    pthread_mutex_lock(&s.alive);
    s.tenant = tenant;
    s.pid = getpid();
    s.waiting = s.at_ceiling = 0;
    s.launches = s.completed = s.bytes = 0;
    s.under_way = s.memory = s.longest = 0;
    s.gates = 0;
    s.launches_seen = s.bytes_seen = 0;
    s.used = 1;
    m.seat_end = std::max(m.seat_end, place + 1);
    m.tenants = static_cast<uint32_t>(tenants_with_workers(m.state));
    return place;
}

bool Board::idle(int tenant) const
{
    for (int i = 0; i < memory_->seat_end; ++i) {
        const Seat &s = memory_->seats[i];
        if (s.used && s.tenant == tenant && s.launches.load() != s.completed.load())
            return false;
    }
    return true;
}

// The turn should have ended long ago, and its work makes no progress.
bool Board::stuck(int64_t now) const
{
    const Memory &m = *memory_;
    int64_t latest = m.closing_at;
    bool gates = true;
    for (int i = 0; i < m.seat_end; ++i) {
        const Seat &s = m.seats[i];
        if (!s.used || s.tenant != m.state.holder || s.launches.load() == s.completed.load())
            continue;
        latest = std::max(latest, s.under_way.load());
        gates = gates && s.gates.load();
    }
    return now - m.closing_at > kStuckAtGate && (gates || now - latest > kStuck);
}

void Board::close_turn(int64_t now)
{
    if (!(memory_->token.fetch_or(kClosing) & kClosing))
        memory_->closing_at = now;
}

void Board::pass(int64_t now, int64_t *again, int but)
{
    Memory &m = *memory_;
    int next = choose(m.state, now, again, but);
    if (next == kNobody)
        return;
    grant(m.state, next, now);
    m.deadline = m.state.deadline;
    m.token = static_cast<uint32_t>(next) + 1;
    wake(m.calls[next]);
}

void Board::end(bool cut, int64_t now, int64_t *again)
{
    Memory &m = *memory_;
    // It had the token and did nothing with it, so it is not the next one, too.
    int but = m.state.idle_from <= m.state.granted_at && !m.state.busy ? m.state.holder : kNobody;
    end_turn(m.state, cut, now);
    m.token = 0;
    pass(now, again, but);
}

// Ends the turn if its tenant has no work. What it launches from now on waits for another turn.
bool Board::try_end(bool cut, int64_t now, int64_t *again)
{
    close_turn(now);
    if (!idle(memory_->state.holder))
        return false;
    end(cut, now, again);
    return true;
}

bool Board::ask(int i, int64_t now, int64_t &again)
{
    again = now + kLook;
    Lock lock(*this);
    Memory &m = *memory_;
    Seat &seat = m.seats[i];
    if (!lock) {  // better without a scheduler than not at all
        seat.launches++;
        return true;
    }
    State &s = m.state;
    const bool had = s.holder == seat.tenant && !(m.token & kClosing);
    if (!had && !seat.waiting) {
        want(s, seat.tenant, now);
        seat.waiting = 1;
    }
    settle(s, now);
    if (!had && s.holder != kNobody) {
        for (int j = 0; j < m.seat_end; ++j)
            if (m.seats[j].used && m.seats[j].tenant == s.holder && j != i && dead(m.seats[j]))
                bury(m.seats[j], now);
        if (idle(s.holder)) {
            if (s.busy)
                set_busy(s, false, now);
            if (m.token & kClosing || may_keep_until(s) <= now)
                try_end(m.token & kClosing, now, &again);
            else
                again = std::min(again, may_keep_until(s));
        } else if (m.token & kClosing) {
            if (stuck(now))
                end(true, now, &again);
        } else if (should_stop(s, now, &again)) {
            close_turn(now);
        }
    } else if (!had) {
        pass(now, &again);
    }
    if (s.holder != seat.tenant || m.token & kClosing) {
        seat.at_ceiling = share::at_ceiling(s, seat.tenant);
        return false;
    }
    if (seat.waiting) {
        unwant(s, seat.tenant);
        seat.waiting = 0;
    }
    seat.launches++;
    set_busy(s, true, now);
    return true;
}

uint32_t Board::call_of(int i) const
{
    return memory_->calls[memory_->seats[i].tenant].load();
}

void Board::wait(int i, uint32_t call, int64_t until)
{
    int64_t left = until - clock_now();
    if (left <= 0)
        return;
    timespec limit = to_timespec(left);
    syscall(SYS_futex, &memory_->calls[memory_->seats[i].tenant], FUTEX_WAIT, call, &limit, nullptr, 0);
}

// What the seat has done since the last time, into its tenant's books.
void Board::count(Seat &seat, int64_t now)
{
    if (seat.tenant < 0 || seat.tenant >= memory_->state.tenant_end)
        return;
    Tenant &t = memory_->state.tenants[seat.tenant];
    uint64_t completed = seat.completed, bytes = seat.bytes;
    if (completed != seat.launches_seen) {
        t.launches_in.add(now, static_cast<uint32_t>(completed - seat.launches_seen));
        t.launches += static_cast<int64_t>(completed - seat.launches_seen);
    }
    if (bytes != seat.bytes_seen) {
        t.bytes_in.add(now, bytes - seat.bytes_seen);
        t.bytes += static_cast<int64_t>(bytes - seat.bytes_seen);
    }
    t.longest = std::max(t.longest, seat.longest.load());
    seat.launches_seen = completed;
    seat.bytes_seen = bytes;
}

int64_t Board::completed(int i, int64_t now, int64_t *fresh)
{
    Lock lock(*this);
    if (!lock)
        return 0;
    Memory &m = *memory_;
    State &s = m.state;
    Seat &seat = m.seats[i];
    settle(s, now);
    count(seat, now);
    if (fresh && seat.tenant >= 0 && seat.tenant < s.tenant_end)
        *fresh += take_given(s.tenants[seat.tenant]);
    if (s.holder != seat.tenant)
        return 0;
    int64_t again = INT64_MAX;
    if (!idle(s.holder)) {
        if (!(m.token & kClosing) && should_stop(s, now, &again))
            close_turn(now);
        m.deadline = s.deadline;
        return 0;
    }
    set_busy(s, false, now);
    bool others = false;
    for (int j = 0; j < s.tenant_end; ++j)
        others = others || (j != s.holder && s.tenants[j].waiting);
    // Also without work: one who waits for each kernel would never reach its ceiling.
    if (m.token & kClosing || should_stop(s, now, &again)) {
        try_end(true, now, &again);
        return 0;
    }
    if (!others)
        return 0;
    int64_t keep = may_keep_until(s);
    if (keep > now)
        return keep;
    try_end(false, now, &again);
    return 0;
}

int64_t Board::ahead(int64_t now) const
{
    return alone() ? kMostAhead : std::clamp(memory_->deadline.load() - now, kLeastAhead, kMostAhead);
}

void Board::sweep(int64_t now)
{
    Lock lock(*this);
    if (!lock)
        return;
    Memory &m = *memory_;
    for (int i = 0; i < m.seat_end; ++i)
        if (m.seats[i].used && dead(m.seats[i]))
            bury(m.seats[i], now);
    while (m.seat_end > 0 && !m.seats[m.seat_end - 1].used)
        --m.seat_end;
    settle(m.state, now);
    int64_t again = INT64_MAX;
    if (m.state.holder != kNobody && !m.state.tenants[m.state.holder].workers)
        end(false, now, &again);
}

int Board::workers()
{
    sweep(clock_now());
    Lock lock(*this);
    int n = 0;
    for (int i = 0; lock && i < memory_->seat_end; ++i)
        n += memory_->seats[i].used;
    return n;
}

std::vector<Board::Collected> Board::collect(const std::string &lease, int64_t now)
{
    std::vector<Collected> all;
    Lock lock(*this);
    if (!lock)
        return all;
    State &s = memory_->state;
    settle(s, now);
    for (int i = 0; i < s.tenant_end; ++i) {
        Tenant &t = s.tenants[i];
        std::string key(t.key, strnlen(t.key, kKeyBytes));
        if (key.empty() || (lease.empty() ? t.workers != 0 : key != lease))
            continue;
        if (int64_t fresh = take_given(t))
            all.push_back({std::move(key), fresh});
    }
    return all;
}

std::vector<TenantView> Board::view(int64_t now)
{
    sweep(now);
    std::vector<TenantView> views;
    Lock lock(*this);
    if (!lock)
        return views;
    Memory &m = *memory_;
    State &s = m.state;
    for (int i = 0; i < s.tenant_end; ++i) {
        const Tenant &t = s.tenants[i];
        if (!t.key[0])
            continue;
        TenantView v;
        v.lease.assign(t.key, strnlen(t.key, kKeyBytes));
        v.terms = t.terms;
        v.workers = t.workers;
        v.holds = s.holder == i && s.busy;
        v.waits = t.waiting > 0;
        v.due = due(s, i, now);
        v.given_1s = given_in(s, i, now, kSecond);
        v.given_10s = given_in(s, i, now, 10 * kSecond);
        v.given_1min = given_in(s, i, now, 60 * kSecond);
        v.given_seconds = static_cast<double>(t.given) / kSecond;
        v.owed_seconds = static_cast<double>(t.lag) / kSecond;
        v.turns = static_cast<uint64_t>(t.turns);
        v.launches = static_cast<uint64_t>(t.launches);
        v.bytes = static_cast<uint64_t>(t.bytes);
        v.launches_per_s = t.launches_in.sum(now, kSecond);
        v.bytes_per_s = t.bytes_in.sum(now, kSecond);
        v.longest_s = static_cast<double>(t.longest) / kSecond;
        for (int j = 0; j < m.seat_end; ++j) {
            const Seat &seat = m.seats[j];
            if (!seat.used || seat.tenant != i)
                continue;
            v.memory = std::max<int64_t>(v.memory, seat.memory);
            if (int64_t since = seat.under_way)
                v.running_s = std::max(v.running_s, static_cast<double>(now - since) / kSecond);
        }
        views.push_back(std::move(v));
    }
    return views;
}

}  // namespace rgpu::share
