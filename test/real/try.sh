#!/usr/bin/env bash
# Tries Bunsen on one real node and prints a report in Markdown. See README.md beside this file.
set -euo pipefail

usage="usage: $0 NODE [IMAGE]

NODE is a node that Bunsen manages. It will be drained and rebooted several times, and
ends as it was. IMAGE is an OS image by digest for the node to boot and to leave again;
without one, the OS stays.

ON_NODE      a command that runs the shell script of its standard input on the node,
             as root, such as: ssh core@node-7 sudo sh
             By default it is kubectl debug with the image DEBUG_IMAGE (busybox).
PATIENCE     how many seconds one step may take (1800)"
node=${1:?"$usage"} image=${2:-}
patience=${PATIENCE:-1800}
trial=bunsen-trial                      # the pool, and the beginning of each name
made=$(mktemp -d)
report=$made/report
api=machineconfiguration.openshift.io

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
row() { printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4" >>"$report"; }
annotation() { kubectl get node "$node" -o "jsonpath={.metadata.annotations.${1//./\\.}}"; }
field() { kubectl get node "$node" -o "jsonpath={$1}"; }

# on_node SCRIPT runs a script on the node, again while the node is not reachable.
on_node() {
	local tries
	for tries in 1 2 3 4 5 6 7 8 9 10 11 12; do
		if [ -n "${ON_NODE:-}" ]; then
			$ON_NODE <<<"$1" && return
		else
			kubectl debug "node/$node" --quiet --stdin --profile=sysadmin --image="${DEBUG_IMAGE:-busybox}" -- \
				chroot /host sh -c "$1" && return
		fi
		[ "$tries" = 12 ] || sleep 5
	done
	say "the node does not answer: $1"
	return 1
}

# is_so SCRIPT tells whether a condition holds on the node, asked from outside of Bunsen.
is_so() { [ "$(on_node "if $1; then echo yes; else echo no; fi" | tail -1)" = yes ]; }

# holds PROBLEM SCRIPT notes the problem unless the condition holds.
problems=()
holds() { is_so "$2" || problems+=("$1"); }

# settled tells whether the node has the pool's config, and the pool has, or lacks, a MachineConfig.
settled() { # MachineConfig, has|lacks
	local sources desired
	sources=" $(kubectl get mcp "$trial" -o 'jsonpath={.spec.configuration.source[*].name}') "
	case "$2:$sources" in has:*" $1 "*) ;; has:*) return 1 ;; lacks:*" $1 "*) return 1 ;; esac
	desired=$(kubectl get mcp "$trial" -o 'jsonpath={.spec.configuration.name}')
	[ "$(annotation $api/currentConfig)" = "$desired" ] && [ "$(annotation $api/state)" = Done ] &&
		[ "$(annotation $api/desiredConfig)" = "$desired" ] && [ -z "$(field .spec.unschedulable)" ]
}

# refused tells whether the daemon says that the node cannot have the config.
refused() { case $(annotation $api/state) in Degraded | Unreconcilable) ;; *) return 1 ;; esac }

# await COMMAND… waits until the command succeeds; it fails after the patience.
await() {
	local end=$((SECONDS + patience)) last="" now
	until "$@"; do
		now="$(annotation $api/state) $(annotation $api/reason)"
		[ "$now" = "$last" ] || say "  $now"
		last=$now
		[ $SECONDS -lt $end ] || return 1
		sleep 2
	done
}

# boots counts the boots of the node. Without a journal on disk, only the last one is known.
boots() { on_node 'if [ -d /var/log/journal ]; then journalctl --list-boots --no-pager -q; fi 2>/dev/null | wc -l'; }
boot_id() { on_node 'cat /proc/sys/kernel/random/boot_id'; }

# step NAME BOOTS COMMAND… runs a change and the checks after it, and writes a row. BOOTS is how often the node shall boot.
step() {
	local name=$1 want=$2 began=$SECONDS before booted id result=ok
	shift 2
	say "$name"
	problems=()
	before=$(boots) id=$(boot_id)
	"$@" || problems+=("$(annotation $api/state): $(annotation $api/reason)")
	booted=$(($(boots) - before))
	[ "$booted" != 0 ] || [ "$id" = "$(boot_id)" ] || booted=1
	[ "$want" = any ] || [ "$booted" = "$want" ] || problems+=("$booted boots, and not $want")
	if [ ${#problems[@]} -gt 0 ]; then
		result=$(printf '%s; ' "${problems[@]}" | tr '\n|' '  ')
		failed=yes
	fi
	row "$name" "$((SECONDS - began)) s" "$booted" "$result"
	say "  $result"
}

# config NAME BODY applies a MachineConfig of the trial's pool. BODY is the rest of its spec, as JSON without braces.
config() {
	kubectl apply -f - >&2 <<-JSON
		{"apiVersion": "$api/v1", "kind": "MachineConfig",
		 "metadata": {"name": "99-$trial-$1", "labels": {"$api/role": "$trial"}}, "spec": {$2}}
	JSON
}

ignition() { printf '"config": {"ignition": {"version": "3.5.0"}, %s}' "$1"; }

join() {
	kubectl apply -f - >&2 <<-JSON || return
		{"apiVersion": "$api/v1", "kind": "MachineConfigPool", "metadata": {"name": "$trial"}, "spec": {
		 "machineConfigSelector": {"matchExpressions": [{"key": "$api/role", "operator": "In", "values": ["worker", "$trial"]}]},
		 "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/$trial": ""}}}}
	JSON
	kubectl label node "$node" "node-role.kubernetes.io/$trial=" >&2 && await settled none lacks
}

live() {
	config live "$(ignition '"storage": {"files": [{"path": "/etc/containerd/certs.d/bunsen-trial.example/hosts.toml",
		"mode": 420, "contents": {"source": "data:,%23%20a%20trial%0A"}}]}')" && await settled "99-$trial-live" has || return
	holds "the file has another text" 'grep -qx "# a trial" /etc/containerd/certs.d/bunsen-trial.example/hosts.toml'
}

reboot() {
	config reboot "$(ignition '"storage": {"files": [{"path": "/etc/bunsen-trial", "mode": 416, "contents": {"source": "data:,first%0A"}}]},
		"systemd": {"units": [{"name": "bunsen-trial.service", "enabled": true, "contents":
		"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c \"cat /etc/bunsen-trial >/run/bunsen-trial\"\n[Install]\nWantedBy=multi-user.target\n"}]}')" &&
		await settled "99-$trial-reboot" has || return
	holds "the file has another mode or owner" '[ "$(stat -c %a:%u:%g /etc/bunsen-trial)" = 640:0:0 ]'
	holds "the unit has not run" 'systemctl is-active --quiet bunsen-trial.service && grep -qx first /run/bunsen-trial'
	if is_so '[ -d /sys/fs/selinux/booleans ]'; then
		holds "SELinux would label files in another way" '[ -z "$(restorecon -nvr /etc 2>/dev/null | grep bunsen-trial)" ]'
	fi
}

argument() {
	config argument '"kernelArguments": ["bunsen_trial=1"]' && await eval "settled 99-$trial-argument has || refused" || return
	if refused; then
		result="not supported here: $(annotation $api/reason)"
		remove argument
		await settled "99-$trial-argument" lacks
		return
	fi
	holds "the kernel has no such argument" 'grep -qw bunsen_trial=1 /proc/cmdline'
}

# A directory is in the way of this file, and the daemon has to say so before it drains.
obstacle() {
	config obstacle "$(ignition '"storage": {"files": [{"path": "/etc/ssl", "contents": {"source": "data:,x"}}]}')" &&
		await refused || return
	[ -z "$(field .spec.unschedulable)" ] || problems+=("the node was cordoned for a config that it cannot have")
	case $(annotation $api/reason) in *"/etc/ssl"*) ;; *) problems+=("the reason does not name the path") ;; esac
	remove obstacle
	await settled "99-$trial-obstacle" lacks
}

newos() { config image "\"osImageURL\": \"$image\"" && await settled "99-$trial-image" has; }

remove() { kubectl delete machineconfig --ignore-not-found "99-$trial-$1" >&2; }

revert() {
	local name
	for name in image argument reboot live; do remove "$name"; done
	await settled "99-$trial-reboot" lacks || return
	holds "a file is left" '[ ! -e /etc/bunsen-trial ] && [ ! -e /etc/containerd/certs.d/bunsen-trial.example/hosts.toml ]'
	holds "a unit is left" '! systemctl cat bunsen-trial.service >/dev/null 2>&1'
	holds "a kernel argument is left" '! grep -qw bunsen_trial=1 /proc/cmdline'
}

leave() {
	kubectl label node "$node" "node-role.kubernetes.io/$trial-" >&2 && await returned || return
	kubectl delete mcp --ignore-not-found "$trial" >&2
}

returned() {
	case $(annotation $api/currentConfig):$(annotation $api/state) in rendered-worker-*:Done) ;; *) return 1 ;; esac
}

# Whatever happens, nothing of the trial stays in the cluster. The node then goes back by itself.
cleanup() {
	local name
	for name in live reboot argument obstacle image; do remove "$name"; done
	kubectl label node "$node" "node-role.kubernetes.io/$trial-" >&2 || true
	kubectl delete mcp --ignore-not-found "$trial" >&2 || true
	kubectl get pods -o name | grep "^pod/node-debugger-$node-" | xargs -r kubectl delete >&2 || true
	rm -rf "$made"
}

case $(annotation $api/currentConfig):$(annotation $api/state) in
rendered-worker-*:Done) ;;
*) say "$node is no worker that Bunsen manages, or it is in an update: see bunsen why node/$node"; exit 2 ;;
esac
trap cleanup EXIT
failed=""
state='(cd /etc && find . -xdev -path ./machine-config-daemon -prune -o -type f -exec sha256sum {} + | sort -k 2); readlink /etc/systemd/system/*.wants/*'
on_node "$state" >"$made/before"

step "Join a pool of its own" 0 join
step "Change a file that needs no reboot" 0 live
step "Change a file and a unit, with a drain and a reboot" 1 reboot
step "Add a kernel argument" any argument
step "Refuse what the machine cannot have, before the drain" 0 obstacle
[ -z "$image" ] || step "Boot the image $image" any newos
step "Take it all back" any revert
step "Leave the pool" 0 leave

on_node "$state" >"$made/after"
difference=$(diff "$made/before" "$made/after" | grep '^[<>]' || true)
[ -z "$difference" ] || failed=yes

cat <<REPORT
# A trial of Bunsen on $(field .status.nodeInfo.osImage)

- Kernel $(field .status.nodeInfo.kernelVersion), $(field .status.nodeInfo.architecture)
- Kubelet $(field .status.nodeInfo.kubeletVersion), $(field .status.nodeInfo.containerRuntimeVersion)
- $(kubectl version -o json | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' | tail -1) is the API server's version
- $(on_node 'machine-config-daemon --version 2>/dev/null || echo "the daemon runs as a pod"' | tail -1)

| Step | Took | Boots | Result |
|---|---|---|---|
$(cat "$report")

Files of /etc that the trial left changed: ${difference:-none}
REPORT
[ -z "$failed" ]
