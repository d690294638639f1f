// SPDX-License-Identifier: Apache-2.0
#include "util/visible_devices.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace rgpu {

std::vector<int> visible_devices(const char *list, const std::vector<std::string> &uuids)
{
    const int count = static_cast<int>(uuids.size());
    std::vector<int> seen(static_cast<size_t>(count));
    std::iota(seen.begin(), seen.end(), 0);
    if (!list) return seen;

    seen.clear();
    for (const char *p = list;; p++) {
        const char *end = strchrnul(p, ',');
        std::string item(p, end);
        item.erase(0, item.find_first_not_of(' '));
        item.erase(item.find_last_not_of(' ') + 1);
        int found = -1;
        if (!strncasecmp(item.c_str(), "GPU-", 4) && item.size() > 4) {
            for (int i = 0; i < count; i++)
                if (!strncasecmp(uuids[static_cast<size_t>(i)].c_str(), item.c_str(), item.size()))
                    found = found < 0 ? i : count;
        } else {
            char *stop;
            const long index = strtol(item.c_str(), &stop, 10);
            if (!item.empty() && !*stop && index >= 0)
                found = static_cast<int>(std::min<long>(index, count));
        }
        // A prefix that fits two devices names none of them.
        if (found < 0 || found >= count || std::find(seen.begin(), seen.end(), found) != seen.end())
            return seen;
        seen.push_back(found);
        if (!*end) return seen;
        p = end;
    }
}

}  // namespace rgpu
