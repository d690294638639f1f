// SPDX-License-Identifier: Apache-2.0
/* A program that uses UCX itself, before, beside and after remote GPUs: messages to itself through
   a worker of its own. Its settings are its own, too. Prints what it found; exit status 0: all as
   it should be. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

static ucp_worker_h worker;
static ucp_ep_h self;

static void check(int good, const char *what)
{
    if (good) return;
    printf("wrong: %s\n", what);
    exit(1);
}

static void finish(ucs_status_ptr_t request)
{
    check(!UCS_PTR_IS_ERR(request), "a request");
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    check(ucp_request_check_status(request) == UCS_OK, "a request's end");
    ucp_request_free(request);
}

static void message(size_t bytes)
{
    char *out = malloc(bytes), *in = calloc(1, bytes);
    ucp_request_param_t none = {0};
    memset(out, (int)bytes | 1, bytes);
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(worker, in, bytes, 7, (ucp_tag_t)-1, &none),
                     send = ucp_tag_send_nbx(self, out, bytes, 7, &none);
    finish(receive), finish(send);
    check(!memcmp(in, out, bytes), "a message");
    free(in), free(out);
}

static void gpu(void *cuda)
{
    int (*copy_in)(unsigned long long, const void *,
                   size_t) = dlsym(cuda, "cuMemcpyHtoD_v2"),
                   (*copy_out)(void *, unsigned long long, size_t) = dlsym(cuda, "cuMemcpyDtoH_v2");
    int (*alloc)(unsigned long long *, size_t) = dlsym(cuda, "cuMemAlloc_v2");
    static char out[3 << 20], in[sizeof out];
    unsigned long long at = 0;
    memset(out, 'g', sizeof out), memset(in, 0, sizeof in);
    check(alloc(&at, sizeof out) == 0 && copy_in(at, out, sizeof out) == 0 &&
              copy_out(in, at, sizeof in) == 0 && !memcmp(in, out, sizeof in),
          "a copy");
}

int main(void)
{
    ucp_context_h context;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t single = {0};
    ucp_address_t *address;
    size_t bytes;
    check(ucp_init(&params, NULL, &context) == UCS_OK &&
              ucp_worker_create(context, &single, &worker) == UCS_OK &&
              ucp_worker_get_address(worker, &address, &bytes) == UCS_OK,
          "UCX");
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    check(ucp_ep_create(worker, &to, &self) == UCS_OK, "an endpoint");
    message(100), message(1 << 20);

    struct sigaction before, after;
    sigaction(SIGSEGV, NULL, &before);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    check(cuda != NULL, "libcuda.so.1");
    int (*init)(unsigned) = dlsym(cuda, "cuInit"),
        (*retain)(void **, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain"),
        (*current)(void *) = dlsym(cuda, "cuCtxSetCurrent");
    void *gpu_context;
    check(init(0) == 0 && retain(&gpu_context, 0) == 0 && current(gpu_context) == 0, "a GPU");
    sigaction(SIGSEGV, NULL, &after);
    check(before.sa_sigaction == after.sa_sigaction && before.sa_flags == after.sa_flags,
          "the signal handlers");
    for (int i = 0; i < 20; i++) gpu(cuda), message(100), message(1 << 20);

    ucp_worker_release_address(worker, address);
    ucp_request_param_t none = {0};
    finish(ucp_ep_close_nbx(self, &none));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    gpu(cuda);
    printf("its own UCX: %s\n", getenv("UCX_TLS"));
    return 0;
}
