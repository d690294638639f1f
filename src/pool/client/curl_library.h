// SPDX-License-Identifier: Apache-2.0
// The functions of libcurl that requests in TLS are made with, as pointers: it is opened where a
// server is asked in TLS, and nowhere else. To link it would cost each prolog 6 ms.
#pragma once

#include <curl/curl.h>

#include "util/result.h"

namespace rgpu::pool {

// clang-format off
#define RGPU_CURL_FUNCTIONS(F) \
    F(curl_global_init) F(curl_easy_init) F(curl_easy_cleanup) F(curl_easy_setopt) \
    F(curl_easy_getinfo) F(curl_easy_perform) F(curl_easy_strerror) F(curl_slist_append) \
    F(curl_slist_free_all) F(curl_multi_init) F(curl_multi_cleanup) F(curl_multi_add_handle) \
    F(curl_multi_remove_handle) F(curl_multi_perform) F(curl_multi_wait) F(curl_multi_info_read)
// clang-format on

struct CurlLibrary {
// In parentheses: curl.h has macros of some of these names.
#define RGPU_MEMBER(name) decltype(&(::name)) name = nullptr;
    RGPU_CURL_FUNCTIONS(RGPU_MEMBER)
#undef RGPU_MEMBER
};

// This host's libcurl.so.4, once a process; it stays open. Any thread. Fails with `unsupported`,
// and the cure in the text.
Result<const CurlLibrary *> curl_library();

}  // namespace rgpu::pool
