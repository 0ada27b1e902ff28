# Each target does all of its own set-up: `make demo` or `make test` in a new checkout is enough.
#   make test PYTHON=python3.11                       another interpreter for the virtual environment
#   make test PYTEST_ARGS="-k padding -x"             options handed to pytest

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal
DEMO_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OLDEST := .venv-oldest

.PHONY: help venv browser demo test test-breaks test-reliability test-hf test-oldest test-quantization test-slow \
	check format wheel-test clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

venv: $(INSTALLED) ## make .venv with tinyseq (editable) and the tested versions of all it needs

# torch comes first, at exactly the tested version: a range, asked for by another package, may choose another release
# and with it gigabytes of CUDA libraries. Once torch is there, the ranges of the other packages leave it alone.
define install # the environment, the file of its versions, the extra
	$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install "$$(grep '^torch==' $(2))"
	$(1)/bin/python -m pip install -c $(2) -e '.[$(3)]'
	touch $(1)/.installed
endef

$(INSTALLED): pyproject.toml constraints.txt
	$(call install,$(VENV),constraints.txt,dev)

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	$(call install,$(OLDEST),constraints-oldest.txt,test)

# The tests of the pages need a Chromium; without one they are skipped, and say so.
browser: ## install Chromium for the tests of the pages, if there is none (Debian and Ubuntu, as root)
	@command -v "$${CHROMIUM_PATH:-chromium}" chromium-browser google-chrome || \
	apt-get install -y --no-install-recommends chromium || \
	{ apt-get update && apt-get install -y --no-install-recommends chromium; }

demo: $(INSTALLED) ## train a small model on the built-in corpus, translate with it, look inside
	$(BIN)/python examples/demo.py $(DEMO_ARGS)

# Tests with several processes come one after the other: beside each other they wait for each other far longer. That
# nothing is left of one half (5), after -k or --last-failed, is no failure.
test: $(INSTALLED) ## run the fast tests
	$(BIN)/python -m pytest --ignore tests/system $(PYTEST_ARGS) || [ $$? = 5 ]
	$(BIN)/python -m pytest tests/system $(PYTEST_ARGS) -n 0 || [ $$? = 5 ]

test-breaks: $(INSTALLED) ## break the code on purpose, a line at a time, and see that the tests notice (half an hour)
	$(BIN)/python tests/breaks.py

test-reliability: $(INSTALLED) ## hurt runs in every way: kills, signals, lost processes, two machines, FSDP
	$(BIN)/python -m pytest tests/system -m "" -n 0 -s

test-hf: $(INSTALLED) ## run Transformers' own common tests, of the installed version, with TinySeq models
	$(BIN)/python -m pytest tests/hf -m "" $(PYTEST_ARGS)

# Left out is what the versions of other packages can hardly change, or what only many processes and time would show
LEFT_OUT := system browser grammar test_docs.py training/test_options.py training/test_recipe.py corpus/test_checks.py

test-oldest: $(OLDEST)/.installed ## run the fast tests that call other packages with the oldest versions tinyseq claims to work with
	$(OLDEST)/bin/python -m pytest $(addprefix --ignore tests/,$(LEFT_OUT)) $(PYTEST_ARGS)

# torchao beside the environment, not in it: once installed, it writes on standard error wherever a model is loaded
test-quantization: $(INSTALLED) ## run the tests of 8-bit weights, with torchao
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps --upgrade --target build/torchao torchao
	PYTHONPATH=build/torchao $(BIN)/python -m pytest tests/ecosystem/test_quantization.py $(PYTEST_ARGS)

test-slow: $(INSTALLED) ## run the tests marked slow
	$(BIN)/python -m pytest -m slow --ignore tests/system $(PYTEST_ARGS) || [ $$? = 5 ]
	$(BIN)/python -m pytest -m slow tests/system $(PYTEST_ARGS) -n 0 || [ $$? = 5 ]

check: $(INSTALLED) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy tinyseq tinyseq_command.py train.py

format: $(INSTALLED) ## apply the formatter and the linter's safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The wheel is built from the sdist, so this proves both complete. The second environment borrows the dependencies of
# the first through a .pth file, written after the install so that pip does not take the editable tinyseq for its own.
# Such a file only extends sys.path: the editable install's own .pth is not read there, and what runs is the wheel.
wheel-test: $(INSTALLED) ## build the wheel and run it from an empty directory, outside the checkout
	rm -rf dist
	$(BIN)/python -m build
	set -eu; \
	first="$$(pwd)/$(BIN)/python"; \
	wheel="$$(pwd)/$$(ls dist/tinyseq-*.whl)"; \
	scratch="$$(mktemp -d)"; \
	trap 'rm -rf "$$scratch"' EXIT; \
	unset PYTHONPATH; \
	export HF_HOME="$$scratch/hf"; \
	"$$first" -m venv --without-pip "$$scratch/venv"; \
	second="$$scratch/venv/bin/python"; \
	"$$first" -m pip --python "$$second" install --no-index --no-deps "$$wheel"; \
	site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	"$$first" -c "$$site" > "$$scratch/borrowed.pth"; \
	mv "$$scratch/borrowed.pth" "$$("$$second" -c "$$site")/"; \
	mkdir "$$scratch/empty"; \
	cd "$$scratch/empty"; \
	"$$second" -c 'import sys, tinyseq; f = tinyseq.__file__; print(f); assert f.startswith(sys.prefix)'; \
	ls "$$("$$second" -c "$$site")"/tinyseq/recipes/*.yaml > /dev/null; \
	"$$second" -m tinyseq.train --help > /dev/null; \
	"$$second" -c 'from tinyseq.attention import pages; pages.render("attention", "", {}); pages.render("trace", "", {})'; \
	"$$second" -m accelerate.commands.launch --cpu --num_processes 1 -m tinyseq.train --help > /dev/null; \
	"$$scratch/venv/bin/tinyseq" --help > /dev/null; \
	"$$scratch/venv/bin/tinyseq" card no/folder me/model 2>&1 | grep -q "holds no config.json"; \
	echo "wheel-test: $$(basename "$$wheel") works outside the checkout"

clean: ## remove what the other targets made; runs/ stays
	rm -rf $(VENV) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
