// SPDX-License-Identifier: Apache-2.0
// Texture objects: 1D, 2D, 3D and layered; arrays, linear and pitched memory; filters, address
// modes, formats. What a filter gives is computed on the host by CUDA's formulas.
#include <cmath>

#include "check.h"

enum Read { fetch1, tex1, tex2, tex3, layer1, layer2 };

__global__ void sample(cudaTextureObject_t t, Read how, const float4 *at, float4 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 c = at[i];
    float4 v;
    switch (how) {
    case fetch1: v = tex1Dfetch<float4>(t, (int)c.x); break;
    case tex1: v = tex1D<float4>(t, c.x); break;
    case tex2: v = tex2D<float4>(t, c.x, c.y); break;
    case tex3: v = tex3D<float4>(t, c.x, c.y, c.z); break;
    case layer1: v = tex1DLayered<float4>(t, c.x, (int)c.w); break;
    case layer2: v = tex2DLayered<float4>(t, c.x, c.y, (int)c.w); break;
    }
    out[i] = v;
}

__global__ void integers(cudaTextureObject_t t, int4 *out)
{
    out[threadIdx.x] = tex1Dfetch<int4>(t, threadIdx.x);
}

__global__ void gather(cudaTextureObject_t t, float4 *out)
{
    *out = tex2Dgather<float4>(t, 2.0f, 2.0f, 0);
}

static std::vector<float4> read(cudaTextureObject_t t, Read how, const std::vector<float4> &at)
{
    float4 *c, *o;
    std::vector<float4> out(at.size());
    CHECK(cudaMalloc(&c, at.size() * sizeof(float4)));
    CHECK(cudaMalloc(&o, at.size() * sizeof(float4)));
    CHECK(cudaMemcpy(c, at.data(), at.size() * sizeof(float4), cudaMemcpyHostToDevice));
    sample<<<(unsigned)(at.size() + 63) / 64, 64>>>(t, how, c, o, (int)at.size());
    CHECK(cudaMemcpy(out.data(), o, at.size() * sizeof(float4), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(c));
    CHECK(cudaFree(o));
    return out;
}

// The texel for a whole coordinate, -1 for the border.
static int wrap(int i, int n, cudaTextureAddressMode mode)
{
    switch (mode) {
    case cudaAddressModeWrap: return ((i % n) + n) % n;
    case cudaAddressModeMirror:
        i = ((i % (2 * n)) + 2 * n) % (2 * n);
        return i < n ? i : 2 * n - 1 - i;
    case cudaAddressModeBorder: return i < 0 || i >= n ? -1 : i;
    default: return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

static const int W = 8, H = 6, D = 4;
static float texel(int x, int y, int z) { return x + 10.0f * y + 100.0f * z; }
static float at(int x, int y, int z, cudaTextureAddressMode mode, float border)
{
    x = wrap(x, W, mode), y = wrap(y, H, mode), z = wrap(z, D, mode);
    return x < 0 || y < 0 || z < 0 ? border : texel(x, y, z);
}

static cudaTextureDesc describe(cudaTextureAddressMode mode, cudaTextureFilterMode filter,
                                bool normalised)
{
    cudaTextureDesc d = {};
    for (auto &m : d.addressMode) m = mode;
    d.filterMode = filter;
    d.normalizedCoords = normalised;
    d.borderColor[0] = 0.5f;
    return d;
}

static void boxes()
{
    std::vector<float> in;
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) in.push_back(texel(x, y, z));
    cudaArray_t box;
    const cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();
    CHECK(cudaMalloc3DArray(&box, &one, make_cudaExtent(W, H, D)));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(in.data(), W * 4, W, H);
    p.dstArray = box;
    p.extent = make_cudaExtent(W, H, D);
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = box;

    std::vector<float4> points;
    for (float z = -1.25f; z < D + 1; z += 0.75f)
        for (float y = -2; y < H + 2; y += 0.625f)
            for (float x = -3; x < W + 3; x += 0.375f) points.push_back(make_float4(x, y, z, 0));
    for (cudaTextureAddressMode mode :
         {cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder})
        for (cudaTextureFilterMode filter : {cudaFilterModePoint, cudaFilterModeLinear})
            for (bool normalised : {false, true}) {
                const cudaTextureDesc d = describe(mode, filter, normalised);
                cudaTextureObject_t t;
                CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
                std::vector<float4> c = points;
                if (normalised)
                    for (float4 &v : c) v = make_float4(v.x / W, v.y / H, v.z / D, 0);
                const std::vector<float4> got = read(t, tex3, c);
                const cudaTextureAddressMode used =
                    normalised || mode == cudaAddressModeBorder ? mode : cudaAddressModeClamp;
                for (size_t i = 0; i < c.size(); i++) {
                    const float v[3] = {normalised ? c[i].x * W : c[i].x,
                                        normalised ? c[i].y * H : c[i].y,
                                        normalised ? c[i].z * D : c[i].z};
                    float want = 0;
                    if (filter == cudaFilterModePoint) {
                        want =
                            at((int)floorf(v[0]), (int)floorf(v[1]), (int)floorf(v[2]), used, 0.5f);
                    } else {
                        int first[3];
                        float rest[3];
                        for (int k = 0; k < 3; k++) {
                            first[k] = (int)floorf(v[k] - 0.5f);
                            rest[k] = roundf((v[k] - 0.5f - first[k]) * 256) / 256;
                        }
                        for (int k = 0; k < 8; k++) {
                            const float weight = (k & 1 ? rest[0] : 1 - rest[0]) *
                                                 (k & 2 ? rest[1] : 1 - rest[1]) *
                                                 (k & 4 ? rest[2] : 1 - rest[2]);
                            want += weight * at(first[0] + (k & 1), first[1] + (k >> 1 & 1),
                                                first[2] + (k >> 2), used, 0.5f);
                        }
                    }
                    // A point on the very edge of a texel may fall to either side once it was
                    // divided by the size.
                    if (fabsf(got[i].x - want) > 0.01f + 1e-5f * fabsf(want) &&
                        !(normalised && filter == cudaFilterModePoint)) {
                        printf("mode %d filter %d normalised %d at %g %g %g: %g, not %g\n", mode,
                               filter, normalised, v[0], v[1], v[2], got[i].x, want);
                        exit(1);
                    }
                }
                CHECK(cudaDestroyTextureObject(t));
            }
    CHECK(cudaFreeArray(box));
}

// The plane ends with its memory: one row more does not fit, nor what a computation in 64 bits
// makes small. NVIDIA's driver does not look.
static void refuses_what_is_outside(cudaResourceDesc r, const cudaTextureDesc &d)
{
    cudaTextureObject_t t;
    auto &plane = r.res.pitch2D;
    const cudaResourceDesc fits = r;
    plane.height++;
    FAILS(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidValue);
    r = fits;
    plane.width = size_t{1} << 62;
    FAILS(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidValue);
    r = fits;
    plane.pitchInBytes = size_t{1} << 60;
    plane.height = 17;
    FAILS(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidValue);
    r = fits;
    plane.height = (size_t{1} << 32) + 1;
    FAILS(cudaCreateTextureObject(&t, &r, &d, nullptr), cudaErrorInvalidValue);
}

static void planes()
{
    // Pitched memory of bytes, read as 0 to 1; and layers.
    unsigned char *memory;
    size_t pitch;
    CHECK(cudaMallocPitch(&memory, &pitch, W * 4, H));
    std::vector<unsigned char> in(W * 4 * H);
    for (size_t i = 0; i < in.size(); i++) in[i] = (unsigned char)(i * 7);
    CHECK(cudaMemcpy2D(memory, pitch, in.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = memory;
    r.res.pitch2D.desc = cudaCreateChannelDesc<uchar4>();
    r.res.pitch2D.width = W;
    r.res.pitch2D.height = H;
    r.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc d = describe(cudaAddressModeClamp, cudaFilterModePoint, false);
    d.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    if (by_rgpu()) refuses_what_is_outside(r, d);
    std::vector<float4> points;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) points.push_back(make_float4(x + 0.5f, y + 0.5f, 0, 0));
    std::vector<float4> got = read(t, tex2, points);
    for (size_t i = 0; i < points.size(); i++) {
        TRUE(got[i].x == in[4 * i] / 255.0f && got[i].y == in[4 * i + 1] / 255.0f);
        TRUE(got[i].z == in[4 * i + 2] / 255.0f && got[i].w == in[4 * i + 3] / 255.0f);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(memory));

    std::vector<float> layers(W * H * D);
    for (size_t i = 0; i < layers.size(); i++) layers[i] = (float)i;
    cudaArray_t array;
    const cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();
    // Four texels can be gathered of planes alone.
    for (unsigned flags : {cudaArrayLayered | cudaArrayTextureGather, cudaArrayTextureGather})
        FAILS(cudaMalloc3DArray(&array, &one, make_cudaExtent(W, H, D), flags),
              cudaErrorInvalidValue);
    CHECK(cudaMalloc3DArray(&array, &one, make_cudaExtent(W, H, D), cudaArrayLayered));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(layers.data(), W * 4, W, H);
    p.dstArray = array;
    p.extent = make_cudaExtent(W, H, D);
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    d = describe(cudaAddressModeClamp, cudaFilterModeLinear, false);
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    // Between texels of a row; never between layers.
    got = read(t, layer2,
               {make_float4(3, 2.5f, 0, 0), make_float4(3, 2.5f, 0, 3), make_float4(3, 2.5f, 0, 9),
                make_float4(-5, 99, 0, 1)});
    TRUE(got[0].x == 2 * W + 2.5f && got[1].x == 3 * W * H + 2 * W + 2.5f && got[2].x == got[1].x &&
         got[3].x == W * H + 5 * W);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
}

static void linear_memory()
{
    const int n = 100;
    int4 *memory, *out;
    CHECK(cudaMalloc(&memory, n * sizeof(int4)));
    CHECK(cudaMalloc(&out, 128 * sizeof(int4)));
    std::vector<int4> in(n), got(128);
    for (int i = 0; i < n; i++) in[i] = make_int4(i, -i, i << 20, ~i);
    CHECK(cudaMemcpy(memory, in.data(), n * sizeof(int4), cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = memory;
    r.res.linear.desc = cudaCreateChannelDesc<int4>();
    r.res.linear.sizeInBytes = n * sizeof(int4);
    const cudaTextureDesc d = {};
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    integers<<<1, 128>>>(t, out);
    CHECK(cudaMemcpy(got.data(), out, 128 * sizeof(int4), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) TRUE(!memcmp(&got[i], &in[i], sizeof(int4)));
    for (int i = n; i < 128; i++)
        TRUE(got[i].x == 0 && got[i].y == 0 && got[i].z == 0 && got[i].w == 0);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(memory));
    CHECK(cudaFree(out));
}

static void gathered()
{
    cudaArray_t array;
    const cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &one, 4, 4, cudaArrayTextureGather));
    float in[16];
    for (int i = 0; i < 16; i++) in[i] = (float)i;
    CHECK(cudaMemcpy2DToArray(array, 0, 0, in, 16, 16, 4, cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    const cudaTextureDesc d = describe(cudaAddressModeClamp, cudaFilterModePoint, false);
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    float4 *out, got;
    CHECK(cudaMalloc(&out, sizeof got));
    gather<<<1, 1>>>(t, out);
    CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    TRUE(got.x == 9 && got.y == 10 && got.z == 6 && got.w == 5);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
}

int main()
{
    boxes();
    planes();
    linear_memory();
    gathered();
    return right();
}
