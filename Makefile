# The one list of commands. What needs servers sets up all that it needs on a bare Debian machine (as root) and uses
# what is there; the rest needs Rust and a C compiler.

CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help setup image demo model sabotage test soak margins zklock-margins rolling-restart takeover bench bench-smoke bench-growth comparison lint versions fix doc package clean

ROUNDS ?= 20
LOSSES ?= 20

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 17

setup: ## install what is missing: compiler, Java, ZooKeeper, Docker
	@scripts/setup.sh

image: ## build or pull the container image, and print its name
	@scripts/image.sh

demo: setup ## several processes share one lock while some are killed and stopped; about a minute
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example demo

model: ## a model check of the algorithm under faults, some minutes; TRACE=1 shows the counter-examples
	@scripts/model.sh

sabotage: setup ## drops each condition of the rules that save round trips: a test fails; ONLY="head" for some
	@scripts/with-image.sh scripts/sabotage.sh $(ONLY)

test: setup ## all tests, against Docker and a local process where both exist
	@scripts/test.sh

soak: setup ## FAULTS=1000 random faults, SEED=n, on workers that share one lock, RECIPE=mutex, rw, semaphore, …; about 25 minutes
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example soak

margins: setup ## how long before its node goes a holder knows, in ROUNDS=20 of each kind of trouble; Curator beside
	@scripts/setup.sh curator
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example lease_margin -- $(ROUNDS)

zklock-margins: setup ## how long before the lock is given away the command of `zklock run` is dead, in LOSSES=20
	@LOSSES=$(LOSSES) scripts/with-image.sh $(CARGO) test --quiet --all-features --test zklock -- --nocapture margins

rolling-restart: setup ## whether a leader stays one while servers are restarted one by one, ROUNDS=20 times; Curator beside
	@scripts/setup.sh curator
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example rolling_restart -- $(ROUNDS) restarts

takeover: setup ## how soon another leads when the leader's process is killed, ROUNDS=20 times
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example rolling_restart -- $(ROUNDS) kills

bench: setup ## this crate beside Curator, kazoo and others, about twenty minutes on an idle machine; BENCH="--rounds 5 tasks16" for some
	@scripts/setup.sh curator kazoo || true # a peer that cannot be had is reported as missing
	@scripts/with-image.sh $(CARGO) bench --bench compare -- $(BENCH)

bench-smoke: setup ## each bench once, for a moment
	@scripts/setup.sh curator kazoo || true
	@scripts/with-image.sh $(CARGO) test --quiet --all-features --bench compare --bench pure --bench operations

bench-growth: setup ## what locks cost as they grow, Curator beside; a quarter of an hour, SMALL=1 tries it
	@scripts/setup.sh curator
	@SMALL=$(SMALL) $(CARGO) bench --quiet --all-features --bench growth

comparison: setup ## ZooKeeper's lock beside those on Redis, etcd and MariaDB, each run; five minutes, COMPARISON="--only redis --smoke" for some
	@scripts/setup.sh comparison || true # a server that cannot be had is reported as missing
	@$(CARGO) run --release --package zookeeper-recipes-comparison -- $(COMPARISON)

lint: ## formatting, clippy, documentation, features, dependencies, the house rules
	@scripts/lint.sh

versions: ## the library and the tool with the oldest compiler, and with the oldest dependencies; some minutes
	@scripts/versions.sh

fix: ## what the tools can mend by themselves
	$(CARGO) fmt
	$(CARGO) clippy --all-features --all-targets --fix --allow-dirty --allow-staged

doc: ## the documentation, with private items
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features --document-private-items

package: ## what would be published, built from the archive alone: library, tool, examples
	@scripts/package.sh

clean: ## remove what was built
	$(CARGO) clean
