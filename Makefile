# The one list of commands. What needs servers installs what is missing on a bare Debian machine (as root) and uses what is
# there; the rest needs Rust and a C compiler.

CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help setup image demo quick test test-all conformance soak margins simulate model pictures mutants bench comparison lint versions versions-matrix deny files fix doc package release clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 17

setup: ## install what is missing: compiler, Java, ZooKeeper
	@scripts/setup.sh

image: ## build or pull the container image, and print its name
	@scripts/setup.sh docker
	@scripts/image.sh

demo: setup ## several processes share one lock while some are killed and stopped; about a minute
	@$(CARGO) run --quiet -p tools --bin demo

quick: ## format, clippy, unit tests and house rules; no server
	@scripts/test.sh quick

test: setup ## the tests that CI runs, on local servers; some four minutes once built
	@scripts/setup.sh curator kazoo || true # a peer that cannot be had is reported as missing, and in CI fails
	@scripts/test.sh test

test-all: setup ## all tests, with Docker, the soak of each recipe and each bench once; under 45 minutes
	@scripts/setup.sh curator kazoo docker || true
	@scripts/test.sh all

conformance: setup ## random scripts on simulated and on real servers, some ten minutes; SCRIPTS=100, SEED=n and SERVERS=1 or 3 for one run
	@scripts/conformance.sh

soak: setup ## FAULTS=1000 random faults, SEED=n, on workers that share one lock, RECIPE=mutex, rw or semaphore; RECIPE=threads SECONDS=300 for the threads of one; RECIPE=upgrade ROUNDS=3 for servers that are upgraded; PEERS=curator-5.9.0,kazoo among the workers
ifneq ($(filter upgrade,$(RECIPE))$(PEERS),)
	@scripts/setup.sh curator kazoo
endif
ifeq ($(RECIPE),upgrade)
	@$(CARGO) run --quiet -p tools --bin margins -- upgrade
else
	@$(CARGO) run --quiet -p tools --bin soak
endif

margins: ## how long before its node is deleted a holder knows of the loss, Curator beside; MARGINS="20 restarts" for one of five
	@scripts/setup.sh curator
	@$(CARGO) run --quiet -p tools --bin margins -- $(MARGINS)

simulate: ## random work and faults in virtual time; SECONDS=600, FIRST=n, SEED=n, PICTURE=run.svg, SAME=n, SABOTAGE=all: docs/internals/simulation.md
ifdef SABOTAGE
	@scripts/sabotage.sh "$(SABOTAGE)"
else
	@$(CARGO) test --quiet --profile simulate --features simulation --test simulation -- $(foreach option,SECONDS FIRST SEED SEEDS HASHES SAME UNORDERED THREADS PICTURE,$(if $($(option)),$(option)=$($(option))))
endif

model: ## every state of the local queues in sizes that are too large for `make test`; three minutes
	@$(CARGO) test --quiet --profile simulate --features simulation --lib local_queue::tests::model -- --ignored --nocapture

pictures: ## the pictures of docs/images, each of a run in virtual time
	@$(CARGO) test --quiet --profile simulate --features simulation --test simulation -- PICTURES=docs/images

mutants: ## build the mutants of scripts/mutants.txt, and run the tests that have to catch them; ONLY="core: .*" for some
	@scripts/mutants.sh $(if $(ONLY),"$(ONLY)",all)

bench: ## this crate beside Curator, kazoo and others, about twenty minutes on an idle machine; BENCH="--rounds 5 tasks16" for some, BENCH=charts for the chart of the last figures
ifneq ($(BENCH),charts)
	@scripts/setup.sh curator kazoo || true # a peer that cannot be had is reported as missing
endif
	@$(CARGO) bench -p tools --bench compare -- $(BENCH)

comparison: ## ZooKeeper's lock beside those on Redis, etcd and MariaDB; COMPARISON="redis" for some
	@scripts/setup.sh comparison || true # a server that cannot be had is reported as missing
	@$(CARGO) run --release -p zookeeper-recipes-comparison -- $(COMPARISON)

lint: ## formatting, clippy, documentation, features, dependencies, the house rules
	@scripts/lint.sh

versions-matrix: setup ## the tests on each version of ZooKeeper, Curator and kazoo, for docs/guide/versions.md; an hour; ONLY=zookeeper-3.9.5 for some
	@scripts/setup.sh curator kazoo
	@scripts/versions-matrix.sh

versions: ## every set of features, the API since the last release, the oldest compiler and dependencies; some minutes
	@scripts/versions.sh

deny: ## licences, sources and known vulnerabilities of the dependencies; needs a network
	@scripts/cargo-tool.sh cargo-deny check --hide-inclusion-graph

files: ## the workflows, and the examples for Docker, Kubernetes, Prometheus and Grafana
	@scripts/setup.sh files
	@scripts/files.sh

fix: ## what the tools can mend by themselves
	$(CARGO) fmt --all
	$(CARGO) clippy --all-features --all-targets --fix --allow-dirty --allow-staged

doc: ## the documentation, with private items
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features --document-private-items

package: ## what would be published, built from the archives alone
	@scripts/package.sh

release: ## zklock as a static program, Debian package, RPM and container image, in target/dist
	@scripts/release.sh

clean: ## remove what was built
	$(CARGO) clean
