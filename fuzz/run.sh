#!/bin/sh
# Fuzzes every target, or those that are named, and sums up what was tried; fails where one fails.
# usage: fuzz/run.sh SECONDS JOBS [TARGET...]
# 0 SECONDS: no new inputs; each of seeds/ once.
# MAX_LEN=BYTES in the environment makes inputs shorter, and more; SEED=N repeatable, as far as
# time allows.
#
# The compiler's own coverage counters and libFuzzer, on the project's toolchain: neither nightly
# nor cargo-fuzz is needed. Those add sanitizers, see README.md.
set -eu
cd "$(dirname "$0")"

flags="--cfg fuzzing -Cpasses=sancov-module"
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
  flags="$flags -Cllvm-args=-sanitizer-coverage-$flag"
done

# What went wrong, and the input: all that is needed to try it again elsewhere.
explain() {
  target=$1 programs=$2 input=$3 log=$4
  echo "== $target"
  awk '/ panicked at /{on = 1} /^stack backtrace:|^==/{on = 0} on || /ERROR: libFuzzer/' "$log" |
    cut -c1-400 | head -n 20
  [ -s "$input" ] || return 0
  packed=$(gzip -9n <"$input" | base64 | tr -d '\n')
  if [ ${#packed} -gt 8192 ]; then
    echo "$(wc -c <"$input") bytes of input, too many to print: fuzz again with MAX_LEN=4096"
    return 0
  fi
  echo "To replay it elsewhere, in fuzz/ after 'make fuzz SECONDS=1 TARGETS=$target':"
  echo "echo $packed | base64 -d | gunzip >input; target/*/release/$target input"
}

# One target, in a process of its own: its line of the table, or what went wrong.
if [ "$1" = --one ]; then
  target=$2 programs=$3 seconds=$4
  mkdir -p "corpus/$target" "seeds/$target" "artifacts/$target"
  limit=-max_total_time=$seconds inputs="corpus/$target seeds/$target"
  [ "$seconds" -gt 0 ] || limit=-runs=0 inputs=seeds/$target
  log=artifacts/$target/log
  # shellcheck disable=SC2086
  if "$programs/$target" "$limit" -seed="${SEED:-0}" -timeout=30 \
    ${MAX_LEN:+-max_len="$MAX_LEN"} -print_final_stats=1 -artifact_prefix="artifacts/$target/" \
    $inputs >"$log" 2>&1; then
    awk -v target="$target" -v seconds="$seconds" '
      /^#[0-9]+\tDONE/ { for (i = 1; i < NF; i++) if ($i == "ft:") features = $(i + 1) }
      /number_of_executed_units/ { inputs = $2 }
      END { printf "%-16s %12d inputs %9d/s %7d features\n", target, inputs, seconds ? inputs / seconds : 0,
        features }' "$log"
    exit
  fi
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  tail -n 40 "$log" >&2
  explain "$target" "$programs" "$input" "$log" >"artifacts/$target/why"
  echo "$target FAILED, replay: (cd fuzz && $programs/$target $input)"
  exit 1
fi

seconds=$1 jobs=$2
shift 2
[ $# -gt 0 ] || set -- $(ls fuzz_targets | sed -n 's/\.rs$//p')
command -v c++ >/dev/null || {
  echo "error: no C++ compiler, which libFuzzer is built with" >&2
  echo "hint: install one, on Debian: apt-get install g++" >&2
  exit 1
}
cargo=${CARGO:-cargo}
# A target of its own keeps the counters out of build scripts and macros.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS=$flags "$cargo" build --release --locked --bins --target "$host"
programs=${CARGO_TARGET_DIR:-target}/$host/release
began=$(date +%s)
table=$(mktemp)
trap 'rm -f "$table"' EXIT
printf '%s\n' "$@" | xargs -I{} -P "$jobs" sh run.sh --one {} "$programs" "$seconds" |
  tee "$table"
sed -n 's/ FAILED, .*//p' "$table" | while read -r target; do cat "artifacts/$target/why"; done
awk -v seconds=$(($(date +%s) - began)) '
  / FAILED, / { failed++; again = again $0 "\n"; next }
  { inputs += $2; targets++ }
  END {
    printf "%s", again
    printf "%d targets, %.0f inputs, %.0f/s, %d crashes\n", targets + failed, inputs,
      inputs / (seconds > 0 ? seconds : 1), failed
    exit failed > 0
  }' "$table"
