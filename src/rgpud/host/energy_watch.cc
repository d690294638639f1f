// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/energy_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "rgpud/host/process.h"
#include "util/log.h"
#include "util/next_token.h"

namespace rgpu::serverd {
namespace {

constexpr Milliseconds kPeriod{1000};
// A reading takes a millisecond for each GPU; NVML's start takes seconds on a large host.
constexpr Milliseconds kAnswer{5000};
constexpr Milliseconds kAgain{60'000};
constexpr size_t kMostLine = 64 * 1024;

}  // namespace

bool read_energy_line(const std::string &line, Time at, EnergyBook &book)
{
    std::string_view rest = line;
    std::vector<std::pair<std::string, uint64_t>> read;
    while (!rest.empty()) {
        const std::string uuid(next_token(rest, " "));
        const std::string_view number = next_token(rest, " ");
        uint64_t millijoules = 0;
        const auto [end, bad] =
            std::from_chars(number.data(), number.data() + number.size(), millijoules);
        if (uuid.empty() || bad != std::errc() || end != number.data() + number.size())
            return false;
        read.emplace_back(uuid, millijoules);
    }
    for (const auto &[uuid, millijoules] : read) book.sample(uuid, at, millijoules);
    return true;
}

void EnergyWatch::start()
{
    looking_.start(kPeriod, [this] { look(); });
}

void EnergyWatch::stop()
{
    looking_.stop();
    end_process();
}

Result<void> EnergyWatch::begin()
{
    int questions[2], answers[2];
    if (pipe2(questions, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    Fd theirs(questions[0]);
    questions_.reset(questions[1]);
    if (pipe2(answers, O_CLOEXEC) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    answers_.reset(answers[0]);
    const Fd output(answers[1]);
    Launch what;
    what.command = {config_.worker, "--energy"};
    what.environment = worker_environment(config_, driver_, own_account());
    what.environment.merge(encode(worker_start(config_, driver_)));
    what.descriptors = {theirs.get()};
    what.output = output.get();
    Result<pid_t> started = launch(what);
    if (!started) return std::move(started).error();
    pid_ = *started;
    return {};
}

void EnergyWatch::end_process()
{
    questions_.reset();
    answers_.reset();
    if (pid_ == 0) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
    pid_ = 0;
}

// One line, without its end.
Result<std::string> EnergyWatch::ask()
{
    // One that has ended may have said why.
    [[maybe_unused]] const ssize_t written = write(questions_.get(), "?", 1);
    const Time deadline = now() + kAnswer;
    std::string line;
    while (line.empty() || line.back() != '\n') {
        pollfd look{answers_.get(), POLLIN, 0};
        const auto left = static_cast<int>((deadline - now()).count());
        if (left <= 0 || poll(&look, 1, left) == 0)
            return error(ErrorKind::unavailable, "it does not answer");
        char block[4096];
        const ssize_t n = read(answers_.get(), block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return error(ErrorKind::disconnected, "it has ended");
        line.append(block, static_cast<size_t>(n));
        if (line.size() > kMostLine) return error(ErrorKind::invalid, "it says too much");
    }
    line.pop_back();
    return line;
}

void EnergyWatch::look()
{
    if (over_ || (pid_ == 0 && now() < next_start_)) return;
    Result<void> begun = pid_ == 0 ? begin() : Result<void>();
    Result<std::string> line = begun ? ask() : Result<std::string>(std::move(begun).error());
    if (line && line->rfind("! ", 0) == 0) {
        over_ = true;
        log_info("energy is not counted: %s", line->c_str() + 2);
        end_process();
    } else if (!line || !read_energy_line(*line, now(), book_)) {
        const std::string why = line ? "it says what is no counter" : line.error().text;
        if (why != complaint_)
            log_warning("energy is not counted: %s --energy: %s; it is started again each minute",
                        config_.worker.c_str(), why.c_str());
        complaint_ = why;
        next_start_ = now() + kAgain;
        end_process();
    }
}

}  // namespace rgpu::serverd
