#!/bin/sh
# Records applications as threads here, replays them over the networks in scenarios/job: the tables
# of docs/applications.md, "Predicted".
# usage: examples/predictions.sh DIRECTORY-OF-PROGRAMS [KEEP]
# KEEP: a directory for the records; without one they are deleted in the end.
# RUNS=N in the environment: of so many runs of each the least work counts (default 5). Minutes.
set -eu
cd "$(dirname "$0")/.."
bin=$(cd "$1" && pwd)
runs=${RUNS:-5}
if [ -n "${2:-}" ]; then
  mkdir -p "$2"
  at=$(cd "$2" && pwd)
else
  at=$(mktemp -d)
  trap 'rm -rf "$at"' EXIT
fi
nets=scenarios/job

# record NAME "TASKS ..." APPLICATION...
record() {
  name=$1 counts=$2
  shift 2
  for tasks in $counts; do
    for run in $(seq "$runs"); do
      "$bin/towpath-apps" --tasks "$tasks" --record "$at/$name.$tasks.$run" "$@" >/dev/null
    done
  done
}

# replay NAME "TASKS ..." OPTIONS...
replay() {
  name=$1 counts=$2
  shift 2
  files=
  for tasks in $counts; do
    files="$files $(echo "$at/$name.$tasks".*)"
  done
  # Names without spaces, by construction.
  "$bin/towpath" sim job $files "$@"
  echo
}

echo "== Table 1: tracker, 1000 targets; one node as in the source"
for sharing in ssdp psdp; do
  record "$sharing" "1 2 4 8" tracker --targets 1000 --sharing "$sharing"
done
for pair in ssdp:179.56s psdp:180.75s; do
  replay "${pair%:*}" "1 2 4 8" --one-rank "${pair#*:}" --network $nets/atm-lan.toml \
    --network $nets/nynet.toml --network $nets/ethernet-10.toml
done

echo "== Table 2: options; one node as in the source"
record options "1 2 4 8" options
replay options "1 2 4 8" --one-rank 505ms --network $nets/sp1-ethernet.toml \
  --network $nets/sp1-switch.toml
replay options "1 2 4 8" --one-rank 469ms --network $nets/alpha-gigaswitch.toml

echo "== Table 3: JPEG, 512 x 397; one node as in the source"
record jpeg "1 2 3 4 5 8" jpeg
replay jpeg "1 2 3 4 5 8" --one-rank 5.05s --network $nets/atm-lan.toml --network $nets/nynet.toml
replay jpeg "1 2 3 4 5 8" --one-rank 8.26s --network $nets/ethernet-10.toml

echo "== Table 6: a message there and back"
for kib in 0 1 4 16 64; do
  bytes=$((kib * 1024))
  printf 'towpath-job,1,2,message\nrank,0,2\ns,1,0,%d\nr,1,0,%d\nrank,1,2\nr,0,0,%d\ns,0,0,%d\nend\n' \
    $bytes $bytes $bytes $bytes >"$at/message.$kib"
  for net in ethernet-10 atm-lan nynet; do
    printf '%3d KB, %-12s ' $kib $net
    "$bin/towpath" sim job "$at/message.$kib" --network $nets/$net.toml | sed -n 1p
  done
done

echo
echo "== Kernels of the suite on 64 hosts of today"
for kernel in fft:2048 lu:1024 matmul:1024 nbody:4000 ep:24 sort:4000000 tsp:14 hough:2000; do
  record "${kernel%:*}" "1 4 16 64" kernel "${kernel%:*}" --size "${kernel#*:}"
  replay "${kernel%:*}" "1 4 16 64" --network $nets/gigabit-switched.toml
done
