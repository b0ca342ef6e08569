#!/usr/bin/env bash
# Shows how long clients of Redis Cluster are without a success when the leader of three members on loopback is killed with
# -9, and when it is stopped (SIGSTOP), so that it hangs instead of failing. Each client writes and reads one key without a
# pause, with a timeout of 500 ms. go-redis waits for 300 ms, and its members have --heartbeat 500ms.
#
#     failover.sh [ROUNDS]        rounds of each; 3 are usual
#
# It needs Go, and leaves out the clients that are not there: redis-py (Debian's python3-redis), redis-cli (redis-tools), and
# ioredis, which node finds where NODE_PATH says: `npm install --prefix /tmp/n ioredis`, NODE_PATH=/tmp/n/node_modules.
set -euo pipefail
cd "$(dirname "$0")"
rounds=${1:-3} base=${PORT:-7600}
dir=$(mktemp -d) ids=(a b c) pids=('' '' '') client=
trap 'kill -9 ${pids[*]} $client 2>/dev/null || :; sleep 0.2; rm -rf "$dir"' EXIT
go build -o "$dir/shaled" .

start() { # INDEX [OPTION...]
	"$dir/shaled" serve "$dir/${ids[$1]}" --id "${ids[$1]}" --addr "127.0.0.1:$((base + $1))" --listen "127.0.0.1:$((base + 10 + $1))" \
		--http "127.0.0.1:$((base + 20 + $1))" --raft-log error "${@:2}" 2>>"$dir/log" &
	pids[$1]=$!
	disown # bash says nothing when it is killed
}

# leader waits until all members are there, and prints the index of the one that leads.
leader() {
	local i list
	for _ in $(seq 300); do
		list=$("$dir/shaled" members --at "127.0.0.1:$((base + 20)),127.0.0.1:$((base + 21))" 2>/dev/null) || list=
		if [ "$(grep -c ' yes ' <<<"$list")" = 3 ] && ! grep -q 'not answer\|refused\|deadline' <<<"$list"; then
			for i in 0 1 2; do
				! grep -q "^${ids[i]} .*leads" <<<"$list" || { echo "$i" && return; }
			done
		fi
		sleep 0.1
	done
	printf 'the group does not come together:\n%s\n' "$list" >&2
	exit 1
}

cat >"$dir/py" <<'END'
import signal, sys, time
from redis.cluster import RedisCluster, ClusterNode
from redis.exceptions import RedisClusterException
end = False
def stop(*_):
    global end
    end = True
signal.signal(signal.SIGTERM, stop)
nodes = [ClusterNode("127.0.0.1", int(port)) for port in sys.argv[1:]]
client, last, longest, n = None, time.monotonic(), 0, 0
while not end:
    try:
        client = client or RedisCluster(startup_nodes=nodes, socket_timeout=0.5, socket_connect_timeout=0.5)
        client.set("py", n)
        client.get("py")
        now = time.monotonic()
        longest, last, n = max(longest, now - last), now, n + 1
    except RedisClusterException:
        client = None # 4.3.4 can't look for the members again once one is gone
    except Exception:
        time.sleep(0.01)
print(round(1000 * max(longest, time.monotonic() - last)))
END
cat >"$dir/js.cjs" <<'END'
const { Cluster } = require('ioredis')
const ports = process.argv.slice(2)
const client = new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })), { redisOptions: { commandTimeout: 500 }, slotsRefreshTimeout: 500, slotsRefreshInterval: 1000 })
client.on('error', () => {})
let last = Date.now(), longest = 0, n = 0
process.on('SIGTERM', () => { console.log(Math.max(longest, Date.now() - last)); process.exit() })
const go = async () => {
  for (;;) {
    try {
      await client.set('js', n++)
      await client.get('js')
      longest = Math.max(longest, Date.now() - last)
      last = Date.now()
    } catch { await new Promise((resume) => setTimeout(resume, 10)) }
  }
}
go()
END
# redis-cli knows one address and ends with its connection, so the next address is asked after a failure.
cat >"$dir/cli" <<'END'
now() { date +%s%3N; }
ports=("$@") at=0 last=$(now) longest=0 n=0 end=
trap 'end=1' TERM
while [ -z "$end" ]; do
	if [ "$(timeout 0.5 redis-cli -c -p "${ports[at]}" SET cli $((n++)) 2>/dev/null)" = OK ]; then
		took=$(($(now) - last)) last=$(now)
		[ "$took" -le "$longest" ] || longest=$took
	else
		at=$(((at + 1) % 3))
	fi
done
took=$(($(now) - last))
echo $((took > longest ? took : longest))
END

start 0 --bootstrap
start 1 --join "127.0.0.1:$((base + 10))"
start 2 --join "127.0.0.1:$((base + 10))"
leader >"$dir/leader"

# measure NAME COMMAND...: the client with the ports of the members as its last words.
measure() {
	local signal round at
	for signal in KILL STOP; do
		for round in $(seq "$rounds"); do
			"${@:2}" $base $((base + 1)) $((base + 2)) >"$dir/out" 2>"$dir/err" &
			client=$!
			sleep 3
			at=$(leader)
			kill -$signal "${pids[at]}"
			sleep 8
			while kill -TERM $client 2>/dev/null; do sleep 0.3; done
			client=
			echo "$1, $signal, round $round: $(cat "$dir/out") ms"
			if [ $signal = KILL ]; then
				start "$at"
			else
				kill -CONT "${pids[at]}"
			fi
			leader >"$dir/leader"
		done
	done
}

python=$(command -v /usr/bin/python3 python3 | head -1) || :
if [ -n "$python" ] && "$python" -c 'import redis.cluster' 2>/dev/null; then measure redis-py "$python" "$dir/py"; else echo 'redis-py is not there'; fi
if node -e 'require("ioredis")' 2>/dev/null; then measure ioredis node "$dir/js.cjs"; else echo 'ioredis is not there'; fi
if command -v redis-cli >/dev/null; then measure 'redis-cli -c' bash "$dir/cli"; else echo 'redis-cli is not there'; fi
cd .. && go test -count "$rounds" -v -run Failover_GoRedis ./internal/program | grep 'without a success' | sed 's/^ *[^ ]* /go-redis, /'
