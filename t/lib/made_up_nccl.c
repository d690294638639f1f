// SPDX-License-Identifier: Apache-2.0
// A libnccl.so.2 for tests: communicators of one process, whose collectives are done on the
// processor when every rank has come, with the driver's copies. Like NCCL it writes a
// communicator's handle at once, waits for the other ranks, and gives up when one is aborted. With
// NCCL_DEBUG=INFO it says each call on standard output.
//
// Types: int32, float (others for what only copies). A stream's work is waited for.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSuccess, kCuda, kSystem, kInternal, kArgument, kUsage, kRemote, kProgress };
enum { kMost = 64 };

typedef struct {
    char bytes[128];
} Id;

typedef struct Comm Comm;
typedef struct Clique {
    struct Clique *next;
    Id id;
    int ranks, joined, dead, done;
    Comm *member[kMost];
    int color[kMost], key[kMost], split;
} Clique;

typedef enum {
    kAllReduce,
    kReduce,
    kBroadcast,
    kGather,
    kScatter,
    kReduceScatter,
    kAllGather,
    kAllToAll
} Kind;

typedef struct {
    Kind kind;
    uint64_t from, to;
    size_t count;
    int type, op, root;
    void *stream;
} Work;

struct Comm {
    Clique *clique;
    int rank, posted, aborted, blocking, device, ended;
    void *context;
    Work work;
    int has_work;
    // To and from each peer, for send and receive.
    struct {
        uint64_t at;
        size_t bytes;
        void *stream;
        int there;
    } sends[kMost], receives[kMost];
    float scalar;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Clique *cliques;
static const char *last = "";
static __thread int depth;
static __thread struct {
    Comm *comm;
    int posted;
} pending[4096];
static __thread int pendings, failed;

static int (*get_context)(void **), (*set_context)(void *), (*get_device)(int *), (*finish)(void *);
static int (*to_host)(void *, uint64_t, size_t), (*to_device)(uint64_t, const void *, size_t);
static int (*retain)(void **, int);

static void note(const char *format, ...)
{
    const char *debug = getenv("NCCL_DEBUG");
    if (!debug || strcmp(debug, "INFO")) return;
    __builtin_va_list all;
    __builtin_va_start(all, format);
    vprintf(format, all);
    __builtin_va_end(all);
}

__attribute__((constructor)) static void find_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return;
    *(void **)&get_context = dlsym(driver, "cuCtxGetCurrent");
    *(void **)&set_context = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&get_device = dlsym(driver, "cuCtxGetDevice");
    *(void **)&finish = dlsym(driver, "cuStreamSynchronize");
    *(void **)&to_host = dlsym(driver, "cuMemcpyDtoH_v2");
    *(void **)&to_device = dlsym(driver, "cuMemcpyHtoD_v2");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
}

static size_t size_of(int type)
{
    static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (size_t)sizes[type];
}

static int fail(int result, const char *why)
{
    last = why;
    if (depth) failed = failed ? failed : result;
    return result;
}

static Clique *find_clique(const Id *id, int ranks)
{
    for (Clique *c = cliques; c; c = c->next)
        if (!memcmp(&c->id, id, sizeof *id)) return c;
    Clique *c = calloc(1, sizeof *c);
    c->id = *id;
    c->ranks = ranks;
    for (int r = 0; r < kMost; r++) c->color[r] = -2;  // not said yet
    c->next = cliques;
    return cliques = c;
}

// With the lock held: the last rank has come.
static double get(const char *at, int type, size_t i)
{
    return type == 7 ? ((const float *)at)[i] : ((const int *)at)[i];
}
static void put(char *at, int type, size_t i, double value)
{
    if (type == 7)
        ((float *)at)[i] = (float)value;
    else
        ((int *)at)[i] = (int)value;
}

static double reduced(Clique *q, char **in, size_t i, const Work *w)
{
    double total = 0;
    for (int r = 0; r < q->ranks; r++) {
        double v = get(in[r], w->type, i);
        if (w->op >= 5) v *= q->member[r]->scalar;
        if (r == 0)
            total = v;
        else if (w->op == 1)
            total *= v;
        else if (w->op == 2)
            total = v > total ? v : total;
        else if (w->op == 3)
            total = v < total ? v : total;
        else
            total += v;
    }
    return w->op == 4 ? total / q->ranks : total;
}

static int carry_out(Clique *q)
{
    const Work w = q->member[0]->work;
    const size_t n = (size_t)q->ranks, one = w.count * size_of(w.type);
    const int large_in = w.kind == kScatter || w.kind == kReduceScatter || w.kind == kAllToAll;
    const int large_out = w.kind == kGather || w.kind == kAllGather || w.kind == kAllToAll;
    char *in[kMost] = {0}, *out = malloc(one * n + 1);
    int bad = 0;
    for (int r = 0; r < q->ranks; r++) {
        const Comm *c = q->member[r];
        set_context(c->context);
        bad |= finish(c->work.stream);
        in[r] = calloc(1, one * n + 1);
        if (c->work.from && one) bad |= to_host(in[r], c->work.from, large_in ? one * n : one);
    }
    for (int r = 0; r < q->ranks && !bad; r++) {
        const Comm *c = q->member[r];
        const int rooted = w.kind == kReduce || w.kind == kGather;
        if (rooted && r != w.root) continue;
        switch (w.kind) {
        case kAllReduce:
        case kReduce:
            for (size_t i = 0; i < w.count; i++) put(out, w.type, i, reduced(q, in, i, &w));
            break;
        case kReduceScatter:
            for (size_t i = 0; i < w.count; i++)
                put(out, w.type, i, reduced(q, in, (size_t)r * w.count + i, &w));
            break;
        case kBroadcast: memcpy(out, in[w.root], one); break;
        case kScatter: memcpy(out, in[w.root] + (size_t)r * one, one); break;
        case kGather:
        case kAllGather:
            for (size_t o = 0; o < n; o++) memcpy(out + o * one, in[o], one);
            break;
        case kAllToAll:
            for (size_t o = 0; o < n; o++) memcpy(out + o * one, in[o] + (size_t)r * one, one);
            break;
        }
        set_context(c->context);
        if (one) bad |= to_device(c->work.to, out, large_out ? one * n : one);
    }
    for (int r = 0; r < q->ranks; r++) free(in[r]), q->member[r]->has_work = 0;
    free(out);
    return bad;
}

// With the lock held. Until what this rank has posted is done.
static int wait_for(Comm *c, int posted)
{
    while (!c->clique->dead && (c->clique->joined < c->clique->ranks || c->clique->done < posted))
        pthread_cond_wait(&changed, &mutex);
    return c->clique->dead ? fail(kInternal, "made up: aborted") : kSuccess;
}

static int leave(Comm *c, int posted)
{
    int result = kSuccess;
    if (depth)
        pending[pendings].comm = c, pending[pendings++].posted = posted;
    else
        result = wait_for(c, posted);
    pthread_mutex_unlock(&mutex);
    return result;
}

int ncclGroupStart(void)
{
    depth++;
    return kSuccess;
}

int ncclGroupEnd(void)
{
    if (!depth) return kUsage;
    if (--depth) return kSuccess;
    int result = failed;
    note("made up: a group of %d\n", pendings);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < pendings && !result; i++)
        result = wait_for(pending[i].comm, pending[i].posted);
    pthread_mutex_unlock(&mutex);
    pendings = failed = 0;
    return result;
}

int ncclGetVersion(int *version)
{
    *version = 22809;
    return kSuccess;
}

const char *ncclGetLastError(Comm *c)
{
    (void)c;
    return last;
}

int ncclGetUniqueId(Id *id)
{
    static _Atomic int made;  // several threads ask at the same time
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "made up %d %d", (int)getpid(), ++made);
    return kSuccess;
}

typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga, least, most;
    const char *net;
    int share, traffic;
    const char *name;
} Config;

int ncclCommInitRankConfig(Comm **to, int ranks, Id id, int rank, const Config *config)
{
    note("made up: rank %d of %d, interface %s\n", rank, ranks,
         getenv("NCCL_SOCKET_IFNAME") ? getenv("NCCL_SOCKET_IFNAME") : "none");
    if (config)
        note("made up: config of %zu bytes, blocking %d, net %s, name %s\n", config->size,
             config->blocking, config->net ? config->net : "none",
             config->size > 48 && config->name ? config->name : "none");
    if (config && config->magic != 0xcafebeef) return fail(kArgument, "made up: no config");
    pthread_mutex_lock(&mutex);
    Clique *q = find_clique(&id, ranks);
    if (q->ranks != ranks || rank >= kMost || q->member[rank]) {
        pthread_mutex_unlock(&mutex);
        return fail(kArgument, "made up: the rank is there");
    }
    Comm *c = calloc(1, sizeof *c);
    c->clique = q, c->rank = rank;
    c->blocking = !config || config->blocking != 0;
    if (get_context) get_context(&c->context), get_device(&c->device);
    q->member[rank] = c, q->joined++;
    *to = c;
    pthread_cond_broadcast(&changed);
    if (!c->blocking) {
        pthread_mutex_unlock(&mutex);
        return kProgress;
    }
    return leave(c, 0);
}

int ncclCommInitRank(Comm **to, int ranks, Id id, int rank)
{
    return ncclCommInitRankConfig(to, ranks, id, rank, NULL);
}

int ncclCommInitRankScalable(Comm **to, int ranks, int rank, int count, const Id *ids,
                             const Config *config)
{
    note("made up: %d ids\n", count);
    return ncclCommInitRankConfig(to, ranks, ids[0], rank, config);
}

int ncclCommInitAll(Comm **to, int count, const int *devices)
{
    Id id;
    void *context, *before = NULL;
    ncclGetUniqueId(&id);
    get_context(&before);
    ncclGroupStart();
    for (int i = 0; i < count; i++) {
        retain(&context, devices ? devices[i] : i);
        set_context(context);
        ncclCommInitRank(&to[i], count, id, i);
    }
    set_context(before);
    return ncclGroupEnd();
}

int ncclCommSplit(Comm *c, int color, int key, Comm **to, const Config *config)
{
    Clique *q = c->clique;
    pthread_mutex_lock(&mutex);
    note("made up: split by %d, key %d\n", color, key);
    q->color[c->rank] = color, q->key[c->rank] = key, q->split++;
    pthread_cond_broadcast(&changed);
    while (!depth && !q->dead && q->split < q->ranks) pthread_cond_wait(&changed, &mutex);
    int ranks = 0, rank = 0;
    for (int r = 0; r < q->ranks; r++)
        if (q->color[r] == color)
            ranks++, rank += q->key[r] < key || (q->key[r] == key && r < c->rank);
    pthread_mutex_unlock(&mutex);
    *to = NULL;
    if (color < 0) return kSuccess;
    Id id = q->id;
    snprintf(id.bytes + 64, 32, "%d", color);
    return ncclCommInitRankConfig(to, ranks, id, rank, config);
}

int ncclCommShrink(Comm *c, const int *excluded, int count, Comm **to, const Config *config,
                   int flags)
{
    int rank = c->rank;
    note("made up: shrink by %d, flags %d\n", count, flags);
    for (int i = 0; i < count; i++) rank -= excluded[i] < c->rank;
    Id id = c->clique->id;
    snprintf(id.bytes + 64, 32, "shrunk");
    return ncclCommInitRankConfig(to, c->clique->ranks - count, id, rank, config);
}

int ncclCommFinalize(Comm *c)
{
    note("made up: finalize rank %d\n", c->rank);
    return kSuccess;
}

int ncclCommDestroy(Comm *c)
{
    note("made up: destroy rank %d\n", c->rank);
    if (c->ended) return fail(kArgument, "made up: ended twice");
    c->ended = 1;
    return kSuccess;
}

int ncclCommAbort(Comm *c)
{
    note("made up: abort rank %d\n", c->rank);
    pthread_mutex_lock(&mutex);
    c->clique->dead = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return kSuccess;
}

int ncclCommRevoke(Comm *c, int flags)
{
    (void)flags;
    return ncclCommAbort(c);
}

int ncclCommGetAsyncError(Comm *c, int *error)
{
    pthread_mutex_lock(&mutex);
    *error = c->clique->dead                        ? kInternal
             : c->clique->joined < c->clique->ranks ? kProgress
                                                    : kSuccess;
    pthread_mutex_unlock(&mutex);
    return kSuccess;
}

int ncclCommCount(Comm *c, int *count)
{
    *count = c->clique->ranks;
    return kSuccess;
}
int ncclCommUserRank(Comm *c, int *rank)
{
    *rank = c->rank;
    return kSuccess;
}
int ncclCommCuDevice(Comm *c, int *device)
{
    *device = c->device;
    return kSuccess;
}

int ncclCommRegister(Comm *c, void *buffer, size_t bytes, void **handle)
{
    (void)c, (void)buffer;
    note("made up: register %zu bytes\n", bytes);
    *handle = (void *)0x1234;
    return kSuccess;
}
int ncclCommDeregister(Comm *c, void *handle)
{
    (void)c;
    note("made up: deregister %p\n", handle);
    return handle == (void *)0x1234 ? kSuccess : kArgument;
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, Comm *c)
{
    if (type != 7) return fail(kArgument, "made up: not a float");
    if (residence == 1)
        memcpy(&c->scalar, scalar, sizeof c->scalar);
    else
        to_host(&c->scalar, (uint64_t)scalar, sizeof c->scalar);
    note("made up: operator of %g\n", (double)c->scalar);
    *op = 5;  // of each communicator its own
    return kSuccess;
}
int ncclRedOpDestroy(int op, Comm *c)
{
    (void)c;
    return op == 5 ? kSuccess : kArgument;
}

static int post(Comm *c, Work w)
{
    pthread_mutex_lock(&mutex);
    if (c->has_work) {
        pthread_mutex_unlock(&mutex);
        return fail(kUsage, "made up: two at once");
    }
    c->work = w, c->has_work = 1;
    const int posted = ++c->posted;
    int all = c->clique->joined == c->clique->ranks;
    for (int r = 0; all && r < c->clique->ranks; r++) all = c->clique->member[r]->has_work;
    if (all) {
        void *before = NULL;
        get_context(&before);
        if (carry_out(c->clique)) last = "made up: a copy failed", c->clique->dead = 1;
        set_context(before);
        c->clique->done++;
        pthread_cond_broadcast(&changed);
    }
    return leave(c, posted);
}

static int do_work(const char *name, Kind kind, uint64_t from, uint64_t to, size_t count, int type,
                   int op, int root, Comm *c, void *stream)
{
    note("made up: %s of %zu, type %d, operator %d, root %d\n", name, count, type, op, root);
    const Work w = {kind, from, to, count, type, op, root, stream};
    return post(c, w);
}

#define ARGUMENTS uint64_t from, uint64_t to, size_t count, int type
int ncclAllReduce(ARGUMENTS, int op, Comm *c, void *stream)
{
    return do_work("all-reduce", kAllReduce, from, to, count, type, op, 0, c, stream);
}
int ncclReduce(ARGUMENTS, int op, int root, Comm *c, void *stream)
{
    return do_work("reduce", kReduce, from, to, count, type, op, root, c, stream);
}
int ncclReduceScatter(ARGUMENTS, int op, Comm *c, void *stream)
{
    return do_work("reduce-scatter", kReduceScatter, from, to, count, type, op, 0, c, stream);
}
int ncclBroadcast(ARGUMENTS, int root, Comm *c, void *stream)
{
    return do_work("broadcast", kBroadcast, from, to, count, type, 0, root, c, stream);
}
int ncclBcast(uint64_t at, size_t count, int type, int root, Comm *c, void *stream)
{
    return do_work("bcast", kBroadcast, at, at, count, type, 0, root, c, stream);
}
int ncclAllGather(ARGUMENTS, Comm *c, void *stream)
{
    return do_work("all-gather", kAllGather, from, to, count, type, 0, 0, c, stream);
}
int ncclAlltoAll(ARGUMENTS, Comm *c, void *stream)
{
    return do_work("all-to-all", kAllToAll, from, to, count, type, 0, 0, c, stream);
}
int ncclGather(ARGUMENTS, int root, Comm *c, void *stream)
{
    return do_work("gather", kGather, from, to, count, type, 0, root, c, stream);
}
int ncclScatter(ARGUMENTS, int root, Comm *c, void *stream)
{
    return do_work("scatter", kScatter, from, to, count, type, 0, root, c, stream);
}

// With the lock held: what one sends and the other one wants.
static void meet(Comm *a, Comm *b)
{
    if (!a->sends[b->rank].there || !b->receives[a->rank].there) return;
    void *before = NULL;
    const size_t bytes = a->sends[b->rank].bytes;
    char *copy = malloc(bytes + 1);
    get_context(&before);
    set_context(a->context), finish(a->sends[b->rank].stream);
    to_host(copy, a->sends[b->rank].at, bytes);
    set_context(b->context), finish(b->receives[a->rank].stream);
    to_device(b->receives[a->rank].at, copy, bytes);
    set_context(before);
    free(copy);
    a->sends[b->rank].there = b->receives[a->rank].there = 0;
    pthread_cond_broadcast(&changed);
}

// In groups only, and met when the second one comes.
int ncclSend(uint64_t from, size_t count, int type, int peer, Comm *c, void *stream)
{
    note("made up: send %zu to %d\n", count, peer);
    pthread_mutex_lock(&mutex);
    c->sends[peer].at = from, c->sends[peer].bytes = count * size_of(type);
    c->sends[peer].stream = stream, c->sends[peer].there = 1;
    meet(c, c->clique->member[peer]);
    pthread_mutex_unlock(&mutex);
    return kSuccess;
}
int ncclRecv(uint64_t to, size_t count, int type, int peer, Comm *c, void *stream)
{
    note("made up: receive %zu from %d\n", count, peer);
    pthread_mutex_lock(&mutex);
    c->receives[peer].at = to, c->receives[peer].bytes = count * size_of(type);
    c->receives[peer].stream = stream, c->receives[peer].there = 1;
    meet(c->clique->member[peer], c);
    pthread_mutex_unlock(&mutex);
    return kSuccess;
}
