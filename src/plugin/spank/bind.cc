// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank/bind.h"

#include <algorithm>

#include "util/units.h"

namespace rgpu::plugin {
namespace {

constexpr int64_t kMost = 65536;  // past any number of tasks or GPUs of a node

Error wrong(std::string_view text)
{
    return error(ErrorKind::invalid,
                 "--rgpu-bind=%.*s: give none, closest, single:N (one GPU for each N tasks) or "
                 "map:0,1 (a GPU for each task)",
                 static_cast<int>(std::min<size_t>(text.size(), 80)), text.data());
}

}  // namespace

Result<Bind> parse_bind(std::string_view text)
{
    Bind out;
    if (text == "none" || text == "closest") return out;
    size_t colon = text.find(':');
    std::string_view kind = text.substr(0, colon),
                     rest = colon == text.npos ? std::string_view() : text.substr(colon + 1);
    if (kind == "single" && (colon == text.npos || !rest.empty())) {
        auto tasks = parse_integer(colon == text.npos ? "1" : rest, 1, kMost);
        if (!tasks) return wrong(text);
        out.kind = Bind::single;
        out.tasks_per_gpu = static_cast<unsigned>(*tasks);
        return out;
    }
    if (kind != "map" || rest.empty()) return wrong(text);
    out.kind = Bind::map;
    for (size_t end = 0; end != rest.npos; rest.remove_prefix(end == rest.npos ? 0 : end + 1)) {
        end = rest.find(',');
        auto gpu = parse_integer(rest.substr(0, end), 0, kMost);
        if (!gpu || out.gpus.size() == static_cast<size_t>(kMost)) return wrong(text);
        out.gpus.push_back(static_cast<unsigned>(*gpu));
    }
    return out;
}

Result<unsigned> parse_per_step(std::string_view text)
{
    auto gpus = parse_integer(text, 1, kMost);
    if (!gpus) return std::move(gpus).error().in("--rgpus-per-step");
    return static_cast<unsigned>(*gpus);
}

Result<std::vector<unsigned>> gpus_of_task(const Bind &bind, const std::vector<unsigned> &step,
                                           unsigned task)
{
    if (bind.kind == Bind::none || step.empty()) return step;
    if (bind.kind == Bind::single)
        return std::vector{step[task / bind.tasks_per_gpu % step.size()]};
    unsigned gpu = bind.gpus[task % bind.gpus.size()];
    if (gpu >= step.size())
        return error(
            ErrorKind::invalid,
            "--rgpu-bind=map gives task %u GPU %u, but its step has %zu on this node (0 to %zu)",
            task, gpu, step.size(), step.size() - 1);
    return std::vector{step[gpu]};
}

}  // namespace rgpu::plugin
