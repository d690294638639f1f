// SPDX-License-Identifier: Apache-2.0
// rgpu resume: puts a drained server or GPU back into the pool.
#include "cli/parts/drain_command.h"

namespace rgpu::cli {
namespace {

class Resume : public DrainCommand {
    Result<void> change(pool::Client &client, const std::string &server,
                        const std::string &gpu) override
    {
        return client.resume(server, gpu);
    }

    const char *then() const override { return "is lent again"; }
    bool drained() const override { return false; }
};

const Registered<Resume> resume{"", "resume", "Lend a drained server or GPU again"};

}  // namespace
}  // namespace rgpu::cli
