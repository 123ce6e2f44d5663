# The front door. `make demo` and `make test` set up what is missing, then build only what changed.
.PHONY: demo test build program python bench bench-lean lint format format-check layers sanitize fuzz clean help

CPUS := $(shell nproc)
DEMO := plan gpt2-xl --cluster l4-1x8 --seq 1024 --global-batch 64
SOURCES = $(shell find palmist tests benchmarks examples -name '*.h' -o -name '*.cc' -o -name '*.cu' 2>/dev/null)

help:
	@echo 'make demo      build, plan GPT-2 XL on eight L4 and write build/demo.html'
	@echo 'make test      build and run all tests'
	@echo 'make program   build the program: build/release/bin/palmist'
	@echo 'make python    build the operators and let .venv/bin/python import palmist'
	@echo 'make build     both'
	@echo 'make bench     build and run the benchmarks'
	@echo 'make bench-lean  memory and time of the operators against their peers, as a page'
	@echo 'make lint      check format, layers and clang-tidy'
	@echo 'make format    format the sources in place'
	@echo 'make sanitize  unit tests under address, undefined-behaviour and thread sanitizers'
	@echo 'make fuzz      build the fuzzers and run each for ten seconds'
	@echo 'make clean     remove build/'

demo: program
	build/release/bin/palmist $(DEMO) --report build/demo.html -o build/demo.plan.json

# Configures a preset where that was not done since the presets changed; ninja sees all else.
build/%/build.ninja: CMakePresets.json
	cmake --preset $*
	@touch $@

build: program python

program:
	tools/setup.sh build
	@$(MAKE) --no-print-directory build/release/build.ninja
	cmake --build --preset release --target palmist

# Configured again, since torch may have come after the program.
python:
	tools/setup.sh build torch
	cmake --preset release -D PALMIST_WITH_TORCH=ON
	cmake --build --preset release --target palmist_ops palmist_bindings
	@.venv/bin/python -c 'import palmist; print("palmist", palmist.__version__, "imports")'

bench-lean: python
	tools/setup.sh test
	.venv/bin/python benchmarks/lean_ops/bench.py -o build/bench-lean.html

test:
	tools/setup.sh build torch test
	@$(MAKE) --no-print-directory build/ci/build.ninja
	cmake --build --preset ci
	ctest --preset ci --no-label-summary -j2

bench:
	tools/setup.sh build test
	@$(MAKE) --no-print-directory build/bench/build.ninja
	cmake --build --preset bench
	@for program in build/bench/bin/benchmarks/*; do echo "== $$program"; $$program || exit 1; done

SANITIZERS := asan tsan

sanitize:
	tools/setup.sh build test
	@for preset in $(SANITIZERS); do \
	  $(MAKE) --no-print-directory build/$$preset/build.ninja && \
	  cmake --build --preset $$preset && \
	  ctest --preset $$preset --no-label-summary -L unit -j2 || exit 1; \
	done

fuzz:
	tools/setup.sh build fuzz
	@$(MAKE) --no-print-directory build/fuzz/build.ninja
	cmake --build --preset fuzz
	ctest --preset fuzz --no-label-summary -j2

lint: format-check layers
	tools/setup.sh build test lint
	@$(MAKE) --no-print-directory build/tidy/build.ninja
	cmake --build --preset tidy
	run-clang-tidy -quiet -j $(CPUS) -p build/tidy '^$(CURDIR)/palmist/'

format-check:
	tools/setup.sh lint
	@clang-format --dry-run -Werror $(SOURCES)
	@echo 'format: all files are in order'

format:
	tools/setup.sh lint
	clang-format -i $(SOURCES)

layers:
	python3 tests/layers/check_layers.py .

clean:
	rm -rf build
