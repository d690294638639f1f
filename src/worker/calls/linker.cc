// SPDX-License-Identifier: Apache-2.0
// The linker. Bodies: wire/jit_bodies.h.
#include <map>
#include <memory>

#include "wire/jit_bodies.h"
#include "worker/calls/image.h"
#include "worker/calls/jit.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

namespace {

// The driver writes into a state's log buffers until it is destroyed: they live as long as the
// process.
Jit &options_of(CUlinkState state)
{
    static std::map<CUlinkState, std::unique_ptr<Jit>> all;
    auto &slot = all[state];
    if (!slot) slot = std::make_unique<Jit>();
    return *slot;
}

}  // namespace

Result<void> cuLinkCreate_v2(Session &s, Call &call)
{
    auto id = call.body.value<HandleId>();
    auto jit = std::make_unique<Jit>();
    if (auto r = jit->read(call.body); !r) return r;
    if (!call.body.at_end()) return misfit();
    jit->add_logs();
    CUlinkState state = nullptr;
    CUresult r =
        DRIVER(cuLinkCreate_v2)(jit->count(), jit->options.data(), jit->values.data(), &state);
    if (!r && !s.objects.set(id, state)) r = CUDA_ERROR_INVALID_VALUE;
    if (!r) options_of(state) = std::move(*jit);  // moved vectors keep their buffers
    s.finish(call, r);
    return {};
}

Result<void> cuLinkAddData_v2(Session &s, Call &call)
{
    auto body = s.input.long_body(call.header.bytes);
    if (!body) return std::move(body).error();
    wire::Reader r(body->data(), body->size());
    const auto in = wire::LinkInput::read(r);
    Jit jit;
    if (auto read = jit.read(r); !read) return read;
    if (!r.ok()) return misfit();
    Image image;
    if (auto read = image.read(s, r, std::move(*body)); !read) return read;
    std::vector<uint8_t> data(image.view.begin(), image.view.end());
    data.push_back(0);  // PTX is text that ends with a NUL
    CUlinkState state = nullptr;
    CUresult result = image.missing ? CUDA_ERROR_NOT_FOUND : s.objects.get(in.state, state);
    if (!result)
        result = DRIVER(cuLinkAddData_v2)(state, static_cast<CUjitInputType>(in.type), data.data(),
                                          image.view.size(), in.name.c_str(), jit.count(),
                                          jit.options.data(), jit.values.data());
    std::vector<uint8_t> answer;
    wire::Writer w(answer);
    w.value(image.answer(s, result));
    if (state) options_of(state).write_logs(w);
    s.finish(call, result, answer);
    if (!result) image.keep(s);
    return {};
}

Result<void> cuLinkComplete(Session &s, Call &call)
{
    auto id = call.body.value<HandleId>();
    if (!call.body.at_end()) return misfit();
    CUlinkState state = nullptr;
    void *image = nullptr;
    size_t bytes = 0;
    CUresult result = s.objects.get(id, state);
    if (!result) result = DRIVER(cuLinkComplete)(state, &image, &bytes);
    std::vector<uint8_t> answer;
    wire::Writer w(answer);
    if (state) options_of(state).write_logs(w);
    if (!result && answer.size() + bytes > wire::kMaxServerBytes) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) w.bytes(image, bytes);
    s.finish(call, result, answer);
    return {};
}

}  // namespace rgpu::worker::own
