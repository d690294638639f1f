// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/process.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
