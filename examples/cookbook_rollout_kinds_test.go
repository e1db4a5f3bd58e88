package examples_test

var rollouts = group{"Rolling out", []kind{
	{"the control plane first", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[all].after", "master"},
	{"a canary, then tenths", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[workers].batches.upTo", "10%"},
	{"a node to be healthy for a while before the next one", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[workers].gates[settled].ready.for", "5m"},
	{"a test to run between steps", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[workers].gates[smoke].job.cronJob.name", "smoke"},
	{"reboots at night only", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[storage].windows[night].schedule", "0 1 * * *"},
	{"no reboots at the end of the year", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[storage].windows[end of the year].kind", "Deny"},
	{"one machine at a time among several pools", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[storage].maxUnavailableTogether", "1"},
	{"one zone first", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[edge].canary.nodeSelector.matchLabels.topology.kubernetes.io/zone", "hamburg"},
	{"to go on only while a service answers", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[edge].gates[answers].prometheus.query", "probe_success"},
	{"nodes to return to the last config when some fail", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[lab].failures.action", "Revert"},
	{"rollouts not to wait forever for a blocked drain", ofBunsen, "cluster/rollout.yaml", "", "RolloutPolicy[all].drain.whenBlocked", "MoveOn"},
}}
