# Two commands are enough: `make demo` and `make test`. Each installs what it needs into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTHONS ?= 3.11 3.13
ARM64 ?= /var/tmp/seq2seq-arm64

TEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

# Programs that tests use where they are installed, each with its package of Debian.
PROGRAMS := chromium:chromium nginx:nginx caddy:caddy openssl:openssl msgfmt:gettext
CLUSTER_PROGRAMS := slurmctld:slurm-wlm munged:munge ip:iproute2
# Lists which of them are missing, as PROGRAM:PACKAGE.
MISSING = for each in $(1); do PATH="$$PATH:/usr/sbin" command -v $${each%:*} > /dev/null || echo $$each; done
# Says so, and goes on: the tests that need them are skipped.
NAME_MISSING = @for each in $$($(MISSING)); do \
	echo "== $${each%:*} is not installed, so its tests are skipped: apt-get install $${each\#*:}"; done

.PHONY: help install constraints demo check test test-all test-processors test-services test-cluster install-programs test-native test-arm64 test-triton test-gpu dist dist-arm64 check-dist matrix site clean
help:
	@echo "make demo     install, train on the embedded corpus, evaluate, translate, draw alignment maps"
	@echo "make test     install, then check the style, the types and the tests"
	@echo "make test-all the same with the slow tests: more than twice as long"
	@echo "make test-processors  the tests with the instructions of older processors, then with all of this one"
	@echo "make test-services  tests of servers, in a browser, under sanitizers, and beside other programs' libraries"
	@echo "make install-programs  as root, on Debian: the programs that make test-services uses"
	@echo "make test-cluster  runs over two nodes, in a Slurm and a Ray of this machine"
	@echo "make test-native  random models through the C of the decoder, under sanitizers"
	@echo "make test-arm64  as root, on Debian: the wheel for ARM64, in an emulated machine in ARM64=$(ARM64)"
	@echo "make test-triton  the kernels for GPUs, in Triton's interpreter where there is no GPU"
	@echo "make test-gpu  check and measure on a GPU, in less than ten minutes: docs/results/gpu.md"
	@echo "make dist     an sdist, a wheel for any platform and one for this; make check-dist installs and tries each"
	@echo "make dist-arm64  a wheel for Linux on ARM64, cross-compiled"
	@echo "make matrix   make test with each of PYTHONS=\"$(PYTHONS)\""
	@echo "make site     these pages with search, and an API reference, in site/"
	@echo "make install  only install, into .venv"
	@echo "make constraints  write down the versions that are installed: constraints.txt"
	@echo "make clean    remove .venv, runs/ and caches"

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seq2seq needs Python 3.11 or newer, not " + sys.version.split()[0] + ": make PYTHON=python3.11")'
	@echo "== Installing into $(VENV) (torch is the most of it, and several GB with CUDA; README.md names the smaller CPU build)"
	$(PYTHON) -m venv $(VENV)
	@# What is imported is compiled then: most of torch never is.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

# The versions with which the tests passed last, for who must build the same again.
constraints: install
	# Without triton: each CUDA build of torch accepts one version, and asks for it itself.
	$(BIN)/pip list --format=freeze --exclude-editable --exclude pip --exclude triton | sed 's/+cpu$$//' > constraints.txt

demo: install
	$(BIN)/seq2seq demo

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos
	$(BIN)/mypy

test: check
	$(TEST)

test-all: check
	$(TEST) -m 'not serving and not sanitized and not cluster and not triton and not arm64' --hypothesis-profile=explore

# Processors with narrower vectors add in another order: what passes by luck on this one fails here.
test-processors: install
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 $(TEST)
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 $(TEST)
	$(TEST)

# As root, on Debian. A package that cannot be installed is named by test-services.
install-programs:
	timeout 120 apt-get -qq update
	@for each in $$($(call MISSING,$(PROGRAMS))); do DEBIAN_FRONTEND=noninteractive \
		timeout 180 apt-get -qq install --no-install-recommends -y $${each\#*:} > /dev/null || true; done

test-services: install
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test-services]'
	$(call NAME_MISSING,$(PROGRAMS))
	$(TEST) -rs -m 'serving or sanitized or extras'

test-cluster: install
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[ray]'
	$(call NAME_MISSING,$(CLUSTER_PROGRAMS))
	$(BIN)/pytest -rs -m cluster

test-native: install
	$(BIN)/pytest -m sanitized tests/decoding

# The machine is made once, in a folder of 1.5 GB; wheels are installed in it each time.
test-arm64: dist-arm64
	$(BIN)/python scripts/arm64.py $(ARM64) make dist/arm64/*.whl
	ARM64=$(ARM64) $(BIN)/pytest -rs -m arm64 tests/scripts

test-triton: install
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[triton]'
	$(TEST) -m 'triton and not slow' tests/functional/triton_kernels

test-gpu: install
	$(BIN)/python scripts/gpu.py

# The wheel for this platform has the C compiled for its kinds of processors; the other is for any.
dist: install
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	SEQ2SEQ_PREBUILT=1 $(BIN)/python -m build --wheel --outdir dist

dist-arm64: install
	rm -rf dist/arm64
	SEQ2SEQ_PREBUILT=aarch64 $(BIN)/python -m build --wheel --outdir dist/arm64

check-dist: dist
	$(BIN)/python scripts/check_dist.py dist/* --python $(PYTHONS)

site: install
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[site]'
	$(BIN)/python scripts/make_site.py

matrix:
	for version in $(PYTHONS); do $(MAKE) test VENV=.venv-$$version PYTHON=python$$version || exit; done

clean:
	rm -rf .venv .venv-* build dist site runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
