// Package agent brings one node to the config that its Node object asks for, and says so there. It is the machine-config
// annotation protocol: desiredConfig in; currentConfig, state, reason, desiredDrain and post-config-action out; the
// drain itself is asked for and acknowledged by lastAppliedDrain.
//
// Sync is level-triggered: it looks at the journal, the node's disk and the Node object, does the next thing, and can be
// killed at any line; the next Sync finds out where things are. Within one process the phases are
//
//	                ┌─────────────────────────────────────────────────────────┐
//	                ▼                                                         │
//	┌─ Drifted ◀─▶ Idle ──▶ Planned ──▶ Draining ──▶ Applying ──▶ Checking ──▶ Confirming
//	│               ▲        │   │          │         │     │      ▲    │         ▲
//	│               │        │   └──────────┼──▶ Applying   │      │    │         │
//	│               │        │              │               ▼      │    ▼         │
//	│               │        │              │             Rebooting (another boot, or the way back)
//	│               │        ▼              ▼                │          │
//	└─▶ Planned     └── Refused ◀── any ──▶ RolledBack ◀─────┴──▶ Rejected
//
// and package progress has them as a table, and says what people see of each. Who waits for what:
//
//	Drifted     the machine to be put right, another config, or the force file
//	RolledBack  nothing: it tries again with growing pauses, and at once when another config is desired
//	Rejected    another config, the force file, or a retry that the Node asks for: the machine did not live with this one
//	            (Health, package health), or went down with it each time
//	Refused     another config
//
// A machine that came to its server without a token of its own was served its first config without what is secret there, and
// its seed says so (v1alpha1.WithheldAnnotation). It completes itself when it has joined: as long as no record is kept, the
// config in force is the first one as the machine was born with it (plan.Born), and the way from there to the whole one is an
// update like every other: planned, journaled, drained and rebooted for where the policy says so, judged, taken back. What
// was withheld is therefore no drift, and what somebody edited is. Nobody assigns it, so no pause and no window keeps it back.
// The record ends it; then the mark is taken off the Node and out of the seed, and one that is put back counts for nothing.
//
// While the API server does not answer, an update that has begun (its pods are gone) is finished with what was kept of it on
// disk, and drift is watched. Nothing waits in memory to be told: state and reason follow again from the journal, the record
// of the config in force, the verdict and the disk. Pauses grow to a minute; an idle node looks every five.
//
// In: a Cluster, a host.Host, Health, a Watcher, a signal that the Node changed. Out: annotations, events, the place that is
// shown on a Board, steps on the host, files below host.StateDir. Never: eviction, another node, the
// contents of a file in a log, an annotation or an event.
package agent
