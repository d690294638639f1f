// SPDX-License-Identifier: Apache-2.0
// What rgpud tells a worker, there and back, and what a worker makes of garbage.
#include "serverd/worker_start.h"

#include <criterion/criterion.h>

#include <random>

using namespace rgpu;
using namespace rgpu::serverd;

using Variables = std::map<std::string, std::string>;

static Result<WorkerStart> decoded(const Variables &variables)
{
    return decode_worker_start([&](const char *name) {
        const auto at = variables.find(name);
        return at == variables.end() ? nullptr : at->second.c_str();
    });
}

static WorkerStart with_everything()
{
    WorkerStart s;
    s.lease = "0123456789abcdef", s.server = "gpu1.example";
    s.number = 0xfedcba9876543210, s.client_table = 1;
    s.waits = s.takes_ucx = s.dumpable = true;
    s.confinement = Confinement::log;
    s.memory = {0, uint64_t{80} << 30};
    s.shares = {{25, 100}, {0, 2}};
    s.boards = {6, 7};
    s.places = {3, 0};
    s.lease_gpus = 4;
    s.max_kernel = 30'000;
    s.images = "/var/lib/rgpu/images/1000", s.image_bytes = 1 << 30;
    s.meter = 8, s.key = 9;
    return s;
}

static std::string any_text(std::mt19937 &random)
{
    static const std::string some = "0123456789-,.x fgsolwarelog\xff";
    std::string text(random() % 24, ' ');
    for (char &c : text)
        c = random() % 8 ? some[random() % some.size()] : static_cast<char>(1 + random() % 255);
    return text;
}

Test(worker_start, comes_back_as_it_was)
{
    const WorkerStart start = with_everything();
    const Variables variables = encode(start);
    cr_expect_eq(variables.size(), 18, "%zu variables", variables.size());
    const auto back = decoded(variables);
    cr_assert(back.has_value(), "%s", back.error().text.c_str());
    cr_expect(*back == start);
    for (Confinement c : {Confinement::by_name, Confinement::none, Confinement::software}) {
        WorkerStart one;
        one.confinement = c;
        cr_expect(*decoded(encode(one)) == one);
    }
}

Test(worker_start, says_nothing_of_what_is_usual)
{
    cr_expect(encode({}).empty());
    cr_expect(*decoded({}) == WorkerStart());
    cr_expect(*decoded({{"RGPU_WORKER_METER", ""}}) == WorkerStart(), "an empty one is none");
}

Test(worker_start, names_the_variable_that_it_cannot_take)
{
    const Variables bad = {
        {"RGPU_WORKER_NUMBER", "123"},      {"RGPU_WORKER_CLIENT_TABLE", "0x23456789abcdef"},
        {"RGPU_WORKER_CONFINE", "maybe"},   {"RGPU_WORKER_MEMORY", "1,-1"},
        {"RGPU_WORKER_SHARE", "50-25"},     {"RGPU_WORKER_BOARDS", "6,,7"},
        {"RGPU_WORKER_PLACES", "0,9999"},   {"RGPU_WORKER_LEASE_GPUS", "-1"},
        {"RGPU_WORKER_KEY", " 9"},          {"RGPU_WORKER_MAX_KERNEL", "9223372036854775807"},
        {"RGPU_WORKER_IMAGES_BYTES", "1G"}, {"RGPU_WORKER_METER", "70000"},
    };
    for (const auto &[name, text] : bad) {
        const auto start = decoded({{name, text}});
        cr_expect(!start, "%s=%s is taken", name.c_str(), text.c_str());
        if (!start) {
            cr_expect(start.error().kind == ErrorKind::invalid);
            cr_expect(start.error().text.starts_with(name + ": "), "%s",
                      start.error().text.c_str());
        }
    }
}

Test(worker_start, does_not_take_endless_lists)
{
    std::string many = "1";
    for (int i = 0; i < 100'000; i++) many += ",1";
    for (const char *name : {"RGPU_WORKER_MEMORY", "RGPU_WORKER_BOARDS", "RGPU_WORKER_PLACES"})
        cr_expect(!decoded({{name, many}}), "%s", name);
}

// Whatever stands there: an error that names a variable, or a start that comes back as it is.
Test(worker_start, takes_no_harm_from_garbage)
{
    std::mt19937 random(20);
    const Variables good = encode(with_everything());
    size_t taken = 0, refused = 0;
    for (int i = 0; i < 20'000; i++) {
        Variables variables = good;
        for (auto &[name, text] : variables) {
            const unsigned what = random() % 16;
            if (what == 0) text = any_text(random);
            if (what == 1 && !text.empty()) text[random() % text.size()] ^= 1 << random() % 7;
            if (what == 2) text.resize(random() % (text.size() + 1));
        }
        const auto start = decoded(variables);
        start ? taken++ : refused++;
        if (start)
            cr_assert(*decoded(encode(*start)) == *start);
        else
            cr_assert(start.error().text.starts_with("RGPU_WORKER_"), "%s",
                      start.error().text.c_str());
    }
    cr_expect(taken > 500 && refused > 500, "%zu taken, %zu refused", taken, refused);
}
