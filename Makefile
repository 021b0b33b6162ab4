# The front door. Meson does the building; docs/building.md says more.
#
#   make            build/stoker (installs missing packages where it may)
#   make demo       the story of docs/tutorial.md: why a script is slow, what helps, what it gains
#   make test       the tests, with the sanitizers; ends in "N passed, N failed"
#   make bench      the speed claims, measured here (ARGS="--quick" for a small run)
#   make fuzz       every parser with libFuzzer (FUZZ_SECONDS=60 each)
#   make check-builds   other ways to build, to install, to package; memory of the release build
#   make check-timing   what is said about time: on a machine that has nothing else to do
#   make check-stress   more rounds of what depends on the moment: races, kills, faults
#   make check-frameworks   with the PyTorch and Lightning of PYTHON=python3, a GPU if there is one
#   make check-advice   predicted gains against what the remedies really save
#   make check-tune     whether tune finds the change that was planted, on slowfs
#   make check-faults   every command, one system call failing at a time: right data or a named error
#   make check-writers  files by twenty-odd other writers, value by value (installs them outside the tree)
#   make check-bare     demo and tests in a bare Debian, with nothing but make and git
#   make check-all      the tests, check-builds, check-timing, fuzz, check-stress and check-bare
#   make core       build-core/stoker without optional libraries
#   make dist       a release tarball in $(BUILD)/meson-dist, which contains the built page
#   make install    PREFIX=/usr/local DESTDIR=
#   make format     clang-format over the C files
#   make clean

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= lib
DESTDIR ?=
MESON_FLAGS ?=
FUZZ_SECONDS ?= 60
ARGS ?=

BENCH = gen jpeg load open pread profile reads

DIRS = --prefix "$(abspath $(PREFIX))" --libdir "$(LIBDIR)"

all:
	@tools/setup --quiet build
	@test -f $(BUILD)/build.ninja || { echo "configuring $(BUILD)"; \
	    said=$$(meson setup $(BUILD) $(DIRS) $(MESON_FLAGS) 2>&1) || { printf '%s\n' "$$said"; exit 1; }; }
	@if [ -t 1 ]; then ninja -C $(BUILD); else echo "building $(BUILD)/stoker"; ninja -C $(BUILD) --quiet; fi
	@echo "built $(BUILD)/stoker"

core:
	@$(MAKE) --no-print-directory all BUILD=build-core MESON_FLAGS="-Dextras=disabled -Dpage=disabled"

demo:
	@tools/setup --quiet build demo
	@$(MAKE) --no-print-directory all
	@STOKER=$(BUILD)/stoker tools/demo $(ARGS)

test:
	@tools/setup --quiet test
	@tests/run $(ARGS)

fuzz:
	@tools/setup --quiet test
	@tests/run --only libfuzzer --fuzz-seconds $(FUZZ_SECONDS) $(ARGS)

check-builds:
	@tools/setup --quiet test
	@tests/run --only builds $(ARGS)

check-timing:
	@tools/setup --quiet test
	@tests/run --only timing $(ARGS)

check-stress:
	@tools/setup --quiet test
	@STOKER_LONG=1 tests/run --fuzz-changes 100000 $(ARGS)

check-frameworks: all
	@STOKER=$(BUILD)/stoker tools/check-frameworks $(ARGS)

check-writers: all
	@STOKER=$(BUILD)/stoker tools/check-writers $(ARGS)

check-faults: all
	@STOKER=$(BUILD)/stoker tools/check-faults $(ARGS)

check-advice: all
	@STOKER=$(BUILD)/stoker tools/check-advice $(ARGS)

check-tune: all
	@STOKER=$(BUILD)/stoker tools/check-tune $(ARGS)

check-bare:
	@tools/setup --quiet bare
	@tools/check-bare $(ARGS)

check-all: test check-builds check-timing fuzz check-stress check-bare

bench: all
	@tools/setup --quiet bench
	@ninja -C $(BUILD) --quiet $(BENCH:%=bench/bench_%)
	@STOKER_BUILD=$(BUILD) bench/run $(ARGS)

install: all
	@meson setup --reconfigure $(BUILD) $(DIRS) $(MESON_FLAGS) >/dev/null
	@ninja -C $(BUILD) --quiet >/dev/null
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed in $(DESTDIR)$(abspath $(PREFIX))"

dist: all
	@tools/setup --quiet page
	@meson setup --reconfigure $(BUILD) -Dpage=enabled >/dev/null
	@ninja -C $(BUILD) --quiet web/page.html
	@meson dist -C $(BUILD) --no-tests --formats xztar

format:
	@tools/setup --quiet format
	clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

clean:
	rm -rf build build-*

.PHONY: all core demo test fuzz check-builds check-timing check-stress check-frameworks check-advice check-tune check-faults check-writers check-bare check-all bench dist install format clean
