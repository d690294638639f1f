# SPDX-License-Identifier: Apache-2.0
# The whole build of rgpu: non-recursive, objects out of tree, sources by wildcard.
#
#   make O=/tmp/b ...   another build directory (default ./build)
#   make WERROR=1 ...   warnings are errors (CI)
#   make V=1 ...        show the commands
#   make check T=t2010  one test
#
# A source file is picked up where it lies (src/<dir>/**/*.cc); nothing has to be listed here.

O ?= build
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' '$1' '$(patsubst $(O)/%,%,$@)';)

# --- configuration: made on the first run, from a fresh clone too

goals := $(or $(MAKECMDGOALS),all)
unconfigured := help clean distclean deps
ifneq ($(filter-out $(unconfigured),$(goals)),)
include config.mk
endif

config.mk: configure.ac config.mk.in
	@flock .configure.lock sh -c 'test $@ -nt configure.ac -a $@ -nt config.mk.in && exit; \
	    $(if $(filter demo demo-tensorflow check,$(goals)),contrib/install-deps-debian.sh || test "$$(id -u)" != 0;) \
	    { command -v autoconf >/dev/null || { echo "make: autoconf is missing: contrib/install-deps-debian.sh" >&2; exit 1; }; } && \
	    echo "  CONFIG   config.mk" && autoconf && ./configure --quiet $(CONFIGURE_FLAGS) && touch $@'; rc=$$?; rm -f .configure.lock; exit $$rc

# --- flags

comma := ,
SANITIZE ?=
sanitizer := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
paths := -DRGPU_VERSION='"$(VERSION)"' -DRGPU_SYSCONFDIR='"$(sysconfdir)/rgpu"' \
	-DRGPU_LIBDIR='"$(libdir)/rgpu"' -DRGPU_LIBEXECDIR='"$(libexecdir)"' -DRGPU_CUDA='"$(CUDA)"'
CPP = $(CPPFLAGS) -Isrc -isystem $(CUDA)/include $(if $(filter-out /usr,$(SLURM)),-isystem $(SLURM)/include) \
	$(TOML_CFLAGS) $(SPDLOG_CFLAGS) $(HTTPLIB_CFLAGS) $(paths)
# g++ 12 sees uninitialised members in every std::variant that holds a variant: that warning says nothing here.
# Nor may those stop CI that it gives about vectors which it sees into too deeply.
werror := -Werror -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread
# What distributions expect (t/t3510). Sanitizers bring checks of their own. FORTIFY needs an optimiser, which some objects go without.
fortify = $(if $(filter -O0,$(CXXFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
cf_protection = -fcf-protection
harden_compile = $(if $(SANITIZE),,-fstack-protector-strong $(cf_protection) $(fortify))
harden_link := $(if $(SANITIZE),,-Wl$(comma)-z$(comma)relro -Wl$(comma)-z$(comma)now -Wl$(comma)-z$(comma)noexecstack)
CXX_ALL = -std=c++20 $(CXXFLAGS) $(harden_compile) -Wall -Wextra -Wno-maybe-uninitialized $(if $(WERROR),$(werror)) -fPIC -fvisibility=hidden \
	-ffunction-sections -fdata-sections -pthread $(sanitizer)
LD_ALL = $(LDFLAGS) $(harden_link) -pthread -Wl,--as-needed -Wl,--gc-sections $(sanitizer)
# A sanitizer's runtime is in the program, not in a shared object: those have undefined symbols then.
complete := $(if $(SANITIZE),,-Wl,--no-undefined)

# What runs in other people's programs, or starts often, brings its C++ library with it. A sanitizer must see that one's locks, too.
own_runtime := $(if $(SANITIZE),,-static-libstdc++ -static-libgcc)

# What goes into the programs of others, in whatever container, needs glibc 2.28 only (t/t0014). Functions of threads
# and of dlopen are in these libraries there. Sanitizers bring functions of the same names.
glibc_objs = $(if $(SANITIZE),,$(call obj,src/glibc/older_symbols.cc src/glibc/newer_functions.cc))
glibc_start_obj = $(if $(SANITIZE),,$(call obj,src/glibc/start.cc))
glibc_libs = $(if $(SANITIZE),-ldl,-Wl$(comma)--push-state$(comma)--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl$(comma)--pop-state)

# What each part is linked with, from the outside world.
UTIL_LIBS = $(TOML_LIBS) $(SPDLOG_LIBS)
POOL_LIBS = $(MUNGE_LIBS) $(OPENSSL_LIBS) $(UTIL_LIBS)
DAEMON_LIBS = $(HTTPLIB_LIBS) $(SQLITE_LIBS) $(HWLOC_LIBS) $(PROMETHEUS_LIBS) $(POOL_LIBS)
SOFTGPU_LIBS = $(ZSTD_LIBS) $(LZ4_LIBS) -ldl -lm

# --- sources

sources := $(sort $(shell find src t/unit t/stress t/fuzz t/recorder -name '*.cc' 2>/dev/null))
under = $(filter $(addsuffix /%,$1),$(sources))
directly_in = $(sort $(wildcard $(addsuffix /*.cc,$1)))
obj = $(patsubst %.cc,$(O)/obj/%.o,$1)

archives := util calls wire net pool share health slurm view web
$(foreach a,$(archives),$(eval $a_objs := $(call obj,$(call under,src/$a))))
interpose_objs := $(call obj,$(call under,src/interpose))
# nvml.h comes with some toolkits only; without it there is no libnvidia-ml.so.1 (contrib/install-deps-debian.sh gets it).
NVML_INCLUDE ?= $(patsubst %/,%,$(dir $(firstword $(wildcard $(CUDA)/include/nvml.h /usr/local/include/nvml.h /usr/include/nvml.h))))
nvml_objs := $(if $(NVML_INCLUDE),$(call obj,$(call under,src/nvml) src/interpose/base/lease.cc src/interpose/base/addresses.cc src/interpose/base/log.cc))
nccl_objs := $(call obj,$(call under,src/nccl))
smi_objs := $(if $(NVML_INCLUDE),$(call obj,$(call under,src/smi)))
# The contract between rgpud and its workers is in both.
serverd_objs := $(call obj,$(call under,src/serverd))
rgpud_objs := $(serverd_objs) $(call obj,$(call under,src/rgpud))
scheduler_objs := $(call obj,$(call under,src/scheduler))
# src/worker/filter is a program of the build (make-filters).
worker_objs := $(serverd_objs) $(call obj,$(filter-out src/worker/filter/%,$(call under,src/worker)))
spawner_objs := $(call obj,$(call under,src/spawner))
cli_objs := $(call obj,$(call under,src/cli))
spank_objs := $(call obj,$(call under,src/plugin/spank))
job_submit_objs := $(call obj,$(call under,src/plugin/job_submit))
# PTX is read and lowered in the driver; librgpu-ptx.so alone links LLVM and turns its IR into code.
softgpu_text_objs := $(call obj,$(call directly_in,src/softgpu) $(call under,src/softgpu/ptx src/softgpu/lower))
softgpu_objs := $(softgpu_text_objs) $(call obj,$(call under,src/softgpu/driver src/softgpu/exec))
softgpu_ptx_objs := $(call obj,$(call under,src/softgpu/compile))
softgpu_nvml_objs := $(call obj,$(call under,src/softgpu/nvml))

archive = $(patsubst %,$(O)/lib%.a,$1)
# A part that has no sources yet is no product yet.
product = $(if $(strip $1),$(O)/$2)

INTERPOSE := $(call product,$(interpose_objs),lib/interpose/libcuda.so.1)
NVML := $(call product,$(nvml_objs),lib/interpose/libnvidia-ml.so.1)
NCCL := $(call product,$(nccl_objs),lib/interpose/nccl/libnccl.so.2)
SMI := $(call product,$(smi_objs),lib/smi/nvidia-smi)
# Stands for ptxas in jobs whose GPUs are software GPUs.
PTXAS := $(O)/lib/ptx/bin/ptxas
SOFTGPU := $(call product,$(softgpu_objs),lib/softgpu/libcuda.so.1)
SOFTGPU_PTX := $(call product,$(softgpu_ptx_objs),lib/softgpu/librgpu-ptx.so)
SOFTGPU_NVML := $(call product,$(softgpu_nvml_objs),lib/softgpu/libnvidia-ml.so.1)
RGPUD := $(call product,$(rgpud_objs),sbin/rgpud)
WORKER := $(call product,$(worker_objs),libexec/rgpu-worker)
SPAWNER := $(call product,$(spawner_objs),libexec/rgpu-spawner)
SCHEDULER := $(call product,$(scheduler_objs),libexec/rgpu-scheduler)
CLI := $(call product,$(cli_objs),bin/rgpu)
SPANK := $(call product,$(spank_objs),lib/slurm/spank_rgpu.so)
# A libcuda.so.1 for tests that notes its calls.
RECORDER := $(O)/t/recorder/libcuda.so.1
JOB_SUBMIT := $(call product,$(job_submit_objs),lib/slurm/job_submit_rgpu.so)
PRODUCTS := $(call archive,$(archives)) $(INTERPOSE) $(NVML) $(NCCL) $(SMI) $(SOFTGPU) $(SOFTGPU_PTX) $(SOFTGPU_NVML) $(RGPUD) $(WORKER) $(SPAWNER) \
	$(SCHEDULER) $(CLI) $(PTXAS) \
	$(SPANK) $(JOB_SUBMIT)

.PHONY: all libs nvml interpose softgpu serverd cli plugin
all: $(PRODUCTS) ## build everything but the tests (the default)
	@:
libs: $(call archive,$(archives)) ## the static libraries
nvml: $(NVML) $(SMI) ## libnvidia-ml.so.1 for the user's program, and nvidia-smi
interpose: $(INTERPOSE) $(NCCL) ## libcuda.so.1 and libnccl.so.2 for the user's program
softgpu: $(SOFTGPU) $(SOFTGPU_PTX) $(SOFTGPU_NVML) ## libcuda.so.1, the software GPU, and its libnvidia-ml.so.1
serverd: $(RGPUD) $(WORKER) $(SPAWNER) $(SCHEDULER) ## rgpud, rgpu-worker, rgpu-spawner and rgpu-scheduler
cli: $(CLI) ## the rgpu command
plugin: $(SPANK) $(JOB_SUBMIT) ## the Slurm plugins

# --- rules

$(O)/obj/src/nvml/% $(O)/obj/src/smi/% $(O)/obj/t/unit/nvml/% $(O)/obj/t/unit/smi/%: CPP += -isystem $(NVML_INCLUDE)
$(O)/obj/src/softgpu/compile/%: CPP += -isystem $(LLVM_INCLUDE)

# The page's files are in the object, as .incbin has them: the compiler tells nobody of these.
$(O)/obj/src/web/pages.o: $(wildcard src/web/page/*)

# Where UCX's headers are. Elsewhere the transport says that it was left out.
$(O)/obj/src/net/ucx/ucx_%: CPP += $(if $(filter yes,$(UCX)),-DRGPU_UCX)

# rgpu slurm setup: Slurm's configuration, and the files of etc/ as they are installed.
$(O)/obj/src/cli/slurm/setup.o: CPP += -DRGPU_SLURM_CONF='"$(slurm_sysconfdir)/slurm.conf"' -DRGPU_LINES_DIR='"$(datadir)/rgpu/etc"'

# What a cached kernel's code depends on, as a number: a changed compiler makes its own.
compiler_sources := $(sort $(wildcard src/softgpu/abi.h src/softgpu/ptx/* src/softgpu/lower/* src/softgpu/compile/*))
$(O)/obj/src/softgpu/lower/sources.o: $(compiler_sources)
$(O)/obj/src/softgpu/lower/sources.o: CPP += -DRGPU_COMPILER_SOURCES='"$(shell cat $(compiler_sources) | sha256sum | cut -c1-16)"'

# Coroutines change stacks by a jump: neither shadow stacks nor indirect branch tracking would let them.
$(O)/obj/src/softgpu/exec/coroutine.o: cf_protection = -fcf-protection=none

# A template for each line of the table: optimised, they take minutes to compile.
$(O)/obj/t/recorder/% $(O)/obj/t/unit/recorder/%: CXXFLAGS += -O0 -g0
# But not what stands around each input of a fuzz target. Its copies of inline functions are the ones that get linked.
$(O)/obj/t/unit/recorder/support.%: CXXFLAGS += -O2
# libFuzzer reads all counters after each input. Those of tests' own code tell it nothing. Comparisons it sees
# where mutations do not know an input's form.
libfuzzer := $(findstring fuzzer-no-link,$(SANITIZE))
$(O)/obj/t/recorder/% $(O)/obj/t/unit/%: sanitizer += $(if $(libfuzzer),-fno-sanitize=fuzzer-no-link)
$(O)/obj/src/worker/% $(O)/obj/t/fuzz/frames.%: sanitizer += $(if $(libfuzzer),-fno-sanitize-coverage=trace-cmp)
$(O)/obj/t/recorder/% $(O)/obj/t/unit/recorder/% $(O)/obj/t/fuzz/%: CPP += -I. -DRGPU_RECORDER='"$(abspath $(RECORDER))"'

$(O)/obj/%.o: %.cc
	$(call say,CXX)mkdir -p $(@D) && $(CXX) $(CPP) $(CXX_ALL) -MMD -MP -c $< -o $@

-include $(patsubst %.o,%.d,$(call obj,$(sources)))

# The commit: of the clone, or as contrib/release has written it into a tarball. One source file has it.
commit := $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),$(shell cat COMMIT 2>/dev/null))
$(O)/commit: FORCE
	@mkdir -p $(@D) && echo '$(commit)' | cmp -s - $@ || echo '$(commit)' > $@
$(call obj,src/util/version.cc): $(O)/commit
$(call obj,src/util/version.cc): CPPFLAGS += -DRGPU_COMMIT='"$(commit)"'
.PHONY: FORCE
FORCE:

define archive_rule
$(O)/lib$1.a: $$($1_objs)
	$$(call say,AR)mkdir -p $$(@D) && rm -f $$@ && $$(AR) rcs $$@ $$($1_objs)
endef
$(foreach a,$(archives),$(eval $(call archive_rule,$a)))

# link(kind flags, libraries): the objects and archives among the prerequisites, archives in any order.
link = mkdir -p $(@D) && $(CXX) $(LD_ALL) $1 -o $@ $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $2
map = $(wildcard $1)
# Threads of a driver run on after dlclose: it is never unmapped, as NVIDIA's is not.
driver_flags = -Wl$(comma)-soname$(comma)libcuda.so.1 -Wl$(comma)-z$(comma)nodelete
version_script = $(addprefix -Wl$(comma)--version-script=,$(filter %.map,$^))

$(O)/lib/interpose/libcuda.so.1: $(interpose_objs) $(glibc_objs) $(call archive,net wire calls util) $(call map,src/interpose/libcuda.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script) $(driver_flags) \
	    $(own_runtime) -Wl$(comma)--exclude-libs$(comma)ALL,$(glibc_libs)) && ln -sf libcuda.so.1 $(@D)/libcuda.so

$(O)/lib/interpose/libnvidia-ml.so.1: $(nvml_objs) $(glibc_objs) $(call archive,net wire calls util) $(call map,src/nvml/libnvidia-ml.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script) -Wl$(comma)-soname$(comma)libnvidia-ml.so.1 \
	    $(own_runtime) -Wl$(comma)--exclude-libs$(comma)ALL,$(glibc_libs))

$(O)/lib/interpose/nccl/libnccl.so.2: $(nccl_objs) $(glibc_objs) $(call map,src/nccl/libnccl.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script) -Wl$(comma)-soname$(comma)libnccl.so.2 \
	    $(own_runtime) -Wl$(comma)--exclude-libs$(comma)ALL,$(glibc_libs))

$(PTXAS): contrib/softgpu-ptxas
	@mkdir -p $(@D) && install $< $@
$(O)/lib/smi/nvidia-smi: $(smi_objs) $(glibc_objs) $(glibc_start_obj) $(call archive,util)
	$(call say,LD)$(call link,-pie $(own_runtime),$(glibc_libs))

$(O)/lib/softgpu/libcuda.so.1: $(softgpu_objs) $(call archive,calls util) $(call map,src/softgpu/libcuda.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script) $(driver_flags),\
	    $(SOFTGPU_LIBS)) && ln -sf libcuda.so.1 $(@D)/libcuda.so

$(O)/lib/softgpu/librgpu-ptx.so: $(softgpu_ptx_objs) $(call map,src/softgpu/librgpu-ptx.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script),$(LLVM_LIBS) -lm)

$(O)/lib/softgpu/libnvidia-ml.so.1: $(softgpu_nvml_objs) $(call archive,calls util) $(call map,src/softgpu/nvml/libnvidia-ml.map)
	$(call say,LD)$(call link,-shared $(complete) $(version_script) -Wl$(comma)-soname$(comma)libnvidia-ml.so.1,-ldl)

$(O)/sbin/rgpud: $(rgpud_objs) $(O)/obj/libspawner.a $(call archive,net wire calls pool share health view util)
	$(call say,LD)$(call link,-pie,$(DAEMON_LIBS))

# Workers' filters of system calls, made by libseccomp now, as a worker would take a tenth longer to start.
filter_objs := $(call obj,$(call under,src/worker/filter))
$(O)/obj/make-filters: $(filter_objs)
	$(call say,LD)$(call link,,$(SECCOMP_LIBS))
$(O)/obj/filters/worker_filters.inc: $(O)/obj/make-filters
	$(call say,GEN)mkdir -p $(@D) && $< > $@.new && mv $@.new $@
$(O)/obj/src/worker/limits/confine.o: $(O)/obj/filters/worker_filters.inc
$(O)/obj/src/worker/limits/confine.o: CPP += -I$(O)/obj/filters

# One is started for each program: what it does not link, it need not load (t/t3015).
$(O)/libexec/rgpu-worker: $(worker_objs) $(call archive,net wire calls pool share util)
	$(call say,LD)$(call link,-pie $(own_runtime),$(UTIL_LIBS) -ldl)

# Root's: it links nothing that it does not need.
$(O)/libexec/rgpu-spawner: $(spawner_objs) $(call archive,view util)
	$(call say,LD)$(call link,-pie $(own_runtime))

$(O)/libexec/rgpu-scheduler: $(scheduler_objs) $(call archive,share util)
	$(call say,LD)$(call link,-pie $(own_runtime))

# Below the directory beside bin/ the client bundle has the libraries that it needs; elsewhere there is no such directory.
$(O)/bin/rgpu: $(cli_objs) $(call archive,web net wire calls slurm pool health view util)
	$(call say,LD)$(call link,-pie -Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)'$$ORIGIN/../lib/rgpu/deps',$(DAEMON_LIBS))

# What the plugins leave undefined is Slurm's own, found in the process that loads them.
$(O)/lib/slurm/spank_rgpu.so: $(spank_objs) $(call archive,slurm view util) $(call map,src/plugin/spank/spank_rgpu.map)
	$(call say,LD)$(call link,-shared $(version_script) $(own_runtime) \
	    -Wl$(comma)--exclude-libs$(comma)ALL)

$(O)/lib/slurm/job_submit_rgpu.so: $(job_submit_objs) $(call archive,slurm util) $(call map,src/plugin/job_submit/job_submit_rgpu.map)
	$(call say,LD)$(call link,-shared $(version_script) $(own_runtime) \
	    -Wl$(comma)--exclude-libs$(comma)ALL)

# --- unit tests: t/unit/<dir>/<file>_test.cc, one program each

# Those of nvml only where there is an nvml.h.
unit_sources := $(filter-out $(if $(NVML_INCLUDE),,t/unit/nvml/% t/unit/smi/%),$(filter t/unit/%_test.cc,$(sources)))
unit_program = $(patsubst t/unit/%.cc,$(O)/t/%,$1)
UNIT := $(call unit_program,$(unit_sources))

# The objects of a part that is no archive, for its tests: all but main(), as an archive, so that a
# test gets only what it uses.
no_main = $(filter-out %/main.o,$1)
interpose_all := $(interpose_objs)
serverd_all := $(serverd_objs)
rgpud_all := $(rgpud_objs)
worker_all := $(worker_objs)
scheduler_all := $(scheduler_objs)
cli_all := $(cli_objs)
spawner_all := $(spawner_objs)
nvml_all := $(nvml_objs)
plugin_all := $(sort $(spank_objs) $(job_submit_objs))
softgpu_all := $(sort $(softgpu_objs) $(softgpu_ptx_objs))
smi_all := $(smi_objs)
parts := interpose nvml smi serverd rgpud worker spawner scheduler cli plugin softgpu
define part_rule
$(O)/obj/lib$1.a: $$(call no_main,$$($1_all))
	$$(call say,AR)mkdir -p $$(@D) && rm -f $$@ && $$(AR) rcs $$@ $$(call no_main,$$($1_all))
endef
$(foreach p,$(parts),$(eval $(call part_rule,$p)))

unit_archives_util := $(call archive,util)
unit_archives_calls := $(call archive,calls util)
unit_archives_wire := $(call archive,wire calls util)
unit_archives_net := $(call archive,net wire calls util)
unit_archives_pool := $(call archive,pool util)
unit_archives_share := $(call archive,share util)
unit_archives_scheduler := $(O)/obj/libscheduler.a $(call archive,share util)
unit_archives_health := $(call archive,health pool util)
unit_archives_nvml = $(O)/obj/libnvml.a $(unit_archives_net)
unit_archives_smi = $(O)/obj/libsmi.a $(call archive,util)
unit_archives_slurm := $(call archive,slurm pool util)
unit_archives_interpose := $(O)/obj/libinterpose.a $(unit_archives_net)
unit_archives_serverd := $(O)/obj/libserverd.a $(unit_archives_net) $(call archive,pool share)
unit_archives_rgpud := $(O)/obj/librgpud.a $(O)/obj/libspawner.a $(unit_archives_net) $(call archive,pool share health view)
unit_archives_worker := $(O)/obj/libworker.a $(unit_archives_net) $(call archive,pool share)
unit_archives_spawner := $(O)/obj/libspawner.a $(call archive,view util)
unit_archives_cli := $(O)/obj/libcli.a $(unit_archives_net) $(call archive,web slurm pool health view)
unit_archives_web := $(call archive,web slurm pool util)
unit_archives_view := $(call archive,view util)
unit_archives_recorder := $(call obj,t/unit/recorder/support.cc) $(O)/obj/libworker.a $(O)/obj/libinterpose.a \
	$(unit_archives_net) $(call archive,pool share)
unit_archives_glibc := $(call obj,src/glibc/newer_functions.cc)
unit_archives_plugin := $(O)/obj/libplugin.a $(call archive,slurm view util)
unit_archives_softgpu := $(O)/obj/libsoftgpu.a $(call archive,calls util)
unit_libs_util = $(UTIL_LIBS)
unit_libs_net = $(OPENSSL_LIBS)
unit_libs_pool = $(POOL_LIBS)
unit_libs_slurm = $(POOL_LIBS)
unit_libs_serverd = $(UTIL_LIBS)
unit_libs_rgpud = $(DAEMON_LIBS) -ldl
unit_libs_worker = $(UTIL_LIBS) -ldl
unit_libs_cli = $(DAEMON_LIBS)
unit_libs_web = $(POOL_LIBS)
unit_libs_recorder = $(DAEMON_LIBS) -ldl
unit_libs_softgpu = $(SOFTGPU_LIBS) $(LLVM_LIBS)

unit_dir = $(firstword $(subst /, ,$1))
define unit_rule
$(call unit_program,$1): $(call obj,$1) $$(unit_archives_$(call unit_dir,$(1:t/unit/%=%)))
	$$(call say,LD)$$(call link,-Wl$$(comma)--no-gc-sections,$$(unit_libs_$(call unit_dir,$(1:t/unit/%=%))) $$(UTIL_LIBS) $$(CRITERION_LIBS))
endef
$(foreach s,$(unit_sources),$(eval $(call unit_rule,$s)))

$(RECORDER): $(call obj,$(call under,t/recorder))
	$(call say,LD)$(call link,-shared $(complete) -Wl$(comma)-soname$(comma)libcuda.so.1)

$(filter $(O)/t/recorder/%_test,$(UNIT)): | $(RECORDER)

# Programs of threads for the thread sanitizer: t/stress/<part>_stress.cc, with no more of that part than they need.
stress_sources := $(filter t/stress/%,$(sources))
stress_needs_net := $(unit_archives_net)
stress_needs_share := $(unit_archives_share)
stress_needs_softgpu := $(call obj,$(call under,src/softgpu/exec)) $(call archive,util)
stress_needs_serverd := $(call obj,src/worker/limits/turn.cc src/worker/driver/driver.cc) $(call archive,share calls util)
define stress_rule
$(patsubst t/stress/%.cc,$(O)/t/stress/%,$1): $(call obj,$1) $$(stress_needs_$(patsubst t/stress/%_stress.cc,%,$1))
	$$(call say,LD)$$(call link,-rdynamic,-ldl)
endef
$(foreach s,$(stress_sources),$(eval $(call stress_rule,$s)))
.PHONY: stress
stress: $(patsubst t/stress/%.cc,$(O)/t/stress/%,$(stress_sources)) ## build the programs of threads that check-tsan runs
	@:

# Programs of libFuzzer, which clang alone has (t/fuzz/README.md): t/fuzz/<parser>.cc, with what they read by.
fuzz_sources := $(filter t/fuzz/%,$(sources))
fuzz_needs_snapshot := $(unit_archives_wire)
fuzz_needs_diff := $(unit_archives_wire)
fuzz_needs_packed := $(unit_archives_net)
fuzz_needs_lanes := $(unit_archives_net)
fuzz_needs_hello := $(unit_archives_net)
fuzz_needs_request := $(call obj,src/rgpud/ports/request_head.cc) $(call archive,pool wire util)
fuzz_needs_answer := $(call archive,pool util)
fuzz_needs_lease := $(call obj,$(addprefix src/interpose/base/,lease.cc log.cc)) $(call archive,view net wire calls util)
fuzz_needs_board := $(unit_archives_share)
fuzz_needs_ptx := $(call obj,$(call under,src/softgpu/ptx)) $(call archive,calls util)
fuzz_needs_frames := $(unit_archives_recorder)
fuzz_needs_replies := $(unit_archives_recorder)
fuzz_program = $(patsubst t/fuzz/%.cc,$(O)/fuzz/%,$1)
define fuzz_rule
$(call fuzz_program,$1): $(call obj,$1) $$(fuzz_needs_$(patsubst t/fuzz/%.cc,%,$1))
	$$(call say,LD)$$(call link,-fsanitize=fuzzer -rdynamic,$$(DAEMON_LIBS) $$(SOFTGPU_LIBS) -ldl -latomic)
endef
$(foreach s,$(fuzz_sources),$(eval $(call fuzz_rule,$s)))
$(O)/fuzz/frames $(O)/fuzz/replies: | $(RECORDER)
.PHONY: fuzz-programs
fuzz-programs: $(filter $(addprefix $(O)/fuzz/,$(or $(T),%)),$(call fuzz_program,$(fuzz_sources)))
	@:

# A sanitized build is long: T is all that it builds where it names a program or a folder, as it does for run-checks.
units_wanted = $(if $(SANITIZE),$(or $(filter $(O)/t/%/$(T) $(O)/t/$(T)/%,$(UNIT)),$(UNIT)),$(UNIT))
.PHONY: unit
unit: $(units_wanted) ## build the unit tests (unit-util, unit-wire ... build and run those of one folder)
	@:

unit_dirs := $(sort $(foreach s,$(unit_sources),$(call unit_dir,$(s:t/unit/%=%))))
define unit_dir_rule
.PHONY: unit-$1
unit-$1: $$(filter $(O)/t/$1/%,$$(UNIT))
	@for test in $$^; do echo "# $$$$test"; $$$$test || rc=1; done; exit $$$${rc:-0}
endef
$(foreach d,$(unit_dirs),$(eval $(call unit_dir_rule,$d)))

# --- CUDA programs: examples and tests, each with static and with shared cudart

# CXX may be "ccache g++".
NVCC = $(CUDA)/bin/nvcc -ccbin $(lastword $(filter-out -%,$(CXX)))
NVCCFLAGS ?= -O2 -std=c++17 -gencode arch=compute_80,code=[sm_80,compute_80]
cuda_sources := $(sort $(wildcard contrib/examples/*.cu t/cuda/*.cu))
cuda_names := $(basename $(notdir $(cuda_sources)))
EXAMPLES := $(foreach s,$(filter contrib/%,$(cuda_sources)),$(foreach k,static shared,$(O)/cuda/$(basename $(notdir $s))-$k))
CUDA_PROGRAMS := $(foreach n,$(cuda_names),$(O)/cuda/$n-static $(O)/cuda/$n-shared)

nvcc = mkdir -p $(@D) && $(NVCC) $(NVCCFLAGS) -cudart $1 -o $@ $< -L$(CUDA)/lib64/stubs \
	-Xlinker --as-needed -lcuda
$(O)/cuda/%-static: contrib/examples/%.cu
	$(call say,NVCC)$(call nvcc,static)
$(O)/cuda/%-shared: contrib/examples/%.cu
	$(call say,NVCC)$(call nvcc,shared)
$(O)/cuda/%-static: t/cuda/%.cu t/cuda/check.h
	$(call say,NVCC)$(call nvcc,static)
$(O)/cuda/%-shared: t/cuda/%.cu t/cuda/check.h
	$(call say,NVCC)$(call nvcc,shared)

# Small programs, one a feature of the driver, as PTX alone: t/cuda/features/NAME.cu, or a folder of several files that
# are linked (-rdc=true). NAME_sm90 needs compute capability 9.0, the others 8.0.
FEATURES := $(patsubst t/cuda/features/%.cu,$(O)/cuda/features/%,$(sort $(wildcard t/cuda/features/*.cu))) \
	$(patsubst t/cuda/features/%/main.cu,$(O)/cuda/features/%,$(sort $(wildcard t/cuda/features/*/main.cu)))
feature_arch = compute_$(if $(filter %_sm90,$*),90,80)
nvcc_feature = mkdir -p $(@D) && $(NVCC) -O2 -std=c++17 -gencode arch=$(feature_arch),code=$(feature_arch) -cudart static $1 \
	-o $@ $(filter %.cu,$^) -L$(CUDA)/lib64/stubs -lcuda
$(O)/cuda/features/%: t/cuda/features/%.cu t/cuda/features/check.h t/cuda/check.h
	$(call say,NVCC)$(call nvcc_feature)
$(O)/cuda/features/%: t/cuda/features/%/main.cu t/cuda/features/%/part.cu t/cuda/features/%/part.cuh
	$(call say,NVCC)$(call nvcc_feature,-rdc=true)

.PHONY: examples cuda venv
examples: $(EXAMPLES) ## the CUDA examples, static and shared cudart
	@:
$(O)/gpu/facts: t/gpu/facts.cu
	$(call say,NVCC)mkdir -p $(@D) && $(NVCC) -O2 -std=c++17 -gencode arch=compute_75,code=compute_75 -cudart static \
	    -o $@ $< -L$(CUDA)/lib64/stubs -lcuda
cuda: $(CUDA_PROGRAMS) $(FEATURES) $(O)/gpu/facts ## all CUDA programs: examples and those of the tests
	@:

# --- benchmarks: t/bench/*.bench, each with the programs that it names, built from t/bench/

bench_programs := $(O)/bench/softgpu $(O)/bench/meetings $(O)/bench/typical.ptx $(O)/bench/beside $(O)/bench/stream
$(O)/bench/host-plain.o $(O)/bench/host-native.o: $(O)/bench/host-%.o: t/bench/host.cc t/bench/host.h
	$(call say,CXX)mkdir -p $(@D) && $(CXX) -std=c++20 -O3 $(if $(filter native,$*),-march=native) -DHOST_SUFFIX=$* -c $< -o $@
$(O)/bench/softgpu $(O)/bench/meetings: t/bench/must.h
$(O)/bench/softgpu: t/bench/softgpu.cu $(O)/bench/host-plain.o $(O)/bench/host-native.o
	$(call say,NVCC)$(NVCC) $(NVCCFLAGS) -cudart static -o $@ $(filter-out %.h,$^) -L$(CUDA)/lib64/stubs -lcuda
$(O)/bench/meetings: t/bench/meetings.cu
	$(call say,NVCC)mkdir -p $(@D) && $(NVCC) $(NVCCFLAGS) -cudart static -o $@ $<
$(O)/bench/beside: t/bench/beside.cc
	$(call say,CXX)mkdir -p $(@D) && $(CXX) -std=c++20 -O2 -pthread -I$(CUDA)/include $< -o $@ -L$(CUDA)/lib64/stubs -lcuda
$(O)/bench/stream: t/bench/stream.cc
	$(call say,CXX)mkdir -p $(@D) && $(CXX) -std=c++20 -O2 $< -o $@
$(O)/bench/typical.ptx: t/bench/typical.cu
	$(call say,NVCC)mkdir -p $(@D) && $(NVCC) -arch=compute_80 -ptx -o $@ $<

.PHONY: bench bench-sharing bench-transport
bench-sharing: ## measure shares of a GPU over time, and draw doc/sharing.svg (or PLOT=FILE)
	+@$(sub_make) all $(O)/cuda/tenant-static
	@$(tests_env) RGPU_PLOT=$(or $(PLOT),doc/sharing.svg) t/lib/run-benches sharing

bench-transport: ## measure what calls and copies cost, and draw doc/performance.svg (or PLOT=FILE)
	+@$(sub_make) all
	@$(tests_env) RGPU_PLOT=$(or $(PLOT),doc/performance.svg) t/lib/run-benches transport

bench: ## print the figures that matter beside their references; ARGS=--json, ARGS=softgpu
	+@$(sub_make) all $(bench_programs) $(O)/cuda/tenant-static $(O)/cuda/features/stream_memory
	@$(tests_env) t/lib/run-benches $(ARGS)

# --- the Python client: its packages come from PyPI, at the pinned versions

venv: $(O)/venv/.done ## the virtual environment for contrib/examples/train.py (needs network)
	@:
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
$(O)/venv/.done: contrib/examples/requirements.txt
$(O)/venv-tensorflow/.done: contrib/examples/requirements-tensorflow.txt
$(O)/venv/.done $(O)/venv-tensorflow/.done:
	$(call say,VENV)rm -rf $(@D) && mkdir -p $(O) && $(PYTHON) -m venv $(@D) && \
	    $(@D)/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@

# --- checks

.PHONY: check check-long check-trixie check-asan check-tsan demo deps
tests_env = RGPU_BUILD=$(abspath $(O)) RGPU_CUDA_LIBDIR=$(CUDA)/lib64

# Without root, or elsewhere than on Debian, what is missing may still be there in another way: configure decides.
install_deps = { ! command -v dpkg-query >/dev/null || contrib/install-deps-debian.sh || test "$$(id -u)" != 0; }
deps:
	@$(install_deps)

# All processors, where the user's make was not told how many.
all_jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
sub_make = $(MAKE) --no-print-directory $(all_jobs)

check: deps ## build and run all tests; T=t2010 or T=frame_test for some of them
	+@$(sub_make) all unit cuda venv
	@$(tests_env) t/lib/run-checks $(T)

check-long: deps ## what make check does, and what takes too long for it (t/long/); T= as there
	+@$(sub_make) all unit cuda venv
	@$(tests_env) RGPU_LONG=1 t/lib/run-checks $(T)

# debian-root builds what `make all` does.
check-trixie: ## the Slurm tests in Debian 13, with its Slurm: a root of its own below build-trixie/ (as root); T= as there
	@contrib/debian-root $(O)-trixie sh -c 'make -j"$${JOBS:-$$(nproc)}" cuda venv && t/lib/run-checks "$$@"' sh $(or $(T),t4)

# With T= only what it names is built: a program, or a folder of them.
sanitized = $(sub_make) O=$(O)-$1 SANITIZE="$2"
# CUDA's enumerations hold whatever a program or a server says, which compilers allow without -fstrict-enums.
address_and_undefined := address$(comma)undefined -fno-sanitize=enum
named_units = $(or $(if $(T),$(patsubst $(O)/%,$(O)-$1/%,$(filter %/$(T) $(O)/t/$(T)/%,$(UNIT)))),unit)
check-asan: ## with address and undefined-behaviour sanitizers: unit tests, and the suites that play a hostile peer; T=softgpu, T=frame_test, T=hostile
ifneq ($(T),hostile)
	+@$(call sanitized,asan,$(address_and_undefined)) $(call named_units,asan)
	@LSAN_OPTIONS=suppressions=t/lib/lsan.supp:print_suppressions=0 RGPU_BUILD=$(abspath $(O))-asan t/lib/run-checks --unit-only $(T)
endif
ifneq ($(filter hostile,$(or $(T),hostile)),)
	+@$(sub_make) all cuda
	+@$(call sanitized,asan,$(address_and_undefined)) interpose serverd cli
	@$(tests_env) RGPU_ASAN=$(abspath $(O))-asan t/asan/t3530-hostile.t
endif

# glibc's sys/platform/x86.h has _Bool, which clang does not know in C++.
FUZZ_CXX ?= $(firstword $(foreach c,clang++-19 clang++,$(if $(shell command -v $c),$c)))
# Programs of the build write no profile where it runs.
fuzz_build = LLVM_PROFILE_FILE=/dev/null $(sub_make) O=$(O)-fuzz CXX="$(FUZZ_CXX) -fprofile-instr-generate -fcoverage-mapping -D_Bool=bool -Wno-unknown-warning-option" \
	SANITIZE="fuzzer-no-link$(comma)$(address_and_undefined)" fuzz-programs
fuzz_targets = $(or $(T),$(patsubst t/fuzz/%.cc,%,$(fuzz_sources)))
.PHONY: fuzz fuzz-coverage
fuzz: ## fuzz the parsers of what others send, a minute each; T=ptx: one; TIME=600: seconds; RUNS=10000000: so many inputs; SEED=1: the same each time; ARGS=-max_len=256: libFuzzer's options
	@test -n "$(FUZZ_CXX)" || { echo "make fuzz: needs clang 19 with libFuzzer: apt install clang-19 libclang-rt-19-dev" >&2; exit 1; }
	+@$(fuzz_build)
	@t/fuzz/run $(O)-fuzz "$(fuzz_targets)" "$(TIME)" "$(RUNS)" "$(SEED)" "$(ARGS)"
fuzz-coverage: ## which lines of the parsers the inputs reach that make fuzz has kept; T= as there
	+@$(fuzz_build)
	@t/fuzz/coverage $(O)-fuzz $(fuzz_targets)

# Not the unit tests: Criterion does not start under it.
check-tsan: ## with the thread sanitizer: programs of threads (t/stress), and both ends of remote CUDA programs, and rgpud (t/tsan)
	+@$(sub_make) all cuda
	+@$(call sanitized,tsan,thread) stress interpose serverd
	@for program in $(patsubst t/stress/%.cc,$(O)-tsan/t/stress/%,$(stress_sources)); do echo "stress $$program"; $$program || exit 1; done
	@for t in t/tsan/t*.t; do $(tests_env) RGPU_TSAN=$(abspath $(O))-tsan $$t || exit 1; done

# t/t0004-house.t holds the layout. Scripts of Python have a suffix or name it in their first line.
.PHONY: format format-check
cxx_files = $(shell git ls-files 'src/*.cc' 'src/*.h' 't/*.cc' 't/*.h' 't/*.cu' 't/*.c')
python_files = $(shell git ls-files '*.py'; git grep -lI '^\#!.*python' -- contrib t ':!*.t')
format: ## lay out C++, CUDA and Python sources (.clang-format, pyproject.toml)
	@printf '%s\n' $(cxx_files) | xargs -P"$$(nproc)" -n 50 clang-format -i
	@black -q $(sort $(python_files))
format-check: ## say which sources make format would change; exit status 1 where there are any
	@printf '%s\n' $(cxx_files) | xargs -P"$$(nproc)" -n 50 clang-format --dry-run -Werror 2>&1 | grep -E 'error:' | cut -d: -f1 | sort -u | sed 's/$$/: make format would change it/' | { ! grep .; }
	@black -q --check $(sort $(python_files)) || { echo "black would change a Python file: make format" >&2; exit 1; }

# What shellcheck is not asked, and why: .shellcheckrc.
.PHONY: lint
shell_files = $(shell git ls-files 't/*.sh'; git grep -lIE '^\#!.*(bash|/sh)\b' -- contrib etc t .ci)
lint: ## shellcheck and pyflakes over scripts; exit status 1 where they find anything
	@printf '%s\n' $(sort $(shell_files)) | xargs -P"$$(nproc)" -n 8 shellcheck -f gcc
	@pyflakes3 $(sort $(python_files))

# Which checks: .clang-tidy. A file is asked again when it, a header of it or the list has changed.
.PHONY: tidy
TIDY ?= clang-tidy-19
# clang has no type _Bool in C++, which glibc's header of processor features needs.
tidied := $(filter-out src/util/sha256.cc,$(filter src/%,$(sources)))
$(O)/compile_commands.json: Makefile $(tidied) | config.mk
	@mkdir -p $(@D) && $(MAKE) -n --no-print-directory CXX=g++ $(addprefix -W ,$(tidied)) all | \
	    t/lib/compile-commands > $@.new && mv $@.new $@
$(O)/tidy/%.ok: $(O)/obj/%.o .clang-tidy | $(O)/compile_commands.json
	$(call say,TIDY)mkdir -p $(@D) && $(TIDY) --quiet -p $(O) \
	    --extra-arg=-w $*.cc 2> $@.said || { cat $@.said; exit 1; }; mv $@.said $@
tidy: $(patsubst %.cc,$(O)/tidy/%.ok,$(filter $(or $(addprefix src/,$(addsuffix /%,$(T))),%),$(tidied))) ## clang-tidy over src, all of it (half an hour the first time) or T=worker
	@:

demo: deps ## a private cluster that trains a network on two remote GPUs; KEEP=1 leaves it up
	+@$(sub_make) all examples venv
	@$(tests_env) KEEP=$(KEEP) contrib/demo

.PHONY: demo-tensorflow
demo-tensorflow: deps ## the same with a network of Keras and TensorFlow, which is 4 GB from PyPI
	+@$(sub_make) all examples $(O)/venv-tensorflow/.done
	@$(tests_env) KEEP=$(KEEP) contrib/demo tensorflow

.PHONY: session-svg
session-svg: deps ## record a session with a private cluster and draw doc/session.svg (or PLOT=FILE)
	+@$(sub_make) all venv
	@$(tests_env) contrib/session-svg $(or $(PLOT),doc/session.svg)

.PHONY: gpu-bundle
gpu-bundle: ## build/rgpu-gpu-bundle.tar.gz: contrib/gpu-check and all it needs, for a machine with a GPU
	+@$(sub_make) all cuda
	@contrib/gpu-bundle $(O) $(O)/rgpu-gpu-bundle.tar.gz

.PHONY: client-bundle
client-bundle: ## build/rgpu-client.tar.gz: rgpu and libcuda.so.1 for a machine or container without any package
	+@$(sub_make) all
	@contrib/client-bundle $(O) $(O)/rgpu-client.tar.gz

.PHONY: coverage-table
coverage-table: ## doc/driver-calls.md from the table of calls and from what the CUDA programs call
	+@$(sub_make) all cuda $(O)/t/recorder/wire_path_test
	@RGPU_WRITE_RECORDER_LIST=t/lib/calls-recorder.list $(O)/t/recorder/wire_path_test --filter 'wire_path/the_list*' --quiet || :
	@$(tests_env) RGPU_COLLECT=1 t/t2101-calls-tested.t
	contrib/coverage-table --cuda $(CUDA) > doc/driver-calls.md

.PHONY: ptx-table
ptx-table: ## doc/ptx.md from the software GPU's instruction table
	contrib/ptx-coverage > doc/ptx.md

# --- install

pkglibdir = $(libdir)/rgpu
slurmplugindir ?= $(libdir)/slurm
sysusersdir ?= $(prefix)/lib/sysusers.d
systemdunitdir ?= $(prefix)/lib/systemd/system
# Debian's folder; others have site-functions.
zshcompletionsdir ?= $(datadir)/zsh/vendor-completions
# Where Slurm's own plugins and files are.
slurm_plugindir ?= $(firstword $(wildcard $(SLURM)/lib/*/slurm-wlm $(SLURM)/lib/slurm $(SLURM)/lib64/slurm) $(SLURM)/lib/slurm)
slurm_sysconfdir ?= /etc/slurm
licences ?= 400
D = $(DESTDIR)

# fill_in(file, installed as, mode): a file of etc/ with its @names@ replaced.
filled_in = rgpu_conf=$(sysconfdir)/rgpu/rgpu.conf sysconfdir=$(sysconfdir) bindir=$(bindir) sbindir=$(sbindir) \
	libexecdir=$(libexecdir) libdir=$(libdir) rundir=/run/rgpu interposedir=$(pkglibdir)/interpose \
	softgpudir=$(pkglibdir)/softgpu datadir=$(datadir) cuda_libdir=$(CUDA)/lib64 slurm_sysconfdir=$(slurm_sysconfdir) \
	slurm_plugindir=$(slurm_plugindir) licences=$(licences) crun=crun docdir=$(docdir) VERSION=$(VERSION)
# Slurm's commands do not start where a directory of PluginDir is missing: ours is named as it is installed, and once.
plugin_dirs = $(if $(filter $(slurmplugindir),$(slurm_plugindir)),$(slurmplugindir),$(slurmplugindir):$(slurm_plugindir))
fill_in = sed -e 's|@libdir@/slurm:@slurm_plugindir@|$(plugin_dirs)|; s|@libdir@/slurm|$(slurmplugindir)|' $(foreach f,$(filled_in),-e 's|@$(subst =,@|,$f)|g') $1 > $2 && chmod $3 $2
scripts := prolog epilog prolog-slurmctld epilog-slurmctld
samples := $(filter-out $(patsubst %,etc/%.in,$(scripts)) %.service.in %.timer %.slice etc/sysusers.conf etc/rgpu.conf%,$(shell find etc -type f 2>/dev/null))
define newline


endef

.PHONY: install
install: all ## install below DESTDIR (prefix=, sysconfdir= ... as configure has them)
	install -d $(D)$(bindir) $(D)$(sbindir) $(D)$(libexecdir)/rgpu $(D)$(pkglibdir)/interpose $(D)$(pkglibdir)/softgpu \
	    $(D)$(slurmplugindir) $(D)$(datadir)/rgpu $(D)$(docdir) $(D)$(sysconfdir)/rgpu $(D)$(systemdunitdir)
	$(if $(CLI),install $(CLI) $(D)$(bindir))
	$(if $(RGPUD),install $(RGPUD) $(D)$(sbindir))
	$(if $(WORKER),install $(WORKER) $(SPAWNER) $(SCHEDULER) $(D)$(libexecdir))
	$(if $(INTERPOSE),install $(INTERPOSE) $(D)$(pkglibdir)/interpose && ln -sf libcuda.so.1 $(D)$(pkglibdir)/interpose/libcuda.so)
	$(if $(NVML),install $(NVML) $(D)$(pkglibdir)/interpose)
	$(if $(NCCL),install -D $(NCCL) $(D)$(pkglibdir)/interpose/nccl/libnccl.so.2)
	$(if $(SMI),install -d $(D)$(pkglibdir)/smi && install $(SMI) $(D)$(pkglibdir)/smi)
	install -d $(D)$(pkglibdir)/ptx/bin && install $(PTXAS) $(D)$(pkglibdir)/ptx/bin
	$(if $(SOFTGPU),install $(SOFTGPU) $(SOFTGPU_PTX) $(SOFTGPU_NVML) $(D)$(pkglibdir)/softgpu && ln -sf libcuda.so.1 $(D)$(pkglibdir)/softgpu/libcuda.so)
	$(if $(SPANK)$(JOB_SUBMIT),install $(SPANK) $(JOB_SUBMIT) $(D)$(slurmplugindir))
	$(foreach f,$(scripts),$(if $(wildcard etc/$f.in),$(call fill_in,etc/$f.in,$(D)$(libexecdir)/rgpu/$f,755)$(newline)	))
	$(foreach f,$(samples),mkdir -p $(D)$(datadir)/rgpu/$(dir $f) && $(call fill_in,$f,$(D)$(datadir)/rgpu/$(f:.in=),$(if $(filter %.sh,$(f:.in=)),755,644))$(newline)	)
	$(foreach f,$(wildcard etc/*.service.in etc/*.timer etc/*.slice),$(call fill_in,$f,$(D)$(systemdunitdir)/$(notdir $(f:.in=)),644)$(newline)	)
	install -d $(D)$(sysusersdir) && install -m 644 etc/sysusers.conf $(D)$(sysusersdir)/rgpu.conf
	$(foreach f,$(firstword $(wildcard etc/rgpu.conf etc/rgpu.conf.in)),\
	    test -e $(D)$(sysconfdir)/rgpu/rgpu.conf || { $(call fill_in,$f,$(D)$(sysconfdir)/rgpu/rgpu.conf,644); })
	$(foreach f,$(patsubst doc/man/%.in,%,$(wildcard doc/man/*.in)),mkdir -p $(D)$(mandir)/man$(subst .,,$(suffix $f)) && \
	    $(call fill_in,doc/man/$f.in,$(D)$(mandir)/man$(subst .,,$(suffix $f))/$f,644)$(newline)	)
	$(if $(CLI),install -d $(D)$(datadir)/bash-completion/completions $(D)$(zshcompletionsdir) && \
	    $(CLI) completion bash > $(D)$(datadir)/bash-completion/completions/rgpu && \
	    $(CLI) completion zsh > $(D)$(zshcompletionsdir)/_rgpu)
	install -m 644 README.md NEWS.md $(D)$(docdir)
	install -d $(D)$(docdir)/doc && install -m 644 $(wildcard doc/*.md doc/*.svg doc/*.png) $(D)$(docdir)/doc

# What `make install` would install is what there is to remove; rgpu.conf stays where somebody has changed it.
.PHONY: uninstall
uninstall: all ## remove what `make install` has installed, with the same DESTDIR=, prefix= ...
	@stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && $(MAKE) --no-print-directory -s install DESTDIR="$$stage" && \
	    contrib/uninstall "$$stage" "$(D)" "$(sysconfdir)/rgpu/rgpu.conf"

# --- packages

# tree_in(folder): a copy of the working tree, as both kinds of packages are built outside it.
tree_in = mkdir -p $1 && git ls-files -z -co --exclude-standard | xargs -0 -I{} sh -c 'test ! -e "{}" || echo "{}"' | \
	tar -c -T - | tar -x -C $1 && echo '$(commit)' > $1/COMMIT
# Variables of this make, such as O=, are not those of the one below: it would clean this build.
own_make = env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u MAKELEVEL -u O
package_jobs = $(or $(JOBS),$(shell nproc))

.PHONY: deb rpm
deb: ## Debian packages below build/deb, for the release of Debian and Slurm of this machine
	@command -v dpkg-buildpackage >/dev/null && dpkg-query -W debhelper >/dev/null 2>&1 || \
	    { echo "make deb needs dpkg-dev and debhelper: apt-get install dpkg-dev debhelper" >&2; exit 1; }
	rm -rf $(O)/deb
	$(call tree_in,$(O)/deb/rgpu-$(VERSION))
	cd $(O)/deb/rgpu-$(VERSION) && $(own_make) RGPU_CUDA=$(CUDA) dpkg-buildpackage -us -uc -b -j$(package_jobs)
	@ls -1 $(O)/deb/*.deb

# Where rpm is not what installs packages, its database does not know what is there.
rpm: ## RPM packages below build/rpm, for the Slurm of this machine (contrib/rpm/rgpu.spec)
	@for tool in rpmbuild find-debuginfo eu-strip; do command -v $$tool >/dev/null || \
	    { echo "make rpm needs $$tool: apt-get install rpm debugedit elfutils, or dnf install rpm-build" >&2; exit 1; }; done
	rm -rf $(O)/rpm && mkdir -p $(O)/rpm/SOURCES
	$(call tree_in,$(O)/rpm/tree/rgpu-$(VERSION))
	tar --owner=0 --group=0 --numeric-owner -C $(O)/rpm/tree -czf $(O)/rpm/SOURCES/rgpu-$(VERSION).tar.gz rgpu-$(VERSION)
	$(own_make) RPM_BUILD_NCPUS=$(package_jobs) rpmbuild -bb $(if $(wildcard /etc/debian_version),--nodeps) \
	    --define '_topdir $(abspath $(O))/rpm' --define 'rgpu_cuda $(CUDA)' $(if $(RGPU_CXX),--define 'rgpu_cxx $(RGPU_CXX)') \
	    contrib/rpm/rgpu.spec
	rm -rf $(O)/rpm/tree $(O)/rpm/BUILD $(O)/rpm/BUILDROOT
	@ls -1 $(O)/rpm/RPMS/*/*.rpm

# --- the rest

.PHONY: help clean distclean
help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | sort | \
	    while IFS='	' read -r target text; do printf '  make %-12s %s\n' "$$target" "$$text"; done

clean: ## remove what was built
	rm -rf $(O) $(O)-asan $(O)-tsan

distclean: clean ## remove what configure wrote, too
	rm -rf $(O)-trixie config.mk config.log config.status configure configure~ autom4te.cache
