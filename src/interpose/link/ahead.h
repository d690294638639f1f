// SPDX-License-Identifier: Apache-2.0
// A question, or a copy to the host, that goes out before anybody waits for it.
//
// Its owner keeps it as long as the session lives: the answer comes to where it is. One thread at a
// time asks with it or takes its answer; it may be asked with again when the answer has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "interpose/link/answer.h"
#include "interpose/link/answers.h"

namespace rgpu::interpose {

enum class News { no, yes };  // whether an answer counts as heard (ServerSession::heard())

class Ahead {
public:
    Ahead() = default;
    Ahead(const Ahead &) = delete;
    Ahead &operator=(const Ahead &) = delete;

    // Makes room for the next answer: for `bytes` of a copy, if there are any. False, and nothing
    // changes, while the last one is under way.
    bool begin(Answers &answers, size_t bytes, News news)
    {
        if (under_way_ && !answers.is_done(answer_)) return false;
        under_way_ = false;
        bytes_.resize(bytes);
        answer_ = {};
        answer_.ahead = true;
        answer_.copy = bytes != 0;
        answer_.news = news == News::yes;
        answer_.to = bytes_.data();
        answer_.left = bytes;
        return true;
    }
    // It was sent with this answer().
    void sent() { under_way_ = true; }

    // Of the thread that reads, until it is done.
    Answer &answer() { return answer_; }
    const Answer &answer() const { return answer_; }
    // What came, when it has.
    const std::vector<uint8_t> &bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
    Answer answer_;
    bool under_way_ = false;
};

}  // namespace rgpu::interpose
