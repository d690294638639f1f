#include "serverd/rgpud/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "util/clock.h"

using namespace rgpu;
using namespace rgpu::serverd;
using namespace std::chrono_literals;

static Launch shell(const char *script)
{
    Launch launch;
    launch.command = {"/bin/sh", "-c", script};
    launch.environment = {{"PATH", "/usr/bin:/bin"}, {"GIVEN", "yes"}};
    return launch;
}

Test(process, output_is_what_the_program_prints)
{
    auto text = output_of(shell("echo $GIVEN"), 10s, 1000);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    cr_assert_eq(*text, "yes\n");
}

Test(process, nothing_of_our_environment_goes_through)
{
    setenv("OURS", "secret", 1);
    auto text = output_of(shell("echo x$OURS"), 10s, 1000);
    cr_assert(text.has_value());
    cr_assert_eq(*text, "x\n");
}

Test(process, only_the_socket_and_the_standard_descriptors_are_open)
{
    int leak = open("/dev/null", O_RDONLY);  // no O_CLOEXEC
    cr_assert_geq(leak, 3);
    auto text = output_of(shell("cd /proc/self/fd && for fd in 3 4 5 6 7 8 9 10 11 12; do [ -e $fd "
                                "] && echo $fd; done; :"),
                          10s, 1000);
    cr_assert(text.has_value());
    cr_assert_eq(*text, "", "%s", text->c_str());
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    Launch launch = shell("echo through >&3");
    launch.descriptors = {pair[1]};
    auto pid = serverd::launch(launch);
    cr_assert(pid.has_value());
    char word[8] = {};
    cr_assert_eq(read(pair[0], word, sizeof word), 8);
    cr_assert_eq(std::string(word, 8), "through\n");
    waitpid(*pid, nullptr, 0);
}

Test(process, it_starts_in_its_own_session_with_signals_as_at_birth_and_no_new_privileges)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    signal(SIGPIPE, SIG_IGN);
    // Signals 32 and up are glibc's own: it leaves them as they are.
    auto text = output_of(shell("get() { sed -n \"s/^$1:.//p\" /proc/self/status; };"
                                "echo $((0x$(get SigBlk) & 0x7fffffff)) $((0x$(get SigIgn) & "
                                "0x7fffffff)) $(get NoNewPrivs);"
                                "[ $(ps -o sid= $$) = $$ ] && pwd"),
                          10s, 1000);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    cr_assert_eq(*text, "0 0 1\n/\n", "%s", text->c_str());
}

Test(process, starting_one_as_another_user_leaves_us_as_we_are)
{
    if (geteuid() != 0)
        cr_skip("only root can");
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop)
            std::this_thread::yield();
    });
    signal(SIGPIPE, SIG_IGN);
    const int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    sigset_t before, after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);

    Launch launch = shell("id -u; id -g; id -G");
    auto nobody = account_named("nobody");
    cr_assert(nobody.has_value());
    launch.account = *nobody;
    auto text = output_of(launch, 10s, 1000);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    const std::string uid = std::to_string(nobody->uid), gid = std::to_string(nobody->gid);
    launch = shell("id -u; echo $RGPU_WORKER_IDENTITY");
    launch.account = *nobody;
    launch.becomes_itself = true;
    auto told = output_of(launch, 10s, 1000);
    cr_assert(told.has_value(), "%s", told ? "" : told.error().text.c_str());
    cr_expect_eq(*told, "0\n" + uid + ":" + gid + ":" + gid + "\n", "%s", told->c_str());
    cr_expect_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), dumpable, "our memory was another user's for a while");
    cr_expect_eq(*text, uid + "\n" + gid + "\n" + gid + "\n", "%s", text->c_str());

    for (const auto &thread : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(thread.path() / "status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("Uid:") || line.starts_with("Gid:"))
                cr_expect_eq(line.substr(4), "\t0\t0\t0\t0", "%s", line.c_str());
    }
    struct sigaction pipe;
    sigaction(SIGPIPE, nullptr, &pipe);
    cr_expect(pipe.sa_handler == SIG_IGN);
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    cr_expect(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM) && !sigismember(&after, SIGCHLD));
    stop = true;
    other.join();
}

Test(process, what_cannot_be_started_is_told)
{
    Launch launch;
    launch.command = {"/nonexistent/worker"};
    auto text = output_of(launch, 10s, 1000);
    cr_assert_not(text.has_value());
    cr_assert(text.error().text.find("/nonexistent/worker") != std::string::npos);
    cr_assert(text.error().text.find("No such file") != std::string::npos, "%s",
              text.error().text.c_str());
}

Test(process, a_bad_end_is_an_error)
{
    cr_assert(output_of(shell("exit 3"), 10s, 1000).error().text.find("status 3") !=
              std::string::npos);
    cr_assert(output_of(shell("kill -9 $$"), 10s, 1000).error().text.find("signal 9") !=
              std::string::npos);
}

Test(process, what_does_not_end_or_says_too_much_is_killed)
{
    Time before = now();
    cr_assert_not(output_of(shell("sleep 60"), 200ms, 1000).has_value());
    cr_assert_not(output_of(shell("yes"), 30s, 1000).has_value());
    cr_assert_lt((now() - before).count(), 20000);
}

Test(process, as_root_it_becomes_another_user)
{
    if (geteuid() != 0) {
        cr_skip("needs root");
        return;
    }
    auto nobody = account_named("nobody");
    cr_assert(nobody.has_value());
    Launch launch = shell("id -u; id -g; id -G");
    launch.account = *nobody;
    auto text = output_of(launch, 10s, 1000);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    std::string gid = std::to_string(nobody->gid);
    cr_assert_eq(*text, std::to_string(nobody->uid) + "\n" + gid + "\n" + gid + "\n", "%s",
                 text->c_str());
}

Test(process, root_and_strangers_have_workers_of_the_worker_user)
{
    RgpudConfig config;
    auto nobody = account_named("nobody");
    cr_assert_eq(worker_account(0, config)->uid, nobody->uid);
    cr_assert_eq(worker_account(4000000000u, config)->uid, nobody->uid);
    passwd *daemon = getpwnam("daemon");
    cr_assert_eq(worker_account(daemon->pw_uid, config)->uid, daemon->pw_uid);
    config.worker_user = "no-such-user";
    cr_assert_not(worker_account(0, config).has_value());
}
