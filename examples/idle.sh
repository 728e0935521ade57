#!/bin/sh
# What two daemons cost while nobody uses them: processor time from the kernel's scheduler (all
# threads) and packets of both directions from their own counters. Takes about SECONDS + 35 s: the
# keep-alives double their interval from 500 ms to 25 s first.
# Usage: idle.sh path/to/towpath [SECONDS]
set -eu

towpath=$(realpath "$1")
seconds=${2:-100}
TOWPATH_HOME=$(mktemp -d)
export TOWPATH_HOME
cleanup() { "$towpath" down >/dev/null 2>&1 || true; rm -rf "$TOWPATH_HOME"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

# Nanoseconds that the threads of process $1 ran.
ran() { cat /proc/"$1"/task/*/schedstat | awk '{ ns += $1 } END { print ns }'; }
# The first number called $1 in the JSON object on standard input.
number() { sed "s/.*\"$1\":\([0-9]*\).*/\1/"; }
# Host 1's object.
host1() { "$towpath" hosts --json | sed 's/},{"addr".*//'; }
packets() {
  host1 >"$TOWPATH_HOME/host1"
  sent=$(number packets_sent <"$TOWPATH_HOME/host1")
  received=$(number packets_received <"$TOWPATH_HOME/host1")
  echo $((sent + received))
}

"$towpath" up --hosts 2 >/dev/null
sleep 35
pids=$("$towpath" hosts --json | tr ',{' '\n\n' | sed -n 's/^"pid":\([0-9]*\).*/\1/p')
packets=$(packets)
sleep 1
for pid in $pids; do ran "$pid" >"$TOWPATH_HOME/ran.$pid"; done
sleep "$seconds"
for pid in $pids; do
  ns=$(($(ran "$pid") - $(cat "$TOWPATH_HOME/ran.$pid")))
  awk -v ns="$ns" -v s="$seconds" -v pid="$pid" 'BEGIN {
    printf "daemon %d: %.3f ms of processor time in %d s = %.4f %%\n", pid, ns / 1e6, s, ns / s / 1e7
  }'
done
# Whoever asks for the hosts has quiet ones asked: two packets of these are ours.
echo "packets of both directions: $(($(packets) - packets)) in $((seconds + 1)) s, at most two of" \
  "them for this script's own question"
