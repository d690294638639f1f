// SPDX-License-Identifier: Apache-2.0
// The scheduler's sockets: rgpud's requests, workers' bells and lines, and the time at which a
// board wants to be looked at.
//
// One thread, which waits for all of them at once and for nobody in particular. What workers can do
// to it is to ring: of one lease that rings too often, the bells are not heard for the rest of a
// tenth of a second.
#pragma once

#include <sys/types.h>

#include <list>
#include <map>
#include <string>
#include <vector>

#include "share/board.h"
#include "share/protocol.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::scheduler {

class Server {
public:
    // On a listening socket; of who connects, those of this user are served.
    static Result<Server> open(Fd listening, uid_t owner);

    // Waits for something to happen and does what it asks for. False: nobody needs a scheduler any
    // more.
    bool turn();

    // The answer to one message of rgpud's, of any bytes, with the descriptor that goes with it.
    struct Answer {
        std::vector<char> bytes;  // empty: this was no request
        Fd descriptor;
    };
    Answer answer(const void *bytes, size_t size, int64_t now, Fd brought = {});

private:
    struct Gpu {
        share::Board board;
        int64_t again = INT64_MAX;
        bool touched = false;
    };
    struct Worker {
        Gpu *gpu;
        uint64_t seat;
        std::string lease;
        Fd bell, line;
    };
    // How often a lease's bells rang in the tenth of a second that began then.
    struct Rings {
        int64_t since = 0;
        int count = 0;
        bool muted = false;
    };

    Server(Fd listening, Fd epoll, Fd timer, uid_t owner);
    Gpu *gpu(const std::string &uuid, int64_t now);
    bool watch(int fd, uint32_t events, uint64_t what);
    void accept_one();
    void serve(uint64_t client, int64_t now);
    bool keep(const std::string &lease, const std::string &name, Fd brought);
    Fd kept(const std::string &lease, const std::string &name) const;
    void drop(uint64_t client, int64_t now);
    Result<Fd> seat(Gpu &, const std::string &lease, const share::Request &, int64_t now);
    void make_room(const Gpu &, const std::string &lease, uint32_t most, int64_t now);
    void ring(uint64_t worker, int64_t now);
    void listen_again(int64_t now);
    void remove(uint64_t worker, int64_t now);
    int64_t lonely_until() const;
    void look(int64_t now);

    Fd listening_, epoll_, timer_;
    uid_t owner_;
    std::map<std::string, Gpu> gpus_;
    std::map<uint64_t, Worker> workers_;
    std::map<uint64_t, Fd> clients_;
    std::map<std::string, Rings> rings_;
    std::map<std::pair<std::string, std::string>, Fd> kept_;  // by lease and name
    uint64_t last_ = 0;
    int64_t armed_ = 0, unmute_at_ = INT64_MAX, lonely_since_ = 0;
    bool told_to_end_ = false;
};

}  // namespace rgpu::scheduler
