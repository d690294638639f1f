// SPDX-License-Identifier: Apache-2.0
// Threads of ours that run behind the program's back, and are never joined. A thread that finds no
// memory to go on gives up its connection (a ServerSession, or whatever else has lose()).
#pragma once

#include <cxxabi.h>

#include <exception>
#include <thread>
#include <utility>

#include "interpose/base/result.h"

namespace rgpu::interpose {

// Carries `body` out in a thread of ours. An exception ends the connection, whose callers get an
// error then, and not the program.
template <class Connection, class Body> void in_our_thread(Connection &connection, Body &&body)
{
    try {
        body();
    } catch (abi::__forced_unwind &) {
        throw;
    } catch (...) {
        result_of_exception("a thread of rgpu's");
        connection.lose("this process lacks the memory to go on");
    }
}

// Starts a thread for `body`. False where there is none to be had, which is said once.
template <class Connection, class Body> bool start_thread(Connection &connection, Body body)
{
    try {
        std::thread([&connection, body = std::move(body)]() mutable {
            in_our_thread(connection, body);
        }).detach();
        return true;
    } catch (const std::exception &e) {  // no thread, or no memory for its beginning
        say_no_thread(e.what());
        return false;
    }
}

}  // namespace rgpu::interpose
