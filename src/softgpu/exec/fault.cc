// SPDX-License-Identifier: Apache-2.0
// The signal handlers. A handler only notes what happened and restarts the fiber's stack in
// fault_on_fiber(), which may do everything: the fiber's own frames are never seen again.
#include "softgpu/exec/fault.h"

#include <cinttypes>
#include <cstdio>
#include <mutex>

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "softgpu/exec/block.h"
#include "softgpu/exec/instruction.h"
#include "softgpu/exec/report.h"

namespace rgpu::softgpu::exec {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction earlier[std::size(kSignals)];

// Read in signal handlers of any thread: must never allocate.
[[gnu::tls_model("initial-exec")]] thread_local Worker *t_worker = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local bool t_has_signal_stack = false;

constexpr uint64_t kPageFault = 14, kGeneralProtection = 13, kWrite = 2;

bool canonical(uint64_t address)
{
    auto high = static_cast<int64_t>(address) >> 47;
    return high == 0 || high == -1;
}

void fault_of_signal(const Worker &w, const Coroutine &stack, FaultKind &kind, std::string &what)
{
    char text[160];
    const char *verb = w.error & kWrite ? "writes to" : "reads";
    if (w.signal == SIGFPE) {
        kind = FaultKind::illegal_instruction;
        what = "arithmetic exception (division by zero)";
    } else if (w.signal == SIGILL || w.signal == SIGTRAP) {
        kind = FaultKind::illegal_instruction;
        what = "illegal instruction";
    } else if (stack.is_guard(w.address)) {
        kind = FaultKind::stack_overflow;
        what = "stack overflow: a thread has used all of its stack";
    } else if (w.trap == kGeneralProtection && w.address && canonical(w.address)) {
        kind = FaultKind::misaligned_address;
        snprintf(text, sizeof text, "misaligned address 0x%" PRIx64, w.address);
        what = text;
    } else {
        kind = FaultKind::illegal_address;
        snprintf(text, sizeof text, "illegal address: the kernel %s 0x%" PRIx64, verb, w.address);
        what = text;
    }
}

// Runs on the stack of the fiber at fault, from its top.
[[noreturn]] void fault_on_fiber(Worker *w)
{
    Block &block = *w->block;
    if (SegmentRun *run = block.segments.get(); run && run->running() && !run->searching()) {
        // Many lanes at once: another fault says which, and comes here again.
        const int signal = w->signal;
        const uint64_t address = w->address, error = w->error, trap = w->trap;
        run->search();
        w->signal = signal;
        w->address = address, w->error = error, w->trap = trap;
    }
    FaultKind kind;
    std::string what;
    fault_of_signal(*w, *block.running, kind, what);
    block.grid->fail(kind, w->address, what + " in " + where(block));
    // abandon() never returns and nothing unwinds: what owns memory must be gone before.
    std::string().swap(what);
    block.abandon();
}

void pass_on(int number, siginfo_t *info, void *context)
{
    for (size_t i = 0; i < std::size(kSignals); ++i) {
        if (kSignals[i] != number) continue;
        const struct sigaction &before = earlier[i];
        if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
        if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
            return before.sa_handler(number);
    }
    // As if we had never been: the instruction is run again, with the default action.
    signal(number, SIG_DFL);
    if (info->si_code <= 0) raise(number);
}

void on_signal(int number, siginfo_t *info, void *opaque)
{
    auto *context = static_cast<ucontext_t *>(opaque);
    Worker *w = t_worker;
    // Sent by somebody (kill, raise) rather than caused by an instruction: not the kernel's.
    bool caused = info->si_code > 0;
    if (!w || !w->block || !w->block->running || !caused) return pass_on(number, info, opaque);

    auto &registers = context->uc_mcontext.gregs;
    w->signal = number;
    w->address = reinterpret_cast<uint64_t>(info->si_addr);
    w->error = static_cast<uint64_t>(registers[REG_ERR]);
    w->trap = static_cast<uint64_t>(registers[REG_TRAPNO]);
    // (A jump to an address that is none leaves no instruction to read.)
    if (number == SIGSEGV && w->trap == kGeneralProtection &&
        canonical(static_cast<uint64_t>(registers[REG_RIP])))
        w->address = operand_address(*context).value_or(0);

    Coroutine &stack = *w->block->running;
    stack.about_to_restart();
    auto top = reinterpret_cast<uint64_t>(stack.top()) & ~uint64_t{15};
    registers[REG_RSP] = static_cast<greg_t>(top - 24);  // as if called: 8 below a multiple of 16
    registers[REG_RIP] = reinterpret_cast<greg_t>(&fault_on_fiber);
    registers[REG_RDI] = reinterpret_cast<greg_t>(w);
    registers[REG_EFL] &= ~greg_t{0x40500};  // direction, trap and alignment-check flags
}

void install()
{
    for (size_t i = 0; i < std::size(kSignals); ++i) {
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(kSignals[i], &action, &earlier[i]);
    }
}

// --- the stack that handlers run on: a fiber's own may be full

constexpr size_t kSignalStack = 64 * 1024;

void drop_signal_stack(void *stack)
{
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == stack) {
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }
    munmap(stack, kSignalStack);
}

void ensure_signal_stack()
{
    if (t_has_signal_stack) return;
    t_has_signal_stack = true;
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE) && now.ss_size >= 16384)
        return;
    static pthread_key_t key = [] {
        pthread_key_t k;
        pthread_key_create(&k, drop_signal_stack);
        return k;
    }();
    void *stack =
        mmap(nullptr, kSignalStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return;  // faults still are caught, all but stack overflow
    stack_t ours = {};
    ours.ss_sp = stack;
    ours.ss_size = kSignalStack;
    if (sigaltstack(&ours, nullptr) != 0 || pthread_setspecific(key, stack) != 0)
        munmap(stack, kSignalStack);
}

}  // namespace

WorkerScope::WorkerScope(uint32_t sm_id) : outer_(t_worker)
{
    static std::once_flag once;
    std::call_once(once, install);
    ensure_signal_stack();
    Coroutine::adopt_os_thread(worker.scheduler);
    worker.sm_id = sm_id;
    t_worker = &worker;
}

WorkerScope::~WorkerScope() { t_worker = outer_; }

}  // namespace rgpu::softgpu::exec
