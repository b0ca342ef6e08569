#!/usr/bin/env bash
# Compares shaled alone with redis-server: requests per second of redis-benchmark with both ways of syncing, and the memory
# for many keys. It needs Go, and Debian's packages redis-server and redis-tools. Servers listen on loopback, and end
# with it.
#
#     benchmark.sh [--rounds 3] [--requests 100000] [--keys 10000000]
set -euo pipefail
rounds=3 requests=100000 keys=10000000
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2 ;;
	--requests) requests=$2 ;;
	--keys) keys=$2 ;;
	*) echo "$0: unknown option $1" >&2 && exit 2 ;;
	esac
	shift 2
done
cd "$(dirname "$0")"
dir=$(mktemp -d) pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; wait; rm -rf "$dir"' EXIT
go build -o "$dir/shaled" .

# start redis|shaled SYNC starts a server with an empty store.
start() {
	rm -rf "$dir/store" && mkdir "$dir/store"
	case $1 in
	redis) redis-server --port 6399 --bind 127.0.0.1 --dir "$dir/store" --save '' --appendonly yes --appendfsync "$2" >"$dir/log" 2>&1 & ;;
	shaled) "$dir/shaled" serve "$dir/store" --addr 127.0.0.1:6399 --http none --sync "$2" >"$dir/log" 2>&1 & ;;
	esac
	pid=$!
	for _ in $(seq 100); do
		[ "$(redis-cli -p 6399 ping 2>/dev/null)" != PONG ] || return 0
		sleep 0.1
	done
	cat "$dir/log" >&2
	return 1
}

stop() { kill "$pid" && { wait "$pid" || true; } && pid=; }

# rate ARGUMENTS prints requests per second.
rate() { redis-benchmark -p 6399 -q "$@" 2>/dev/null | tr '\r' '\n' | awk '/requests per second/ { for (i = 2; i <= NF; i++) if ($i == "requests") r = $(i - 1) } END { print r }'; }

# median of the lines of a file.
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.0f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

for sync in always everysec; do
	for round in $(seq "$rounds"); do
		for server in redis shaled; do
			start $server $sync
			for pipeline in 1 16; do
				for op in set get; do
					rate -c 50 -r 100000 -d 100 -P $pipeline -n "$requests" -t $op >>"$dir/$server-$sync-$op-$pipeline"
				done
			done
			stop
		done
	done
done
printf '%-10s %-4s %-9s %12s %12s %6s\n' sync op pipeline redis-server shaled ratio
for sync in always everysec; do
	for pipeline in 1 16; do
		for op in set get; do
			redis=$(median "$dir/redis-$sync-$op-$pipeline") shaled=$(median "$dir/shaled-$sync-$op-$pipeline")
			printf '%-10s %-4s %-9s %12d %12d %6.2f\n' $sync $op $pipeline "$redis" "$shaled" "$(awk "BEGIN { print $shaled / $redis }")"
		done
	done
done

[ "$keys" -gt 0 ] || exit 0
printf '\nmemory of the process with %d keys of 16 bytes and values of 100, MiB\n' "$keys"
for server in redis shaled; do
	start $server everysec
	awk -v n="$keys" 'BEGIN { v = sprintf("%100s", "v"); gsub(/ /, "v", v)
		for (i = 0; i < n; i++) printf "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$100\r\n%s\r\n", i, v }' |
		redis-cli -p 6399 --pipe >/dev/null
	sleep 5
	awk -v s=$server '/VmRSS|RssAnon/ { printf "%s %s %.0f\n", s, $1, $2 / 1024 }' /proc/$pid/status
	stop
done
