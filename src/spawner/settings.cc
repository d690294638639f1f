#include "spawner/settings.h"

#include <getopt.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "spawner/protocol.h"

namespace rgpu::spawner {
namespace {

constexpr char kHelp[] =
    "Usage: rgpu-spawner --socket PATH --user USER --worker PROGRAM --pool LOW-HIGH --state DIR\n"
    "Starts rgpud's workers as root: users, namespaces, device files. It asks nothing of the "
    "network.\n"
    "\n"
    "      --socket PATH       listen there; only USER may connect\n"
    "      --user USER         rgpud's user, a name or a number\n"
    "      --worker PROGRAM    the one program that it starts\n"
    "      --pool LOW-HIGH     user ids of jobs whose owners this host does not know\n"
    "      --state DIR         rgpud's state_dir: users' caches are made in it\n"
    "      --worker-user NAME  this user may have workers, too, even where it is root\n"
    "      --group GROUP       workers may be in this group, too, though below 1000; may be "
    "repeated\n"
    "      --no-namespaces     workers see the host's processes and devices\n"
    "      --once              end when rgpud has gone and no worker is left\n"
    "      --connected FD      rgpud's connection, of the rgpud that starts it\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n"
    "\n"
    "See rgpu-spawner(8).\n";

bool number(const char *text, uint32_t &value, char behind = 0)
{
    char *end = nullptr;
    errno = 0;
    const unsigned long read = strtoul(text, &end, 10);
    value = static_cast<uint32_t>(read);
    return *text >= '0' && *text <= '9' && errno == 0 && *end == behind && read < UINT32_MAX;
}

// Of the command line, which root writes: the one place that asks the host's list of users.
const passwd *account(const char *text)
{
    uint32_t uid;
    return number(text, uid) ? getpwuid(uid) : getpwnam(text);
}

bool take(int c, const char *value, Settings &s)
{
    uint32_t n = 0;
    const passwd *known = nullptr;
    const char *dash = nullptr;
    switch (c) {
    case 's': s.socket = value; return *value == '/';
    case 'w': s.worker = value; return *value == '/';
    case 'd': s.state = value; return *value == '/';
    case 'u':
        if (number(value, s.user)) return true;
        known = account(value);
        s.user = known ? known->pw_uid : 0;
        return known;
    case 'p':
        dash = strchr(value, '-');
        return dash && number(value, s.pool_low, '-') && number(dash + 1, s.pool_high) &&
               s.pool_low >= kFirstUser && s.pool_low <= s.pool_high;
    case 'W':
        known = account(value);
        if (known) {
            s.worker_user = known->pw_uid;
            s.worker_group = known->pw_gid;
        }
        return known;
    case 'g':
        if (const group *named = getgrnam(value); named || number(value, n))
            s.groups.push_back(named ? named->gr_gid : n);
        return true;  // one that this host has not is nobody's
    case 'c':
        if (!number(value, n)) return false;
        s.connected = static_cast<int>(n);
        return true;
    }
    return false;
}

}  // namespace

bool Settings::allows(uid_t uid) const
{
    return uid != user && (uid >= kFirstUser || uid == worker_user) && uid != UINT32_MAX;
}

bool Settings::allows_group(uid_t uid, gid_t gid) const
{
    if (in_pool(uid)) return gid == uid;
    return (gid >= kFirstUser && gid != UINT32_MAX && gid != user) ||
           (uid == worker_user && gid == worker_group) ||
           std::find(groups.begin(), groups.end(), gid) != groups.end();
}

std::optional<int> read_settings(int argc, char **argv, Settings &settings)
{
    const option known[] = {{"socket", 1, nullptr, 's'},
                            {"user", 1, nullptr, 'u'},
                            {"worker", 1, nullptr, 'w'},
                            {"pool", 1, nullptr, 'p'},
                            {"state", 1, nullptr, 'd'},
                            {"worker-user", 1, nullptr, 'W'},
                            {"group", 1, nullptr, 'g'},
                            {"no-namespaces", 0, nullptr, 'N'},
                            {"once", 0, nullptr, 'O'},
                            {"connected", 1, nullptr, 'c'},
                            {"help", 0, nullptr, 'h'},
                            {"version", 0, nullptr, 'V'},
                            {}};
    settings.hash = 0xcbf29ce484222325u;
    for (int c; (c = getopt_long(argc, argv, "hV", known, nullptr)) != -1;) {
        if (c == 'h' || c == 'V') {
            fputs(c == 'h' ? kHelp : "rgpu-spawner " RGPU_VERSION "\n", stdout);
            return 0;
        }
        if (c == 'N')
            settings.namespaces = false;
        else if (c == 'O')
            settings.once = true;
        else if (c == '?' || !take(c, optarg, settings)) {
            if (c != '?') fprintf(stderr, "rgpu-spawner: wrong: \"%s\"\n", optarg);
            return 2;
        }
        if (c != 'c') {  // that differs from one rgpud to the next
            const char word[] = {static_cast<char>(c), 0};
            settings.hash = add_setting(settings.hash, word);
            settings.hash = add_setting(settings.hash, optarg ? optarg : "");
        }
    }
    if (optind < argc || settings.socket.empty() || settings.worker.empty() ||
        settings.state.empty() || !settings.user || !settings.pool_high) {
        fputs("rgpu-spawner: see rgpu-spawner --help\n", stderr);
        return 2;
    }
    return std::nullopt;
}

}  // namespace rgpu::spawner
