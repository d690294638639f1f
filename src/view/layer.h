// SPDX-License-Identifier: Apache-2.0
// A file system of ours over a directory: the old entries are bound into it, and others added.
//
// Only this process's mount namespace changes (view/namespaces.h). What is added lies in a small
// tmpfs (nosuid, noexec) that nobody can write to once it is sealed; old entries keep the flags of
// the file system that they are of.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::view {

class Layer {
public:
    // Over `directory` (its path is for messages). Entries that `hide` is true of are left out.
    static Result<Layer> over(Fd directory, std::string path,
                              const std::function<bool(std::string_view)> &hide);
    Layer(Layer &&) noexcept = default;
    Layer &operator=(Layer &&) = delete;
    // Takes the layer away, unless it is to be kept.
    ~Layer();

    // Each name is of ours, relative to the directory; folders in front of it are made. One that
    // ends with a slash is a folder itself.
    Result<void> add_file(const std::string &name, std::string_view text);
    Result<void> add_link(const std::string &name, const std::string &target);
    // An entry of the old directory, with what is mounted below it, under a name.
    Result<void> add_old(const std::string &name, const std::string &old);
    // A character device. Fails where this process may make none, as in a user namespace.
    Result<void> add_device(const std::string &name, mode_t mode, dev_t number);
    // The whole old directory; once.
    Result<void> add_all(const std::string &name);

    // Read-only from now on.
    Result<void> seal();
    // It does not go with this object.
    void keep() { kept_ = true; }

private:
    Layer(Fd old, std::string path) : old_(std::move(old)), path_(std::move(path)) {}
    Error failed(const char *doing, const std::string &name) const;
    Result<void> mount_empty();
    Result<void> add_all_old(const std::function<bool(std::string_view)> &hide);
    Result<void> folders_of(const std::string &name);

    Fd old_, all_, root_;
    std::string path_;
    bool kept_ = false;
};

}  // namespace rgpu::view
