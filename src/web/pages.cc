// SPDX-License-Identifier: Apache-2.0
#include "web/pages.h"

#include <fstream>
#include <sstream>
#include <string_view>

#include "util/sha256.h"

// A file of page/ as bytes of the program; the build runs in the root of the tree.
#define EMBEDDED(name, file) \
    asm(".pushsection .rodata\n.hidden rgpu_web_" #name "\n.global rgpu_web_" #name \
        "\nrgpu_web_" #name ":\n.incbin \"src/web/page/" file "\"\n.hidden rgpu_web_" #name \
        "_end\n.global rgpu_web_" #name "_end\nrgpu_web_" #name "_end:\n.byte 0\n.popsection\n"); \
    extern "C" const char rgpu_web_##name[], rgpu_web_##name##_end[];

EMBEDDED(index, "index.html")
EMBEDDED(icon, "icon.svg")
EMBEDDED(style, "style.css")
EMBEDDED(app, "app.js")
EMBEDDED(stream, "stream.js")
EMBEDDED(words, "words.js")
EMBEDDED(pool, "pool.js")
EMBEDDED(queue, "queue.js")
EMBEDDED(history, "history.js")
EMBEDDED(job, "job.js")
EMBEDDED(charts, "charts.js")

namespace rgpu::web {
namespace {

constexpr const char *kScript = "text/javascript; charset=utf-8";

struct File {
    const char *path, *type, *begin, *end;
};
const File kFiles[] = {
    {"/", "text/html; charset=utf-8", rgpu_web_index, rgpu_web_index_end},
    {"/icon.svg", "image/svg+xml", rgpu_web_icon, rgpu_web_icon_end},
    {"/style.css", "text/css; charset=utf-8", rgpu_web_style, rgpu_web_style_end},
    {"/app.js", kScript, rgpu_web_app, rgpu_web_app_end},
    {"/stream.js", kScript, rgpu_web_stream, rgpu_web_stream_end},
    {"/words.js", kScript, rgpu_web_words, rgpu_web_words_end},
    {"/pool.js", kScript, rgpu_web_pool, rgpu_web_pool_end},
    {"/queue.js", kScript, rgpu_web_queue, rgpu_web_queue_end},
    {"/history.js", kScript, rgpu_web_history, rgpu_web_history_end},
    {"/job.js", kScript, rgpu_web_job, rgpu_web_job_end},
    {"/charts.js", kScript, rgpu_web_charts, rgpu_web_charts_end},
};

Answer file(std::string body, const char *type)
{
    const std::string etag = "\"" + to_hex(sha256(body)).substr(0, 32) + "\"";
    Answer answer = text(200, std::move(body), type);
    answer.etag = etag;
    return answer;
}

}  // namespace

Pages::Pages(const std::string &chart_library)
{
    for (const File &f : kFiles) files_[f.path] = file(std::string(f.begin, f.end), f.type);
    std::ifstream library(chart_library, std::ios::binary);
    std::ostringstream all;
    if (library && all << library.rdbuf()) {
        files_["/chart.js"] = file(all.str(), kScript);
        has_charts_ = true;
    }
}

const Answer *Pages::find(const std::string &path) const
{
    const auto found = files_.find(path);
    return found == files_.end() ? nullptr : &found->second;
}

}  // namespace rgpu::web
