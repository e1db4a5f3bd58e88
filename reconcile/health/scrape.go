package health

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"

	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
)

// scrapeTimeout is for reading from the cache.
const scrapeTimeout = 5 * time.Second

// Describe sends the descriptions of all metrics; Prometheus' client library calls it.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
	m.rendered.Describe(to)
	m.rolledOut.Describe(to)
	m.joins.Describe(to)
}

// Collect sends the values of all metrics; Prometheus' client library calls it.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	if !m.leads() {
		return
	}
	s := scrape{m: m, to: to, now: m.config.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := s.objects(ctx, m.config.Reader); err != nil {
		to <- prometheus.NewInvalidMetric(m.descs["mco_machine_count"], err)
	}
	s.reported()
	m.rendered.Collect(to)
	m.rolledOut.Collect(to)
	m.joins.Collect(to)
}

// scrape is one request of Prometheus.
type scrape struct {
	m   *Metrics
	to  chan<- prometheus.Metric
	now time.Time
	// by name, with the numbers of their nodes
	pools map[string]*poolScrape
	nodes map[string]bool
	// custom pools whose labels have no effect on nodes of the pool master
	customs membership.Pools
	// the last report by node
	daemons map[string]time.Time
	// by GitSource
	listings map[string]v1alpha1.SourceLook
}

// builtIn: no custom pools
var builtIn = []string{"master", "worker", "arbiter"}

// poolScrape has sums over nodes.
type poolScrape struct {
	target, back       v1alpha1.ConfigVersion
	states             map[poolstate.Phase]int
	failures, drifting int
	// trust has the number of nodes for each problem of trustProblems.
	trust map[string]int
}

func (s *scrape) gauge(name string, value float64, labels ...string) {
	for i := range labels {
		labels[i] = poolstate.ShortLine(labels[i])
	}
	d := s.m.descs[name]
	metric, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(d, err)
	}
	s.to <- metric
}

// objects reads the cluster from the cache without copies: none is changed.
func (s *scrape) objects(ctx context.Context, from client.Reader) error {
	var pools mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	var sources v1alpha1.GitSourceList
	for _, list := range []client.ObjectList{&pools, &nodes, &sources} {
		if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	s.pools, s.nodes = map[string]*poolScrape{}, map[string]bool{}
	all := make([]*mcfgv1.MachineConfigPool, len(pools.Items))
	for i := range pools.Items {
		p := &pools.Items[i]
		all[i] = p
		record := currentRecord(p)
		s.pools[p.Name] = &poolScrape{
			target: cmp.Or(record.Target(), v1alpha1.ConfigVersion{Config: p.Spec.Configuration.Name}),
			states: map[poolstate.Phase]int{}, trust: map[string]int{},
		}
		if record.Verdict == v1alpha1.RolloutReverted {
			s.pools[p.Name].back = record.ReturnsTo()
		}
	}
	s.daemons = s.m.config.Heartbeats.Read(ctx, s.m.config.Live, s.now)
	members := membership.New(all)
	s.customs = membership.New(slices.DeleteFunc(slices.Clone(all), func(p *mcfgv1.MachineConfigPool) bool {
		return slices.Contains(builtIn, p.Name)
	}))
	for i := range nodes.Items {
		s.node(&nodes.Items[i], members)
	}
	for _, p := range all {
		if err := s.pool(ctx, from, p); err != nil {
			return err
		}
	}
	if s.m.config.Listings != nil {
		s.listings = s.m.config.Listings()
	}
	for i := range sources.Items {
		s.source(&sources.Items[i])
	}
	return nil
}

// node also counts it in its pool.
func (s *scrape) node(object *corev1.Node, members membership.Pools) {
	n := poolstate.ReadNode(object)
	s.nodes[n.Name] = true
	primary, _, err := members.For(n.Name, n.Labels)
	if err != nil || s.isCustomMaster(primary, n) {
		s.gauge("mcc_pool_alert", 1, n.Name)
	}
	pool := s.pools[primary]
	if pool == nil {
		return
	}
	s.gauge("mco_state", 1, n.Name, primary, n.State, n.Reason)
	pool.states[n.Phase(pool.target, pool.back, s.isSilent(&n, primary))]++
	if n.Degraded() && n.Config.Desired == pool.target {
		pool.failures++
	}
	if n.Step.Draining && !n.Step.DrainStarted.IsZero() {
		s.gauge("bunsen_drain_seconds", s.now.Sub(n.Step.DrainStarted).Seconds(), n.Name, primary)
		s.gauge("bunsen_drain_waiting_pods", float64(waitingPods(object)), n.Name, primary)
	}
	for _, problem := range trustProblems(object) {
		pool.trust[problem]++
	}
	if count := driftCount(object); count > 0 {
		s.gauge("bunsen_node_drift", float64(count), n.Name, primary)
		pool.drifting += count
	}
}

// isCustomMaster reports whether a node of the pool master also has the labels of a custom pool, which it ignores.
func (s *scrape) isCustomMaster(primary string, n poolstate.Node) bool {
	if primary != "master" {
		return false
	}
	custom, _, err := s.customs.For(n.Name, n.Labels)
	return custom != "" || err != nil
}

func waitingPods(n *corev1.Node) int {
	report, err := v1alpha1.ParseDrainReport(n.Annotations[v1alpha1.DrainReportAnnotation])
	if err != nil {
		return 0
	}
	count := 0
	for _, p := range report.Pods {
		if p.State == v1alpha1.PodWaiting {
			count++
		}
	}
	return count
}

func driftCount(n *corev1.Node) int {
	d, err := v1alpha1.ParseDrift(n.Annotations[v1alpha1.DriftAnnotation])
	if err != nil {
		return 0
	}
	return len(d.Items) + d.More
}

// trustProblems are about the files beside the config.
func trustProblems(n *corev1.Node) (problems []string) {
	var r v1alpha1.TrustReport
	if text := n.Annotations[v1alpha1.TrustReportAnnotation]; text == "" || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	for problem, is := range map[string]bool{
		"expiring": len(r.Expiring) > 0, "conflict": len(r.Conflicts) > 0,
		"blocked": len(r.Blocked) > 0, "failed": r.Failed != "",
	} {
		if is {
			problems = append(problems, problem)
		}
	}
	return problems
}

func (s *scrape) pool(ctx context.Context, from client.Reader, p *mcfgv1.MachineConfigPool) error {
	sum := s.pools[p.Name]
	for _, state := range poolstate.Phases {
		s.gauge("bunsen_pool_nodes", float64(sum.states[state]), p.Name, string(state))
	}
	s.gauge("bunsen_rollout_failures", float64(sum.failures), p.Name)
	s.gauge("bunsen_drift_files", float64(sum.drifting), p.Name)
	for problem, count := range sum.trust {
		s.gauge("bunsen_trust_nodes", float64(count), p.Name, problem)
	}
	record := currentRecord(p)
	s.gauge("bunsen_rollout_step", float64(record.Steps), p.Name)
	if record.Verdict != "" {
		s.gauge("bunsen_rollout_verdict", 1, p.Name, string(record.Verdict))
	}
	if p.Spec.Paused {
		s.gauge("bunsen_suspended", 1, "MachineConfigPool", p.Name)
	}
	if p.Annotations[v1alpha1.HoldAnnotation] != "" {
		s.gauge("bunsen_pool_held", 1, p.Name)
	}
	if sum.target.IsZero() {
		return nil
	}
	target := &mcfgv1.MachineConfig{}
	if err := from.Get(ctx, client.ObjectKey{Name: p.Spec.Configuration.Name}, target); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.gauge("os_image_url_override",
		boolValue(target.Spec.OSImageURL != "" && target.Spec.OSImageURL != s.m.config.OSImage), p.Name)
	return nil
}

// currentRecord is that of the rollout to the pool's target; zero if there is none.
func currentRecord(p *mcfgv1.MachineConfigPool) v1alpha1.RolloutRecord {
	record, err := v1alpha1.ParseRolloutRecord(p.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil || record.Config != p.Spec.Configuration.Name {
		return v1alpha1.RolloutRecord{}
	}
	return record
}

// isSilent reports whether the heartbeat of a node's daemon is missing, and adds the time since the last one.
func (s *scrape) isSilent(n *poolstate.Node, pool string) bool {
	seen, known := s.daemons[n.Name]
	if !known || !IsSilent(n, seen, s.now) {
		return false
	}
	s.gauge("bunsen_daemon_silent_seconds", s.now.Sub(seen).Seconds(), n.Name, pool)
	return true
}

func (s *scrape) source(src *v1alpha1.GitSource) {
	st := &src.Status
	if src.Spec.IsSuspended(s.now) {
		s.gauge("bunsen_suspended", 1, "GitSource", src.Name)
	}
	if ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ReadyCondition); ready != nil {
		s.gauge("bunsen_source_ready", boolValue(ready.Status == "True"), src.Name)
	}
	s.gauge("bunsen_source_interval_seconds", kube.PollInterval(src).Seconds(), src.Name)
	if listing, ok := s.listings[src.Name]; ok {
		s.gauge("bunsen_source_last_look_timestamp_seconds", float64(listing.At.Unix()), src.Name)
	}
	s.gauge("bunsen_source_stalled", boolValue(meta.IsStatusConditionTrue(st.Conditions, v1alpha1.StalledCondition)),
		src.Name)
	s.gauge("bunsen_source_behind", boolValue(st.ObservedRevision != st.AppliedRevision), src.Name)
	if c := st.AppliedCommit; c != nil {
		s.gauge("bunsen_source_info", 1, src.Name, source.Redact(src.Spec.URL), c.Revision,
			strconv.FormatBool(c.VerifiedBy != ""))
		if !c.Time.IsZero() {
			s.gauge("bunsen_source_commit_timestamp_seconds", float64(c.Time.Unix()), src.Name)
		}
	}
}

// reported adds what the controllers reported about existing pools and nodes.
func (s *scrape) reported() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for name, p := range s.m.pools {
		if s.pools[name] == nil {
			continue
		}
		s.gauge("mco_machine_count", float64(p.counts.Machines), name)
		s.gauge("mco_updated_machine_count", float64(p.counts.Updated), name)
		s.gauge("mco_degraded_machine_count", float64(p.counts.Degraded), name)
		s.gauge("mco_unavailable_machine_count", float64(p.counts.Unavailable), name)
		causes := map[poolstate.Cause]bool{}
		for _, b := range p.blocks {
			if !causes[b.Cause] {
				s.gauge("bunsen_pool_blocked", 1, name, string(b.Cause))
			}
			causes[b.Cause] = true
		}
		s.gauge("bunsen_window_open", boolValue(p.window.Open), name)
		if !p.window.Until.IsZero() {
			s.gauge("bunsen_window_next_seconds", max(p.window.Until.Sub(s.now), 0).Seconds(), name)
		}
	}
	worst := v1alpha1.OutcomeFine
	for _, v := range s.m.verdicts {
		worst = worst.Worse(v.Outcome)
		s.gauge("bunsen_outcome", float64(v.Outcome.Rank()), v.Kind, v.Name)
	}
	if len(s.m.verdicts) > 0 {
		s.gauge("bunsen_outcome", float64(worst.Rank()), "Cluster", "")
	}
	for node := range s.m.drains {
		if s.nodes[node] {
			s.gauge("mcc_drain_err", 1, node)
		}
	}
	for name, c := range s.m.controllers {
		s.gauge("mcc_sub_controller_state", float64(c.at.Unix()), name, c.state, c.object)
	}
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
