// Every call of the table that may take device memory has a case in front of the driver, or a
// reason why it takes none.
//
// A call may take some if it makes a handle or an address, or if its name says that it makes,
// loads, opens, runs or changes something. Nothing is put in front of the driver without a cap: the
// driver's own function and the one that the worker calls are compared.
#include <criterion/criterion.h>
#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>

#include "calls/handles.h"
#include "worker/limits/memory_cap.h"

using namespace rgpu;
using namespace rgpu::worker;

namespace {

// Why calls that match take none. The first that matches a name counts; each must be needed.
struct Reason {
    const char *names, *why;
};
constexpr Reason kTakesNone[] = {
    {"cuMemAllocHost(_v2)?|cuMemHostAlloc|cuMemHostRegister(_v2)?|cuMemFreeHost|"
     "cuMemHostUnregister|"
     "cuMemHostGetDevicePointer_v2",
     "the client's memory, or the server's"},
    {"cuEvent.*|cuIpcOpenEventHandle|cuIpcGetEventHandle",
     "events are words of a page that their context has"},
    {"cuTexObject.*|cuSurfObject.*|cuTensorMap.*",
     "descriptors: a table that the context has, or the client's memory"},
    {"cuCtxAttach|cuCtxGetCurrent|cuCtxPopCurrent(_v2)?|cuStreamGetCtx(_v2)?(_ptsz)?|"
     "cuCtxRecordEvent|cuCtxWaitEvent",
     "names a context that is there"},
    {"cuModuleGetLoadingMode|cuFuncIsLoaded|cuFuncGetModule|cuKernelGetLibrary|"
     "cuModuleGetFunctionCount",
     "tells about code that is there"},
    {"cuLibraryGetKernel|cuLibraryEnumerateKernels",
     "names: the code comes with cuKernelGetFunction or a launch"},
    {"cuLink.*", "linking is done in host memory; what it makes is loaded like any image"},
    {"cuLogsRegisterCallback|cuDeviceRegisterAsyncNotification",
     "what the client notes of a program's interest"},
    {"cuLaunchHostFunc(_ptsz)?|cuUserObject.*|cuGraph(Retain|Release)UserObject",
     "runs on the host"},
    {"cuDeviceGet(Default)?MemPool|cuMemGet(Default)?MemPool",
     "names a pool that is there: what it gives counts when it is asked"},
    {"cuDeviceSetMemPool|cuMemSetMemPool|cuMemPoolSetAttribute|cuMemPoolSetAccess",
     "changes where later calls take from, which count"},
    {"cuCtxGetId|cuStreamGetId(_ptsz)?|cuMemGetAccess", "a number of the same type as an address"},
    {"cuMemcpyBatchAsync(_v2)?(_ptsz)?", "addresses that are read"},
    {"cuMemAddressReserve|cuMemGetAddressRange_v2", "addresses without memory"},
    {"cuStreamAttachMemAsync(_ptsz)?|cuMemPrefetchAsync(_v2)?(_ptsz)?|cuMemAdvise(_v2)?",
     "managed memory counts in full when it is made"},
    {"cuArrayGetPlane|cuMipmappedArrayGetLevel", "a part of an array that is there"},
    {"cuGraphCreate|cuGraphClone|cuGraphAdd(KernelNode(_v2)?|MemcpyNode|MemsetNode|HostNode|"
     "ChildGraphNode|EmptyNode|"
     "EventRecordNode|EventWaitNode|BatchMemOpNode|MemFreeNode|Dependencies(_v2)?)|"
     "cuStream(BeginCapture(_v2|ToGraph)?|EndCapture|UpdateCaptureDependencies(_v2)?|"
     "GetCaptureInfo(_v2|_v3)?)(_ptsz)?",
     "graphs are made in host memory; executable ones count, with all graphs in them"},
    {"cuGraph(Exec)?(Kernel|Memcpy|Memset|Host|BatchMemOp|EventRecord|EventWait)Node(Set|Get)("
     "Params|Event)(_v2)?|"
     "cuGraphExec(Kernel|Memcpy|Memset|Host|BatchMemOp|EventRecord|EventWait)NodeSet(Params|Event)("
     "_v2)?|"
     "cuGraphMem(Alloc|Free)NodeGetParams|cuGraphNodeSetParams|cuGraphKernelNode(Set|Get|Copy)"
     "Attributes?",
     "changes work whose memory is somebody else's; no driver lets the size of an allocation node "
     "change"},
    {"cuGraphNodeFindInClone|cuGraphGetNodes|cuGraphGetRootNodes|cuGraphGetEdges(_v2)?|"
     "cuGraphNodeGetDepend.*|"
     "cuGraphChildGraphNodeGetGraph|cuGraphRemoveDependencies(_v2)?",
     "names nodes that are there"},
};

// Says by itself, whatever it makes, that something is made, brought or changed.
const std::regex kSuspicious(
    "Alloc(?!ation)|Create|Load|Open|Import|Map(?!py)|Instantiate|Launch|Upload|Retain|Attach|"
    "SetLimit|Clone|"
    "Update|Prefetch|Advise|Register|Reserve|AddNode|Add.*Node|SetParams|SetMemPool|Enumerate|"
    "GetGlobal|GetManaged|GetModule$|GetFunction$");

template <class T> constexpr bool kMakes =
    std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>> &&
    (calls::kIsHandle<std::remove_pointer_t<T>> || std::is_same_v<T, CUdeviceptr *>);
template <class... A> constexpr bool makes(CUresult (*)(A...)) { return (kMakes<A> || ...); }

struct Line {
    std::string name;
    bool carried_out, makes, in_front;
};

template <size_t... I>
std::vector<Line> lines(const Driver &raw, const Driver &capped, std::index_sequence<I...>)
{
    const auto one = [&]<size_t N>() -> Line {
        constexpr auto id = static_cast<CallId>(N);
        using Function = typename calls::Row<id>::Function;
        return {std::string(calls::kCalls[N].symbol), calls::kCalls[N].mode != calls::Mode::none,
                makes(static_cast<Function>(nullptr)), raw.call<id>() != capped.call<id>()};
    };
    return {one.template operator()<I>()...};
}

}  // namespace

Test(memory_calls, each_that_may_take_device_memory_has_a_case)
{
    const char *build = getenv("RGPU_BUILD");
    const std::string path = std::string(build ? build : "build") + "/lib/softgpu/libcuda.so.1";
    if (!std::filesystem::exists(path)) cr_skip_test("%s is not built", path.c_str());
    char directory[] = "/tmp/rgpu-calls.XXXXXX";
    cr_assert(mkdtemp(directory));
    setenv("RGPU_SOFTGPU_HOST", directory, 1);
    setenv("RGPU_SOFTGPU_MEMORY", "64M", 1);
    setenv("RGPU_WORKER_MEMORY", "1000000", 1);
    auto raw = Driver::open(path);
    cr_assert(raw.has_value());
    Driver capped = *raw;
    const int account = open(directory, O_TMPFILE | O_RDWR, 0600);
    cr_assert_eq(ftruncate(account, static_cast<off_t>(MemoryAccount::file_bytes(4, 1))), 0);
    cr_assert(enforce_memory_cap(capped, account).has_value());
    std::filesystem::remove_all(directory);

    std::map<std::string, int> needed;
    int in_front = 0;
    for (const Line &line : lines(*raw, capped, std::make_index_sequence<calls::kCallCount>())) {
        in_front += line.in_front;
        cr_expect(line.carried_out || !line.in_front,
                  "%s is not carried out: what is in front of it?", line.name.c_str());
        if (!line.carried_out || line.in_front) continue;
        const Reason *why = nullptr;
        for (const Reason &reason : kTakesNone)
            if (!why && std::regex_match(line.name, std::regex(reason.names))) why = &reason;
        const bool may_take = line.makes || std::regex_search(line.name, kSuspicious);
        cr_expect(!may_take || why,
                  "%s may take device memory: put a case in front of it "
                  "(src/worker/limits/memory_cap_*.cc), or say here "
                  "why it takes none",
                  line.name.c_str());
        if (may_take && why) needed[why->names]++;
    }
    for (const Reason &reason : kTakesNone)
        cr_expect(needed.count(reason.names), "no call needs this any more: %s", reason.names);
    cr_expect_gt(in_front, 60);
}
