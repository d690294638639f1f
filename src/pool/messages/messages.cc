// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/messages.h"

#include <sys/random.h>

#include <cstdlib>

#include "util/sha256.h"

namespace rgpu::pool {
namespace {

std::string random_bytes(size_t count)
{
    std::string bytes(count, '\0');
    // At most 256 bytes at a time come whole; anything else means a kernel without getrandom.
    if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) abort();
    return bytes;
}

}  // namespace

const char *name(Answer answer)
{
    const char *names[] = {"now", "later", "never"};
    return names[static_cast<int>(answer)];
}

const char *name(Verdict verdict)
{
    const char *names[] = {"PASS", "INFO", "SKIPPED", "MARGINAL", "FATAL"};
    return names[static_cast<int>(verdict)];
}

const char *name(Link link)
{
    const char *names[] = {"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
    return names[static_cast<int>(link)];
}

std::string to_text(const Owner &owner)
{
    if (!owner.job.empty())
        return "job " + owner.job + (owner.node.empty() ? "" : " on " + owner.node);
    return "pid " + std::to_string(owner.pid) + " on " + owner.host;
}

std::string random_id()
{
    std::string bytes = random_bytes(16);
    return to_hex(bytes.data(), bytes.size());
}

std::string random_secret() { return random_bytes(32); }

}  // namespace rgpu::pool
