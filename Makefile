# The whole developer interface. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two workers for each core, as some tests wait for processes; one thread of BLAS and PyTorch in each, as more wait for
# each other; byte code is kept even where the environment says not to, as the tests start dozens of programs.
# Files of the fast tests are in memory if it has a gigabyte for them, as hundreds of databases would wait for a disk.
IN_MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'END { if ($$4 > 1000000) print "/dev/shm" }')
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist worksteal

# Slow tests that run code which no other test does: whole experiments, trainings, a Dask cluster that is lost.
COVERED := tests/test_experiments.py tests/test_registered_experiments.py tests/test_second_round.py tests/test_dask.py tests/federated

# What runs with the lowest versions that are allowed: the core, and nothing that needs an extra.
LOWEST := $(addprefix tests/test_,device.py lloyd.py server.py message.py damaged_bytes.py identity.py laws.py site.py robust.py certificate.py \
	estimator.py estimator_devices.py estimator_bad_input.py)

# What has an environment of its own, $(VENV)-NAME, and tests of its own, `make NAME`.
ENGINES := flower vantage6 nvflare

# Both ends of the range in pyproject.toml.
FLOWER_VERSIONS := 1.34.0 1.42.0

.DEFAULT_GOAL := help
.PHONY: help demo test cover slow slow-rest environments engines flower flower-versions vantage6 nvflare check format browser bench scale reproduce page repeat expect docs docs-serve wheel lowest clean

help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-15s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo ## Set up and run the main job: digits on 100 simulated devices, one round
	$(BIN)/kfed demo

test: $(READY) ## Set up and run the tests
	$(if $(IN_MEMORY),PYTEST_DEBUG_TEMPROOT=$(IN_MEMORY)) $(PYTEST) -m "not slow" $(ARGS)

cover: ## Run the tests, and those slow ones that run what others do not; print the branch coverage of src, which must be 95 % (by file: coverage report)
	$(MAKE) test ARGS="--cov=kfed --cov-branch --cov-report= $(ARGS)"
	$(MAKE) slow ARGS="$(COVERED) --cov=kfed --cov-branch --cov-append --cov-report= --cov-fail-under=95"

slow-rest: ## Run the slow tests that `make cover` does not
	$(MAKE) slow ARGS="$(addprefix --ignore=,$(COVERED)) $(ARGS)"

slow: $(READY) ## Run the slow tests
	$(PYTEST) -m slow $(ARGS) || test $$? -eq 5 # 5: there are none

environments: $(ENGINES:%=$(VENV)-%/.ready) ## Set up the environments of the engines that cannot be installed beside the rest

engines: $(ENGINES) ## Run the tests of these engines

flower: $(VENV)-flower/.ready ## Set up Flower in an environment of its own, and run its tests on real engines (about five minutes)
	$(VENV)-flower/bin/pytest tests/flower

flower-versions: $(VENV)-flower/.ready ## Run the quick tests of Flower at both ends of the range of versions
	for version in $(FLOWER_VERSIONS); do \
		$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
			--target build/flwr-$$version flwr==$$version && \
		PYTHONPATH=build/flwr-$$version $(VENV)-flower/bin/pytest tests/flower/test_flower.py tests/flower/test_flower_strategies.py tests/flower/test_flower_worth.py || exit 1; \
	done

vantage6: $(VENV)-vantage6/.ready ## Set up vantage6's algorithm tools in an environment of their own, and run the tests of kfed on vantage6
	OMP_NUM_THREADS=1 $(VENV)-vantage6/bin/pytest tests/on_vantage6

nvflare: $(VENV)-nvflare/.ready ## Set up NVIDIA FLARE in an environment of its own, and run the tests of kfed in its simulator
	OMP_NUM_THREADS=1 $(VENV)-nvflare/bin/pytest tests/on_nvflare

check: $(READY) ## Lint, type-check, and check which room uses which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

browser: ## Build what a browser gets at /join, after a change to it (needs Node; what is built is committed)
	src/kfed/coordinator/browser/build

bench: ARGS ?= --markdown docs/benchmarks.md
bench: PICTURE ?= $(if $(filter docs/benchmarks.md,$(ARGS)),docs/images/scaling.png)
bench: $(READY) ## Measure speed against competitors (ten minutes), into docs/benchmarks.md; or ARGS="W1 S1 --quick"
	$(BIN)/python -m benchmarks speed $(ARGS)
	$(if $(PICTURE),$(BIN)/python -m benchmarks scaling --picture $(PICTURE))

scale: ARGS ?= --markdown docs/explanation-scale.md
scale: $(READY) ## Measure what one device costs, and compute what a million would, into docs/explanation-scale.md
	$(BIN)/python -m benchmarks scale $(ARGS)

reproduce: $(READY) ## Run all experiments (hours: `kfed reproduce --list`), into docs/reproduction/ and docs/reproduction.md
	$(BIN)/kfed reproduce all --output docs/reproduction --markdown docs/reproduction.md

page: $(READY) ## Write docs/reproduction.md again from the runs in docs/reproduction/, without running anything
	$(BIN)/kfed reproduce all --stored --output docs/reproduction --markdown docs/reproduction.md

repeat: $(READY) ## Repeat three runs of each experiment in docs/reproduction/ whose code has changed, compare, and write the page again
	$(BIN)/kfed reproduce all --repeat 3 --output docs/reproduction --markdown docs/reproduction.md

expect: $(READY) ## Run the quick presets with three seeds, and write down the verdicts that all of them have
	for seed in 0 1 2; do $(BIN)/kfed reproduce all --quick --seed $$seed --output build/expected/$$seed || exit 1; done
	$(BIN)/python -m kfed.experiments.expected write tests/expected_verdicts.json build/expected/0 build/expected/1 build/expected/2 docs/reproduction

docs: $(READY) ## Build the documentation site, into build/site
	rm -rf build/site
	PYTHONPATH=src:. $(BIN)/sphinx-build -q -W --keep-going -j 2 -d build/docs-cache docs build/site
	$(BIN)/python docs/check_site.py build/site

docs-serve: docs ## Build the site, and serve it on http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

wheel: ## Build wheel and source archive, check them, and try the wheel in an environment that has nothing else
	$(PYTHON) -m venv build/packaging
	build/packaging/bin/python -m pip install --quiet --disable-pip-version-check build twine check-wheel-contents
	rm -rf dist && build/packaging/bin/python -m build > build/packaging.log || (cat build/packaging.log; exit 1)
	build/packaging/bin/twine check --strict dist/*
	build/packaging/bin/check-wheel-contents dist/*.whl
	$(PYTHON) packaging/try_wheel.py dist/*.whl

lowest: ## Run the core tests with the lowest versions that are allowed
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable ".[plots,join,parquet]" pandas polars "pytest<9" hypothesis
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -m "not slow" $(LOWEST)


clean: ## Remove what was set up or built
	rm -rf $(VENV) $(VENV)-flower $(VENV)-vantage6 $(VENV)-nvflare build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@ $(VENV)/.demo

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[plots]"
	@touch $@

$(VENV)-flower/.ready: pyproject.toml constraints-flower.txt
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-flower.txt \
		--editable ".[flower,federated]" "flwr[simulation]" pytest hypothesis
	@touch $@

$(VENV)-vantage6/.ready: pyproject.toml constraints-vantage6.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-vantage6.txt \
		--editable ".[parquet]" vantage6-algorithm-tools pytest hypothesis
	@touch $@

$(VENV)-nvflare/.ready: pyproject.toml constraints-nvflare.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-nvflare.txt \
		--editable ".[nvflare]" pytest hypothesis
	@touch $@
