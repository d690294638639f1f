// SPDX-License-Identifier: Apache-2.0
// The page that a worker writes for the scheduler: three workers of two leases, and a clock. Each
// step of the input writes words into a worker's page, or lets the scheduler look.
#include <cstring>
#include <vector>

#include "share/board.h"
#include "share/pages.h"

using namespace rgpu;
using namespace rgpu::share;

namespace {

struct Worker {
    uint64_t number = 0;
    TenantEnd end;
};

Worker seated(Board &board, const char *lease, Terms terms)
{
    Result<Ends> ends = open_ends();
    if (!ends) __builtin_trap();
    Worker worker;
    Result<uint64_t> number = board.open(lease, terms, std::move(ends->desk));
    Result<TenantEnd> end = take_tenant_end(ends->socket.get());
    if (!number || !end) __builtin_trap();
    worker.number = *number;
    worker.end = std::move(*end);
    return worker;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int64_t now = kSecond;
    Board board(now);
    std::vector<Worker> workers;
    workers.push_back(seated(board, "a", {30, 100, 100}));
    workers.push_back(seated(board, "b", {50, 50, 100}));
    workers.push_back(seated(board, "b", {50, 50, 100}));
    while (bytes >= 12) {
        Worker &worker = workers[data[0] % workers.size()];
        const size_t words = sizeof(Told) / sizeof(uint64_t), word = data[1] % words;
        uint64_t value;
        memcpy(&value, data + 4, sizeof value);
        switch (data[2] % 4) {
        case 0:
        case 1:
            memcpy(reinterpret_cast<char *>(worker.end.told.get()) + word * sizeof value, &value,
                   sizeof value);
            break;
        case 2: now += static_cast<int64_t>(value % kSecond); [[fallthrough]];
        default: board.look(now); (void)board.view(now);
        }
        data += 12, bytes -= 12;
    }
    (void)board.collect(now);
    for (const Worker &worker : workers) board.close(worker.number, now);
    return 0;
}
