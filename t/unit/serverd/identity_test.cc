#include "serverd/identity.h"

#include <criterion/criterion.h>

using namespace rgpu::serverd;

Test(identity, what_is_written_is_read)
{
    for (const Identity &identity : {Identity{0, 0, {}}, Identity{1000, 100, {100}}, Identity{65534, 4294967294U, {4, 5, 65534}}}) {
        const auto read = parse_identity(format_identity(identity));
        cr_assert(read.has_value(), "%s", format_identity(identity).c_str());
        cr_expect_eq(read->uid, identity.uid);
        cr_expect_eq(read->gid, identity.gid);
        cr_expect(read->groups == identity.groups);
    }
}

// Whoever reads half of it would be root.
Test(identity, what_is_none_is_refused)
{
    for (const char *text : {"", ":", "::", "1", "1:", "1:2", ":2:", "x:2:3", "1:x:3", "1:2:x", "1:2:3,", "1:2:3,x", "1:2:,3", "1:2:3:4", "-1:2:3", " 1:2:3",
                             "4294967296:2:3", "1:2:3 ", "1,2,3"})
        cr_expect(!parse_identity(text).has_value(), "\"%s\"", text);
}
