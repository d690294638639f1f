// SPDX-License-Identifier: Apache-2.0
// Since when servers are silent.
#include <criterion/criterion.h>
#include <unistd.h>

#include "slurm/jobs/unreachable.h"

using namespace rgpu;
using namespace rgpu::slurm;
using namespace std::chrono_literals;

static pool::Inventories asked(std::initializer_list<std::pair<const char *, int>> servers)
{
    pool::Inventories out;
    for (auto [name, kind] : servers) {
        if (kind < 0)
            out.push_back({name, pool::Inventory{}});
        else
            out.push_back({name, Error{static_cast<ErrorKind>(kind), "why"}});
    }
    return out;
}
constexpr int kAnswers = -1, kSilent = static_cast<int>(ErrorKind::disconnected),
              kRefuses = static_cast<int>(ErrorKind::invalid);

Test(unreachable, lasts_from_the_first_look_to_the_first_answer)
{
    UnreachableSince first = update_unreachable(
        {}, asked({{"gpu1", kSilent}, {"gpu2", kAnswers}, {"gpu3", kRefuses}}), 1000ms);
    cr_expect(first == UnreachableSince({{"gpu1", 1000ms}}), "who answers with an error is there");
    UnreachableSince second =
        update_unreachable(first, asked({{"gpu1", kSilent}, {"gpu2", kSilent}}), 5000ms);
    cr_expect(second == UnreachableSince({{"gpu1", 1000ms}, {"gpu2", 5000ms}}));
    UnreachableSince third =
        update_unreachable(second, asked({{"gpu1", kAnswers}, {"gpu2", kSilent}}), 9000ms);
    cr_expect(third == UnreachableSince({{"gpu2", 5000ms}}));
    cr_expect(update_unreachable(third, asked({{"gpu1", kSilent}}), 9500ms) ==
                  UnreachableSince({{"gpu1", 9500ms}}),
              "it begins anew; gpu2 is not ours any more");
    cr_expect(update_unreachable({{"gpu1", 9000ms}}, asked({{"gpu1", kSilent}}), 100ms) ==
                  UnreachableSince({{"gpu1", 100ms}}),
              "nothing begins later than now");
}

Test(unreachable, of_another_boot_or_of_another_file_is_none)
{
    UnreachableSince some = {{"gpu1", 1000ms}, {"gpu 2", 2000ms}};
    std::string text = format_unreachable(some, "this-boot");
    cr_expect(parse_unreachable(text, "this-boot") == some);
    cr_expect(parse_unreachable(text, "another").empty());
    cr_expect(parse_unreachable("", "this-boot").empty());
    cr_expect(parse_unreachable("rgpu-silent 1 this-boot\nx gpu1\n5\n6 \n7 gpu3\n", "this-boot") ==
              UnreachableSince({{"gpu3", 7ms}}));
}

Test(unreachable, is_kept_in_a_file)
{
    char dir[] = "/tmp/rgpu-silence.XXXXXX";
    cr_assert(mkdtemp(dir));
    std::string path = std::string(dir) + "/silent";
    Milliseconds start = since_boot();
    cr_assert(track_unreachable(path, asked({{"gpu1", kSilent}}), start).has_value());
    auto again = track_unreachable(path, asked({{"gpu1", kSilent}}), start + 60s);
    cr_assert(again.has_value());
    cr_expect(*again == UnreachableSince({{"gpu1", start}}));
    cr_expect(!track_unreachable(std::string(dir) + "/none/silent", {}, start).has_value());
    unlink(path.c_str());
    rmdir(dir);
}
