# The few commands of the repository. `make` or `make help` lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
# The order of prerequisites matters: packages come before what needs them.
.NOTPARALLEL:
.PHONY: help demo test check build deb tarball wheel recipes samples programs packages corpus bench truth numa aarch64 page-album clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: packages build samples ## install what is missing, build, profile a program before and after its fix
	@sh scripts/demo.sh $(TARGET)

# Without the packages the tests still run: those that need one say so and are counted as skipped. A shell starts what is in
# its background (`make test &`) with interrupts ignored, and so would what the tests interrupt ignore them.
test: ## install what is missing, run all tests and checks; the last line counts them
	@sh scripts/packages.sh numa || echo "going on without; tests that need them will be skipped"
	@sh scripts/page_packages.sh || echo "going on without; tests of the page will be skipped"
	@sh scripts/python_packages.sh || echo "going on without; tests of other programs' formats will be skipped"
	@env --default-signal=INT,QUIT cargo xtask test

check: ## format, lints, house rules, licences (where cargo-deny is installed)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask check
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check licenses bans sources; \
	else echo "skipped: cargo-deny is not installed: cargo install --locked cargo-deny"; fi

build: ## the program, optimised: target/release/fathom
	cargo build --release --locked -p fathom

deb: build ## a Debian package in target/packages, with man pages and shell completions
	@sh scripts/package.sh deb $(TARGET)/release/fathom $(TARGET)/packages

tarball: build ## the same as target/packages/fathom-VERSION-MACHINE.tar.gz
	@sh scripts/package.sh tarball $(TARGET)/release/fathom $(TARGET)/packages

wheel: build ## the Python package fathom-profiler, with the program in it, as a wheel in target/packages
	@sh scripts/python_packages.sh
	@sh scripts/package.sh wheel $(TARGET)/release/fathom $(TARGET)/packages

# Options of bench/recipes.py, e.g. RECIPES='1 4' or RECIPES=--write-docs.
recipes: build samples ## walk the four recipes of docs/guide in under 10 minutes, and check their conclusions
	@bench/recipes.py --fathom $(TARGET)/release/fathom $(RECIPES)

samples: ## the sample programs of the recipes, in C
	@$(MAKE) --no-print-directory -C recipes

programs: ## the programs that the tests run, in C
	@$(MAKE) --no-print-directory -C tests/programs

packages: ## what the above needs from Debian or Ubuntu: installs it as root, else says how
	@sh scripts/packages.sh

# Options of tests/corpus/corpus.py; CORPUS=--short takes under a minute, the default hours.
CORPUS ?= --kills 10

corpus: build ## real programs under the burst tracer: same output, exit code, state; CORPUS=--short for a few
	@sh scripts/packages.sh corpus || echo "going on without; programs that are missing will be skipped"
	@$(MAKE) --no-print-directory -C tests/programs corpus
	@tests/corpus/corpus.py --fathom $(TARGET)/release/fathom $(CORPUS)

bench: ## list the benches; each is a program that prints a table
	@awk 'FNR == 1 { runs = /^#!/ } FNR == 2 && runs { sub(/^("""|# *)/, ""); printf "  %-30s %s\n", FILENAME, $$0 }' \
		$(wildcard bench/*.sh bench/*.py)

# Results to show instead of small ones that it records: ALBUM='mine=r000ma other=r001ma'.
page-album: build ## every view of the page at three widths, light and dark, as pictures in target/page-album.html
	@sh scripts/page_packages.sh
	@bench/page_album.py $(TARGET)/page-album.html $(ALBUM)

numa: build ## remote memory is found, and predicted as measured, on virtual machines with NUMA nodes; installs QEMU, or skips
	@sh scripts/packages.sh numa || echo "going on without; what is missing is said"
	@tests/numa/numa.py --fathom $(TARGET)/release/fathom

aarch64: ## build for aarch64; samples, heap, threads and counters are right on an emulated machine; installs what it takes, or skips
	@sh scripts/packages.sh aarch64 || echo "going on without; what is missing is said"
	@tests/aarch64/aarch64.py

# Options of bench/truth.py; TRUTH=--quick takes minutes, the default an hour. SEED or COUNT: programs drawn anew instead, by
# bench/drawn.py; without SEED it takes a fresh one and prints it.
TRUTH ?= --store

truth: build ## estimates against programs whose memory traffic is known; COUNT=100 draws as many new ones
	@$(if $(SEED)$(COUNT),bench/drawn.py $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
		$(filter-out $(if $(filter file,$(origin TRUTH)),--store),$(TRUTH)),bench/truth.py $(TRUTH)) \
		--fathom $(TARGET)/release/fathom

clean: ## remove everything that was built
	cargo clean
	@$(MAKE) --no-print-directory -C recipes clean
	@$(MAKE) --no-print-directory -C tests/programs clean
	@$(MAKE) --no-print-directory -C bench/truth clean
