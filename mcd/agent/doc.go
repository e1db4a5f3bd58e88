// Package agent brings one node to the config that its Node object asks for, and says so there. It is the machine-config
// annotation protocol: desiredConfig in; currentConfig, state, reason, desiredDrain and post-config-action out; the
// drain itself is asked for and acknowledged by lastAppliedDrain.
//
// Sync is level-triggered: it looks at the journal, the node's disk and the Node object, does the next thing, and can be
// killed at any line; the next Sync finds out where things are. Within one process the phases are
//
//	          ┌────────────────────────────────────────────┐
//	          ▼                                            │
//	┌──▶ Idle ──▶ Planned ──▶ Draining ──▶ Applying ──▶ Confirming
//	│     ▲         │  │          │           │  │           ▲
//	│     │         │  └──────────┼─▶ Applying│  └▶ Rebooting ┘ (another boot)
//	│     │         ▼             ▼           ▼
//	└── Refused ◀── any ──────▶ RolledBack (undone, or failed before the first step)
//
// and Transitions has them as a table. Refused waits for another desired config; RolledBack is tried again with growing
// pauses, and at once when another config is desired.
//
// In: a Cluster, a host.Host, a signal that the Node changed. Out: annotations, steps on the host. Never: eviction,
// another node, the contents of a file in a log or annotation.
package agent
