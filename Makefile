# The two doors: `make run` builds everything and does a first piece of real work, `make test`
# passes every test that CI runs. `make help` lists the rest.

CARGO ?= cargo
BIN := target/release/towpath

.PHONY: help cargo run test build install uninstall check swarm soak idle loom kills figures transport fuzz mutants

help:
	@echo "make run     build, bring up three hosts, farm a real command over this project's files"
	@echo "make test    everything that CI runs, but for loom and half a minute of fuzzing each parser"
	@echo "make build   release build of the towpath command: $(BIN)"
	@echo "make install    command, libraries, headers, manual under PREFIX (/usr/local), in DESTDIR"
	@echo "make uninstall  takes that away again"
	@echo "make check   formatting, lints, documentation, house rules, purity, dependencies"
	@echo "make swarm   1000 simulated runs with faults"
	@echo "make soak    property tests with CASES (default 5000) fresh random cases each"
	@echo "make idle    what two idle daemons cost: processor time and packets (135 s)"
	@echo "make loom    shared memory under a model checker, every order of events (needs crates)"
	@echo "make mutants  whether unit tests notice changes: 300 and more of them (hours)"
	@echo "make kills   10000 tasks killed at random moments on real daemons (minutes)"
	@echo "make figures how soon ends are known, many senders, 1000 simulated hosts (minutes)"
	@echo "make transport  the simulated figures of docs/transport.md"
	@echo "make fuzz    fuzz every parser (or TARGETS) for SECONDS (default 60) each, JOBS at a time"

cargo:
	@command -v $(CARGO) >/dev/null || { \
	  echo "error: cargo is not installed"; \
	  echo "hint: install Rust with rustup, then run make again"; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "error: no C compiler"; \
	  echo "hint: install one, on Debian: apt-get install gcc libc6-dev make"; exit 1; }

build: cargo
	$(CARGO) build --release --locked -p towpath-cli

PREFIX ?= /usr/local
DESTDIR ?=
install: cargo
	$(CARGO) build --release --locked -p towpath-cli -p towpath-capi -p towpath-pvm3
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh packaging/install.sh

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh packaging/install.sh uninstall

run: build
	@sh examples/first-run.sh $(BIN)

check: cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) xtask tidy
	$(CARGO) xtask purity
	$(CARGO) xtask selfcheck
	$(CARGO) xtask deny

# Property tests draw the same cases on every machine, so that a change is judged by what it
# changed; `make soak` draws others.
PROPTEST_RNG_SEED ?= 1
test: check build
	$(BIN) sim run --seeds 500
	@sh examples/first-run.sh $(BIN)
	PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) $(CARGO) test --workspace --locked --no-fail-fast

CASES ?= 5000
soak: cargo
	PROPTEST_CASES=$(CASES) $(CARGO) test --workspace --locked --lib

swarm: build
	$(BIN) sim run --seeds 1000

kills: cargo
	TOWPATH_KILLS=10000 $(CARGO) test --release --locked -p towpath --test kills -- --nocapture

# Figures of docs/vm.md that no `bench` measures: printed by tests, on a machine otherwise idle.
figures: build
	TOWPATH_ENDS=200 $(CARGO) test --release --locked -p towpath --test kills \
	  a_watcher_knows -- --nocapture
	$(CARGO) test --release --locked -p towpath --test it many_senders -- --nocapture
	$(CARGO) test --release --locked -p towpath --test it both_may_send -- --nocapture
	$(CARGO) test --release --locked -p towpath-cli --test it \
	  a_killed_daemon_is_known_as -- --nocapture
	$(BIN) sim vm --hosts 1000 --tasks 20000 --faults 20 --seed 2

# The simulated rows of the table in docs/transport.md; minutes.
transport: build
	$(CARGO) bench --locked -p towpath-io --bench transport
	$(BIN) sim run scenarios/transfer/*.toml
	$(BIN) sim repair
	$(CARGO) test --release --locked -p towpath-sim --test it -- fairness:: handshake:: nodes::
	$(CARGO) test --release --locked -p towpath-sim --test it every_cell -- \
	  --ignored --nocapture

idle: build
	@sh examples/idle.sh $(BIN)

loom: cargo
	$(CARGO) run --release --locked --manifest-path loom/Cargo.toml

mutants: cargo
	$(CARGO) xtask mutants

SECONDS ?= 60
JOBS ?= 1
fuzz: cargo
	@sh fuzz/run.sh $(SECONDS) $(JOBS) $(TARGETS)
