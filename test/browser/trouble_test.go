package browser

import (
	"testing"
)

// appConf is a file that the failed node cannot write, because a directory that is not empty has its name.
const appConf = "/etc/app.conf"

// aHaltedRolloutIsSeen: the card of the pool turns to Degraded, and the pages of the pool and the node say what failed
// and what to do.
func (w *world) aHaltedRolloutIsSeen(t *testing.T) {
	overview, pool := w.signedIn(t, "/"), w.signedIn(t, "/pool/edge")
	w.write(t, onHost(first("edge"), appConf+"/keep"), "of another program\n")
	commit := w.push(t, "Configure the app", map[string]string{"pools/edge/50-app.bu": file(appConf, "a = b")})
	overview.until(`document.querySelector("#pool-edge.Degraded") !== null`)
	overview.shows("#pool-edge", "is halted")
	overview.shows("#headline", "1 thing needs you")
	pool.shows("#pool-state .Degraded", "is halted")
	pool.shows("#pool-state", "Change on "+first("edge")+" what the message names")
	pool.shows("#pool-state", "bunsen retry pool/edge")
	pool.shows("#pool-history", commit)
	overview.keepReadme("console-overview", "#rest")
	pool.until(`document.querySelectorAll("#map a.cell.degraded").length === 1`)
	pool.do("opening the failed node", click("#map a.cell.degraded"))
	pool.shows("h1", first("edge"))
	pool.shows("#node-state.Degraded", appConf)
	if *readme != "" {
		pool.visit("/pool/edge/commit/" + commit)
		pool.shows("#commit-effect", "halted")
		pool.keepReadme("console-commit", "#commit-undo")
	}
}

// aBlockedDrainIsSeen: the page of the node names the pod that stays, and the page of the pool says that the node
// drains.
func (w *world) aBlockedDrainIsSeen(t *testing.T) {
	node, pool := w.signedIn(t, "/node/"+first("storage")), w.signedIn(t, "/pool/storage")
	w.apply(t, guarded(first("storage")))
	w.push(t, "Raise the limit of open files",
		map[string]string{"pools/storage/40-limits.bu": file("/etc/security/limits.d/90-storage.conf",
			"* soft nofile 1048576")})
	node.shows("#node-drain", "default/guarded")
	node.shows("#node-state", "default/guarded")
	pool.until(`document.querySelectorAll("#map a.cell.draining").length === 1`)
	pool.shows("main", "draining")
}

// driftIsSeen: a file that somebody changed on a node is on the page of the node as a diff, and its cell in the map
// shows a failure.
func (w *world) driftIsSeen(t *testing.T) {
	node, pool := w.signedIn(t, "/node/"+first("gpu")), w.signedIn(t, "/pool/gpu")
	node.shows("#node-drift", "No drift")
	w.write(t, onHost(first("gpu"), "etc/motd"), "changed by hand\n")
	pool.until(`document.querySelectorAll("#map a.cell.degraded").length === 1`)
	node.shows("#node-drift h3", "/etc/motd")
	node.shows("#node-state.Degraded", "/etc/motd")
}

// aRefusedCommitIsSeen: the overview shows the file, the line and the mistake, and no pool changes.
func (w *world) aRefusedCommitIsSeen(t *testing.T) {
	b := w.signedIn(t, "/")
	w.push(t, "A misspelt key", map[string]string{"pools/gpu/50-wrong.bu": "variant: fcos\nversion: 1.6.0\nstorage:\n" +
		"  files:\n    - path: /etc/wrong\n      mode: 0644\n      contnets:\n        inline: oops\n"})
	b.shows("#source-config", "pools/gpu/50-wrong.bu:7:7")
	b.shows("#source-config", "contnets")
}

// guarded returns a pod on a node with a budget that allows no disruption.
func guarded(node string) string {
	return `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guarded, namespace: default}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: guarded}}
---
apiVersion: v1
kind: Pod
metadata: {name: guarded, namespace: default, labels: {app: guarded}}
spec:
  nodeName: ` + node + `
  containers: [{name: one, image: example.com/guarded}]
`
}
