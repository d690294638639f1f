// Placeholder
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {
std::span<const Row> async_rows() { return {}; }
}  // namespace rgpu::softgpu::lower
