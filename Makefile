# The one list of commands. Each sets up what it needs on a bare Debian machine (as root) and uses what
# is there.

CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help setup image demo model test soak margins lint fix doc package clean

ROUNDS ?= 20

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## install what is missing: compiler, Java, ZooKeeper, Docker
	@scripts/setup.sh

image: ## build or pull the container image, and print its name
	@scripts/image.sh

demo: setup ## several processes share one lock while some are killed and stopped; about a minute
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example demo

model: ## a model check of the algorithm under faults, some minutes; TRACE=1 shows the counter-examples
	@scripts/model.sh

test: setup ## all tests, against Docker and a local process where both exist
	@scripts/test.sh

soak: setup ## FAULTS=1000 random faults, SEED=n, on workers that share one lock; about 25 minutes
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example soak

margins: setup ## how long before its node goes a holder knows, in ROUNDS=20 of each kind of trouble; Curator beside
	@scripts/setup.sh curator
	@scripts/with-image.sh $(CARGO) run --quiet --all-features --example lease_margin -- $(ROUNDS)

lint: ## formatting, clippy, documentation, features, dependencies, the house rules
	@scripts/lint.sh

fix: ## what the tools can mend by themselves
	$(CARGO) fmt
	$(CARGO) clippy --all-features --all-targets --fix --allow-dirty --allow-staged

doc: ## the documentation, with private items
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --all-features --document-private-items

package: ## what would be published, built
	$(CARGO) package --allow-dirty

clean: ## remove what was built
	$(CARGO) clean
