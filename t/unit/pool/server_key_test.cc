// SPDX-License-Identifier: Apache-2.0
// Keys of control ports and their pins, beside what the openssl command says of the same files.
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "pool/credentials/server_key.h"
#include "util/config.h"

using namespace rgpu;
using namespace rgpu::pool;

namespace {

struct Directory {
    std::string path = std::filesystem::temp_directory_path() /
                       ("rgpu-server-key-" + std::to_string(getpid()));
    Directory() { std::filesystem::create_directory(path); }
    ~Directory() { std::filesystem::remove_all(path); }
};

std::string output(const std::string &command)
{
    FILE *pipe = popen(command.c_str(), "r");
    char text[256] = "";
    cr_assert(pipe);
    const bool got = fgets(text, sizeof text, pipe) != nullptr;
    pclose(pipe);
    std::string line = got ? text : "";
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return line;
}

}  // namespace

Test(server_key, its_pin_is_what_openssl_computes)
{
    const Directory directory;
    const std::string path = directory.path + "/key", certificate = directory.path + "/pem";
    cr_assert(make_server_key(path).has_value());
    struct stat about {};
    cr_assert(stat(path.c_str(), &about) == 0 && (about.st_mode & 0777) == 0600);
    const auto key = read_server_key(path);
    cr_assert(key.has_value());
    const std::string pin = pin_of_key(*key);
    cr_assert(pin == "sha256//" + output("openssl pkey -in " + path +
                                         " -pubout -outform DER 2>/dev/null | openssl dgst "
                                         "-sha256 -binary | base64"));
    cr_assert(check_pin(pin).has_value());
    output("openssl req -x509 -new -key " + path + " -subj /CN=x -out " + certificate +
           " 2>/dev/null");
    std::ifstream in(certificate);
    std::stringstream pem;
    pem << in.rdbuf();
    const auto of_certificate = pin_of_certificate(pem.str());
    cr_assert(of_certificate && *of_certificate == pin);
    cr_assert(make_server_key(path).has_value());
    cr_assert(pin_of_key(*read_server_key(path)) != pin);
}

Test(server_key, wrong_files_are_named)
{
    const Directory directory;
    const std::string path = directory.path + "/key";
    auto none = read_server_key(path);
    cr_assert(!none && none.error().text.find(path) != std::string::npos);
    cr_assert(make_server_key(path).has_value());
    chmod(path.c_str(), 0644);
    auto open = read_server_key(path);
    cr_assert(!open && open.error().text.find("chmod 0600") != std::string::npos);
    std::ofstream(path) << "no key";
    chmod(path.c_str(), 0600);
    auto other = read_server_key(path);
    cr_assert(!other && other.error().text.find("PEM") != std::string::npos);
    auto nowhere = make_server_key(directory.path + "/none/key");
    cr_assert(!nowhere && nowhere.error().text.find("/none/key") != std::string::npos);
    cr_assert(!pin_of_certificate("no certificate"));
}

Test(server_key, pins_are_checked_where_rgpu_conf_is_read)
{
    const std::string good = "sha256//" + std::string(43, 'A') + "=";
    cr_assert(check_pin(good).has_value());
    cr_assert(check_pin(good + ";" + good).has_value());
    for (const std::string &bad :
         {std::string(), std::string("sha256//"), good.substr(1), good + "A", ";" + good,
          good + ";x", "sha1//" + std::string(43, 'A') + "=",
          "sha256//" + std::string(42, 'A') + "\n="})
        cr_assert(!check_pin(bad), "%s", bad.c_str());
}
