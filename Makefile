# The two doors: `make run` builds everything and does a first piece of real work, `make test`
# passes every test that CI runs. `make help` lists the rest.

CARGO ?= cargo
BIN := target/release/towpath
# What `make test` builds, once, and what all its tests drive: see docs/decisions/0010.
CI := --profile ci --locked
CI_BIN := target/ci/towpath
XTASK := $(CARGO) run --quiet $(CI) -p xtask --

.PHONY: help cargo run quick test build install uninstall check lint prove plants replay seeds swarm soak \
  count idle loom kills size faults figures predictions transport fuzz nightly mutants big-endian turbo peers

help:
	@echo "make run     build, bring up three hosts, farm a real command over this project's files"
	@echo "make quick   format, lints, house rules, unit tests: a few minutes where most is built"
	@echo "make test    everything that CI runs, but for loom and fuzzing"
	@echo "make build   release build of the towpath command: $(BIN)"
	@echo "make install    command, libraries, headers, manual under PREFIX (/usr/local), in DESTDIR"
	@echo "make uninstall  takes that away again"
	@echo "make check   formatting, lints, documentation, house rules, purity, dependencies"
	@echo "make plants  planted bugs, each of which the simulator must find"
	@echo "make nightly soaks, all fuzz targets, 10000 seeds, the large runs (hours)"
	@echo "make swarm   4000 simulated runs with faults: hosts, whole machines, one link and two"
	@echo "make soak    property tests with CASES (default 5000) fresh random cases each"
	@echo "make idle    what two idle daemons cost: processor time and packets (135 s)"
	@echo "make loom    shared memory under a model checker, every order of events (needs crates)"
	@echo "make turbo    JPEG by libjpeg-turbo, which the default build leaves out (minutes; cmake, nasm)"
	@echo "make peers    LU and products beside a library, in one run (minutes)"
	@echo "make mutants  whether unit tests notice changes: 300 and more of them (hours)"
	@echo "make kills   10000 tasks killed at random moments on real daemons (minutes)"
	@echo "make faults  every fault that can meet every role, or FAULTS=worker/cut-3s (minutes)"
	@echo "make figures how soon ends are known, many senders, 1000 simulated hosts (minutes)"
	@echo "make predictions  applications over simulated networks: docs/applications.md (minutes)"
	@echo "make transport  the simulated figures of docs/transport.md"
	@echo "make count   instructions of a packet and a message, here and in OTHER=checkout (minutes)"
	@echo "make big-endian  unit tests on an emulated machine of the other byte order"
	@echo "make fuzz    fuzz every parser (or TARGETS) for SECONDS (default 60) each, JOBS at a time"
	@echo "make replay  every committed input of the fuzz targets, once"
	@echo "make seeds   these inputs, written anew: those of formats that changed change"

cargo:
	@command -v $(CARGO) >/dev/null || { \
	  echo "error: cargo is not installed"; \
	  echo "hint: install Rust with rustup, then run make again"; exit 1; }
	@command -v cc >/dev/null || { \
	  echo "error: no C compiler"; \
	  echo "hint: install one, on Debian: apt-get install gcc libc6-dev make"; exit 1; }

build: cargo
	$(CARGO) build --release --locked -p towpath-cli -p towpath-apps

PREFIX ?= /usr/local
DESTDIR ?=
install: cargo
	$(CARGO) build --release --locked -p towpath-cli -p towpath-apps -p towpath-capi -p towpath-pvm3
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh packaging/install.sh

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh packaging/install.sh uninstall

run: build
	@sh examples/first-run.sh $(BIN)

SANS_IO := wire|proto|qos|bound|vm|media|node
# Before each commit; what proves purity only where something of it is not committed yet. The debug profile, incremental: what is built already stays built.
quick: cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) xtask test -- --workspace --locked --lib --bins --quiet
	@if git diff --name-only HEAD | grep -qE '^(xtask/|Cargo|crates/towpath-($(SANS_IO))/)'; \
	  then $(CARGO) xtask purity; fi

lint: cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets $(CI) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps $(CI) --quiet
	$(XTASK) tidy

# The checks of the checks, and those that build a copy of their own.
prove: cargo
	$(XTASK) purity
	$(XTASK) selfcheck
	$(XTASK) deny

check: lint prove

# Property tests draw the same cases on every machine, so that a change is judged by what it
# changed; `make soak` draws others.
PROPTEST_RNG_SEED ?= 1
# Skips that are no fault, where CI says so; without a list any skip is.
ALLOW ?=
test: check plants
	$(CARGO) test --workspace $(CI) --no-run
	$(CI_BIN) sim run --seeds 500
	$(CI_BIN) sim run scenarios/two-links.toml --seeds 200
	@sh examples/first-run.sh $(CI_BIN)
	PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) $(XTASK) test $(ALLOW:%=--allow %) -- \
	  --workspace $(CI) --no-fail-fast

# Our crates are compiled anew, under names that no binary of anything else has.
plants: cargo
	RUSTC_WORKSPACE_WRAPPER="$(CURDIR)/xtask/plant-rustc" $(CARGO) test $(CI) \
	  -p towpath-sim --test plants

# Counts are the same on a busy machine; needs valgrind.
count: cargo
	$(XTASK) count $(OTHER)

CASES ?= 5000
soak: cargo
	PROPTEST_CASES=$(CASES) $(CARGO) test --workspace $(CI) --lib

SEEDS ?= 1000
swarm: build
	$(BIN) sim run --seeds $(SEEDS)
	$(BIN) sim run scenarios/two-links.toml --seeds $(SEEDS)
	$(BIN) sim vm --seeds $(SEEDS) >/dev/null
	$(BIN) sim vm --links 2 --seeds $(SEEDS) >/dev/null
	for voters in 1 3 5; do \
	  $(BIN) sim vm --voters $$voters --faults 2 --aparts 3 --seeds $(SEEDS) >/dev/null || exit 1; \
	done
	$(BIN) sim vm --voters 3 --faults 3 --seeds $(SEEDS) >/dev/null
	$(BIN) sim vm --voters 5 --hosts 9 --faults 5 --seeds $(SEEDS) >/dev/null
	for voters in 1 3 5; do \
	  $(BIN) sim vm --voters $$voters --faults 1 --mail-bytes 100000 --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --faults 2 --restarts 2 --endings 1 --mail-bytes 100000 --seeds $(SEEDS) >/dev/null || exit 1; \
	done
	for voters in 1 3 5; do \
	  $(BIN) sim vm --voters $$voters --faults 2 --restarts 3 --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --faults 3 --power-cuts 1 --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --faults 1 --restarts 2 --power-cuts 1 --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --faults 2 --endings 3 --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --hosts 3 --faults 0 --endings 4 --seeds $(SEEDS) >/dev/null || exit 1; \
	done
	for voters in 1 3 5; do \
	  $(BIN) sim vm --voters $$voters --faults 5 --aparts 2 --unique --seeds $(SEEDS) >/dev/null && \
	  $(BIN) sim vm --voters $$voters --faults 3 --restarts 2 --endings 1 --unique --seeds $(SEEDS) >/dev/null || exit 1; \
	done
	for nodes in 3 5 9; do $(BIN) sim consensus --nodes $$nodes --seeds $(SEEDS) >/dev/null || exit 1; done

# LU and products of the applications beside faer, in one program that is built for that alone.
peers: cargo
	$(CARGO) run --release --locked --manifest-path peers/Cargo.toml

# What is no part of the default build of the applications: JPEG by libjpeg-turbo, whose sources
# cmake and nasm build. With its rates.
turbo: cargo
	@if command -v cmake && command -v nasm; then set -x; \
	  $(CARGO) clippy $(CI) -p towpath-apps --all-targets --features turbo -- -D warnings && \
	  $(CARGO) test $(CI) -p towpath-apps --features turbo -- jpeg rat --include-ignored; \
	else echo "SKIPPED turbo: no cmake or no nasm (Debian: cmake nasm)"; fi

# All that takes too long for each change.
nightly: test loom
	$(MAKE) turbo peers
	$(MAKE) swarm SEEDS=10000
	$(MAKE) soak kills size faults
	$(XTASK) test $(ALLOW:%=--allow %) -- --workspace $(CI) --no-fail-fast -- --ignored \
	  --skip faults::every_cell
	$(MAKE) seeds
	$(MAKE) fuzz SECONDS=300
	$(MAKE) big-endian mutants

# What is installed of the command, without symbols, has 20 MB at most.
SIZE_MAX := 20000000
size: build
	@at=$$(mktemp) && objcopy --strip-unneeded $(BIN) "$$at" && size=$$(wc -c <"$$at"); \
	rm -f "$$at"; echo "$(BIN): $$size bytes without symbols, limit $(SIZE_MAX)"; \
	test "$$size" -le $(SIZE_MAX)

kills: cargo
	TOWPATH_KILLS=10000 $(CARGO) test --release --locked -p towpath --test kills -- --nocapture

# Cells of docs/faults.md: all, or those whose names begin so. PAGE=1 writes that page anew.
FAULTS ?= all
PAGE ?=
faults: cargo
ifneq ($(PAGE),)
	TOWPATH_FAULTS_PAGE=1 $(CARGO) test $(CI) --workspace --test it -- faults::the_page
else
	TOWPATH_FAULTS='$(FAULTS)' $(XTASK) test -- $(CI) --workspace --test it -- \
	  faults::every_cell --ignored --nocapture
endif

# Figures of docs/vm.md that no `bench` measures: printed by tests, on a machine otherwise idle.
figures: build
	TOWPATH_ENDS=200 $(CARGO) test --release --locked -p towpath --test kills \
	  a_watcher_knows -- --nocapture
	$(CARGO) test --release --locked -p towpath --test it many_senders -- --nocapture
	$(CARGO) test --release --locked -p towpath --test it both_may_send -- --nocapture
	$(CARGO) test --release --locked -p towpath-cli --test it \
	  a_killed_daemon_is_known_as -- --nocapture
	$(BIN) sim vm --hosts 1000 --tasks 20000 --faults 20 --seed 2

# The tables of docs/applications.md: recorded here, replayed there. RUNS=5: of so many runs of each
# the least work counts; KEEP=DIR keeps the records.
RUNS ?= 5
KEEP ?=
predictions: build
	@RUNS=$(RUNS) sh examples/predictions.sh $(dir $(BIN)) $(KEEP)

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

# Unit tests of all that is written on wires, and of PVM's packed messages, on an emulated machine of
# the other byte order (Debian: qemu-user-static gcc-s390x-linux-gnu libc6-dev-s390x-cross; rustup
# target add s390x-unknown-linux-gnu). Minutes.
BIG := s390x-unknown-linux-gnu
big-endian: cargo
	@if command -v qemu-s390x-static && command -v s390x-linux-gnu-gcc && \
	    rustc --print target-libdir --target $(BIG) | xargs test -d; then \
	  export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc \
	    CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x-static -L /usr/s390x-linux-gnu" \
	    PROPTEST_CASES=16; \
	  set -x; \
	  $(CARGO) test --locked --target $(BIG) --target-dir target/big-endian --lib \
	    -p towpath-wire -p towpath-proto -p towpath-vm -p towpath-node && \
	  $(CARGO) test --locked --target $(BIG) --target-dir target/big-endian --lib \
	    -p towpath-pvm3 -- message::; \
	else echo "SKIPPED big-endian: no emulator, compiler or Rust target for s390x"; fi

mutants: cargo
	$(CARGO) xtask mutants

SECONDS ?= 60
JOBS ?= 1
fuzz: cargo
	@sh fuzz/run.sh $(SECONDS) $(JOBS) $(TARGETS)

replay: cargo
	@sh fuzz/run.sh 0 1 $(TARGETS)

# The committed inputs, written anew: they change where formats do.
seeds: cargo
	cd fuzz && $(CARGO) run --quiet --locked --example seeds
