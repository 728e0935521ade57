#!/bin/sh
# A first piece of real work: compress and checksum every source file of this project, once in a
# plain loop and once farmed over three hosts on this machine, and compare the two outputs. Then look
# into the clip that ships with the project, and plan how it and a longer video can be delivered.
# Usage: first-run.sh path/to/towpath
set -eu

towpath=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
export TOWPATH_HOME="$work/home"
cleanup() { "$towpath" down >/dev/null 2>&1 || true; rm -rf "$work"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

cd "$root"
find crates xtask docs fuzz scenarios examples -type f \
  \( -name '*.rs' -o -name '*.toml' -o -name '*.md' -o -name '*.sh' \) -not -path '*/target/*' |
  LC_ALL=C sort >"$work/files"
files=$(wc -l <"$work/files")
job='gzip -9nc "$1" | sha256sum'

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

echo "== serial: gzip -9 | sha256sum over $files files"
begin=$(milliseconds)
while IFS= read -r file; do sh -c "$job" sh "$file"; done <"$work/files" >"$work/serial"
serial=$(($(milliseconds) - begin))

echo "== three hosts on this machine"
"$towpath" up --hosts 3
"$towpath" hosts

echo "== the same, farmed"
begin=$(milliseconds)
"$towpath" farm --keep-order --arg-file "$work/files" --joblog "$work/joblog" \
  --report "$work/report.json" -- sh -c "$job" sh '{}' >"$work/farmed"
farmed=$(($(milliseconds) - begin))

if ! cmp "$work/serial" "$work/farmed"; then
  echo "error: the farm's output differs from the serial run's" >&2
  exit 1
fi
echo "== report"
cat "$work/report.json"
echo
echo "$files files: serial $serial ms, farmed $farmed ms; outputs identical"
"$towpath" down

data=crates/towpath-media/data
echo "== what is in the project's clip"
"$towpath" media info "$data/mpeg2.ts" | sed -n '1,/^Frame sizes/p' | sed '$d'
echo "== what rate, buffer and wait a video needs: the clip, then two minutes of a mix"
"$towpath" plan "$data/mpeg2.ts" --startup 200ms
"$towpath" plan "$data/mix-mpeg1.csv" --fps 30 --startup 500ms --buffer 256KiB
