# Needs make and Python >= 3.11 with pip; writes nothing outside this folder but the caches of pip and uv.

UV_VERSION := 0.13.9
UV := .uv/$(UV_VERSION)/bin/uv
BIN := .venv/bin

# The first that is new enough; `make PYTHON=/path/to/python` names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

DBMATE_VERSION := 2.36.0
JAVASCRIPT_TOOLS := @biomejs/biome@2.6.8 typescript@7.0.2
NPM := npm install --no-save --no-package-lock --no-audit --no-fund --silent

# A process that has nothing left takes half of what another one has left.
SIDE_BY_SIDE := -n 3 --dist worksteal
# The quick ones often wait: on two idle processors, two processes take 4:55, four 3:14 to 3:33.
QUICK_SIDE_BY_SIDE := -n 4 --dist worksteal
PIP_FLAGS := -qq --disable-pip-version-check
FIND_CHROMIUM := { command -v chromium || command -v chromium-browser || \
	command -v google-chrome || command -v chrome; } >/dev/null
FIND_FIREFOX := { command -v firefox-esr || command -v firefox; } >/dev/null
# The other modules measure Chromium, or use what Firefox cannot emulate; two kinds of screens suffice.
IN_FIREFOX := $(patsubst %,tests/e2e/test_%.py,true_at_nervous_moments views session tenant empty) \
	-k "not dark-wide and not light-medium and not light-narrow"
# What depends on the version of Alembic and SQLAlchemy: how a revision is read, recorded and executed.
OF_REVISIONS := tests/corpus $(patsubst %,tests/integration/test_%.py,recording as_alembic live_revisions \
	projects streams failures_of_projects) \
	$(patsubst %,tests/unit/test_%.py,sqlalchemy alembic_modules project ddl_only lint access)
LOWEST := alembic==1.16.0 sqlalchemy==2.0.40 email-validator==2.3.0
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
INSTALL := $(UV) pip install --quiet --python $(BIN)/python

# What `test-pooler` runs through PgBouncer: requests of every kind, runs, races and restarts.
POOLED_SHORT := $(patsubst %,tests/acceptance/test_%.py,profile tenant_users migrate_all)
POOLED := $(POOLED_SHORT) $(patsubst %,tests/acceptance/test_%.py,admin_login api_keys audit_log \
	change_password logout mcp_tokens mcp_tools migration_history modules public_blog races \
	run_events run_options tenant_blog tenant_login tenants)

# The project's environment is used even if another one is active.
unexport VIRTUAL_ENV CONDA_PREFIX
# Without compiled files, each start of a program compiles its libraries: 4 s instead of 0.5.
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo serve test test-versions test-beside newest test-slow test-all test-e2e test-firefox test-edge test-pooler test-recipes test-monitoring test-image pictures check bench bench-fleet torture faults states writers simulate prove cluster docs format lint types layers words javascript lock wheel release cut sbom audit clean site doc-blocks test-deploy clients test-clients

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.runtime ## Serve sample tenants, and print requests to try (TENANTRY_PORT=8000)
	@$(BIN)/tenantry demo

serve: .venv/.runtime ## Serve with your settings; without any, SQLite in ./data
	@$(BIN)/tenantry serve

test: .venv/.dev ## Run the quick tests; T="tests/unit -k name" chooses, also among the slow ones; SEED= repeats an order
	$(BIN)/pytest $(if $(SEED),--order=$(SEED)) $(if $(T),$(T),$(QUICK_SIDE_BY_SIDE) -m "not slow")
	@$(if $(T),,echo "LEFT OUT: slow tests (make test-slow), the console in a browser (make test-e2e and test-firefox), a shared cache in front (make test-edge), PgBouncer (make test-pooler), going back to a point in time (make test-recipes), and Prometheus (make test-monitoring)." >&2)

# The other ends of both ranges are in requirements/dev.lock: `test` runs them.
test-versions: .versions/.lowest ## Run the tests of revisions with the lowest supported Alembic and SQLAlchemy
	.versions/lowest/bin/pytest $(if $(T),$(T),$(SIDE_BY_SIDE) $(OF_REVISIONS))

# It asks the package index, and installs nothing.
test-beside: $(UV) ## Find versions that Tenantry, FastAPI, SQLModel, Celery and fastapi-users all accept
	@for python in 3.11 3.13; do \
		$(UV) pip compile --quiet --python-version $$python --no-header --no-annotate --group beside pyproject.toml \
			| grep -E '^(celery|email-validator|fastapi|fastapi-users|sqlmodel|starlette)==' || exit 1; done

# What the next `make lock` and the next upper bounds would bring. Each run installs it again.
newest: $(UV) ## Run the quick tests with the newest release of everything, also above our upper bounds; T= chooses
	@mkdir -p .versions/unbound
	sed 's/,<=\{0,1\}[0-9.]*"/"/' pyproject.toml > .versions/unbound/pyproject.toml
	$(UV) venv --quiet --clear --python $(PYTHON) .versions/newest
	$(UV) pip install --quiet --python .versions/newest/bin/python --upgrade \
		-r .versions/unbound/pyproject.toml --group .versions/unbound/pyproject.toml:dev
	$(UV) pip install --quiet --python .versions/newest/bin/python --no-deps --no-build-isolation --editable .
	@$(UV) pip freeze --quiet --exclude-editable --python .versions/newest/bin/python | while read -r one; do \
		grep -qiF "$$one " requirements/dev.lock || echo "newer than what is locked: $$one"; done
	.versions/newest/bin/pytest $(if $(T),$(T),$(SIDE_BY_SIDE) -m "not slow")

# The small version of `torture` is among them.
test-slow: .venv/.dev ## Run the tests that kill, wait, or try thousands of inputs
	$(BIN)/pytest $(if $(SEED),--order=$(SEED)) $(SIDE_BY_SIDE) -m slow

test-all: test test-slow ## Run the quick and the slow tests, and the small version of `prove`
	$(MAKE) --no-print-directory prove SHORT=1 PROMISE= PLANT= PROVE=

test-e2e: .venv/.dev site ## Walk through the console in Chromium; installs it, when root
	@if ! $(FIND_CHROMIUM); then \
		test "$$(id -u)" = 0 || { echo "Needs Chromium: apt-get install chromium" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -qq --no-install-recommends chromium; fi >/dev/null
	$(BIN)/pytest $(if $(T),$(T),tests/e2e)

test-firefox: .venv/.dev ## Walk through the console in Firefox; installs it, when root
	@if ! $(FIND_FIREFOX); then \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
			apt-get install -qq --no-install-recommends firefox-esr >/dev/null; } || \
		{ echo "NOT RUN: needs Firefox: apt-get install firefox-esr" >&2; exit 3; }; fi
	$(BIN)/pytest --in firefox $(if $(T),$(T),$(IN_FIREFOX))

test-edge: .venv/.dev ## Put Varnish in front, a real shared cache; installs it, when root
	@if ! PATH="$$PATH:/usr/sbin" command -v varnishd >/dev/null; then \
		test "$$(id -u)" = 0 || { echo "Needs Varnish: apt-get install varnish" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -qq --no-install-recommends varnish; fi >/dev/null
	$(BIN)/pytest $(if $(T),$(T),tests/edge)

# In transaction mode, there is one connection to each database. Left out: a stream that must be
# resumed at once after an outage, because PgBouncer repeats its last error for a moment.
test-pooler: .venv/.dev ## Put PgBouncer between the service and PostgreSQL; SHORT=1, MODE=session
	@set -e; program=$$(tools/new_pgbouncer.sh .pgbouncer); export TENANTRY_TEST_PGBOUNCER="$$program"; set -x; \
		$(BIN)/pytest $(if $(T),$(T),tests/pooler); \
		for mode in $(or $(MODE),session transaction); do TENANTRY_TEST_POOLER=$$mode \
			$(BIN)/pytest -k "not sqlite and not are_cut_when_the_catalog" $(or $(T),$(if $(SHORT),$(POOLED_SHORT),$(POOLED))); done

# Debian's programs for clusters, and those who run as the user of PostgreSQL, need root.
test-recipes: .venv/.dev .recipes/.tools ## Go back to a point in time with pgBackRest and Litestream; installs them; needs root
	@test "$$(id -u)" = 0 || { echo "NOT RUN: needs root, for clusters of PostgreSQL" >&2; exit 3; }
	@if ! { command -v pgbackrest && command -v pg_createcluster && command -v sqlite3; } >/dev/null; then \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends \
			postgresql pgbackrest sqlite3 >/dev/null; } || \
		{ echo "NOT RUN: needs pgBackRest: apt-get install postgresql pgbackrest sqlite3" >&2; exit 3; }; fi
	$(BIN)/pytest $(if $(T),$(T),tests/recipes)

test-monitoring: .venv/.dev ## Let Prometheus check and run the alert rules, and scrape a service; installs it, when root
	@if ! { command -v prometheus && command -v promtool; } >/dev/null; then \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
			apt-get install -qq --no-install-recommends prometheus >/dev/null; } || \
		{ echo "NOT RUN: needs Prometheus: apt-get install prometheus" >&2; exit 3; }; fi
	$(BIN)/pytest $(if $(T),$(T),tests/monitoring)

# Without Docker and Podman, the steps that need no root are run in an empty folder.
test-image: .venv/.dev .image/.tools ## Build the image and run it, and check each line of the Dockerfile
	$(BIN)/pytest tests/release

# No container runs: compose.yaml's processes are started by hand, with its files and settings.
test-deploy: .venv/.dev .deploy/.tools ## Check the files of compose, Kubernetes and systemd with their programs, and run their processes
	@command -v systemd-analyze >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
		apt-get install -qq --no-install-recommends systemd >/dev/null; } || \
		{ echo "NOT RUN: needs systemd-analyze: apt-get install systemd" >&2; exit 3; }
	$(BIN)/pytest $(if $(T),$(T),tests/deploy)

# With the same letters everywhere: the console prefers Inter to the font of the system.
pictures: .venv/.dev ## Take the pictures in docs/images again, in Chromium; installs its font, when root
	@if ! fc-list : family 2>/dev/null | grep -q '^Inter'; then \
		test "$$(id -u)" = 0 || { echo "Needs the font Inter: apt-get install fonts-inter" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -qq --no-install-recommends fonts-inter fontconfig; fi >/dev/null
	$(BIN)/pytest --pictures docs/images tests/e2e/test_operator.py tests/e2e/test_views.py \
		-k "walks_the_story or dark-narrow-fleet"

check: lint types layers words javascript test ## Run the quick checks

bench: .venv/.bench ## Measure speed and memory; ROW=profile chooses, QUICK=1 is short
	$(BIN)/python -m harness.bench $(if $(QUICK),--short) $(if $(ROW),--only $(ROW)) $(BENCH)

bench-fleet: .venv/.bench .node/.dbmate ## Measure migrate-all against the raw driver and peers; N=200 tenants
	$(BIN)/python -m harness.bench.fleet $(if $(N),--tenants $(N)) $(if $(QUICK),--short) $(if $(ROW),--only $(ROW)) $(BENCH)

torture: .venv/.dev ## Kill, break and crowd migration runs; CHECK=kills chooses, SHORT=1, SEED=
	$(BIN)/python -m harness.torture $(if $(CHECK),--only $(CHECK)) $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED)) $(TORTURE)

faults: .venv/.dev ## Let each write, sync, rename and open fail, one after the other; OPERATION=, SHORT=1, STRIDE=25, SEED=, LANES=4, CALL="pwrite 17"
	@command -v gcc >/dev/null || { echo "NOT RUN: needs gcc: apt-get install gcc libc6-dev" >&2; exit 3; }
	$(BIN)/python -m harness.faults $(if $(OPERATION),--only "$(OPERATION)") $(if $(SHORT),--short) $(if $(STRIDE),--stride $(STRIDE)) \
		$(if $(SEED),--seed $(SEED)) $(if $(LANES),--lanes $(LANES)) $(if $(CALL),--call "$(CALL)") $(FAULTS)

states: .venv/.dev ## Walk through the states of tenants, and predict each answer; WALKS=40, STEPS=50, SEED=
	$(BIN)/python -m harness.states $(if $(WALKS),--walks $(WALKS)) $(if $(STEPS),--steps $(STEPS)) $(if $(SEED),--seed $(SEED))

writers: .venv/.dev ## Let writers, an assistant and readers of the same posts interleave, with kills and moves; ROUNDS=1000, SEED=
	$(BIN)/python -m harness.writers $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

simulate: .venv/.dev ## Interleave processes by a seed, in virtual time; SECONDS=60, SEED=, FAULTS=1 SEEDS=20
	$(BIN)/python -m harness.simulate $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(EVENTS),--events $(EVENTS)) \
		$(if $(FAULT),--fault $(FAULT)) $(if $(FAULTS),--faults) $(if $(SEEDS),--seeds $(SEEDS))

prove: .venv/.dev ## Show that the promises hold; PROMISE=P3,P7 chooses, SHORT=1, PLANT=P3 plants a fault
	$(BIN)/python -m harness.prove $(if $(PROMISE),--only $(PROMISE)) $(if $(SHORT),--short) $(if $(PLANT),--plant $(PLANT)) $(if $(SEED),--seed $(SEED)) $(PROVE)

cluster: .venv/.dev .cluster/.tools ## Fail Patroni, HAProxy, PgBouncer, etcd in the middle of runs; SCENARIO=, COUNT=20, TENANTS=, SHORT=1
	@export PATH="$$PATH:/usr/sbin"; if ! { command -v etcd && command -v haproxy; } >/dev/null; then \
		{ test "$$(id -u)" = 0 && apt-get update -qq && \
			apt-get install -qq --no-install-recommends etcd-server haproxy >/dev/null; } || \
		{ echo "NOT RUN: needs etcd and HAProxy: apt-get install etcd-server haproxy" >&2; exit 3; }; fi
	@program=$$(tools/new_pgbouncer.sh .pgbouncer) || { echo "NOT RUN: needs PgBouncer" >&2; exit 3; }; \
		$(BIN)/python -m harness.cluster --pgbouncer "$$program" $(if $(SCENARIO),--only $(SCENARIO)) $(if $(SHORT),--short) $(if $(TENANTS),--tenants $(TENANTS)) $(if $(COUNT),--times $(COUNT)) $(CLUSTER)

wheel: .venv/.runtime ## Build the wheel of a release in dist
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist .
	@ls dist/*.whl

clients: .clients/dist/.built ## Build the clients in Python and TypeScript in .clients/dist, from openapi.json
	@ls .clients/dist/*

.clients/dist/.built: openapi.json tools/clients/build.sh $(wildcard tools/clients/*/*) .clients/.tools
	@tools/clients/build.sh .clients
	@touch $@

test-clients: .venv/.dev .clients/dist/.built ## Check the examples of the clients strictly, and run them against the demo
	$(BIN)/pytest $(if $(T),$(T),tests/clients)

# What is not a part of the commit is not in the release. Each release has a folder of its own.
release: .venv/.runtime .supply/.tools .supply/.release .clients/dist/.built ## Build wheel, archive, clients, image, bill of materials, provenance and checksums in dist
	@$(BIN)/python -m tools.release build --clients .clients/dist dist $(CURDIR)/.supply/tools/bin/cyclonedx-py environment \
		--pyproject pyproject.toml --mc-type application --output-reproducible --output-format JSON \
		$(CURDIR)/.supply/release/bin/python --output-file

cut: .venv/.runtime ## Cut the changelog, and set the version: VERSION=1.2.0
	@$(BIN)/python -m tools.release cut $(or $(VERSION),"")
	@$(MAKE) --no-print-directory docs

sbom: .supply/.tools .supply/.release ## Write the bill of materials of a release to dist/sbom.cdx.json (CycloneDX)
	@mkdir -p dist
	@.supply/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-format JSON --output-file dist/sbom.cdx.json .supply/release/bin/python
	@echo dist/sbom.cdx.json

audit: .supply/.tools ## Look up known vulnerabilities of what is locked; status 3 if no index is reachable
	@.supply/tools/bin/python -m tools.advisories

docs: .venv/.dev ## Write docs/reference, openapi.json, requests.http, .env.example and commands.json from the code
	$(BIN)/python -m tools.reference

doc-blocks: .venv/.dev ## Run the commands of the documents, and compare what they print; PAGE=README.md chooses
	@$(BIN)/python -m tools.doc_blocks $(if $(PAGE),--only $(PAGE))

# A link or an anchor that leads nowhere fails. Always read anew (-E): docs/nav.toml is no dependency that Sphinx knows. `serve` shows it at /docs/manual; a wheel that is built afterwards has it.
site: .site/.tools ## Build the manual from docs, with its search, in src/tenantry/console/manual
	@rm -rf src/tenantry/console/manual
	@.site/tools/bin/sphinx-build -q -E -n -W --keep-going -b manual -c tools/site -d .site/doctrees . src/tenantry/console/manual
	@rm -rf src/tenantry/console/manual/_sources
	@echo src/tenantry/console/manual/index.html

format: .venv/.dev .node/.javascript ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	.node/javascript/node_modules/.bin/biome format --write --config-path tools/biome.json src/tenantry/console/static/*.js

lint: .venv/.dev ## Check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.dev ## Check the types
	$(BIN)/mypy

layers: .venv/.dev ## Check that imports go down the layers
	$(BIN)/lint-imports

words: .venv/.dev ## Count archaic and vague words in prose; WORDS=--files lists the files
	@$(BIN)/python -m tools.words $(WORDS)

javascript: .node/.javascript ## Check format, style and types of the console's JavaScript
	.node/javascript/node_modules/.bin/biome check --config-path tools/biome.json --error-on-warnings src/tenantry/console/static/*.js
	.node/javascript/node_modules/.bin/tsc --project tools/tsconfig.json

lock: $(UV) ## Lock the newest versions that pyproject.toml allows
	$(COMPILE) --upgrade --group build -o requirements/runtime.lock pyproject.toml
	$(COMPILE) --upgrade --extra otel --extra s3 --group build -c requirements/runtime.lock -o requirements/extras.lock pyproject.toml
	$(COMPILE) --upgrade --group dev -c requirements/extras.lock -o requirements/dev.lock pyproject.toml
	printf '%s\n' $(LOWEST) | $(COMPILE) --no-deps -o requirements/lowest.lock -
	$(COMPILE) --upgrade --group bench -c requirements/dev.lock -o requirements/bench.lock pyproject.toml
	$(COMPILE) --upgrade --group supply -c requirements/dev.lock -o requirements/supply.lock
	$(COMPILE) --upgrade --group clients -o requirements/clients.lock
	$(COMPILE) --upgrade --group deploy -o requirements/deploy.lock
	$(COMPILE) --upgrade --group cluster -c requirements/dev.lock -o requirements/cluster.lock
	$(COMPILE) --upgrade --group image -o requirements/image.lock
	$(COMPILE) --upgrade --group recipes -o requirements/recipes.lock
	$(COMPILE) --upgrade --group site -c requirements/dev.lock -o requirements/site.lock

# Neither is part of .venv: one has the tools that inspect a release, the other only a release.
.supply/.tools: requirements/supply.lock Makefile | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .supply/tools
	$(UV) pip sync --quiet --python .supply/tools/bin/python --require-hashes requirements/supply.lock
	@touch $@

.supply/.release: requirements/runtime.lock pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .supply/release
	$(UV) pip sync --quiet --python .supply/release/bin/python --require-hashes requirements/runtime.lock
	$(UV) pip install --quiet --python .supply/release/bin/python --no-deps --no-build-isolation .
	@touch $@

.image/.tools: requirements/image.lock Makefile | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .image/tools
	$(UV) pip sync --quiet --python .image/tools/bin/python --require-hashes requirements/image.lock
	@touch $@

.clients/.tools: requirements/clients.lock tools/clients/package-lock.json Makefile | $(UV)
	@command -v npm >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
		apt-get install -qq --no-install-recommends npm >/dev/null; } || \
		{ echo "NOT RUN: needs Node.js with npm: apt-get install npm" >&2; exit 3; }
	@$(UV) venv --quiet --clear --python $(PYTHON) .clients/python && \
		$(UV) pip sync --quiet --python .clients/python/bin/python --require-hashes requirements/clients.lock && \
		mkdir -p .clients/node && cp tools/clients/package*.json .clients/node && \
		npm ci --prefix .clients/node --no-audit --no-fund --silent || \
		{ echo "NOT RUN: needs the generators of clients: they cannot be installed" >&2; exit 3; }
	@touch $@

.deploy/.tools: requirements/deploy.lock Makefile | $(UV)
	@$(UV) venv --quiet --clear --python $(PYTHON) .deploy/tools && \
		$(UV) pip sync --quiet --python .deploy/tools/bin/python --require-hashes requirements/deploy.lock || \
		{ echo "NOT RUN: needs Caddy, Compose, kubectl: requirements/deploy.lock cannot be installed" >&2; exit 3; }
	@touch $@

.site/.tools: requirements/site.lock Makefile | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .site/tools
	$(UV) pip sync --quiet --python .site/tools/bin/python --require-hashes requirements/site.lock
	@touch $@

# Patroni runs as a user without rights, who cannot read a Python below the home folder of root.
.cluster/.tools: requirements/cluster.lock Makefile | $(UV)
	$(UV) venv --quiet --clear --python $(firstword $(wildcard /usr/bin/python3) $(PYTHON)) .cluster/tools
	$(UV) pip sync --quiet --python .cluster/tools/bin/python --require-hashes requirements/cluster.lock
	@touch $@

# Litestream's program, which only `test-recipes` runs.
.recipes/.tools: requirements/recipes.lock Makefile | $(UV)
	@$(UV) venv --quiet --clear --python $(PYTHON) .recipes/tools && \
		$(UV) pip sync --quiet --python .recipes/tools/bin/python --require-hashes requirements/recipes.lock || \
		{ echo "NOT RUN: needs Litestream: requirements/recipes.lock cannot be installed" >&2; exit 3; }
	@touch $@

clean: ## Remove everything that make has created
	rm -rf .venv .versions .uv .node .supply .image .clients .deploy .cluster .recipes .site src/tenantry/console/manual .pgbouncer dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Both environments are one: `demo` needs less of it, and takes nothing away from `test`.
.venv/.runtime: requirements/runtime.lock pyproject.toml | .venv/bin/python
	$(INSTALL) --require-hashes -r requirements/runtime.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: requirements/dev.lock pyproject.toml | .venv/bin/python
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch .venv/.runtime $@

.versions/.lowest: requirements/dev.lock requirements/lowest.lock pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .versions/lowest
	$(UV) pip sync --quiet --python .versions/lowest/bin/python --require-hashes requirements/dev.lock
	$(UV) pip install --quiet --python .versions/lowest/bin/python --no-deps --require-hashes -r requirements/lowest.lock
	$(UV) pip install --quiet --python .versions/lowest/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

# The versions of `test`, and the peers.
.venv/.bench: requirements/bench.lock .venv/.dev
	$(INSTALL) --require-hashes -r requirements/bench.lock
	@touch $@

# For development only: browsers run the console's files as they are. Both run on Node.js 16 or newer.
.node/.javascript: Makefile
	@if ! command -v npm >/dev/null; then \
		test "$$(id -u)" = 0 || { echo "Needs Node.js with npm: apt-get install npm" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -qq --no-install-recommends npm; fi >/dev/null
	@$(NPM) --save-exact --prefix .node/javascript $(JAVASCRIPT_TOOLS)
	@touch $@

# A peer of `bench-fleet`: the package holds the program, for each kind of machine.
.node/.dbmate: Makefile
	@$(NPM) --prefix .node dbmate@$(DBMATE_VERSION)
	@touch $@

.venv/bin/python: | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .venv

# A Python without pip may still have venv, which brings one.
$(UV):
	@test -n "$(PYTHON)" || { echo "Tenantry needs Python >= 3.11; PYTHON=/path/to/python names one." >&2; exit 1; }
	@$(PYTHON) -m pip install $(PIP_FLAGS) --target .uv/$(UV_VERSION) uv==$(UV_VERSION) || { \
		$(PYTHON) -m venv --clear .uv/$(UV_VERSION) && \
		.uv/$(UV_VERSION)/bin/pip install $(PIP_FLAGS) uv==$(UV_VERSION); }
