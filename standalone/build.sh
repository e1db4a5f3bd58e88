#!/bin/sh
# build.sh OUT [PACKAGE]: builds the embedded control plane, bunsen-standalone, or another program of this module into
# the file OUT.
#
# The first build compiles Kubernetes and takes minutes: how far it is stands on
# standard error, live on a terminal and every 20 s elsewhere. A build with a
# filled cache takes seconds and says nothing. Always the same flags: others
# would compile everything anew.
set -eu

out=${1:?usage: build.sh OUT [PACKAGE]} package=${2:-.} what=${1##*/}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

# The version that the API server reports is that of the module that it is built from.
kube=$(sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\)$|\1|p' go.mod)
major=${kube#v} major=${major%%.*}
minor=${kube#v*.} minor=${minor%%.*}
v=k8s.io/component-base/version
flags="-s -w -X $v.gitVersion=$kube -X $v.gitMajor=$major -X $v.gitMinor=$minor -X $v.gitCommit=0 -X $v.gitTreeState=clean"

log=$(mktemp)
builder=
trap 'rm -f "$log"' EXIT
trap '[ -z "$builder" ] || kill "$builder" 2>/dev/null; exit 130' INT TERM HUP

started=$(date +%s)
CGO_ENABLED=0 GOGC=400 go build -v -trimpath -ldflags "$flags" -o "$out" "$package" 2>"$log" &
builder=$!

if [ -t 2 ]; then every=1 begin='\r\033[K' end=; else every=20 begin= end='\n'; fi
total= shown=0
# Enough for a build that only links.
next=$((started + 15))
say() { printf "${begin}building $what: %s${end}" "$1" >&2; }
while kill -0 "$builder" 2>/dev/null; do
	now=$(date +%s)
	if [ "$now" -ge "$next" ]; then
		# -v names each package when it is compiled; what the cache holds is never named.
		compiled=$(grep -c '^[^ :#]*$' "$log" || true)
		if [ "$compiled" = 0 ]; then
			say "$(grep -c 'downloading' "$log" || true) modules downloaded, $((now - started)) s"
		else
			[ -n "$total" ] || total=$(go list -deps "$package" 2>/dev/null | wc -l)
			say "$compiled of at most $total packages, $((now - started)) s (only the first build takes minutes)"
		fi
		shown=1 next=$((now + every))
	fi
	sleep 0.3
done

status=0
wait "$builder" || status=$?
if [ "$shown" = 1 ]; then
	printf "${begin}building $what: %s s${end:-\n}" "$(($(date +%s) - started))" >&2
fi
if [ "$status" != 0 ]; then
	# Everything but the names of packages.
	grep -v '^[^ :#]*$' "$log" >&2 || true
	echo "building $what: go build ended with status $status" >&2
fi
exit "$status"
