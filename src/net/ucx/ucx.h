// SPDX-License-Identifier: Apache-2.0
// The functions of UCX's libucp (1.11 or newer) that the transport calls, as pointers: nothing of
// rgpu's is linked with it.
#pragma once

#include <locale.h>
#include <ucp/api/ucp.h>

#include "util/result.h"

namespace rgpu::net {

// clang-format off
#define RGPU_UCX_FUNCTIONS(F) \
    F(ucp_config_read) F(ucp_config_release) F(ucp_init_version) F(ucp_cleanup) \
    F(ucp_worker_create) F(ucp_worker_destroy) F(ucp_worker_get_address) \
    F(ucp_worker_release_address) F(ucp_worker_get_efd) F(ucp_worker_arm) \
    F(ucp_worker_progress) F(ucp_worker_flush_nbx) F(ucp_worker_set_am_recv_handler) \
    F(ucp_ep_create) F(ucp_ep_close_nbx) F(ucp_am_send_nbx) F(ucp_am_recv_data_nbx) \
    F(ucp_am_data_release) F(ucp_request_check_status) F(ucp_request_free) \
    F(ucs_status_string)
// clang-format on

struct Ucx {
#define RGPU_MEMBER(name) decltype(&::name) name = nullptr;
    RGPU_UCX_FUNCTIONS(RGPU_MEMBER)
#undef RGPU_MEMBER
    // As Openssl::own_locale (openssl.h): what a thread calls there first.
    decltype(&::uselocale) own_locale = nullptr;
    void *library = nullptr;

    // Once everything is loaded that a context needs: leaves out what these libraries would do when
    // the process exits. ld.so runs it before the program's own last calls, and in the child of a
    // fork, where UCX's threads are missing.
    void leave_standing() const;
};

// This host's libucp.so.0, or the file that RGPU_UCX_LIBRARY names, opened by dlmopen(3) with a
// libc of its own: a UCX that the program uses is another copy with settings of its own, and
// neither the program's signals nor its memory functions are touched. The UCX_NAME settings of that
// copy are the RGPU_UCX_NAME of this process (ucx_private.cc has those that differ from UCX's
// defaults). Once a process. Any thread may call the functions, after own_locale(LC_GLOBAL_LOCALE):
// UCX keeps no pthread keys but for its profiles. Fails with `unsupported`, and the cure in the
// text.
Result<const Ucx *> private_ucx();

}  // namespace rgpu::net
