// Since when servers have not answered rgpu slurm sync, from one run of it to the next.
//
// Told by the host's clock since its boot, which nobody sets: a step of the wall clock makes no
// server lost.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pool/client/client.h"
#include "util/clock.h"
#include "util/result.h"

namespace rgpu::slurm {

// By server; milliseconds of CLOCK_BOOTTIME.
using Silence = std::map<std::string, Milliseconds>;

// A server that answers, if only with an error, is not silent.
bool is_silent(const pool::Told<pool::Inventory> &told);

// Who is silent now: as long as before, or from now on.
Silence silence(const Silence &before, const pool::Inventories &pool, Milliseconds now);

// The file's text. What another boot of the host wrote counts for nothing, as what is no such file
// does.
std::string format_silence(const Silence &silence, const std::string &boot);
Silence parse_silence(std::string_view text, const std::string &boot);

// The same with the file at `path`, this host's boot and its clock. Replaces the file at once.
Result<Silence> keep_silence(const std::string &path, const pool::Inventories &pool,
                             Milliseconds now);
Milliseconds since_boot();

}  // namespace rgpu::slurm
