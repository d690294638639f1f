// What `rgpu list --mine` says: the GPUs that this process has, as its lease file names them. No
// server is asked.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::cli {

// $RGPU_LEASE; `invalid` where it is not set.
Result<std::string> my_lease_file();

// One line a GPU, in the order in which programs see them.
std::string my_table(const std::vector<pool::Grant> &grants);
// {"file": ..., "gpus": [{"number": 0, "name": ..., "uuid": ..., "server": ..., "address": ...,
// "lease": ..., "share": 100, "most": 100, "memory": bytes}]} `file`: where the lease file is, as
// "file".
std::string my_json(const std::vector<pool::Grant> &grants, const std::string &file);

}  // namespace rgpu::cli
