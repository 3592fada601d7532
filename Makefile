# Everything a person or CI does with this repository. Each target does its own set-up: .ci/setup makes $(VENV) from the
# locked dependencies and costs milliseconds once that is done. Tools are run as modules, so a moved clone keeps working.

VENV ?= .venv
PY := $(VENV)/bin/python
# Processes of pytest. On two cores, 4 and 5 by default: tests of the control plane, and so most of the long ones, wait
# most of their time.
JOBS ?=
CONTAINER ?= docker
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' scaler/__init__.py)
# The first one of VERSIONS in tests/control_plane/build.py.
KUBERNETES := $(shell sed -n '/^VERSIONS = /s/[^0-9]*\([0-9.]*\).*/\1/p' tests/control_plane/build.py)
# $(call PYTEST,processes)
PYTEST = $(PY) -m pytest -n $(or $(JOBS),$(1)) --dist loadgroup --durations=20

export VENV PYTHON JOBS
# Tests start hundreds of processes: each would compile everything where a machine forbids to keep it.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

##@ Try it
.PHONY: demo
demo: runtime  ## Run the real controller on a simulated cluster (under a minute); ARGS="--interactive" keeps it up
	@$(PY) -m scaler demo $(ARGS)

.PHONY: test
test: say-test dev  ## Run the tests, against one version of Kubernetes; ARGS="-k words" selects, JOBS=1 is one process
	@$(PY) -m tests.control_plane.build $(KUBERNETES)
	@$(call PYTEST,4) -m "not long" $(ARGS)

.PHONY: test-rest
test-rest: say-rest dev  ## What `make test` leaves out: long tests, other versions of Kubernetes, other programs
# Both at once; interrupted, the first goes on to its end, some two minutes.
	@sh .ci/pythons & $(PY) -m tests.control_plane.build; built=$$?; wait $$! && exit $$built
	@$(call PYTEST,5) -m long $(ARGS)

.PHONY: pythons
pythons: dev  ## Send anything through the controller on every supported Python that is here (part of test-rest)
	@sh .ci/pythons

.PHONY: test-all
test-all: test test-rest  ## Run all tests (docs/reference/tests.md)

.PHONY: test-fast
test-fast: dev  ## What of `make test` needs no control plane
	@$(call PYTEST,4) -m "not long" --no-control-plane $(ARGS)

.PHONY: dev-cluster
dev-cluster: dev  ## Keep a real control plane with fake NPU nodes and the scaler up (docs/tutorial-dev-cluster.md)
	@$(PY) -m tests.control_plane.dev_cluster $(ARGS)

##@ Work on it
.PHONY: check
check: static test  ## What to run before a commit: format, lint, types, import contracts, readable, tests

.PHONY: static
static: format-check lint types contracts readable  ## The part of check that runs no code of ours

.PHONY: fmt
fmt: dev  ## Format the code and fix what the linter can fix
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

.PHONY: format-check
format-check: dev  ## Fail where fmt would change the layout
	@$(PY) -m ruff format --check .

.PHONY: lint
lint: dev  ## ruff with the rules of pyproject.toml
	@$(PY) -m ruff check .

.PHONY: types
types: dev  ## mypy --strict
	@$(PY) -m mypy

.PHONY: contracts
contracts: dev  ## Who may import whom (.importlinter)
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

.PHONY: reasons
reasons: dev  ## Write the tables of reasons, and the list of reasons in an alert, from scaler/reasons/
	@$(PY) .ci/reason_pages.py

.PHONY: generated
generated: reasons chart  ## Write every file that follows from the code: pages of reasons and settings, JSON Schemas, Helm chart
	@$(PY) .ci/settings_page.py
	@$(PY) -m scaler schema rule >build.tmp && mv build.tmp schemas/elastic_scaling.schema.json
	@$(PY) -m scaler schema service >build.tmp && mv build.tmp schemas/service.schema.json
	@$(PY) -m scaler schema scenario >build.tmp && mv build.tmp schemas/scenario.schema.json

.PHONY: readable
readable: dev  ## Refuse what a reader stumbles over and ruff does not know: .ci/readable.py says why each
	@$(PY) .ci/readable.py

.PHONY: size
size: dev  ## Count the lines of controller, simulation and test helpers; limits nothing
	@$(PY) .ci/size.py

.PHONY: bench
bench: dev  ## Measure: run every tests/bench/bench_*.py, one after the other; never part of the tests
	@for bench in tests/bench/bench_*.py; do \
	    echo "== $$bench"; $(PY) -m "$$(echo "$${bench%.py}" | tr / .)" || exit 1; \
	done

.PHONY: contention
contention: dev  ## Play many services on scarce nodes with many seeds (minutes); ARGS="--seeds 1-50 --mode create"
	@$(PY) -m tests.chaos --story all --seeds 1-20 $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

.PHONY: pictures
pictures: dev  ## Draw docs/pictures anew: the scenarios of docs/scenarios, minimums first and each service alone
	@$(PY) -m scaler simulate tests/scenarios/start-degrade-climb.yaml \
	    --picture docs/pictures/start-degrade-climb.svg >/dev/null
	@$(PY) -m scaler simulate docs/scenarios/load/day.yaml --picture docs/pictures/following-the-load.svg >/dev/null
	@for file in docs/scenarios/*.yaml; do \
	    picture="docs/pictures/$$(basename "$$file" .yaml)"; \
	    $(PY) -m scaler simulate "$$file" --picture "$$picture.svg" >/dev/null || exit 1; \
	    $(PY) -m scaler simulate "$$file" --no-arbitration --picture "$$picture-off.svg" >/dev/null || test $$? = 1 || exit 1; \
	done

.PHONY: page-pictures
page-pictures: dev  ## Take the pictures of the page in docs/pictures anew; needs Chromium
	@$(PY) -m tests.page.pictures

.PHONY: explore
explore: dev  ## Visit every state of small worlds with the real decision (ARGS="chosen half" or ARGS="random 600 1")
	@$(PY) -m tests.decide.explorer $(or $(ARGS),chosen)

.PHONY: control-plane
control-plane: dev  ## Build Kubernetes' own programs for all tests, once (minutes); VERSIONS="1.35.3" builds less
	@$(PY) -m tests.control_plane.build $(VERSIONS)

.PHONY: bench-reaction
bench-reaction: dev  ## Measure on a real API server: reaction, bursts, rest, failover (docs/reference/performance.md)
	@$(PY) -m tests.control_plane.bench_reaction $(ARGS)
	@$(PY) -m tests.control_plane.bench_gates

##@ Ship it
.PHONY: lock
lock: dev  ## Resolve the dependencies of pyproject.toml again; UPGRADE=1 takes newer versions
	@for lock in requirements.lock "requirements-dev.lock --group dev -c requirements.lock"; do \
	    $(PY) -m uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	        --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) pyproject.toml -o $$lock || exit 1; \
	done

.PHONY: image
image:  ## Build the container image (CONTAINER=podman works too)
	$(CONTAINER) build -f manifests/image/Dockerfile -t mind-cluster-scaler:$(VERSION) .

.PHONY: image-try
image-try: dev  ## Build the image without privileges and look at it (Debian's buildah, podman); ARGS="--base IMAGE"
	@$(PY) .ci/image.py $(ARGS)

.PHONY: release
release: dev  ## Everything that is published, into dist/ (docs/reference/release.md); ARGS="--image REGISTRY/NAME"
	@$(PY) .ci/release.py $(ARGS)

.PHONY: release-check
release-check: dev  ## Try all that is to be tried before a release; says what was not, and why; ARGS="--without tests"
	@$(PY) .ci/release_check.py $(ARGS)

.PHONY: chart
chart: dev  ## Write the Helm chart manifests/helm out of the files of the kustomizations
	@$(PY) .ci/chart.py

.PHONY: manifests
manifests: dev  ## Render the variants cluster-wide and single-namespace into build/manifests/
	@mkdir -p build/manifests
	@for variant in cluster-wide single-namespace; do \
	    $(VENV)/bin/kubectl kustomize "manifests/$$variant" >"build/manifests/$$variant.yaml" || exit 1; \
	    echo "build/manifests/$$variant.yaml"; \
	done

##@ The rest
.PHONY: say-test say-rest
say-test say-rest:
	@sh .ci/say $(@:say-%=%) $(KUBERNETES)

.PHONY: runtime dev
runtime:  ## Only the set-up of demo
	@sh .ci/setup requirements.lock
dev:  ## Only the set-up of test
	@sh .ci/setup requirements-dev.lock

.PHONY: clean
clean:  ## Remove everything that the targets above made, the environment included
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help:  ## This list
	@awk 'BEGIN {FS = ":.*## "} \
	    /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	    /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
