// SPDX-License-Identifier: Apache-2.0
// Device printf against the host's: every conversion that CUDA has, many arguments, strings from
// all places, more than the buffer holds, and its result.
#include "check.h"

#include <string>
#include <unistd.h>

__constant__ char in_constant[] = "constant";
__device__ char in_global[] = "global";

// What is printed must be the same on both sides.
#define ALL(P) \
    P("%d|%5d|%-5d|%05d|%+d|% d|%i\n", 42, -42, 42, -42, 42, 42, -7); \
    P("%u|%x|%X|%#x|%o|%#o|%08x\n", 4000000000u, 0xbeefu, 0xBEEFu, 255u, 8u, 8u, 0x1fu); \
    P("%ld|%lu|%lx|%lld|%llu|%#llX\n", -5000000000L, 5000000000UL, 0x123456789abcUL, \
      -9000000000000000000LL, 18000000000000000000ULL, 0xabcdef0123456789ULL); \
    P("%hd|%hu|%hx\n", short(-3), (unsigned short)65535, (unsigned short)0xabc); \
    P("%f|%.0f|%.3f|%10.2f|%-10.1f|%+f|%#.0f\n", 3.25, 2.5, -1.0005, 99.999, 1.25, 1.0, 3.0); \
    P("%e|%.2E|%g|%G|%g|%#g\n", 12345.678, 0.00012, 1e-10, 1e20, 100000.0, 1.0); \
    P("%a|%.3a\n", 0.1, 1.999); \
    P("%f %f %f %e\n", 1.0 / 0.0, -1.0 / 0.0, 0.0, -0.0); \
    P("%c%c%c|%5c|%-3c|\n", 'a', 'b', '%', 'x', 'y'); \
    P("%s|%10s|%-10s|%.3s|%s|\n", "plain", "right", "left", "truncated", ""); \
    P("%*d|%-*d|%.*f|%*.*f\n", 6, 42, 6, 42, 2, 3.14159, 8, 1, 2.718); \
    P("100%% of %d%%\n", 5); \
    P("%p\n", (void *)0x7f0012345678); \
    P("no arguments\n"); \
    P("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d " \
      "%d\n", \
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, \
      26, 27, 28, 29, 30); \
    P("%f %d %f %lld %s %c %f\n", 1.5f, 2, 3.5, 4LL, "five", '6', (double)7.25f); \
    P("tab\tnew\\line \"quoted\" %s\n", "caf\xc3\xa9");

__global__ void everything()
{
#define P(...) printf(__VA_ARGS__)
    ALL(P)
#undef P
    printf("%s %s\n", in_constant, in_global);
}

__global__ void results(int *out)
{
    out[0] = printf("%d %d\n", 1, 2);
    out[1] = printf("none\n");
}

__global__ void much()
{
    printf("thread %4d of block %4d says something that fills the buffer\n", threadIdx.x,
           blockIdx.x);
}

static std::string wanted;
template <class... A> void keep(const char *format, A... a)
{
    char line[512];
    snprintf(line, sizeof line, format, a...);
    wanted += line;
}

// What the call prints to file descriptor 1.
template <class F> std::string printed(F call)
{
    fflush(stdout);
    FILE *file = tmpfile();
    const int old = dup(1);
    dup2(fileno(file), 1);
    call();
    CHECK(cudaDeviceSynchronize());
    fflush(stdout);
    dup2(old, 1);
    close(old);
    std::string text;
    rewind(file);
    for (int c; (c = getc(file)) != EOF;) text += char(c);
    fclose(file);
    return text;
}

static void same(const std::string &got, const std::string &wanted)
{
    if (got == wanted) return;
    size_t at = 0;
    while (got[at] == wanted[at]) at++;
    at = got.rfind('\n', at) + 1;
    fprintf(stderr, "printed: %s\nwanted:  %s\n", got.substr(at, got.find('\n', at) - at).c_str(),
            wanted.substr(at, wanted.find('\n', at) - at).c_str());
    exit(1);
}

int main()
{
#define P(...) keep(__VA_ARGS__)
    ALL(P)
#undef P
    wanted += "constant global\n";
    same(printed([] { everything<<<1, 1>>>(); }), wanted);

    int *out;
    CHECK(cudaMallocManaged(&out, 8));
    same(printed([&] { results<<<1, 1>>>(out); }), "1 2\nnone\n");
    // CUDA C++ Programming Guide: the number of arguments parsed.
    TRUE(out[0] == 2 && out[1] == 0);

    size_t size;
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    TRUE(size >= 1 << 20);
    const std::string lines = printed([] { much<<<40, 256>>>(); });
    TRUE(lines.size() ==
         40 * 256 * (sizeof "thread 1234 of block 1234 says something that fills the buffer"));
    std::vector<bool> seen(40 * 256);
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
        int thread, block;
        TRUE(sscanf(lines.c_str() + at, "thread %d of block %d says", &thread, &block) == 2);
        TRUE(!seen[block * 256 + thread]);
        seen[block * 256 + thread] = true;
    }
    for (bool s : seen) TRUE(s);
    return right();
}
