# The front door. Meson does the building; docs/building.md says more.
#
#   make            build/stoker (installs missing packages where it may)
#   make demo       the main job, start to end, on data it makes itself
#   make test       every test, with the sanitizers; ends in "N passed, N failed"
#   make bench      the speed claims, measured here (ARGS="--quick" for a small run)
#   make fuzz       every parser fuzzed for longer (FUZZ_SECONDS=60 each)
#   make core       build-core/stoker without optional libraries
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

BENCH = gen jpeg load open pread profile

DIRS = --prefix "$(abspath $(PREFIX))" --libdir "$(LIBDIR)"

all:
	@tools/setup --quiet build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) $(DIRS) $(MESON_FLAGS)
	@if [ -t 1 ]; then ninja -C $(BUILD); else echo "building $(BUILD)/stoker"; ninja -C $(BUILD) --quiet; fi
	@echo "built $(BUILD)/stoker"

core:
	@$(MAKE) --no-print-directory all BUILD=build-core MESON_FLAGS=-Dextras=disabled

demo:
	@tools/setup --quiet build demo
	@$(MAKE) --no-print-directory all
	@STOKER=$(BUILD)/stoker tools/demo $(ARGS)

test:
	@tools/setup --quiet test
	@tests/run $(ARGS)

fuzz:
	@tools/setup --quiet test
	@tests/run --only fuzz --fuzz-seconds $(FUZZ_SECONDS) $(ARGS)

bench: all
	@tools/setup --quiet bench
	@ninja -C $(BUILD) --quiet $(BENCH:%=bench/bench_%)
	@STOKER_BUILD=$(BUILD) bench/run $(ARGS)

install: all
	@meson setup --reconfigure $(BUILD) $(DIRS) $(MESON_FLAGS) >/dev/null
	@ninja -C $(BUILD) --quiet >/dev/null
	@DESTDIR="$(DESTDIR)" meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed in $(DESTDIR)$(abspath $(PREFIX))"

format:
	@tools/setup --quiet format
	clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

clean:
	rm -rf build build-*

.PHONY: all core demo test fuzz bench install format clean
