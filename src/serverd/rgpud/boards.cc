#include "serverd/rgpud/boards.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "util/sha256.h"

namespace rgpu::serverd {

std::string memory_path(const std::string &state_dir, const std::string &name)
{
    char real[PATH_MAX];
    std::string dir = realpath(state_dir.c_str(), real) ? real : state_dir;
    Sha256 hash;
    hash.add(dir.data(), dir.size());
    auto digest = hash.digest();
    return "/dev/shm/rgpu-" + to_hex(digest.data(), 8) + "-" + name;
}

Result<Boards> Boards::open(const std::string &state_dir, const std::vector<std::string> &uuids)
{
    Boards boards;
    for (const std::string &uuid : uuids) {
        std::string path = memory_path(state_dir, uuid);
        Result<Fd> file = share::Board::file(path);
        if (!file)
            return std::move(file).error();
        Result<share::Board> board = share::Board::map(file->get());
        if (!board)
            return std::move(board).error().in(path);
        boards.all_.push_back({uuid, path, std::move(*file), std::move(*board)});
    }
    return boards;
}

Boards::~Boards()
{
    for (One &one : all_)
        if (one.board.workers() == 0)
            unlink(one.path.c_str());
}

int Boards::file(const std::string &uuid) const
{
    for (const One &one : all_)
        if (one.uuid == uuid)
            return one.file.get();
    return -1;
}

std::vector<Boards::Gpu> Boards::view() const
{
    std::vector<Gpu> gpus;
    for (One &one : all_)
        gpus.push_back({one.uuid, one.board.view(share::clock_now())});
    return gpus;
}

std::vector<Boards::Busy> Boards::collect(const std::string &lease) const
{
    std::vector<Busy> all;
    for (One &one : all_)
        for (share::Board::Collected &fresh : one.board.collect(lease, share::clock_now()))
            all.push_back({one.uuid, std::move(fresh.lease), fresh.given});
    return all;
}

void Boards::sweep() const
{
    for (One &one : all_)
        one.board.sweep(share::clock_now());
}

}  // namespace rgpu::serverd
