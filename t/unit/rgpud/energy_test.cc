// SPDX-License-Identifier: Apache-2.0
// What energy a GPU used, and whose that was.
#include <criterion/criterion.h>

#include <numeric>
#include <random>

#include "rgpud/host/energy_book.h"
#include "rgpud/host/energy_watch.h"
#include "rgpud/workers/energy_division.h"

using namespace rgpu;
using namespace rgpu::serverd;

namespace {

Time at(int64_t milliseconds) { return Time(Milliseconds(milliseconds)); }

void near(double got, double want, double most = 1e-6)
{
    cr_assert(std::abs(got - want) <= most, "%f, not %f", got, want);
}

pool::Lease lease(const char *id, int share, std::vector<std::string> gpus = {"GPU-a"})
{
    pool::Lease l;
    l.id = id;
    for (std::string &uuid : gpus) {
        pool::Portion portion;
        portion.uuid = std::move(uuid);
        portion.share = share;
        l.gpus.push_back(portion);
    }
    return l;
}

double of(const std::vector<EnergyDivision::Part> &parts, const char *id)
{
    double joules = 0;
    for (const EnergyDivision::Part &part : parts)
        if (part.lease == id) joules += part.joules;
    return joules;
}

}  // namespace

Test(energy_book, nothing_is_known_of_a_gpu_without_a_counter)
{
    EnergyBook book;
    cr_assert(!book.knows("GPU-a"));
    near(book.spend("GPU-a", at(1000)), 0);
    cr_assert(book.counters().empty());
}

Test(energy_book, what_was_used_before_the_first_reading_is_nobodys)
{
    EnergyBook book;
    book.sample("GPU-a", at(1000), 5'000'000);
    near(book.spend("GPU-a", at(1000)), 0);
    book.sample("GPU-a", at(2000), 5'100'000);
    near(book.spend("GPU-a", at(2000)), 100);
    near(book.counters().at("GPU-a"), 5100);
}

Test(energy_book, between_readings_a_gpu_draws_what_it_drew)
{
    EnergyBook book;
    book.sample("GPU-a", at(0), 0);
    book.sample("GPU-a", at(1000), 200'000);
    near(book.spend("GPU-a", at(1500)), 300);
    // It drew less: what was told too much is made good.
    book.sample("GPU-a", at(2000), 250'000);
    near(book.spend("GPU-a", at(2000)), 0);
    book.sample("GPU-a", at(3000), 350'000);
    near(book.spend("GPU-a", at(3000)), 50);
    // A reading that does not come is carried on for a while only.
    near(book.spend("GPU-a", at(60'000)), 100 * 3);
}

Test(energy_book, a_counter_that_begins_anew_costs_nobody_anything)
{
    EnergyBook book;
    book.sample("GPU-a", at(0), 1'000'000);
    book.sample("GPU-a", at(1000), 1'100'000);
    near(book.spend("GPU-a", at(1000)), 100);
    book.sample("GPU-a", at(2000), 3000);
    near(book.spend("GPU-a", at(2500)), 0);
    book.sample("GPU-a", at(3000), 53'000);
    near(book.spend("GPU-a", at(3000)), 50);
    // As no GPU can.
    book.sample("GPU-a", at(4000), 1'000'000'000'000);
    near(book.spend("GPU-a", at(4000)), 0);
}

Test(energy_book, all_parts_sum_up_to_the_counter)
{
    std::mt19937 random(7);
    EnergyBook book;
    book.sample("GPU-a", at(0), 123'000);
    double sum = 0, counter = 123;
    int64_t time = 0;
    for (int i = 0; i < 1000; ++i) {
        for (int n = static_cast<int>(random() % 4); n > 0; --n)
            sum += book.spend("GPU-a", at(time + static_cast<int64_t>(random() % 1000)));
        time += 1000;
        counter += static_cast<double>(random() % 700);
        book.sample("GPU-a", at(time), static_cast<uint64_t>(counter * 1000));
    }
    sum += book.spend("GPU-a", at(time));
    // What was told ahead of the last reading, at most.
    near(sum, counter - 123, 700);
}

Test(energy_division, by_use_and_without_use_by_what_is_held)
{
    const std::vector<double> used = divide_energy(90, {{2'000, 10}, {1'000, 90}, {-5, 50}});
    near(used[0], 60);
    near(used[1], 30);
    near(used[2], 0);
    const std::vector<double> idle = divide_energy(90, {{0, 50}, {0, 25}});
    near(idle[0], 60);
    near(idle[1], 30);
    near(divide_energy(90, {{0, 0}, {0, 0}})[1], 45);
    cr_assert(divide_energy(90, {}).empty());
}

Test(energy_division, a_lease_has_what_its_gpus_used_while_it_had_them)
{
    EnergyBook book;
    EnergyDivision division(book);
    const pool::Lease ada = lease("ada", 50, {"GPU-a", "GPU-b"}), bob = lease("bob", 25);
    cr_assert(!division.knows(ada));
    for (int64_t s = 0; s <= 10; ++s) {
        book.sample("GPU-a", at(1000 * s), static_cast<uint64_t>(100'000 * s));
        book.sample("GPU-b", at(1000 * s), static_cast<uint64_t>(40'000 * s));
        if (s == 2) division.begin(ada, at(2000));
        if (s == 4) {
            const auto parts = division.divide({ada}, at(4000));
            near(of(parts, "ada"), 2 * 100 + 2 * 40);
            cr_assert(parts.size() == 2 && parts[1].gpu == 1);
            near(parts[1].joules, 80);
            division.begin(bob, at(4000));
        }
        if (s == 6) {
            // Nobody worked: two parts of three.
            const auto parts = division.divide({ada, bob}, at(6000));
            near(of(parts, "ada"), 2 * 40 + 200 * 2 / 3.0);
            near(of(parts, "bob"), 200 / 3.0);
        }
        if (s == 8) {
            division.add({{"GPU-a", "bob", 900}, {"GPU-a", "gone", 5000}});
            division.add({{"GPU-a", "bob", 600}, {"GPU-a", "ada", 500}});
            const auto parts = division.divide({ada, bob}, at(8000));
            near(of(parts, "ada"), 2 * 40 + 50);
            near(of(parts, "bob"), 150);
        }
    }
    // That use is not counted again.
    near(of(division.divide({ada, bob}, at(10'000)), "bob"), 200 / 3.0);
}

Test(energy_watch, a_line_is_taken_whole_or_not_at_all)
{
    EnergyBook book;
    cr_assert(read_energy_line("", at(0), book));
    cr_assert(read_energy_line("GPU-a 12 GPU-b 18446744073709551615", at(0), book));
    near(book.counters().at("GPU-a"), 0.012);
    for (const char *line : {"GPU-c", "GPU-c ", "GPU-c 1x", "GPU-c -1", " 5", "GPU-c 5 GPU-d",
                             "GPU-c 18446744073709551616", "GPU-c  5"})
        cr_assert(!read_energy_line(line, at(1), book), "%s", line);
    cr_assert(!book.knows("GPU-c"));
}
