package health

// family describes one gauge by its name. NewMetrics creates the other metrics: two histograms and a counter.
type family struct {
	name, help string
	labels     []string
}

// families has all gauges. The metrics with the prefixes mco_, mcc_ and os_ are those of the original
// machine-config-operator.
var families = []family{
	{
		"mco_state", "1 for each node, with its pool and its daemon's state and reason.",
		[]string{"node", "pool", "state", "reason"},
	},
	{"mco_machine_count", "Nodes of the pool.", []string{"pool"}},
	{"mco_updated_machine_count", "Nodes that run the pool's config.", []string{"pool"}},
	{"mco_degraded_machine_count", "Nodes that report a failure.", []string{"pool"}},
	{"mco_unavailable_machine_count", "Nodes that count against the pool's budget.", []string{"pool"}},
	{
		"os_image_url_override", "1 if the pool's config names another OS image than the controller's default.",
		[]string{"pool"},
	},
	{"mcc_drain_err", "1 for a node whose drain fails for an hour or more.", []string{"node"}},
	{"mcc_pool_alert", "1 for a node in no pool, or in another pool than its labels select.", []string{"node"}},
	{"mcc_sub_controller_state", "When a controller last reconciled, in seconds since 1970, which object, and with which outcome.", []string{"subcontroller", "state", "object"}},

	{"bunsen_pool_nodes", "Nodes of the pool by what they do: updated, unready (updated, and not Ready or cordoned), waiting, draining, rebooting, applying, degraded, back (in the config to which the pool was reverted), unknown (the daemon or the kubelet does not report).", []string{"pool", "state"}},
	{"bunsen_daemon_silent_seconds", "Age of the last heartbeat of a daemon that has stopped reporting; absent for the others.", []string{"node", "pool"}},
	{"bunsen_pool_blocked", "1 for each cause that blocks the pool's rollout.", []string{"pool", "cause"}},
	{"bunsen_outcome", "Outcome of each pool and GitSource, and the worst of them for the kind Cluster: 0 Fine, 1 Progressing, 2 Waiting, 3 Blocked, 4 Unknown, 5 Degraded.", []string{"kind", "name"}},
	{"bunsen_window_open", "1 while the pool's maintenance windows allow its rollout.", []string{"pool"}},
	{
		"bunsen_window_next_seconds", "Seconds until bunsen_window_open changes; absent if it does not within a year.",
		[]string{"pool"},
	},
	{"bunsen_rollout_step", "Steps that the pool's rollout has completed, with the canary.", []string{"pool"}},
	{
		"bunsen_rollout_failures", "Nodes that report a failure and are assigned the target config of the pool.",
		[]string{"pool"},
	},
	{"bunsen_rollout_verdict", "1 if a rollout was halted or reverted, with the verdict.", []string{"pool", "verdict"}},
	{"bunsen_drain_seconds", "How long the drain of a node has taken so far.", []string{"node", "pool"}},
	{"bunsen_drain_waiting_pods", "Pods that hold up the drain of a node.", []string{"node", "pool"}},
	{
		"bunsen_node_drift", "Differences between a node and its config; absent if there are none.",
		[]string{"node", "pool"},
	},
	{"bunsen_drift_files", "Differences between the nodes of the pool and their configs.", []string{"pool"}},
	{"bunsen_trust_nodes", "Nodes of the pool whose certificates or pull secret beside the config have a problem: expiring, conflict (the config names the path), blocked or failed.", []string{"pool", "problem"}},
	{
		"bunsen_suspended", "1 for each GitSource that is suspended and each MachineConfigPool that is paused.",
		[]string{"kind", "name"},
	},
	{"bunsen_pool_held", "1 for each pool that a user holds at the config of an earlier revision.", []string{"pool"}},

	{
		"bunsen_source_info", "1 for each GitSource that has applied a revision.",
		[]string{"source", "url", "revision", "verified"},
	},
	{"bunsen_source_ready", "1 if the newest revision of the GitSource is on the cluster, else 0.", []string{"source"}},
	{"bunsen_source_interval_seconds", "Interval at which the GitSource's repository is polled.", []string{"source"}},
	{
		"bunsen_source_last_look_timestamp_seconds",
		"When the GitSource's repository was last polled, with or without an answer, in seconds since 1970.",
		[]string{"source"},
	},
	{
		"bunsen_source_stalled", "1 if a user has to change something before the GitSource continues, else 0.",
		[]string{"source"},
	},
	{"bunsen_source_behind", "1 if a newer revision than the applied one exists, else 0.", []string{"source"}},
	{
		"bunsen_source_commit_timestamp_seconds", "Time of the applied commit, in seconds since 1970.",
		[]string{"source"},
	},
}
