// SPDX-License-Identifier: Apache-2.0
// The PTX compiler of softgpu: PTX text in, what the driver must know and native objects out.
//
// Loading (PtxModule::parse) reads the whole module and checks every instruction against the
// instruction table; it generates no code. compile() makes one kernel, with the functions it
// calls, into an object. Where the functions whose addresses it may call are many, each is an
// object of its own, for which the engine asks at the first call (rt_function). A parsed module
// never changes and may be used by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/abi.h"
#include "util/result.h"

namespace rgpu::softgpu {

// An address inside a variable's initialiser: at `offset`, `size` bytes of
// (address of `symbol` + addend) >> shift, masked to size (0xFF(sym), generic(sym)).
struct AddressInit {
    size_t offset = 0, size = 8;
    std::string symbol;
    int64_t addend = 0;
    unsigned shift = 0;
    bool function = false;  // `symbol` is a device function or kernel, not a variable
};

enum class Linkage { internal, visible, weak, common, external };

// A .global or .const variable. `init` may be shorter than `size`: the rest is zero.
struct GlobalVariable {
    std::string name;
    size_t size = 0, align = 1;
    bool constant = false;  // .const
    bool managed = false;   // .attribute(.managed)
    Linkage linkage = Linkage::internal;
    std::vector<uint8_t> init;
    std::vector<AddressInit> addresses;
};

struct Parameter {
    size_t offset = 0, size = 0, align = 1;
};

struct Kernel {
    std::string name;
    std::vector<Parameter> parameters;
    size_t parameter_bytes = 0;
    uint32_t static_shared = 0;      // bytes, .shared variables it can reach
    uint32_t local_bytes = 0;        // .local per thread, itself and callees
    uint32_t registers = 0;          // an estimate, for cuFuncGetAttribute and occupancy
    Dim3 max_threads{0, 0, 0};       // .maxntid, 0 = none
    Dim3 required_threads{0, 0, 0};  // .reqntid, 0 = none
    Dim3 cluster{0, 0, 0};           // .reqnctapercluster, 0 = none
};

// What compile() gives. `object` is position independent and self-contained but for the symbols
// that abi.h names, so that it can be cached on disk by content.
struct CompiledKernel {
    std::vector<uint8_t> object;  // x86-64 ELF relocatable
    std::string entry;            // symbol of the entry
    bool per_thread = false;      // kind "thread" (see abi.h): needs fibers
    uint32_t stack_bytes = 0;     // what one thread may need, callees included
};

class PtxModule {
public:
    // Reads PTX text. Fails with `invalid` on a syntax error (line and text), `unsupported` on an
    // instruction, directive or version it does not know (the instruction's text in the message).
    static Result<std::shared_ptr<const PtxModule>> parse(std::string_view ptx);
    // Several modules' texts (-rdc=true, cuLink*) to the text of one. Fails with `invalid` on what
    // is no PTX and on a name that two modules define.
    static Result<std::string> link(const std::vector<std::string> &modules);
    // The text with `.maxnreg most` at every kernel (CU_JIT_MAX_REGISTERS): a kernel's own smaller
    // limit stays.
    static Result<std::string> limit_registers(std::string_view ptx, unsigned most);
    virtual ~PtxModule() = default;

    virtual int ptx_version() const = 0;  // 90 for .version 9.0
    virtual int target() const = 0;       // 80 for .target sm_80
    virtual const std::vector<Kernel> &kernels() const = 0;
    virtual const std::vector<GlobalVariable> &globals() const = 0;

    // A name under which the compiled kernel can be cached: changes with the kernel's code, what
    // it calls, the compiler's version and the host CPU. 64 hex digits.
    virtual std::string cache_key(std::string_view kernel) const = 0;
    virtual Result<CompiledKernel> compile(std::string_view kernel) const = 0;

    // The name of the function that a program calls through `address` with `signature`
    // (rt_function); empty: there is none. It lives as long as the module.
    virtual std::string_view find_function(uint64_t address, uint64_t signature) const = 0;
    // The same as the two above for such a function, as `kernel` calls it.
    virtual std::string function_key(std::string_view kernel, std::string_view function) const = 0;
    virtual Result<CompiledKernel> compile_function(std::string_view kernel,
                                                    std::string_view function) const = 0;
};

}  // namespace rgpu::softgpu
