package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"

	corev1 "k8s.io/api/core/v1"
)

// Cluster has the objects that a status shows.
type Cluster struct {
	Sources  []v1alpha1.GitSource
	Pools    []mcfgv1.MachineConfigPool
	Nodes    []corev1.Node
	Policies []v1alpha1.RolloutPolicy
	// Rendered configs on the cluster; nil if they were not read.
	Rendered []RenderedRow
	// Leases of controllers and servers. LeasesNote says why they were not read. If both are empty, the status shows
	// neither.
	Leases     []coordinationv1.Lease
	LeasesNote string
	// Daemons are heartbeats by node; nil if they were not read, and DaemonsNote says why.
	Daemons     map[string]v1alpha1.DaemonReport
	DaemonsNote string
	// Denied are machines whose certificate requests the controller denied; empty if they were not read.
	Denied []DeniedMachine
	// Notifications are what the notifier should send; nil if they were not read.
	Notifications []v1alpha1.Notification
	// Secrets are the published revisions; zero if they were not read.
	Secrets Secrets
	// Timestamps puts points in time into reasons instead of ages, for programs.
	Timestamps bool
}

// unreadTarget returns the record of a pool's target, if its nodes have configs of their own that were not read;
// otherwise zero.
func unreadTarget(c Cluster, pool *mcfgv1.MachineConfigPool) v1alpha1.PoolTarget {
	t, err := v1alpha1.ParsePoolTarget(pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || t.Config != pool.Spec.Configuration.Name || c.Rendered == nil ||
		!nodeConfigs(c, t.Config).IsZero() {
		return v1alpha1.PoolTarget{}
	}
	return t
}

// Servers are a cluster's machine-config-servers, as their Leases report them.
type Servers struct {
	// Note says why the servers are unknown, or is empty.
	Note string `json:"note,omitempty"`
	// Replicas run or have run. They are sorted by name.
	Replicas []ServerRow `json:"replicas,omitempty"`
	// Warnings need a user.
	Warnings []string `json:"warnings,omitempty"`
	// Boots are pools whose new machines get a config other than the target, or none.
	Boots []BootRow `json:"boots,omitempty"`
}

// ServerRow is one replica.
type ServerRow struct {
	Heartbeat `json:",inline"`
	// Report is nil if it cannot be read.
	Report *v1alpha1.ServerReport `json:"report,omitempty"`

	// why there is no report
	unread string
}

// BootRow is the config that new machines of a pool get, if it is not the pool's target.
type BootRow struct {
	Pool string `json:"pool"`
	// Config of new machines; empty for none.
	Config string `json:"config,omitempty"`
	Target string `json:"target,omitempty"`
	// Why new machines do not get the target.
	Why string `json:"why"`
	// Servers that serve Config, if others serve another.
	Servers []string `json:"servers,omitempty"`
}

// endsSoon is before a certificate expires. Servers renew theirs earlier.
const endsSoon = 14 * 24 * time.Hour

const (
	// for a server that reaches the API server to report a change of a pool, with reading a config, and the difference
	// of two clocks
	reportsWithin = 20 * time.Second
	// the maximum age of a report of a server that reaches the API server
	reportsAgain = 45 * time.Second
)

// ReadServers reads the Leases of servers. It returns nil if there was never a server.
func (f *Fleet) ReadServers() *Servers {
	s := &Servers{Note: f.LeasesNote}
	for i := range f.Leases {
		if componentOf(&f.Leases[i]) != v1alpha1.ServerComponent {
			continue
		}
		s.Replicas = append(s.Replicas, serverRow(&f.Leases[i], f.Now))
	}
	if len(s.Replicas) == 0 && s.Note == "" {
		return nil
	}
	slices.SortFunc(s.Replicas, func(a, b ServerRow) int { return strings.Compare(a.Name, b.Name) })
	s.Warnings = s.warnings(f.Cluster, f.Now)
	for i := range f.Pools {
		s.Boots = append(s.Boots, s.boots(f.PoolByName[f.Pools[i].Name], f.Now)...)
	}
	return s
}

func serverRow(l *coordinationv1.Lease, now time.Time) ServerRow {
	row := ServerRow{Heartbeat: heartbeatOf(l, v1alpha1.ServerComponent, now)}
	report, err := v1alpha1.ParseServerReport(l.Annotations[v1alpha1.ServerAnnotation])
	if err != nil {
		row.unread = err.Error()
		return row
	}
	row.Report = &report
	return row
}

// Alive returns the replicas that run.
func (s *Servers) Alive() (rows []ServerRow) {
	for _, r := range s.Replicas {
		if r.Alive {
			rows = append(rows, r)
		}
	}
	return rows
}

func (s *Servers) warnings(c Cluster, now time.Time) (all []string) {
	up := s.Alive()
	if len(up) == 0 && len(s.Replicas) > 0 {
		last := slices.MaxFunc(s.Replicas, func(a, b ServerRow) int { return a.at().Compare(b.at()) })
		return []string{"no machine-config-server is up, so no new machine can boot; " + last.Name + " was last seen " +
			AgoIn(c, last.at(), now)}
	}
	of := map[string][]string{}
	var words []string
	for _, r := range up {
		for _, w := range r.warnings(c, now) {
			if of[w] == nil {
				words = append(words, w)
			}
			of[w] = append(of[w], r.Name)
		}
	}
	for _, w := range words {
		all = append(all, "server "+strings.Join(of[w], ", ")+": "+w)
	}
	return all
}

func (r ServerRow) warnings(c Cluster, now time.Time) (all []string) {
	if r.Report == nil {
		return []string{"what it does is not known: " + r.unread}
	}
	switch open := r.Report.Access == v1alpha1.AccessOpen; {
	case open && r.Report.SecretsToAll:
		all = append(all, "every machine that reaches it gets configs with all their secrets; start it without "+
			"--open and --secrets=all")
	case open:
		all = append(all, "every machine that reaches it gets configs, without their secrets; start it without "+
			"--open, and give new machines tokens: bunsen token create")
	case r.Report.SecretsToAll:
		all = append(all, "every machine with a token gets secrets, not only the node for which they are; start it "+
			"without --secrets=all")
	}
	switch until := r.Report.CertificateUntil; {
	case until == nil:
	case !now.Before(until.Time):
		all = append(all, "its certificate ended "+AgoIn(c, until.Time, now)+", so no new machine trusts it; "+
			"its log says why it was not renewed")
	case until.Sub(now) < endsSoon:
		ends := "in " + terminal.Age(now, until.Time)
		if c.Timestamps {
			ends = "at " + until.UTC().Format(time.RFC3339)
		}
		all = append(all, "its certificate ends "+ends+" and was not renewed; its log says why")
	}
	return all
}

// boots returns what the replicas serve for a pool, without its target.
func (s *Servers) boots(v *Pool, now time.Time) (all []BootRow) {
	by := map[v1alpha1.ServedPool][]string{}
	var order []v1alpha1.ServedPool
	for _, r := range s.Alive() {
		if r.Report == nil {
			continue
		}
		served, knows := r.Report.Pools[v.Object.Name]
		if !knows || v.isOutdated(served, r.at(), now) {
			continue
		}
		if by[served] == nil {
			order = append(order, served)
		}
		by[served] = append(by[served], r.Name)
	}
	for _, served := range order {
		if served.Config == v.TargetConfig() && served.Problem == "" {
			continue
		}
		row := BootRow{Pool: v.Object.Name, Config: served.Config, Target: v.TargetConfig(), Why: v.bootReason(served)}
		if len(order) > 1 {
			row.Servers = by[served]
		}
		all = append(all, row)
	}
	return all
}

// isOutdated reports whether a report is older than the last change of the pool, or only slightly younger, while the
// next one is still expected. That may name another config, so this one is no problem yet.
func (v *Pool) isOutdated(served v1alpha1.ServedPool, reported, now time.Time) bool {
	switch {
	case served.Config == "" || served.Problem != "", served.Config == v.TargetConfig(),
		served.Config == v.Facts.Care.Healthy.Config:
		return false
	}
	record := v.Facts.Care.Record
	changed := record.Began.Time
	for _, at := range []*metav1.Time{record.At, record.Ended} {
		if at != nil && at.After(changed) {
			changed = at.Time
		}
	}
	return reported.Before(changed.Add(reportsWithin)) && now.Before(changed.Add(reportsAgain))
}

func (v *Pool) bootReason(served v1alpha1.ServedPool) string {
	if served.Config == "" {
		return cmp.Or(served.Problem, "the server does not say why")
	}
	var parts []string
	if served.Config != v.TargetConfig() {
		parts = append(parts, v.earlierConfigReason(served.Config))
	}
	if served.Problem != "" {
		parts = append(parts, served.Problem)
	}
	return strings.Join(parts, "; ")
}

func (v *Pool) earlierConfigReason(config string) string {
	record, target := v.Facts.Care.Record, v.TargetConfig()
	switch verdict := record.Verdict; {
	case config != v.Facts.Care.Healthy.Config:
		return "neither the pool's target nor its last healthy config; the server may not reach the cluster"
	case target == "":
		return "healthy; the pool has no target"
	case record.Config == target && verdict == v1alpha1.RolloutHalted:
		return "healthy; the rollout of " + target + " was halted"
	case record.Config == target && verdict == v1alpha1.RolloutReverted:
		return "healthy; the rollout of " + target + " was reverted"
	case v.Object.Spec.Paused:
		return "healthy; the rollout of " + target + " has not ended, and the pool is paused"
	}
	if v.Counts().Nodes == 0 {
		return "healthy; no node has run " + target + " yet"
	}
	return "healthy; the rollout of " + target + " has not ended"
}

// DeniedMachine is a machine whose certificate request the controller denied.
type DeniedMachine struct {
	Request string `json:"request"`
	// Node was requested, and Pool is that of the machine's token. Either may be empty.
	Node string `json:"node,omitempty"`
	Pool string `json:"pool,omitempty"`
	// Reason is one of v1alpha1. Message says why, and which commands help.
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// DeniedMachines returns the machines that the controller denied, the last denial first. Of each node name and reason
// it has the last denial alone, and it omits the denials of other clients.
func DeniedMachines(requests []certificatesv1.CertificateSigningRequest) []DeniedMachine {
	var out []DeniedMachine
	for i := range requests {
		r := &requests[i]
		if !slices.Contains(r.Spec.Groups, v1alpha1.BootstrapGroup) {
			continue
		}
		for _, c := range r.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied && isReasonOfController(c.Reason) {
				out = append(out, deniedMachine(r, c))
			}
		}
	}
	slices.SortFunc(out, func(a, b DeniedMachine) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Request, b.Request))
	})
	type problem struct{ node, reason string }
	seen := map[problem]bool{}
	return slices.DeleteFunc(out, func(m DeniedMachine) bool {
		p := problem{m.Node, m.Reason}
		repeated := seen[p]
		seen[p] = true
		return repeated
	})
}

func isReasonOfController(reason string) bool {
	switch reason {
	case v1alpha1.ReasonJoinInvalid, v1alpha1.ReasonJoinPools, v1alpha1.ReasonJoinOtherNode,
		v1alpha1.ReasonJoinTokenUsed, v1alpha1.ReasonJoinNodeExists,
		v1alpha1.ReasonJoinControlPlane, v1alpha1.ReasonJoinNameReserved, v1alpha1.ReasonJoinNameTaken,
		v1alpha1.ReasonJoinTooLate:
		return true
	}
	return false
}

func deniedMachine(r *certificatesv1.CertificateSigningRequest,
	c certificatesv1.CertificateSigningRequestCondition,
) DeniedMachine {
	m := DeniedMachine{
		Request: r.Name, Node: poolstate.RequestedNode(r), Reason: c.Reason, Message: c.Message,
		At: c.LastUpdateTime.Time,
	}
	if len(validation.IsDNS1123Subdomain(m.Node)) > 0 { // The node name in the request is invalid.
		m.Node = ""
	}
	for _, group := range r.Spec.Groups {
		if pool, _, ok := v1alpha1.ParsePoolGroup(group); ok {
			m.Pool = pool
		}
	}
	return m
}

// WithoutJoined removes the machines whose Node was created after the denial: they joined with a later request.
func WithoutJoined(denied []DeniedMachine, nodes []corev1.Node) []DeniedMachine {
	created := make(map[string]time.Time, len(nodes))
	for i := range nodes {
		created[nodes[i].Name] = nodes[i].CreationTimestamp.Time
	}
	var out []DeniedMachine
	for _, m := range denied {
		if at, exists := created[m.Node]; !exists || !at.After(m.At) {
			out = append(out, m)
		}
	}
	return out
}
