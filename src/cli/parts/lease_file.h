// SPDX-License-Identifier: Apache-2.0
// The private lease.json of a program, and the environment that points at it.
#pragma once

#include <string>
#include <vector>

#include "pool/client/client.h"
#include "util/config.h"

namespace rgpu::cli {

// Where such files go: XDG_RUNTIME_DIR, else TMPDIR, else /tmp.
std::string runtime_dir();

// A file of mode 0400 in a directory of mode 0700 of its own, below runtime_dir(). Both go when it
// does.
class LeaseFile {
public:
    static Result<LeaseFile> write(const std::vector<pool::Grant> &grants);
    LeaseFile(LeaseFile &&other) noexcept : directory_(std::exchange(other.directory_, {})) {}
    LeaseFile &operator=(LeaseFile &&) = delete;
    ~LeaseFile();

    std::string path() const { return directory_ + "/lease.json"; }

private:
    explicit LeaseFile(std::string directory) : directory_(std::move(directory)) {}
    std::string directory_;
};

// Writes a lease file that outlives this process: mode 0400, and never over one that is there.
Result<void> write_lease_file(const std::string &path, const std::vector<pool::Grant> &grants);

// What such a file grants, without the secrets.
Result<std::vector<pool::Grant>> read_lease_file(const std::string &path);

// The directory of the interposer: where rgpu.conf says; where nothing lies there, beside the
// directory that this program is in, as a bundle may be unpacked anywhere.
std::string interposer_dir(const ClientConfig &config);

// Sets RGPU_LEASE, what view::gpu_variables() says, and RGPU_TRANSPORT, RGPU_COMPRESSION and
// RGPU_CONNECTIONS where [client] says more than auto and nobody has set them, and puts the
// interposer's directory in front and [client] library_path behind it in LD_LIBRARY_PATH, of this
// process. nvidia-smi is in PATH then.
void set_environment(const std::string &lease_file, const ClientConfig &config);

}  // namespace rgpu::cli
