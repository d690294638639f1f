// SPDX-License-Identifier: Apache-2.0
// The audit trail: one line for each grant, refusal, end of a lease, and administrator's act, with
// who, what, and from where. No secret is ever in it.
//
// Off, or text or JSON ([rgpud] audit). The lines go to rgpud's log, or are appended to a file of
// their own ([rgpud] audit_file, mode 0600), which is opened again when it was moved away.
//
// Lines are limited: refusals of strangers to 30 at once and one a second, refusals of members of
// the cluster to 1,000 at once and 100 a second, and what was done likewise. Nobody can hide what
// is done behind refusals. The next line says how many were left out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "pool/messages/messages.h"
#include "util/config.h"
#include "util/fd.h"
#include "util/token_bucket.h"

namespace rgpu::serverd {

// Any thread. Its lock is taken behind every other.
class Audit {
public:
    // Fails with `invalid`, naming the file, where it cannot be written.
    static Result<std::unique_ptr<Audit>> open(const RgpudConfig &config);

    static constexpr std::string_view kRefuse = "refuse";
    struct Event {
        std::string_view act;   // "grant", "end", kRefuse, "drain", "resume", "lend", "withdraw"
        std::string what = {};  // "lease 1234abcd", "GPU-...", "POST /v1/offers"
        std::string why = {};   // the reason of a refusal, of an end, of a drain
        std::string from = {};  // the address that asked; empty: nobody did
        std::optional<uint32_t> uid = {};    // who asked, where that was proved
        const pool::Owner *owner = nullptr;  // whose the lease is
        std::string gpus = {};               // "2 GPUs x 50%"
    };
    void say(const Event &event);

    // The line without its time: text, or members of a JSON object.
    static std::string text_of(const Event &event);
    static std::string json_of(const Event &event);

private:
    enum class Form { off, text, json };
    Audit(Form form, std::string path) : form_(form), path_(std::move(path)) {}

    TokenBucket &bucket_of(const Event &event);
    bool open_file();
    void write(const std::string &line);

    const Form form_;
    const std::string path_;
    std::mutex mutex_;
    Fd file_;
    // A second, and at once.
    TokenBucket of_strangers_{1, 30}, of_members_{100, 1000}, of_deeds_{100, 1000};
    size_t left_out_ = 0;
};

}  // namespace rgpu::serverd
