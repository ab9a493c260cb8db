# make demo: a tour, and a training (ARGS="--model resnet"). make test: the tests. Everything is set up on first use, in .venv and build.
PYTHON ?= python3
VENV ?= .venv
PARITY_VENV ?= .venv-parity
PARITY ?= ../shared/parity
JOBS ?= $(shell nproc)
PY := $(VENV)/bin/python
TORCH_PY := $(PARITY_VENV)/bin/python

NATIVE := $(shell find csrc tocha/operators tocha/ir tocha/codegen tocha/_build -name '*.cpp' -o -name '*.c' -o -name '*.h' -o -name '*.py' -not -path '*/operators/examples/*') CMakeLists.txt

.PHONY: demo test page-tests browser parity parity-tests programs bench check format sanitize native-test wheel wheel-test docs clean build

demo: build
	$(PY) examples/tour.py
	$(PY) examples/train.py $(ARGS)

test: build native-test
	$(PY) -m pytest tests --ignore tests/parity -n $(JOBS)

build: $(VENV)/.built

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	@echo "Fetching what the build needs"
	$(PY) -m pip install --quiet --progress-bar on scikit-build-core cmake ninja numpy scipy-openblas32 pytest pytest-xdist hypothesis ruff==0.17.4 mypy==2.4.1 clang-format==23.1.3
	touch $@

$(VENV)/.built: $(VENV)/.ready $(NATIVE)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) tools/with_progress.py build/log.txt "Building tocha" $(PY) -m pip install --verbose --no-build-isolation --no-deps --editable .
	touch $@

# The report's page in a real browser: Chromium of the distribution, driven by Playwright.
browser: $(VENV)/.ready
	command -v chromium || command -v chromium-browser || command -v google-chrome || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || { echo "no browser, and none could be installed: install chromium (apt-get needs root and a network)" >&2; exit 1; }
	$(PY) -c "import playwright" 2> /dev/null || $(PY) -m pip install --quiet playwright

page-tests: build browser
	TOCHA_PAGE_TESTS=required $(PY) -m pytest tests/test_report.py

# Standalone programs that test raw kernels.
native-test: $(VENV)/.ready
	$(PY) tools/native_tests.py

# PyTorch lives in an environment of its own that also sees the build.
$(PARITY_VENV)/.ready: $(VENV)/.ready
	$(PYTHON) -m venv $(PARITY_VENV)
	$(TORCH_PY) -m pip install --quiet torch==2.13.0 numpy expecttest safetensors
	echo "import site; site.addsitedir('$(shell $(PYTHON) -c "import os, sys; v = sys.version_info; print(os.path.abspath(f'$(VENV)/lib/python{v.major}.{v.minor}/site-packages'))")')" > $$($(TORCH_PY) -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")/tocha-build.pth
	touch $@

parity-tests: build $(PARITY_VENV)/.ready
	$(TORCH_PY) -m pytest tests/parity -n $(JOBS)

parity: parity-tests
	$(TORCH_PY) tools/parity.py --suite $(PARITY)

bench: build $(PARITY_VENV)/.ready
	$(TORCH_PY) benchmarks/run.py

# PyTorch's packages on tocha (an environment without PyTorch) and on PyTorch. ARGS: some programs only.
programs: build
	$(PY) tools/programs.py $(ARGS)

check: $(VENV)/.ready
	$(PY) -m ruff check tocha tests tools benchmarks examples programs
	$(PY) -m ruff format --check tocha tests tools benchmarks examples programs
	$(PY) tools/check_rooms.py
	$(PY) tools/check_operator_names.py
	find csrc tests/native tests/devices -name '*.cpp' -o -name '*.h' | xargs $(VENV)/bin/clang-format --dry-run --Werror
	$(PY) tocha/_build/__main__.py --stubs tocha
	$(PY) -m mypy

format: $(VENV)/.ready
	$(PY) -m ruff check --fix tocha tests tools benchmarks examples programs
	$(PY) -m ruff format tocha tests tools benchmarks examples programs
	find csrc tests/native tests/devices -name '*.cpp' -o -name '*.h' | xargs $(VENV)/bin/clang-format -i

# AddressSanitizer and UndefinedBehaviorSanitizer over the native tests and the Python tests.
sanitize: $(VENV)/.ready
	$(PY) tools/sanitize.py

wheel: $(VENV)/.ready
	$(PY) -m pip wheel --no-build-isolation --no-deps --wheel-dir dist .

# A wheel as others get it, in an environment of its own: it computes, compiles and stands for torch.
wheel-test: wheel
	$(PYTHON) tools/wheel_test.py dist/*.whl

# The site: guides, what is there of PyTorch, and a page for every public name and operator (docs/inside/documentation.md).
docs: build
	$(PY) -m pip install --quiet "mkdocs<2" mkdocs-material
	$(PY) tools/site.py
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

clean:
	rm -rf build dist $(VENV) $(PARITY_VENV)
