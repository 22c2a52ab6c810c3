# The README's two commands are `make demo` and `make test`; CI runs the same. Needs Linux, Python >= 3.11, cargo and cc. No root.
PYTHON ?= python3
BIN    := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv
unexport PYTHONPATH PYTHONHOME PIP_REQUIRE_VIRTUALENV CARGO_TARGET_DIR
# Tests start many processes; without stored bytecode each of them compiles what it imports, up to a second.
unexport PYTHONDONTWRITEBYTECODE
.DELETE_ON_ERROR:
.PHONY: help kernel demo testbed test test-rust test-python check check-rust check-python fmt native docs wheel wheel-check bench fuzz validate proto lock clean
.DEFAULT_GOAL := demo

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: native ## build into .venv, race three controllers from Melbourne, print the table and the report's path
	bentpipe demo

testbed: native ## a whole testbed on this machine: two homes behind emulated paths, a server, experiments; until Ctrl-C
	bentpipe testbed laptop

# In real time: two at once, since each waits most of the time, while nothing else runs.
REALTIME := $(wildcard tests/test_emul*.py) tests/test_recipes.py tests/test_probe.py tests/test_dish_recorder.py

test: native ## every test
	@$(MAKE) --no-print-directory --jobs=2 test-rust test-python
	pytest --quiet --numprocesses 2 --dist worksteal $(REALTIME)

# Compiles and runs in the time that Python's tests leave: these wait for programs, and those compile in one process for long.
test-rust:
	@output=$$(nice -n 19 cargo test --workspace --locked --quiet 2>&1) && echo "cargo test: passed" || { echo "$$output"; exit 1; }

test-python:
	pytest --quiet --numprocesses 3 --dist worksteal $(REALTIME:%=--ignore=%)

# A macro makes modules of these files, so cargo fmt does not find them (crates/cc/src/registry.rs).
CONTROLLERS := $(wildcard crates/cc/src/*.rs crates/cc/src/*/mod.rs)

check: native ## lints, formats, types, arrows: what CI refuses
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-rust check-python

check-rust:
	cargo fmt --all --check
	rustfmt --edition 2024 --check $(CONTROLLERS)
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

check-python:
	ruff check .
	ruff format --check .
	mypy
	MYPYPATH=python python -m mypy.stubtest --ignore-disjoint-bases --allowlist=tools/stubtest.txt bentpipe._native
	lint-imports
	python tools/check_words.py
	python tools/check_lengths.py

fmt: .venv/deps.stamp ## format everything
	cargo fmt --all
	rustfmt --edition 2024 $(CONTROLLERS)
	ruff check --fix --quiet . || true
	ruff format --quiet .

docs: native ## the documentation site, into out/docs; a broken link fails
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true mkdocs build --strict --quiet

bench: native ## speed as ratios to named peers, into out/bench.json
	python benchmarks/run.py

SECONDS ?= 600
fuzz: native ## every reader on damaged files, ten minutes each (SECONDS=600); what is found is kept in out/fuzz
	cd tests && python fuzzing.py --seconds $(SECONDS) --keep ../out/fuzz

validate: native ## every claim against its reference: slow
	bentpipe validate all

# maturin builds release, cargo test and clippy build dev: one shared profile would rebuild PyO3 at every switch. Cargo decides what is stale.
native: .venv/deps.stamp
	@maturin develop --skip-install --release --locked --quiet

.venv/deps.stamp: requirements/uv.txt requirements/dev.txt pyproject.toml tools/preflight
	@tools/preflight $(PYTHON)
	@[ -x .venv/bin/python ] || $(PYTHON) -m venv .venv
	@echo "bentpipe: installing Python requirements into .venv"
	@python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@uv pip install --quiet --require-hashes -r requirements/dev.txt
	@echo "bentpipe: compiling the native half (Rust): some minutes the first time"
	@python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Offsets come from the running kernel (CO-RE), so one object fits all kernels and architectures of this byte order.
KERNEL := $(patsubst bpf/kernel/%.bpf.c,python/bentpipe/kernel/objects/%.bpf.o,$(wildcard bpf/kernel/*.bpf.c))
kernel: python/bentpipe/kernel/objects/SHA256SUMS ## the controllers for a stock kernel (needs clang, llvm and libbpf-dev)

python/bentpipe/kernel/objects/%.bpf.o: bpf/kernel/%.bpf.c $(wildcard bpf/core/*.h bpf/kernel/*.h) crates/cc/hook_trace.h
	@mkdir -p $(@D)
	@clang -O2 -g -fdebug-prefix-map=$(CURDIR)=. -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Wall -Werror -Ibpf/core -Ibpf/kernel -Icrates/cc -c $< -o $@
	@llvm-strip -g $@

python/bentpipe/kernel/objects/SHA256SUMS: $(KERNEL) # the loader gives no damaged program to libbpf
	@cd $(@D) && sha256sum *.bpf.o > $(@F)

wheel: .venv/deps.stamp kernel ## an optimised wheel in out/wheels
	maturin build --profile dist --locked --out out/wheels

wheel-check: native ## a wheel installs into an empty environment and runs the demo there
	tools/wheel_check

proto: .venv/deps.stamp ## compile the dish's messages into the descriptor set that is kept
	cd python && python -m grpc_tools.protoc -I. --include_imports --descriptor_set_out=bentpipe/measurements/dish/proto/terminal.binpb bentpipe/measurements/dish/proto/terminal.proto

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: .venv/deps.stamp ## write requirements/*.txt anew: uv, and what uv installs
	echo uv | $(LOCK) --no-annotate - -o requirements/uv.txt
	$(LOCK) --group dev pyproject.toml -o requirements/dev.txt

clean: ## everything that was built
	rm -rf .venv target out python/bentpipe/_native*.so
