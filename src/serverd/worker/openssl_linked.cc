#include "serverd/worker/openssl_linked.h"

namespace rgpu::worker {

Result<const net::Openssl *> linked_openssl()
{
    static const net::Openssl functions = [] {
        net::Openssl f;
#define RGPU_LINKED(name) f.name = &::name;
        RGPU_OPENSSL_FUNCTIONS(RGPU_LINKED)
#undef RGPU_LINKED
        return f;
    }();
    return &functions;
}

}  // namespace rgpu::worker
