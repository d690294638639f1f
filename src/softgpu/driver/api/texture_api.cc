// SPDX-License-Identifier: Apache-2.0
// Texture objects: CUDA Driver API, "Texture Object Management". An object is the address of what
// the engine reads (softgpu/texture.h). No mipmaps, no cube maps, no views of other formats; no
// texture references.
#include <cstring>
#include <map>
#include <mutex>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/texture.h"

namespace rgpu::softgpu::driver {

namespace {

struct Object {
    ~Object() { texture.magic = 0; }
    Texture texture;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC description;
    std::shared_ptr<Array> array;
};

struct Objects {
    std::mutex mutex;
    std::map<CUtexObject, std::shared_ptr<Object>> objects;
};
Objects &all_objects()
{
    static auto *s = new Objects;
    return *s;
}

CUresult set_format(Texture &t, CUarray_format f, unsigned channels)
{
    switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8: t.format = TexelFormat::u8; break;
    case CU_AD_FORMAT_UNSIGNED_INT16: t.format = TexelFormat::u16; break;
    case CU_AD_FORMAT_UNSIGNED_INT32: t.format = TexelFormat::u32; break;
    case CU_AD_FORMAT_SIGNED_INT8: t.format = TexelFormat::s8; break;
    case CU_AD_FORMAT_SIGNED_INT16: t.format = TexelFormat::s16; break;
    case CU_AD_FORMAT_SIGNED_INT32: t.format = TexelFormat::s32; break;
    case CU_AD_FORMAT_HALF: t.format = TexelFormat::f16; break;
    case CU_AD_FORMAT_FLOAT: t.format = TexelFormat::f32; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (channels != 1 && channels != 2 && channels != 4) return CUDA_ERROR_INVALID_VALUE;
    t.channels = static_cast<uint8_t>(channels);
    return CUDA_SUCCESS;
}

CUresult set_memory(Texture &t, CUdeviceptr address, size_t bytes)
{
    if (address % 512 || !device_may_touch(address, bytes, false)) return CUDA_ERROR_INVALID_VALUE;
    t.data = reinterpret_cast<const uint8_t *>(address);
    return CUDA_SUCCESS;
}

CUresult set_resource(Object &o, const CUDA_RESOURCE_DESC &r)
{
    Texture &t = o.texture;
    switch (r.resType) {
    case CU_RESOURCE_TYPE_LINEAR: {
        const auto &x = r.res.linear;
        if (CUresult rc = set_format(t, x.format, x.numChannels)) return rc;
        const size_t texels = x.sizeInBytes / (size_t{format_bytes(x.format)} * x.numChannels);
        if (texels > kMaxLinearTexels) return CUDA_ERROR_INVALID_VALUE;
        t.width = static_cast<uint32_t>(texels);
        t.pitch = t.slice = x.sizeInBytes;
        t.fetch_only = true;
        return t.width ? set_memory(t, x.devPtr, x.sizeInBytes) : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
        const auto &x = r.res.pitch2D;
        if (CUresult rc = set_format(t, x.format, x.numChannels)) return rc;
        const size_t row = x.width * format_bytes(x.format) * x.numChannels;
        if (!x.width || x.width > kMaxPitchedWidth || !x.height || x.height > kMaxPitchedHeight ||
            x.pitchInBytes < row || x.pitchInBytes > kMaxPitch || x.pitchInBytes % 32)
            return CUDA_ERROR_INVALID_VALUE;
        t.width = static_cast<uint32_t>(x.width);
        t.height = static_cast<uint32_t>(x.height);
        t.pitch = x.pitchInBytes;
        t.slice = t.pitch * t.height;
        return set_memory(t, x.devPtr, t.pitch * (x.height - 1) + row);
    }
    case CU_RESOURCE_TYPE_ARRAY: {
        o.array = driver().arrays.find(r.res.array.hArray);
        if (!o.array) return CUDA_ERROR_INVALID_HANDLE;
        const Array &a = *o.array;
        t.data = reinterpret_cast<const uint8_t *>(a.address);
        t.width = static_cast<uint32_t>(a.shape.Width);
        t.height = static_cast<uint32_t>(a.rows());
        t.depth = static_cast<uint32_t>(a.layers());
        t.pitch = a.row();
        t.slice = a.slice();
        return set_format(t, a.shape.Format, a.shape.NumChannels);
    }
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult set_description(Texture &t, const CUDA_TEXTURE_DESC &d)
{
    for (int i = 0; i < 3; i++) {
        switch (d.addressMode[i]) {
        case CU_TR_ADDRESS_MODE_WRAP: t.address[i] = TextureAddress::wrap; break;
        case CU_TR_ADDRESS_MODE_CLAMP: t.address[i] = TextureAddress::clamp; break;
        case CU_TR_ADDRESS_MODE_MIRROR: t.address[i] = TextureAddress::mirror; break;
        case CU_TR_ADDRESS_MODE_BORDER: t.address[i] = TextureAddress::border; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
    }
    t.linear = d.filterMode == CU_TR_FILTER_MODE_LINEAR;
    t.normalised = d.flags & CU_TRSF_NORMALIZED_COORDINATES;
    t.as_integer = d.flags & CU_TRSF_READ_AS_INTEGER || t.format == TexelFormat::u32 ||
                   t.format == TexelFormat::s32;
    t.srgb = d.flags & CU_TRSF_SRGB && t.format == TexelFormat::u8;
    memcpy(t.border, d.borderColor, sizeof t.border);
    // CUDA: only what comes as float can be filtered.
    const bool integer = t.format < TexelFormat::f16 && t.as_integer;
    return t.linear && integer && !t.fetch_only ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult create(CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
                const CUDA_TEXTURE_DESC *description, const CUDA_RESOURCE_VIEW_DESC *view)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!object || !resource || !description) return CUDA_ERROR_INVALID_VALUE;
    if (view) return CUDA_ERROR_NOT_SUPPORTED;
    auto made = std::make_shared<Object>();
    made->resource = *resource;
    made->description = *description;
    if (CUresult rc = set_resource(*made, *resource)) return rc;
    if (CUresult rc = set_description(made->texture, *description)) return rc;
    *object = reinterpret_cast<CUtexObject>(&made->texture);
    std::lock_guard lock(all_objects().mutex);
    all_objects().objects[*object] = std::move(made);
    return CUDA_SUCCESS;
}

// Kernels that were launched before may still use it.
CUresult destroy(CUtexObject object)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    std::shared_ptr<Object> gone;
    {
        std::lock_guard lock(all_objects().mutex);
        auto it = all_objects().objects.find(object);
        if (it == all_objects().objects.end()) return CUDA_ERROR_INVALID_VALUE;
        gone = std::move(it->second);
        all_objects().objects.erase(it);
    }
    c->streams.keep(std::move(gone));
    return CUDA_SUCCESS;
}

template <class T> CUresult get(T *out, CUtexObject object, T Object::*member)
{
    std::lock_guard lock(all_objects().mutex);
    auto it = all_objects().objects.find(object);
    if (!out || it == all_objects().objects.end()) return CUDA_ERROR_INVALID_VALUE;
    *out = (*it->second).*member;
    return CUDA_SUCCESS;
}

CUresult get_resource(CUDA_RESOURCE_DESC *out, CUtexObject object)
{
    return get(out, object, &Object::resource);
}
CUresult get_description(CUDA_TEXTURE_DESC *out, CUtexObject object)
{
    return get(out, object, &Object::description);
}

RGPU_EXPORT(cuTexObjectCreate, create)
RGPU_EXPORT(cuTexObjectDestroy, destroy)
RGPU_EXPORT(cuTexObjectGetResourceDesc, get_resource)
RGPU_EXPORT(cuTexObjectGetTextureDesc, get_description)

}  // namespace

}  // namespace rgpu::softgpu::driver
