// Threads of ours that run behind the program's back, and are never joined.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <thread>
#include <utility>

#include "interpose/base/result.h"
#include "interpose/link/session.h"

namespace rgpu::interpose {

// Carries `body` out in a thread of ours. An exception ends the connection, whose callers get an
// error then, and not the program.
template <class Body> void in_our_thread(Session &session, Body &&body)
{
    try {
        body();
    } catch (abi::__forced_unwind &) {
        throw;
    } catch (...) {
        result_of_exception("a thread of rgpu's");
        session.lose("this process lacks the memory to go on");
    }
}

// Starts a thread for `body`. False where there is none to be had, which is said once.
template <class Body> bool start_thread(Session &session, Body body)
{
    try {
        std::thread([&session, body = std::move(body)]() mutable {
            in_our_thread(session, body);
        }).detach();
        return true;
    } catch (const std::exception &e) {  // no thread, or no memory for its beginning
        say_no_thread(e.what());
        return false;
    }
}

}  // namespace rgpu::interpose
