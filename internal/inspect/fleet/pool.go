package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
)

// applyingBlock says that the cluster does not have one whole revision of a GitSource from which the pool gets its
// config, so that the controller neither renders nor rolls it out; false if it has. Only the controller compares all
// objects: its condition counts.
func (f *Fleet) applyingBlock(v *Pool) (poolstate.Block, bool) {
	c := v.Condition(v1alpha1.RolloutBlockedCondition)
	if c.Status != corev1.ConditionTrue || c.Reason != string(poolstate.CauseApplying) {
		return poolstate.Block{}, false
	}
	if src := f.JustApplied(v); src != nil {
		return poolstate.Block{Cause: poolstate.CauseApplying, Reason: "GitSource " + src.Name + " has applied " +
			ShortRevision(src.Status.AppliedRevision) + ", and the pool takes it up now"}, true
	}
	return poolstate.Block{Cause: poolstate.CauseApplying, Reason: c.Message}, true
}

// JustApplied returns the GitSource that ended, within a minute, an apply for which a pool has waited; nil if none did,
// or if another goes on. A controller needs seconds until the conditions of all pools say so.
func (f *Fleet) JustApplied(v *Pool) *v1alpha1.GitSource {
	var out *v1alpha1.GitSource
	since := v.Condition(v1alpha1.RolloutBlockedCondition).LastTransitionTime.Time
	for i := range f.Sources {
		src := &f.Sources[i]
		if src.Status.Applying != nil {
			return nil
		}
		if applied := AppliedHistory(src); len(applied) > 0 && !applied[0].At.Time.Before(since) &&
			f.Now.Sub(applied[0].At.Time) < time.Minute {
			out = src
		}
	}
	return out
}

// RevertFailures returns the nodes whose failures caused a pool's revert, each with its failure. The pool's record
// names only a few.
func (v *Pool) RevertFailures() map[string]string {
	r := v.Decision.Record
	if r.Verdict != v1alpha1.RolloutReverted {
		return nil
	}
	out := map[string]string{}
	for _, n := range r.Failed {
		out[n.Node] = n.Why
	}
	return out
}

// PoolCounts counts each node once, in its phase, so that the other numbers add up to Nodes.
type PoolCounts struct {
	Nodes int `json:"nodes"`
	// Updated nodes run the target and serve pods. Unready nodes run the target, but are not Ready or are cordoned.
	Updated int `json:"updated"`
	Unready int `json:"unready"`
	// Busy nodes are being updated. Waiting nodes have not been assigned the target.
	Busy     int `json:"busy"`
	Waiting  int `json:"waiting"`
	Degraded int `json:"degraded"`
	// Back is how many nodes of a reverted pool run the config to which it was reverted.
	Back int `json:"back"`
	// Unknown nodes do not report: there never was a daemon's report, their kubelet stopped, or their daemon is silent.
	Unknown int `json:"unknown"`
}

// PausedBy says until when a pool is paused, by whom and why, as far as its annotations do.
func PausedBy(p *mcfgv1.MachineConfigPool) string {
	text := ""
	if t := PausedUntil(p); !t.IsZero() {
		text = " until " + Moment(t, nil, t)
	}
	if who := p.Annotations[v1alpha1.PausedByAnnotation]; who != "" {
		text += " by " + who
	}
	return text
}

// PausedUntil returns when the pause of a pool ends by itself; the zero time if it does not.
func PausedUntil(p *mcfgv1.MachineConfigPool) time.Time {
	if t, err := time.Parse(time.RFC3339, p.Annotations[v1alpha1.PausedUntilAnnotation]); err == nil && p.Spec.Paused {
		return t.UTC()
	}
	return time.Time{}
}

// HeldBy says at which revision a pool is held, until when, by whom and why, as far as its annotations do; "" if it is
// not held.
func HeldBy(p *mcfgv1.MachineConfigPool) string {
	if p.Annotations[v1alpha1.HoldAnnotation] == "" {
		return ""
	}
	text := " at " + cmp.Or(ShortRevision(p.Annotations[v1alpha1.HeldRevisionAnnotation]),
		ShortRendered(p.Annotations[v1alpha1.HoldAnnotation]))
	if t, err := time.Parse(time.RFC3339, p.Annotations[v1alpha1.HeldUntilAnnotation]); err == nil {
		text += " until " + Moment(t, nil, t)
	}
	if who := p.Annotations[v1alpha1.HeldByAnnotation]; who != "" {
		text += " by " + who
	}
	return text
}

// SuspendedBy says until when a source is suspended, by whom and why, as far as the GitSource does.
func SuspendedBy(src *v1alpha1.GitSource) string {
	text := ""
	if until := src.Spec.SuspendUntil; until != nil {
		text = " until " + Moment(until.Time, nil, until.Time)
	}
	if who := src.Annotations[v1alpha1.SuspendedByAnnotation]; who != "" {
		text += " by " + who
	}
	return text
}

// NextText says what happens next without a user: which nodes get the config, or when a wait ends.
func (f *Fleet) NextText(v *Pool) string {
	const most = 3
	var names []string
	for _, a := range v.Decision.Assign {
		if len(names) == most {
			names = append(names, fmt.Sprintf("%d more", len(v.Decision.Assign)-most))
			break
		}
		names = append(names, a.Node)
	}
	if len(names) > 0 {
		return "updating next: " + strings.Join(names, ", ")
	}
	if len(v.Waits) > 0 { // At least one node does not run its config yet.
		if w := f.Window(v); w != nil && !w.Open && w.OpenUntil == nil && w.Changes != nil {
			return "windows " + w.Text(f.Now)
		}
	}
	for _, b := range v.Decision.Blocks {
		if !b.Until.IsZero() && b.Until.After(f.Now) {
			return "continues " + Moment(b.Until, nil, f.Now)
		}
	}
	return ""
}

// SourceOf returns the GitSource from which a config of a pool came, even if it was deleted; empty for none.
func (f *Fleet) SourceOf(v *Pool, config string) string {
	return cmp.Or(f.ConfigNamed(config).Source, v.Object.Annotations[v1alpha1.SourceAnnotation])
}

// HealthyConfig returns the last config that the whole pool ran without a failure.
func (v *Pool) HealthyConfig() v1alpha1.ConfigVersion {
	return cmp.Or(v.Decision.Record.LastHealthy(), v1alpha1.ConfigVersion{Config: v.Object.Status.Configuration.Name})
}

// RecordedCommit returns the commit that last requested a config or, if changes through the API did, the one that was
// applied then: from the pool's records, or else from the config's first rendering. It is empty if no commit is known.
func (f *Fleet) RecordedCommit(v *Pool, config string) string {
	asked := v1alpha1.RequesterOf(v.Object.Annotations, config)
	if asked.ByAPI() {
		asked = v.apiTarget(config).Commit
	}
	return HashOf(cmp.Or(asked.Revision, f.ConfigNamed(config).Revision))
}

// apiTarget returns the record of a pool's target if only changes through the API requested it; zero if config is not
// the target, and for a record that cannot be read.
func (v *Pool) apiTarget(config string) v1alpha1.PoolTarget {
	target, err := v1alpha1.ParsePoolTarget(v.Object.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || target.Config != config || !target.ByAPI() {
		return v1alpha1.PoolTarget{}
	}
	return target
}

// OthersText returns a text with the numbers of nodes that are not updated.
func (r PoolCounts) OthersText() string {
	text := fmt.Sprintf("%d busy, %d waiting, %d failed", r.Busy, r.Waiting, r.Degraded)
	if r.Back > 0 {
		text += fmt.Sprintf(", %d went back", r.Back)
	}
	if r.Unready > 0 {
		text += fmt.Sprintf(", %d unready", r.Unready)
	}
	if r.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", r.Unknown)
	}
	return text
}

// WindowState is the current state of a pool's maintenance windows.
type WindowState struct {
	Open bool `json:"open"`
	// Window is the name or the schedule of the window that decides, and the time zone of its schedule.
	Window string `json:"window,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Changes is when the windows open or close next; nil if they do not within a year.
	Changes *time.Time `json:"changes,omitempty"`
	// OpenUntil: a user has opened the pool outside of its windows.
	OpenUntil *time.Time `json:"openUntil,omitempty"`
}

// Window returns the state of a pool's windows; nil for a pool without windows.
func (f *Fleet) Window(v *Pool) *WindowState {
	p := v.Facts.Care.Pace
	if p.Windows.Len() == 0 {
		return nil
	}
	s := p.Windows.At(f.Now)
	w := &WindowState{
		Open: s.Open, Window: s.Window, Zone: f.windowZone(p.Policies, s.Window),
		Changes: TimeOrNil(s.Until),
	}
	if until := v.Facts.Care.OpenUntil; until.After(f.Now) {
		w.OpenUntil = &until
	}
	return w
}

func (f *Fleet) windowZone(policies []string, label string) string {
	for i := range f.Policies {
		if !slices.Contains(policies, f.Policies[i].Name) {
			continue
		}
		for _, w := range f.Policies[i].Spec.Windows {
			if cmp.Or(w.Name, w.Schedule) == label && label != "" {
				return w.TimeZone
			}
		}
	}
	return ""
}

// Text says whether the windows are open, and when they open or close next, in the zone of the window and in UTC.
func (w WindowState) Text(now time.Time) string {
	name := ""
	if w.Window != "" {
		name = " (" + w.Window + ")"
	}
	text, change := "closed"+name, "the next opening is "
	if w.Open {
		text, change = "open"+name, "they close "
	}
	switch {
	case w.Changes != nil:
		text += "; " + change + Moment(*w.Changes, location(w.Zone), now)
	case !w.Open:
		text += "; there is no opening within a year"
	}
	if w.OpenUntil != nil {
		text += "; opened by a user until " + Moment(*w.OpenUntil, nil, now)
	}
	return text
}

func location(zone string) *time.Location {
	if zone == "" || zone == "UTC" {
		return nil
	}
	l, err := time.LoadLocation(zone)
	if err != nil {
		return nil
	}
	return l
}

// Moment returns a text with a future time in the given zone, the same time in UTC, and the duration until then.
func Moment(t time.Time, zone *time.Location, now time.Time) string {
	const day, minute = "Mon ", "2006-01-02 15:04 MST"
	text := t.UTC().Format(day + minute)
	if zone != nil {
		text = t.In(zone).Format(day+minute) + " (" + t.UTC().Format(minute) + ")"
	}
	if t.After(now) {
		text += ", in " + terminal.Age(now, t)
	}
	return text
}

// OpenedUntil returns the time in the annotation, if it is in the future.
func OpenedUntil(annotations map[string]string, now time.Time) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, annotations[v1alpha1.OpenUntilAnnotation])
	return t, err == nil && t.After(now)
}
