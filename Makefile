# make run | test | lint | bench | docs | pictures | mutants; each sets up .venv/ first. ARGS goes to the command:
#   make run ARGS="--seed 2"      make test ARGS="-k buffer"
# TORCH_INDEX=URL takes PyTorch from another package index, e.g. without CUDA.
# `make test-all` adds the long tests: whole clusters, hosts that fail, kills at random moments;
# with ARGS='-m ""' also more of each kind: second seeds, each file damaged in each way.
.PHONY: setup criu run test test-all lint bench docs pictures mutants clean
.DEFAULT_GOAL := run
BIN := .venv/bin

setup:
	@deploy/setup/setup.sh

# Try again what `make setup` gave up on: CRIU, its Python binding, numactl.
criu: setup
	@deploy/setup/criu.sh --again

run: setup
	$(BIN)/artos run ppo --env CartPole-v1 --actors 2 --total-steps 500000 $(ARGS)

# Most tests wait for processes most of the time, so four at once pay even on two cores. In the
# order that tests/conftest.py gives them no process is left with a long file in the end.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -q --instafail

test: setup
	$(PYTEST) -m "not long and not exhaustive" $(ARGS)

test-all: setup
	$(PYTEST) --durations=30 -m "not exhaustive" $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/artos bench all $(ARGS)

# The site: these pages, and the reference from docstrings. Strict, so a broken link fails.
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file docs/web/mkdocs.yml $(ARGS)

# The pictures of docs/how-to, from new runs: ARGS="branch report" makes these two.
pictures: setup
	$(BIN)/python docs/web/pictures.py $(ARGS)

# Changes one thing at a time in the modules that decide, to see whether a test notices:
# docs/mutants.md. Takes an hour or more; stopped at any time, it goes on where it was.
#   make mutants ARGS="workers.host.slots.*"
mutants: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python tests/mutants/run.py $(ARGS)

# Caches, builds and orphaned shared memory; runs/ and .venv/ stay.
clean:
	-[ ! -x $(BIN)/artos ] || $(BIN)/artos clean
	rm -rf build dist site mutants *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
