package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Servers are a cluster's machine-config-servers, as their Leases tell of them.
type Servers struct {
	// Note is why nothing is known of them; empty where something is.
	Note string `json:"note,omitempty"`
	// Replicas that are there or were, by name.
	Replicas []ServerRow `json:"replicas,omitempty"`
	// Warnings are what somebody should see to, in words.
	Warnings []string `json:"warnings,omitempty"`
	// Boots are the pools whose new machines boot something else than the pool's target, or nothing.
	Boots []BootRow `json:"boots,omitempty"`
}

// ServerRow is one replica.
type ServerRow struct {
	Heartbeat `json:",inline"`
	// Report is what it says of itself; absent where that cannot be read.
	Report *v1alpha1.ServerReport `json:"report,omitempty"`

	// unread is why there is no report.
	unread string
}

// BootRow is what new machines of a pool boot where that is not the pool's target.
type BootRow struct {
	Pool string `json:"pool"`
	// Config that they get; empty for none.
	Config string `json:"config,omitempty"`
	Target string `json:"target,omitempty"`
	// Why, in words.
	Why string `json:"why"`
	// Servers that serve it, where others serve something else.
	Servers []string `json:"servers,omitempty"`
}

// endsSoon is how long before its end a certificate is warned of: what renews them does so earlier.
const endsSoon = 14 * 24 * time.Hour

const (
	// reportsWithin is how soon a server that reaches the cluster tells what it serves after a pool changed, with the time that
	// it takes to read a config, and clocks that do not agree.
	reportsWithin = 20 * time.Second
	// reportsAgain is how old no report of such a server gets.
	reportsAgain = 45 * time.Second
)

// servers is nil where none was ever there.
func (f *fleet) servers() *Servers {
	s := &Servers{Note: f.LeasesNote}
	for i := range f.Leases {
		if componentOf(&f.Leases[i]) != v1alpha1.ServerComponent {
			continue
		}
		s.Replicas = append(s.Replicas, serverRow(&f.Leases[i], f.now))
	}
	if len(s.Replicas) == 0 && s.Note == "" {
		return nil
	}
	slices.SortFunc(s.Replicas, func(a, b ServerRow) int { return strings.Compare(a.Name, b.Name) })
	s.Warnings = s.warnings(f.Cluster, f.now)
	for i := range f.Pools {
		s.Boots = append(s.Boots, s.boots(f.pools[f.Pools[i].Name], f.now)...)
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

// up are the replicas that are there.
func (s *Servers) up() (rows []ServerRow) {
	for _, r := range s.Replicas {
		if r.Alive {
			rows = append(rows, r)
		}
	}
	return rows
}

// warnings are what somebody should see to; what is so of several replicas is said once.
func (s *Servers) warnings(c Cluster, now time.Time) (all []string) {
	up := s.up()
	if len(up) == 0 && len(s.Replicas) > 0 {
		last := slices.MaxFunc(s.Replicas, func(a, b ServerRow) int { return a.at().Compare(b.at()) })
		return []string{"no machine-config-server is up, so no new machine can boot; " + last.Name + " was last seen " + agoIn(c, last.at(), now)}
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
		all = append(all, "whoever reaches it gets configs with all their secrets; start it without --open and --secrets=all")
	case open:
		all = append(all, "whoever reaches it gets configs, without what is secret in them; start it without --open, and give new machines tokens: bunsen token create")
	case r.Report.SecretsToAll:
		all = append(all, "whoever has a token gets secrets, not only the node that they are for; start it without --secrets=all")
	}
	switch until := r.Report.CertificateUntil; {
	case until == nil:
	case !now.Before(until.Time):
		all = append(all, "its certificate ended "+agoIn(c, until.Time, now)+", so no new machine believes it; its log says why it was not renewed")
	case until.Sub(now) < endsSoon:
		ends := "in " + Age(now, until.Time)
		if c.Timestamps {
			ends = "at " + until.UTC().Format(time.RFC3339)
		}
		all = append(all, "its certificate ends "+ends+" and was not renewed; its log says why")
	}
	return all
}

// boots are what the replicas serve of a pool, where that is not its target.
func (s *Servers) boots(v *poolView, now time.Time) (all []BootRow) {
	by := map[v1alpha1.ServedPool][]string{}
	var order []v1alpha1.ServedPool
	for _, r := range s.up() {
		if r.Report == nil {
			continue
		}
		served, knows := r.Report.Pools[v.object.Name]
		if !knows || v.outdated(served, r.at(), now) {
			continue
		}
		if by[served] == nil {
			order = append(order, served)
		}
		by[served] = append(by[served], r.Name)
	}
	for _, served := range order {
		if served.Config == v.facts.Target && served.Problem == "" {
			continue
		}
		row := BootRow{Pool: v.object.Name, Config: served.Config, Target: v.facts.Target, Why: v.instead(served)}
		if len(order) > 1 {
			row.Servers = by[served]
		}
		all = append(all, row)
	}
	return all
}

// outdated tells of a report that is older than what the pool changed last, or hardly younger, while the next one is still to
// be expected: that it names neither of the configs that may be served now says nothing.
func (v *poolView) outdated(served v1alpha1.ServedPool, reported, now time.Time) bool {
	switch {
	case served.Config == "" || served.Problem != "", served.Config == v.facts.Target, served.Config == v.facts.Care.Healthy:
		return false
	}
	record := v.facts.Care.Record
	changed := record.Began.Time
	for _, at := range []*metav1.Time{record.At, record.Ended} {
		if at != nil && at.After(changed) {
			changed = at.Time
		}
	}
	return reported.Before(changed.Add(reportsWithin)) && now.Before(changed.Add(reportsAgain))
}

// instead is why new machines do not boot the pool's target.
func (v *poolView) instead(served v1alpha1.ServedPool) string {
	if served.Config == "" {
		return cmp.Or(served.Problem, "the server does not say why")
	}
	var parts []string
	if served.Config != v.facts.Target {
		parts = append(parts, v.behind(served.Config))
	}
	if served.Problem != "" {
		parts = append(parts, served.Problem)
	}
	return strings.Join(parts, "; ")
}

// behind is why an earlier config is served than the pool's target.
func (v *poolView) behind(config string) string {
	record, target := v.facts.Care.Record, v.facts.Target
	switch verdict := record.Verdict; {
	case config != v.facts.Care.Healthy:
		return "neither the pool's target nor the last config that all of it was well with; the server may not reach the cluster"
	case target == "":
		return "healthy; the pool has no target"
	case record.Config == target && verdict == v1alpha1.RolloutHalted:
		return "healthy; the rollout of " + target + " was halted"
	case record.Config == target && verdict == v1alpha1.RolloutReverted:
		return "healthy; the rollout of " + target + " was taken back"
	case v.object.Spec.Paused:
		return "healthy; the rollout of " + target + " has not ended, and the pool is paused"
	}
	if v.counts().Nodes == 0 {
		return "healthy; no node has run " + target + " yet"
	}
	return "healthy; the rollout of " + target + " has not ended"
}
