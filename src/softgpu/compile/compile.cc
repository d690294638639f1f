// SPDX-License-Identifier: Apache-2.0
// LLVM IR text to machine code, with LLVM's C API.
#include "softgpu/compile/compile.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace {

// Frees what LLVM's C API hands out.
template <auto Dispose> struct Disposer {
    template <class T> void operator()(T *p) const { Dispose(p); }
};
template <class Ref, auto Dispose>
using Owned = std::unique_ptr<std::remove_pointer_t<Ref>, Disposer<Dispose>>;

struct Host {
    LLVMTargetRef target = nullptr;
    std::string triple, cpu, features, error;
};

const Host &host()
{
    static const Host h = [] {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeX86AsmParser();
        Host out;
        auto keep = [](char *s) {
            std::string copy = s;
            LLVMDisposeMessage(s);
            return copy;
        };
        out.triple = keep(LLVMGetDefaultTargetTriple());
        out.cpu = keep(LLVMGetHostCPUName());
        out.features = keep(LLVMGetHostCPUFeatures());
        char *message = nullptr;
        if (LLVMGetTargetFromTriple(out.triple.c_str(), &out.target, &message))
            out.error = keep(message);
        return out;
    }();
    return h;
}

int fail(char *error, size_t bytes, const char *what, const char *why)
{
    snprintf(error, bytes, "%s: %s", what, why ? why : "unknown");
    return 1;
}

// What a kernel needs of -O2, and no more: compiling happens at its first launch.
constexpr char kPasses[] =
    "function(sroa,early-cse,simplifycfg),always-inline,"
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>),"
    "cgscc(inline,function-attrs),"
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,reassociate,"
    "loop-mssa(loop-simplifycfg,licm,loop-rotate,licm,simple-loop-unswitch),simplifycfg,"
    "instcombine<no-verify-fixpoint>,"
    "loop(indvars,loop-deletion,loop-unroll-full),sroa,gvn,sccp,bdce,instcombine<no-verify-"
    "fixpoint>,adce,"
    "loop-mssa(licm),simplifycfg,instcombine<no-verify-fixpoint>),"
    "function(loop-simplify,lcssa,loop-rotate,loop-vectorize,instcombine<no-verify-fixpoint>,"
    "simplifycfg,slp-vectorizer,"
    "loop-unroll,instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg),globaldce";

// Puts `with` in the place of the first `pass`.
void replace_pass(std::string &list, std::string_view pass, std::string_view with)
{
    list.replace(list.find(pass), pass.size(), with);
}

// In a kernel that is cut, much is the same for all lanes of its loops: branches by such values are
// taken out of them, at the price of a second copy. Its loops over lanes are vectors already, so
// that to look for more vectors and to unroll costs half of the time of compiling and gains
// nothing.
const char *passes_for(LLVMModuleRef module)
{
    if (!LLVMGetNamedFunction(module, "rt_run_warps")) return kPasses;
    static const std::string cut = [] {
        std::string s = kPasses;
        replace_pass(s, "simple-loop-unswitch", "simple-loop-unswitch<nontrivial>");
        replace_pass(s, "slp-vectorizer,", "");
        replace_pass(s, "loop-unroll,", "");
        return s;
    }();
    return cut.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int rgpu_compile_ir(const char *ir, size_t bytes,
                                                                      rgpu_compile_done *done,
                                                                      void *context, char *error,
                                                                      size_t error_bytes)
{
    const Host &h = host();
    if (!h.target)
        return fail(error, error_bytes, "LLVM has no code generator for this host",
                    h.error.c_str());

    Owned<LLVMContextRef, LLVMContextDispose> ctx(LLVMContextCreate());
    // The text must end with a zero byte that is not counted; LLVM takes the buffer over.
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, bytes, "kernel");
    LLVMModuleRef raw = nullptr;
    char *message = nullptr;
    if (LLVMParseIRInContext(ctx.get(), buffer, &raw, &message)) {
        int rc = fail(error, error_bytes, "LLVM refuses the generated code", message);
        LLVMDisposeMessage(message);
        return rc;
    }
    Owned<LLVMModuleRef, LLVMDisposeModule> module(raw);
    Owned<LLVMTargetMachineRef, LLVMDisposeTargetMachine> machine(
        LLVMCreateTargetMachine(h.target, h.triple.c_str(), h.cpu.c_str(), h.features.c_str(),
                                LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall));
    LLVMSetTarget(module.get(), h.triple.c_str());
    Owned<LLVMTargetDataRef, LLVMDisposeTargetData> layout(
        LLVMCreateTargetDataLayout(machine.get()));
    LLVMSetModuleDataLayout(module.get(), layout.get());

    Owned<LLVMPassBuilderOptionsRef, LLVMDisposePassBuilderOptions> options(
        LLVMCreatePassBuilderOptions());
    LLVMPassBuilderOptionsSetLoopVectorization(options.get(), 1);
    LLVMPassBuilderOptionsSetSLPVectorization(options.get(), 1);
    const char *passes = getenv("RGPU_LLVM_PASSES");
    LLVMErrorRef failed = LLVMRunPasses(module.get(), passes ? passes : passes_for(module.get()),
                                        machine.get(), options.get());
    if (failed) {
        char *text = LLVMGetErrorMessage(failed);
        int rc = fail(error, error_bytes, "LLVM's passes", text);
        LLVMDisposeErrorMessage(text);
        return rc;
    }
    if (const char *path = getenv("RGPU_DUMP_OPTIMIZED"))
        LLVMPrintModuleToFile(module.get(), path, nullptr);

    LLVMMemoryBufferRef object = nullptr;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine.get(), module.get(), LLVMObjectFile, &message,
                                            &object)) {
        int rc = fail(error, error_bytes, "LLVM's code generator", message);
        LLVMDisposeMessage(message);
        return rc;
    }
    done(context, reinterpret_cast<const uint8_t *>(LLVMGetBufferStart(object)),
         LLVMGetBufferSize(object));
    LLVMDisposeMemoryBuffer(object);
    return 0;
}
