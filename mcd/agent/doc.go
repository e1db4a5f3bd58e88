// Package agent brings one node to the config that its Node object names, and reports there how far it is. It reads
// desiredConfig and writes currentConfig, state, reason and desiredDrain; the controller drains the node and
// acknowledges that with lastAppliedDrain.
//
// A sync reads the journal, the disk and the Node, and takes steps until it has to wait (Agent.Sync):
//
//  1. Agent.recover finishes or rolls back the update in the journal. It needs no API server.
//  2. Without an answer of the API server, the update of the task on disk continues, and drift is looked for.
//  3. If the desired config is in force, updater.confirm compares the machine with it (driftCheck), requests the
//     uncordon and reports Done.
//  4. Otherwise updater.run plans, fetches contents, looks for blockers, requests the drain (drains), and applies the
//     steps, up to the reboot or the health check (healthChecker). A rejected config is not tried again.
//
// Each step returns an outcome: what happened, and so what the loop does next. nodeReport tells it the cluster, and
// Agent.Run waits as the outcome says: for a change of the Node or the machine, or for a pause that grows to a minute.
// The process can be killed at any line. The next sync continues from what is on disk, and derives state and reason
// from it. The phases, which package report has as a table, with what users see in each:
//
//	                ┌─────────────────────────────────────────────────────────┐
//	                ▼                                                         │
//	┌─ Drifted ◀─▶ Idle ──▶ Planned ──▶ Draining ──▶ Applying ──▶ Checking ──▶ Confirming
//	│               ▲        │   │          │         │     │      ▲    │         ▲
//	│               │        │   └──────────┼──▶ Applying   │      │    │         │
//	│               │        │              │               ▼      │    ▼         │
//	│               │        │              │             Rebooting (another boot, or the rollback)
//	│               │        ▼              ▼                │          │
//	└─▶ Planned     └── Refused ◀── any ──▶ RolledBack ◀─────┴──▶ Rejected
//	                    Blocked ◀── Planned, Applying
//
// Another desired config ends each phase in the last two lines. Blocked and RolledBack are also retried, Refused is
// looked at each minute, and a retry request or the force file ends Rejected.
//
// In: a Cluster, a host.Host, health questions, a drift.Watcher, a signal that the Node changed. Out: annotations,
// events, metrics, the progress for a StatusPublisher, steps on the host, files below host.StateDir. Never: evictions,
// another node, contents of files in a log, an annotation or an event.
package agent
