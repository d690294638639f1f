// SPDX-License-Identifier: Apache-2.0
// The driver that this worker makes its calls to: NVIDIA's libcuda.so.1 or the software GPU's.
#pragma once

#include <array>
#include <string>

#include "calls/calls.h"
#include "util/result.h"

namespace rgpu::worker {

using calls::CallId;

class Driver {
public:
    // Opens the library and initialises it (cuInit). Fails with `unavailable`, naming path and
    // reason.
    static Result<Driver> open(const std::string &path);

    // The driver's function for a line of the table; null when this driver does not have it.
    template <CallId I> typename calls::Row<I>::Function call() const
    {
        return reinterpret_cast<typename calls::Row<I>::Function>(symbols_[static_cast<size_t>(I)]);
    }
    // Puts a function of this worker's in front of the driver's, where the driver has one.
    template <CallId I> void replace(typename calls::Row<I>::Function f)
    {
        void *&symbol = symbols_[static_cast<size_t>(I)];
        if (symbol) symbol = reinterpret_cast<void *>(f);
    }
    // Any other symbol of the library, or null.
    void *symbol(const char *name) const;

private:
    void *library_ = nullptr;
    std::array<void *, calls::kCallCount> symbols_{};
};

// The process's driver, after main() has opened it.
const Driver &driver();
void set_driver(Driver);

// driver().call<CallId::cuX>() in fewer letters.
#define DRIVER(name) (::rgpu::worker::driver().call<::rgpu::calls::CallId::name>())

}  // namespace rgpu::worker
