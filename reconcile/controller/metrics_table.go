package controller

// family is one name of a metric. All are gauges; the two histograms are in NewMetrics.
type family struct {
	name, help string
	labels     []string
}

// families has every metric but the histograms. The mco_, mcc_ and os_ ones are the original's.
var families = []family{
	{"mco_state", "1 for each node, with its pool and its daemon's state and reason.", []string{"node", "pool", "state", "reason"}},
	{"mco_machine_count", "Nodes of the pool.", []string{"pool"}},
	{"mco_updated_machine_count", "Nodes that run the pool's config.", []string{"pool"}},
	{"mco_degraded_machine_count", "Nodes that report a failure.", []string{"pool"}},
	{"mco_unavailable_machine_count", "Nodes that take a place in the pool's budget.", []string{"pool"}},
	{"os_image_url_override", "1 where the pool's config names another OS image than the controller's default.", []string{"pool"}},
	{"mcc_drain_err", "1 for a node whose drain fails for an hour or more.", []string{"node"}},
	{"mcc_pool_alert", "1 for a node that no pool, or not the one that its labels ask for, can manage.", []string{"node"}},
	{"mcc_sub_controller_state", "When a controller looked last, in seconds since 1970, at which object, and how it went.", []string{"subcontroller", "state", "object"}},

	{"bunsen_pool_nodes", "Nodes of the pool by what they do: updated, unready (updated, and not Ready or cordoned), waiting, draining, rebooting, applying, degraded, back (in the config to which the pool was reverted), unknown (the daemon or the kubelet does not report).", []string{"pool", "state"}},
	{"bunsen_daemon_silent_seconds", "Age of the last heartbeat of a daemon that has stopped reporting; absent for the others.", []string{"node", "pool"}},
	{"bunsen_pool_blocked", "1 for each cause that keeps the pool's rollout from going on.", []string{"pool", "cause"}},
	{"bunsen_window_open", "1 while the pool's maintenance windows allow its rollout.", []string{"pool"}},
	{"bunsen_window_next_seconds", "Seconds until bunsen_window_open changes; absent where it does not within a year.", []string{"pool"}},
	{"bunsen_rollout_step", "Steps that are behind the pool's rollout, the canary counted.", []string{"pool"}},
	{"bunsen_rollout_failures", "Nodes that report a failure and were told the config that the pool rolls out.", []string{"pool"}},
	{"bunsen_rollout_verdict", "1 where a rollout ended before its time: Halted or Reverted.", []string{"pool", "verdict"}},
	{"bunsen_drain_seconds", "For how long a node is being drained.", []string{"node", "pool"}},
	{"bunsen_drain_waiting_pods", "Pods that hold up the drain of a node.", []string{"node", "pool"}},
	{"bunsen_node_drift", "Things on a node that are not as its config has them; absent where there are none.", []string{"node", "pool"}},
	{"bunsen_drift_files", "Things on the nodes of the pool that are not as their configs have them.", []string{"pool"}},
	{"bunsen_suspended", "1 for each GitSource that is suspended and each MachineConfigPool that is paused.", []string{"kind", "name"}},

	{"bunsen_source_info", "1 for each GitSource that has applied a revision.", []string{"source", "url", "revision", "verified"}},
	{"bunsen_source_ready", "1 where the newest revision of the GitSource is on the cluster, else 0.", []string{"source"}},
	{"bunsen_source_interval_seconds", "Interval at which the GitSource's repository is looked at.", []string{"source"}},
	{"bunsen_source_last_look_timestamp_seconds", "When the GitSource's repository was last asked for its refs, whether it answered or not, in seconds since 1970.", []string{"source"}},
	{"bunsen_source_stalled", "1 where a person has to change something before the GitSource goes on, else 0.", []string{"source"}},
	{"bunsen_source_behind", "1 where a newer revision was seen than the one that is applied, else 0.", []string{"source"}},
	{"bunsen_source_commit_timestamp_seconds", "Time of the applied commit, in seconds since 1970.", []string{"source"}},
}
