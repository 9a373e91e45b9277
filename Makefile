# Two commands are enough: `make demo` and `make test`. Each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
RUN := runs/demo/quickstart

TEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: help install demo check test test-all test-processors test-native test-triton test-gpu clean
help:
	@echo "make demo     install, train on the embedded corpus, evaluate, translate, draw alignment maps"
	@echo "make test     install, then check the style, the types and the tests"
	@echo "make test-all the same with the slow tests: more than twice as long"
	@echo "make test-processors  the tests with the instructions of older processors, then with all of this one"
	@echo "make test-native  random models through the C of the decoder, under sanitizers"
	@echo "make test-triton  the kernels for GPUs, in Triton's interpreter where there is no GPU"
	@echo "make test-gpu  check and measure on a GPU, in at most eight minutes: docs/results/gpu.md"
	@echo "make install  only install, into .venv"
	@echo "make clean    remove .venv, runs/ and caches"

install: .venv/installed

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seq2seq needs Python 3.11 or newer, not " + sys.version.split()[0] + ": make PYTHON=python3.11")'
	@echo "== Installing into .venv (about 1.4 GB; torch is the most of it)"
	$(PYTHON) -m venv .venv
	@# What is imported is compiled then: most of torch never is.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

demo: install
	@rm -rf $(RUN)
	@echo "== Training a Transformer on data/demo (German to English, 14,000 pairs): a few minutes"
	$(BIN)/python train.py position=rope hydra.run.dir=$(RUN)
	@echo "== Evaluating on sentences it has never seen"
	$(BIN)/seq2seq evaluate $(RUN) data/demo/test.de data/demo/test.en
	@echo "== Translating three sentences"
	@while read -r line; do \
		printf '%s\n   ' "$$line"; $(BIN)/seq2seq translate $(RUN) "$$line"; \
	done < scripts/demo_sentences.txt
	@echo "== Drawing where it looked"
	@number=0; while read -r line; do number=$$((number + 1)); \
		$(BIN)/seq2seq align $(RUN) "$$line" -o $(RUN)/map-$$number.png; \
	done < scripts/demo_sentences.txt
	@echo "== Done. In $(RUN): best.ckpt (the model), metrics.csv (learning curves),"
	@echo "   samples.txt (translations along the way), map-1.png ... map-3.png (alignment maps)."
	@echo "   Next: $(BIN)/python train.py attn=gqa position=rope    or    $(BIN)/python train.py model=rnn"

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(TEST)

test-all: check
	$(TEST) -m 'not serving and not sanitized and not cluster and not triton' --hypothesis-profile=explore

# Processors with narrower vectors add in another order: what passes by luck on this one fails here.
test-processors: install
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 $(TEST)
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 $(TEST)
	$(TEST)

test-native: install
	$(BIN)/pytest -m sanitized tests/decoding/test_native_fuzz.py

test-triton: install
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[triton]'
	$(TEST) -m 'triton and not slow' tests/kernels

test-gpu: install
	$(BIN)/python scripts/gpu.py

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
