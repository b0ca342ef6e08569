#!/usr/bin/env bash
# Three members of a group on this machine, without containers: it writes to one, kills the leader with -9 in the midst
# of writes, shows that the others go on and that nothing acknowledged is lost, and brings the killed member back.
#
#	cluster/cmd/shaled/three.sh          shows that, and ends the members
#	cluster/cmd/shaled/three.sh keep     leaves them running until Ctrl-C, for redis-cli and a browser
#
# It needs Go and bash. Data and logs are in a new folder below ${TMPDIR:-/tmp}, which goes at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${PORT:-7500} # member i listens for clients on base+i, for members on base+10+i, for browsers on base+20+i
dir=$(mktemp -d "${TMPDIR:-/tmp}/shaled-three.XXXXXX")
declare -A pid=()
trap 'kill "${pid[@]}" 2>/dev/null || :; wait; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

go build -o "$dir/shaled" ./shaled
ids=(a b c)

start() { # INDEX [OPTION...]
	local i=$1 id=${ids[$1]}
	shift
	"$dir/shaled" serve "$dir/$id" --id "$id" --addr "127.0.0.1:$((base + i))" --listen "127.0.0.1:$((base + 10 + i))" \
		--http "127.0.0.1:$((base + 20 + i))" --heartbeat 500ms --raft-log error "$@" 2>>"$dir/$id.log" &
	pid[$id]=$!
}

# say INDEX WORD...: a command of Redis to a member, and the first line of its answer. redis-cli does the same.
say() {
	local i=$1 answer
	shift
	exec 3<>"/dev/tcp/127.0.0.1/$((base + i))" || return
	printf '%s\r\n' "$*" >&3
	IFS= read -r -t 20 answer <&3 || answer='no answer'
	[[ $answer != \$[0-9]* ]] || IFS= read -r answer <&3
	exec 3>&-
	printf '%s\n' "${answer%$'\r'}"
}

members() { # all addresses, without those of killed members
	"$dir/shaled" members --at "$1" 2>/dev/null
}

leader() { # prints the index of the member that leads
	local i line
	for _ in $(seq 200); do
		for i in 0 1 2; do
			[ -n "${pid[${ids[i]}]:-}" ] || continue
			line=$(members "127.0.0.1:$((base + 20 + i))" | grep leads) || continue
			for i in 0 1 2; do
				[[ $line != "${ids[i]} "* || -z ${pid[${ids[i]}]:-} ]] || { echo "$i" && return; }
			done
		done
		sleep 0.05
	done
	echo "no member leads: see $dir/*.log" >&2
	exit 1
}

echo '== three processes'
start 0 --bootstrap
start 1 --join "127.0.0.1:$((base + 10))"
start 2 --join "127.0.0.1:$((base + 10))"
for _ in $(seq 200); do
	[ "$(members "127.0.0.1:$((base + 20))" | grep -c ' yes ')" != 3 ] || break
	sleep 0.05
done
members "127.0.0.1:$((base + 20))"

echo '== a write to member b, read from member c'
echo "SET greeting hello: $(say 1 SET greeting hello)"
echo "GET greeting:       $(say 2 GET greeting)"

l=$(leader)
other=$(((l + 1) % 3))
echo "== member ${ids[l]} leads; it is killed with -9 while member ${ids[other]} takes writes"
acknowledged=0
longest=0
for n in $(seq 300); do
	if [ "$n" = 100 ]; then
		kill -9 "${pid[${ids[l]}]}"
		wait "${pid[${ids[l]}]}" 2>/dev/null || :
		unset "pid[${ids[l]}]"
	fi
	begin=$(date +%s%3N)
	answer=$(say "$other" SET "key:$n" "$n")
	took=$(($(date +%s%3N) - begin))
	[ "$took" -le "$longest" ] || longest=$took
	if [ "$answer" = +OK ]; then
		acknowledged=$((acknowledged + 1))
		last=$n
	else
		echo "key:$n: $answer"
	fi
done
echo "$acknowledged of 300 writes were acknowledged, the slowest after $longest ms"
new=$(leader)
echo "member ${ids[new]} leads now"
for n in 1 99 100 101 "$last"; do
	echo "GET key:$n: $(say "$other" GET "key:$n")"
done

echo "== member ${ids[l]} comes back, and has what was written meanwhile"
start "$l"
for _ in $(seq 100); do
	if { say "$l" GET "key:$last" | grep -qx "$last"; } 2>/dev/null; then
		break
	fi
	sleep 0.1
done
echo "GET key:$last from member ${ids[l]}: $(say "$l" GET "key:$last")"
members "127.0.0.1:$((base + 20 + l))"

if [ "${1:-}" = keep ]; then
	echo "== running: redis-cli -p $base, and http://127.0.0.1:$((base + 20))/; Ctrl-C ends it"
	wait
fi
