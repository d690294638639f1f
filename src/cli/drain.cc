// rgpu drain, rgpu resume: a server or a GPU out of the pool, and back.
#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "pool/client/client.h"

namespace rgpu::cli {
namespace {

// "gpu1" or "gpu1:3" or "gpu1:GPU-...".
class Change : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("WHAT", what_,
                       "A server of rgpu.conf, or one of its GPUs: gpu1, gpu1:3, gpu1:GPU-<uuid>")
            ->required();
    }

    int run(Context &context) override
    {
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        size_t colon = what_.find(':');
        std::string gpu = colon == what_.npos ? "" : what_.substr(colon + 1);
        if (colon != what_.npos && gpu.empty())
            return fail(error(ErrorKind::invalid, "which GPU? Write %s0, or %s for all of them",
                              what_.c_str(), what_.substr(0, colon).c_str()),
                        kUsage);
        Result<void> done = change(*client, what_.substr(0, colon), gpu);
        if (done) return kOk;
        return fail(done.error(),
                    done.error().kind == ErrorKind::disconnected ? kNoServer : kFailed);
    }

protected:
    virtual Result<void> change(pool::Client &client, const std::string &server,
                                const std::string &gpu) = 0;

private:
    std::string what_;
};

class Drain : public Change {
public:
    void options(CLI::App &app) override
    {
        Change::options(app);
        app.add_option("-r,--reason", reason_, "Why, for those who look")->type_name("TEXT");
    }

private:
    Result<void> change(pool::Client &client, const std::string &server,
                        const std::string &gpu) override
    {
        return client.drain(server, {gpu, reason_, 0});
    }

    std::string reason_;
};

class Resume : public Change {
    Result<void> change(pool::Client &client, const std::string &server,
                        const std::string &gpu) override
    {
        return client.resume(server, gpu);
    }
};

const Registered<Drain> drain{"", "drain",
                              "Lend nothing more of a server or a GPU; who has it keeps it"};
const Registered<Resume> resume{"", "resume", "Lend a drained server or GPU again"};

}  // namespace
}  // namespace rgpu::cli
