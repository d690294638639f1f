// SPDX-License-Identifier: Apache-2.0
// Graph nodes that wait for values in memory and write them: added, changed, captured, launched.
#include "check.h"

__global__ void add(int *p, int v) { *p += v; }

static CUstreamBatchMemOpParams write_value(CUdeviceptr address, unsigned value)
{
    CUstreamBatchMemOpParams p{};
    p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    p.writeValue.address = address;
    p.writeValue.value = value;
    return p;
}

static CUstreamBatchMemOpParams wait_for(CUdeviceptr address, unsigned value)
{
    CUstreamBatchMemOpParams p{};
    p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p.waitValue.address = address;
    p.waitValue.value = value;
    p.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    return p;
}

static unsigned value_at(CUdeviceptr address)
{
    unsigned value = 0;
    DRIVER(cuMemcpyDtoH(&value, address, 4));
    return value;
}

int main()
{
    CUdeviceptr p;
    CUcontext context;
    CHECK(cudaFree(nullptr));
    DRIVER(cuCtxGetCurrent(&context));
    DRIVER(cuMemAlloc(&p, 8));
    DRIVER(cuMemsetD32(p, 0, 2));

    CUgraph g;
    CUgraphNode first, second;
    DRIVER(cuGraphCreate(&g, 0));
    CUstreamBatchMemOpParams operations[] = {write_value(p, 5), write_value(p + 4, 6)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS node{context, 2, operations, 0}, got{};
    DRIVER(cuGraphAddBatchMemOpNode(&first, g, nullptr, 0, &node));
    CUstreamBatchMemOpParams seen[] = {wait_for(p, 5), wait_for(p + 4, 6), write_value(p, 7)};
    CUgraphNodeParams any{};
    any.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    any.memOp.ctx = context;
    any.memOp.count = 3;
    any.memOp.paramArray = seen;
    DRIVER(cuGraphAddNode(&second, g, &first, nullptr, 1, &any));
    CUgraphNodeType type;
    DRIVER(cuGraphNodeGetType(second, &type));
    TRUE(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    DRIVER(cuGraphBatchMemOpNodeGetParams(first, &got));
    TRUE(got.count == 2 && got.paramArray[1].writeValue.address == p + 4 &&
         got.paramArray[1].writeValue.value == 6);

    CUgraphExec e;
    DRIVER(cuGraphInstantiate(&e, g, 0));
    DRIVER(cuGraphLaunch(e, nullptr));
    TRUE(value_at(p) == 7 && value_at(p + 4) == 6);
    // Another value in the executable graph alone, then in the graph.
    seen[2] = write_value(p, 8);
    node = {context, 3, seen, 0};
    DRIVER(cuGraphExecBatchMemOpNodeSetParams(e, second, &node));
    DRIVER(cuGraphLaunch(e, nullptr));
    TRUE(value_at(p) == 8);
    DRIVER(cuGraphExecDestroy(e));
    seen[2] = write_value(p, 9);
    DRIVER(cuGraphBatchMemOpNodeSetParams(second, &node));
    DRIVER(cuGraphInstantiate(&e, g, 0));
    DRIVER(cuGraphLaunch(e, nullptr));
    TRUE(value_at(p) == 9);
    DRIVER(cuGraphExecDestroy(e));
    operations[0].writeValue.address = p + 1;
    node = {context, 2, operations, 0};
    CUgraphNode none;
    DRIVER_FAILS(cuGraphAddBatchMemOpNode(&none, g, nullptr, 0, &node), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuGraphDestroy(g));

    // As a stream captures it.
    CUstream s;
    DRIVER(cuStreamCreate(&s, 0));
    DRIVER(cuMemsetD32(p, 0, 2));
    DRIVER(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    DRIVER(cuStreamWriteValue32(s, p, 20, 0));
    DRIVER(cuStreamWaitValue32(s, p, 20, CU_STREAM_WAIT_VALUE_GEQ));
    add<<<1, 1, 0, s>>>(reinterpret_cast<int *>(p), 1);
    DRIVER(cuStreamEndCapture(s, &g));
    TRUE(value_at(p) == 0);
    DRIVER(cuGraphInstantiate(&e, g, 0));
    for (int i = 0; i < 2; i++) {
        DRIVER(cuGraphLaunch(e, s));
        DRIVER(cuStreamSynchronize(s));
        TRUE(value_at(p) == 21);
    }
    DRIVER(cuGraphExecDestroy(e));
    DRIVER(cuGraphDestroy(g));
    DRIVER(cuStreamDestroy(s));
    DRIVER(cuMemFree(p));
    return right();
}
