// SPDX-License-Identifier: Apache-2.0
// What the interposer's JSON reader takes, and what it refuses.
#include <criterion/criterion.h>

#include "util/json_reader.h"

using namespace rgpu;

Test(json_reader, reads_what_a_lease_file_holds)
{
    auto j = Json::parse(R"( {"version": 1, "job": "17", "servers": [
        {"name": "gpu\u00e41", "address": "h:1", "gpus": [{"share": 50.5, "ok": true,
         "none": null}]}, {}]} )");
    cr_assert(j);
    cr_expect(*j->get("version")->number() == 1);
    cr_expect(j->text("job") == "17");
    const Json::Array *servers = j->get("servers")->array();
    cr_assert(servers && servers->size() == 2);
    cr_expect((*servers)[0].text("name") == "gpu\xc3\xa4"
                                            "1");
    cr_expect(*(*(*servers)[0].get("gpus")->array())[0].get("share")->number() == 50.5);
    cr_expect((*servers)[1].text("name") == "");
}

Test(json_reader, refuses_what_is_no_json)
{
    for (const char *bad :
         {"", "{", "}", "{\"a\"}", "{\"a\":}", "[1,]", "[1 2]", "\"a", "\"\\x\"", "\"\\u12\"",
          "\"\\ud800\"", "tru", "1 2", "--1", "{\"a\":1,}", "\"\n\"", "nul", "{1:2}"})
        cr_expect(!Json::parse(bad), "%s", bad);
}

Test(json_reader, every_cut_of_a_text_is_refused)
{
    const std::string whole = R"({"servers":[{"a":"b\n","c":[1,-2.5e3,true,false,null]}]})";
    cr_assert(Json::parse(whole));
    for (size_t n = 0; n < whole.size(); n++)
        cr_expect(!Json::parse(whole.substr(0, n)), "%zu bytes", n);
}

Test(json_reader, depth_is_limited)
{
    cr_expect(!Json::parse(std::string(100000, '[')));
    cr_expect(Json::parse(std::string(20, '[') + std::string(20, ']')).has_value());
}
