// SPDX-License-Identifier: Apache-2.0
// Bodies of graphs and of what textures read: the bytes are what they were in every release, and
// what one side writes the other reads.
#include <criterion/criterion.h>

#include <vector>

#include "wire/node_bodies.h"
#include "wire/resource_body.h"

using namespace rgpu;
using namespace rgpu::wire;

namespace {

using Bytes = std::vector<uint8_t>;

template <class T> T at(const Bytes &body, size_t offset)
{
    T value{};
    cr_assert_leq(offset + sizeof value, body.size());
    memcpy(&value, body.data() + offset, sizeof value);
    return value;
}
template <class T> Bytes bytes_of(const T &value)
{
    Bytes body;
    Writer(body).value(value);
    return body;
}

CUDA_MEM_ALLOC_NODE_PARAMS allocation()
{
    static CUmemAccessDesc access[2]{};
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    p.poolProps.win32SecurityAttributes = access;
    p.accessDescs = access, p.accessDescCount = 2;
    p.bytesize = 0x1122334455, p.dptr = 0x7f0000001000;
    return p;
}

}  // namespace

Test(node_bodies, allocation_is_its_pool_the_bytes_and_the_address)
{
    const auto body = bytes_of(AllocationNode::of(allocation()));
    cr_assert_eq(body.size(), sizeof(CUmemPoolProps) + 16);
    cr_expect_eq(at<uint64_t>(body, sizeof(CUmemPoolProps)), 0x1122334455);
    cr_expect_eq(at<uint64_t>(body, sizeof(CUmemPoolProps) + 8), 0x7f0000001000);
    cr_expect_null(at<CUmemPoolProps>(body, 0).win32SecurityAttributes,
                   "an address of the one process is nothing to the other");

    CUDA_MEM_ALLOC_NODE_PARAMS_v2 back{};
    at<AllocationNode>(body, 0).put_into(back);
    cr_expect_eq(back.poolProps.location.id, 1);
    cr_expect_eq(back.bytesize, 0x1122334455);
    cr_expect_eq(back.dptr, 0x7f0000001000);
    auto hostile = at<AllocationNode>(body, 0);
    hostile.pool.win32SecurityAttributes = &back;
    hostile.put_into(back);
    cr_expect_null(back.poolProps.win32SecurityAttributes);
}

Test(node_bodies, list_is_a_count_and_the_values)
{
    const uint32_t values[] = {5, 6, 7};
    Bytes body;
    Writer w(body);
    write_list(w, values, 3);
    cr_assert_eq(body.size(), 20);
    cr_expect_eq(at<uint64_t>(body, 0), 3);
    cr_expect_eq(at<uint32_t>(body, 16), 7);
    Reader r(body.data(), body.size());
    const auto l = read_list<uint32_t>(r);
    cr_expect(r.at_end());
    cr_expect(l.first == body.data() + 8 && l.count == 3 && l.bytes == 12);
}

Test(node_bodies, list_that_is_cut_or_lies_has_nothing)
{
    const uint32_t values[] = {5, 6, 7};
    Bytes whole;
    Writer w(whole);
    write_list(w, values, 3);
    for (size_t n = 0; n < whole.size(); n++) {
        Reader r(whole.data(), n);
        const auto l = read_list<uint32_t>(r);
        cr_expect_not(r.ok(), "%zu bytes", n);
        cr_expect(!l.first && !l.count && !l.bytes, "%zu bytes", n);
    }
    for (const uint64_t lie : {uint64_t{4}, uint64_t{1} << 62, ~uint64_t{0}}) {
        memcpy(whole.data(), &lie, sizeof lie);
        Reader r(whole.data(), whole.size());
        cr_expect_null(read_list<uint32_t>(r).first);
        cr_expect_not(r.ok());
    }
}

Test(node_bodies, list_of_nothing_is_its_count)
{
    Bytes body;
    Writer w(body);
    write_list<CUmemAccessDesc>(w, nullptr, 0);
    cr_assert_eq(body.size(), 8);
    Reader r(body.data(), body.size());
    cr_expect_eq(read_list<CUmemAccessDesc>(r).bytes, 0);
    cr_expect(r.at_end());
}

Test(node_bodies, memset_has_its_contexts_number_and_no_handle)
{
    CUDA_MEMSET_NODE_PARAMS_v2 p{};
    p.dst = 0x7f0000001000, p.elementSize = 4, p.width = 9, p.height = 1;
    p.ctx = reinterpret_cast<CUcontext>(0x5555);
    Bytes body;
    Writer w(body);
    MemsetNode{21, p}.write(w);
    cr_assert_eq(body.size(), 4 + sizeof p);
    cr_expect_eq(at<uint32_t>(body, 0), 21);
    cr_expect_null(at<CUDA_MEMSET_NODE_PARAMS_v2>(body, 4).ctx);
    // A client that sends an address in its place gets nowhere with it.
    memcpy(body.data() + 4, &p, sizeof p);
    Reader r(body.data(), body.size());
    const auto n = MemsetNode::read(r);
    cr_expect(r.at_end());
    cr_expect(n.context == 21 && n.memset.dst == p.dst && n.memset.width == 9);
    cr_expect_null(n.memset.ctx);
}

Test(node_bodies, others_are_words_in_order)
{
    const auto batch = bytes_of(BatchNode{21, 7});
    cr_assert_eq(batch.size(), 8);
    cr_expect(at<uint32_t>(batch, 0) == 21 && at<uint32_t>(batch, 4) == 7);
    cr_expect_eq(at<uint64_t>(bytes_of(HostNode{0x200000001}), 0), 0x200000001);
    const auto update = bytes_of(UpdateAnswer{CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, 21, 22});
    cr_assert_eq(update.size(), 12);
    cr_expect(at<uint32_t>(update, 0) == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED &&
              at<uint32_t>(update, 4) == 21 && at<uint32_t>(update, 8) == 22);
    const auto made = bytes_of(InstantiationAnswer{21, CUDA_GRAPH_INSTANTIATE_ERROR});
    cr_assert_eq(made.size(), 8);
    cr_expect(at<uint32_t>(made, 0) == 21 && at<uint32_t>(made, 4) == CUDA_GRAPH_INSTANTIATE_ERROR);
}

Test(node_bodies, instantiation_has_no_gap_and_is_read_back)
{
    Bytes body;
    Writer w(body);
    Instantiation{0x300000002, 21}.write(w);
    cr_assert_eq(body.size(), 12);
    Reader r(body.data(), body.size());
    const auto i = Instantiation::read(r);
    cr_expect(r.at_end() && i.flags == 0x300000002 && i.stream == 21);
    Reader cut(body.data(), body.size() - 1);
    Instantiation::read(cut);
    cr_expect_not(cut.ok());
}

Test(node_bodies, conditional_has_no_gap_and_is_read_back)
{
    Bytes body;
    Writer w(body);
    ConditionalNode{7, 0x1122334455667788, 2, 3}.write(w);
    cr_assert_eq(body.size(), sizeof(calls::HandleId) + 16);
    cr_expect_eq(at<uint64_t>(body, sizeof(calls::HandleId)), 0x1122334455667788);
    Reader r(body.data(), body.size());
    const auto back = ConditionalNode::read(r);
    cr_expect(r.at_end());
    cr_expect(back.context == 7 && back.handle == 0x1122334455667788);
    cr_expect(back.type == 2 && back.size == 3);
}

Test(node_bodies, resource_names_an_array_or_memory)
{
    CUDA_RESOURCE_DESC d{};
    const auto change = [&] {
        return change_array(d, [](auto &array) {
            array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(uintptr_t{21});
            return CUDA_ERROR_INVALID_HANDLE;
        });
    };
    d.resType = CU_RESOURCE_TYPE_ARRAY;
    cr_expect_eq(change(), CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(reinterpret_cast<uintptr_t>(d.res.array.hArray), 21);
    d = {};
    d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    change();
    cr_expect_eq(reinterpret_cast<uintptr_t>(d.res.mipmap.hMipmappedArray), 21);
    for (const auto type : {CU_RESOURCE_TYPE_LINEAR, CU_RESOURCE_TYPE_PITCH2D}) {
        d = {};
        d.resType = type, d.res.linear.devPtr = 0x1000;
        cr_expect_eq(change(), CUDA_SUCCESS);
        cr_expect_eq(d.res.linear.devPtr, 0x1000);
    }
}
