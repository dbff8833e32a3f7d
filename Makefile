# Each target is a line anybody could type.
.DEFAULT_GOAL := help
.PHONY: help run web tmux test test-web shots test-agents agents schemathesis check lint deny bench crash fuzz dev install dist clean

CACHE := .cache
DENY_VERSION := 0.20.2
MACHETE_VERSION := 0.9.2
FUZZ_VERSION := 0.13.2
FUZZ_SECONDS := 1800
DEB_VERSION := 3.8.0
PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: ## Build, then start a host in a scratch home with three demo agents to answer
	scripts/web --optional
	cargo build --locked -p countersign
	$(TARGET)/debug/countersign demo run

web: ## Build the web page, which the next cargo build puts into the binary
	scripts/web

tmux: ## Install tmux for the tests of the terminal UI, if it is missing
	scripts/tmux

test: agents web tmux ## All tests; CI runs this, `make lint` and `make deny`
	scripts/bubblewrap
	COUNTERSIGN_AGENTS_REQUIRED=1 cargo test --locked --workspace
	$(MAKE) test-web
	$(MAKE) schemathesis

test-web: web ## Types and tests of the web page, some of them in Chromium
	cd web && npm run check && npm test
	cargo build --locked --workspace
	CHROMIUM="$$(scripts/browser)" && export CHROMIUM && \
		export COUNTERSIGN_BIN="$$(realpath "$${CARGO_TARGET_DIR:-target}")/debug/countersign" && \
		cd web && npm run test:browser

shots: web ## Pictures of every screen of the web page, both themes, desktop and phone, into web/shots
	cargo build --locked --workspace
	scripts/shots

schemathesis: ## Test every REST operation of a scratch host against its own document
	cargo build --locked -p countersign
	scripts/schemathesis

agents: ## Fetch the agents that tests run, at pinned versions, into the cache
	scripts/agents

test-agents: ## The tests with real agents, with defect among them, which is built once
	scripts/agents --defect
	COUNTERSIGN_AGENTS_REQUIRED=all cargo test --locked -p countersign --test it -- real_agents

check: lint ## Format, lints and the fast tests
	cargo test --locked --workspace --lib --bins

lint: $(CACHE)/bin/cargo-machete ## Format, lints and unused dependencies
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(CACHE)/bin/cargo-machete crates fuzz

# Built without optimisation: each runs for seconds, and a fresh clone builds them first.
$(CACHE)/bin/cargo-machete:
	cargo install --debug cargo-machete --version $(MACHETE_VERSION) --locked --root $(CACHE) --target-dir $(CACHE)/target
	rm -rf $(CACHE)/target

deny: $(CACHE)/bin/cargo-deny ## Licences, sources and who may depend on what
	$(CACHE)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

$(CACHE)/bin/cargo-deny:
	cargo install --debug cargo-deny --version $(DENY_VERSION) --locked --root $(CACHE) --target-dir $(CACHE)/target
	rm -rf $(CACHE)/target

bench: ## Measure this build, against the same server in memory in the same run
	cargo build --locked --release -p countersign -p countersign-testkit
	$(TARGET)/release/bench all --json $(CACHE)/bench.json

crash: ## Kill the host some hundreds of times under load and check that nothing is lost
	cargo build --locked -p countersign -p countersign-testkit
	$(TARGET)/debug/crash --kills 300
	COUNTERSIGN_AGENT_KILLS=200 cargo test --locked -p countersign --test it agents_outlive_a_host_that_is_killed_at_some_moment
	COUNTERSIGN_OUTLIVE_KILLS=200 cargo test --locked -p countersign --test it twenty_agents_lose_nothing_and_repeat_nothing

fuzz: $(CACHE)/bin/cargo-fuzz ## Fuzz commands, rules and wildcards (in a real bash); needs a nightly compiler
	cargo +nightly run --manifest-path fuzz/Cargo.toml --bin seeds -- crates/rules/corpus/corpus.jsonl fuzz/corpus
	cd fuzz && PATH="$(CURDIR)/$(CACHE)/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir . -O verdict -- -max_len=500 -timeout=10 -max_total_time=$(FUZZ_SECONDS)
	cd fuzz && PATH="$(CURDIR)/$(CACHE)/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir . -O rule -- -max_len=400 -timeout=10 -max_total_time=$(FUZZ_SECONDS)
	cd fuzz && PATH="$(CURDIR)/$(CACHE)/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir . -s none -O expansion -- -max_len=64 -len_control=0 -max_total_time=$(FUZZ_SECONDS)

$(CACHE)/bin/cargo-fuzz:
	cargo install cargo-fuzz --version $(FUZZ_VERSION) --locked --root $(CACHE) --target-dir $(CACHE)/target
	rm -rf $(CACHE)/target

dev: web ## A host in the foreground in a scratch home, with the web page from web/dist
	cargo build --locked -p countersign
	COUNTERSIGN_HOME=$$(mktemp -d) $(TARGET)/debug/countersign up --web-dir web/dist

install: web ## Build and install into $(DESTDIR)$(PREFIX): the binary, manual pages, completions
	cargo build --locked --release -p countersign
	DESTDIR="$(DESTDIR)" scripts/install-files "$${CARGO_TARGET_DIR:-target}/release/countersign" "$(PREFIX)"

dist: web $(CACHE)/bin/cargo-deb ## Build a static binary and a Debian package with checksums, and start both
	scripts/dist $(CURDIR)/$(CACHE)/bin/cargo-deb
	scripts/dist-test

$(CACHE)/bin/cargo-deb:
	cargo install cargo-deb --version $(DEB_VERSION) --locked --root $(CACHE) --target-dir $(CACHE)/target
	rm -rf $(CACHE)/target

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf $(CACHE) web/dist web/node_modules
