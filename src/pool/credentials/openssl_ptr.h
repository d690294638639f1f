// SPDX-License-Identifier: Apache-2.0
// Owners of OpenSSL's objects: each is freed by the function that its type has for that.
#pragma once

#include <memory>

namespace rgpu::pool {

template <auto Free> struct OpensslDeleter {
    template <class T> void operator()(T *p) const { Free(p); }
};
// As in OpensslPtr<X509, X509_free>.
template <class T, auto Free> using OpensslPtr = std::unique_ptr<T, OpensslDeleter<Free>>;

}  // namespace rgpu::pool
