// Package agent brings one node to the config that its Node object names, and reports the result there. Package agent
// implements the machine-config annotation protocol: it reads desiredConfig; it writes currentConfig, state, reason,
// desiredDrain and post-config-action. The controller drains the node and acknowledges that with lastAppliedDrain.
//
// Sync is level-triggered: it reads the journal, the node's disk and the Node object, and takes the next step. The
// process can be killed at any line of the code; the next Sync continues from what is on disk. Within one process the
// phases are
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
// and package report has them as a table, with the status that users see in each. What ends a phase:
//
//	Drifted     a repair of the drift, another desired config, or the force file
//	Blocked     nothing: the agent retries with growing pauses, and at once when another config is desired. Something on
//	            the machine would stop the update, and nothing has changed
//	RolledBack  nothing: the agent retries with growing pauses, and at once when another config is desired
//	Rejected    another desired config, the force file, or a retry request on the Node: the machine failed the health check with
//	            this config (package healthcheck), or went down each time
//	Refused     another desired config, or the end of what the machine has in the way: the agent looks each minute
//
// A server withholds the secrets of the first config from a machine without a provisioning token. The initial
// annotations of the machine then name that config (v1alpha1.WithheldAnnotation). The agent adds the secrets after the
// machine has joined. Until there is a record, the config in force is the first config without the secrets (plan.Born),
// and the update to the complete config is a normal update: with a plan, a journal, a drain and a reboot where the
// policy wants them, a health check and a rollback. So withheld secrets do not count as drift, but manual changes do.
// The controller does not assign this update, so no pause and no window delays it. When the record of the complete
// config exists, the agent removes the annotation. After that, the annotation has no effect, even if it is restored.
//
// While the API server does not answer, the agent finishes an update that has started (its pods are gone) with the task
// on disk, and scans for drift. The agent keeps no report in memory for later: it derives state and reason again from
// the journal, the record of the config in force, the rejection and the disk. Pauses between attempts grow to a minute;
// the agent reconciles an idle node every five minutes.
//
// In: a Cluster, a host.Host, Health, a Watcher, a signal that the Node changed. Out: annotations, events, the progress
// for a StatusPublisher, steps on the host, files below host.StateDir (package statefile). Never: eviction, another
// node, the contents of a file in a log, an annotation or an event.
package agent
