package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Controllers are a cluster's machine-config-controllers, as their Leases report them.
type Controllers struct {
	// Note is why nothing is known of them; empty where something is.
	Note string `json:"note,omitempty"`
	// Replicas that run or ran, by name.
	Replicas []ControllerRow `json:"replicas,omitempty"`
	// Problem is why nothing is rendered or rolled out; empty while a replica leads. It names no ages.
	Problem string `json:"problem,omitempty"`
	// Late: the leader missed its last report, and may hang.
	Late bool `json:"late,omitempty"`
	// Do are commands that help where there is a Problem or the leader is Late.
	Do []string `json:"do,omitempty"`

	// at is when it was so.
	at time.Time
}

// ControllerRow is one replica.
type ControllerRow struct {
	Heartbeat `json:",inline"`
	// Report is what it says of itself; absent where that cannot be read.
	Report *v1alpha1.ControllerReport `json:"report,omitempty"`
}

// Heartbeat is what a Lease says of the replica that keeps it.
type Heartbeat struct {
	Name string `json:"name"`
	// Alive: its last heartbeat still holds.
	Alive bool `json:"alive"`
	// Seen is the time of that heartbeat; absent where there was none.
	Seen *time.Time `json:"seen,omitempty"`

	// lasting is for how long the last heartbeat held.
	lasting time.Duration
}

// heartbeatOf reads the Lease of a replica of a component.
func heartbeatOf(l *coordinationv1.Lease, component string, now time.Time) Heartbeat {
	h := Heartbeat{Name: strings.TrimPrefix(l.Name, component+"-")}
	if l.Spec.HolderIdentity != nil {
		h.Name = cmp.Or(*l.Spec.HolderIdentity, h.Name)
	}
	if l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil {
		h.Seen = known(l.Spec.RenewTime.Time)
		h.lasting = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		h.Alive = now.Before(h.Seen.Add(h.lasting))
	}
	return h
}

// isLate reports whether the replica should have reported since its last heartbeat, which still holds: the process may be stopped.
func (h Heartbeat) isLate(now time.Time) bool {
	return h.Alive && h.Seen != nil && now.Sub(*h.Seen) > h.lasting/2
}

// hasEnded reports whether the replica reported its own end.
func (h Heartbeat) hasEnded() bool { return !h.Alive && h.Seen != nil && h.lasting <= time.Second }

// state is whether the replica runs. A heartbeat that is late, though it still holds, is said: the process may be stopped.
func (h Heartbeat) state(started, now time.Time) string {
	switch {
	case h.Seen == nil:
		return "gone"
	case h.isLate(now):
		return "last seen " + Age(*h.Seen, now) + " ago"
	case h.Alive && !started.IsZero():
		return "up " + Age(started, now)
	case h.Alive:
		return "up"
	case h.hasEnded():
		return "ended " + Age(*h.Seen, now) + " ago"
	}
	return "gone, last seen " + Age(*h.Seen, now) + " ago"
}

// at is the time of the last heartbeat; zero where there was none.
func (h Heartbeat) at() (t time.Time) {
	if h.Seen != nil {
		t = *h.Seen
	}
	return t
}

// componentOf is whose Lease it is.
func componentOf(l *coordinationv1.Lease) string {
	return cmp.Or(l.Labels[v1alpha1.ServerLabel], v1alpha1.ServerComponent)
}

// controllers is nil where the Leases were not read.
func (f *fleet) controllers() *Controllers {
	if f.Leases == nil && f.LeasesNote == "" {
		return nil
	}
	c := &Controllers{Note: f.LeasesNote}
	if c.Note != "" {
		return c
	}
	for i := range f.Leases {
		l := &f.Leases[i]
		if componentOf(l) != v1alpha1.ControllerComponent {
			continue
		}
		row := ControllerRow{Heartbeat: heartbeatOf(l, v1alpha1.ControllerComponent, f.now)}
		if report, err := v1alpha1.ParseControllerReport(l.Annotations[v1alpha1.ControllerAnnotation]); err == nil {
			row.Report = &report
		}
		c.Replicas = append(c.Replicas, row)
	}
	slices.SortFunc(c.Replicas, func(a, b ControllerRow) int { return strings.Compare(a.Name, b.Name) })
	c.at, c.Problem = f.now, c.problem()
	c.Late = c.late(ago(f.now)) != ""
	if c.Problem != "" || c.Late {
		c.Do = controllerCommands(c)
	}
	return c
}

// ago writes how long ago a time was, seen from now.
func ago(now time.Time) func(time.Time) string {
	return func(t time.Time) string { return Age(t, now) + " ago" }
}

// whenIn writes times as the reasons of a cluster name them.
func whenIn(f *fleet) func(time.Time) string {
	if f.Timestamps {
		return func(t time.Time) string { return "at " + t.UTC().Format(time.RFC3339) }
	}
	return ago(f.now)
}

// leader is the replica that renders and rolls out; nil for none. One that hangs may still claim to lead, so the last report counts.
func (c *Controllers) leader() *ControllerRow {
	if last := c.lastLeader(); last != nil && last.Alive {
		return last
	}
	return nil
}

// lastLeader is the replica that was the last to report that it leads; nil where none ever did.
func (c *Controllers) lastLeader() *ControllerRow {
	var last *ControllerRow
	if c == nil {
		return nil
	}
	for i := range c.Replicas {
		if r := &c.Replicas[i]; r.Report != nil && r.Report.Leader && (last == nil || r.at().After(last.at())) {
			last = r
		}
	}
	return last
}

// late says that the leader missed its last report, though its last heartbeat still holds; empty where that is not so.
func (c *Controllers) late(when func(time.Time) string) string {
	leader := c.leader()
	if leader == nil || !leader.isLate(c.at) {
		return ""
	}
	return "machine-config-controller " + leader.Name + " was last seen " + when(*leader.Seen) + " and should have reported since: it may hang"
}

// last is the replica that was seen last; nil where there is none.
func (c *Controllers) last() *ControllerRow {
	if len(c.Replicas) == 0 {
		return nil
	}
	last := slices.MaxFunc(c.Replicas, func(a, b ControllerRow) int { return a.at().Compare(b.at()) })
	return &last
}

// unread is a replica that runs and whose report cannot be read; nil where there is none.
func (c *Controllers) unread() *ControllerRow {
	at := slices.IndexFunc(c.Replicas, func(r ControllerRow) bool { return r.Alive && r.Report == nil })
	if at < 0 {
		return nil
	}
	return &c.Replicas[at]
}

// problem is why nothing is rendered or rolled out.
func (c *Controllers) problem() string {
	last := c.last()
	if r := c.unread(); r != nil {
		return "the report of machine-config-controller " + r.Name + " cannot be read"
	}
	switch {
	case c.leader() != nil:
		return ""
	case last == nil:
		return "no machine-config-controller has reported"
	case last.Alive:
		return "no machine-config-controller leads"
	}
	if last.hasEnded() {
		return "no machine-config-controller is running"
	}
	return "no machine-config-controller reports any more"
}

// warning is the problem with its consequence, and the age of the last heartbeat.
func (c *Controllers) warning(when func(time.Time) string) string {
	if c == nil || c.Problem == "" {
		return ""
	}
	text := c.Problem
	switch last := c.last(); {
	case last == nil || last.Alive || last.Seen == nil:
	case last.hasEnded():
		text += " (" + last.Name + " ended " + when(*last.Seen) + ")"
	default:
		text += " (" + last.Name + " was last seen " + when(*last.Seen) + "; it hangs or is gone)"
	}
	if c.leader() == nil {
		text += ": nothing is rendered or rolled out"
	}
	return text
}

// text prints the replicas and what is wrong.
func (c *Controllers) text(now time.Time) string {
	if c == nil {
		return ""
	}
	if c.Note != "" {
		return "controllers: " + c.Note + "\n"
	}
	t := Table{Head: []string{"CONTROLLER", "VERSION", "ROLE", "STATE"}}
	for _, r := range c.Replicas {
		if !r.Alive && c.leader() != nil && now.Sub(r.at()) > recently {
			continue
		}
		t.Rows = append(t.Rows, r.cells(now))
	}
	text := t.String()
	if w := cmp.Or(c.warning(ago(now)), c.late(ago(now))); w != "" {
		text += "WARNING: " + w + "\n"
		for _, do := range c.Do {
			text += "To do: " + do + "\n"
		}
	}
	return text
}

func (r ControllerRow) cells(now time.Time) []string {
	if r.Report == nil {
		return []string{r.Name, "-", "-", r.state(time.Time{}, now)}
	}
	role := "standby"
	if r.Report.Leader {
		role = "leader"
	}
	return []string{r.Name, dash(r.Report.Version), role, r.state(r.Report.Started.Time, now)}
}

// lines of the screen: who leads, or what is wrong.
func (c *Controllers) lines(now time.Time, width int, spare *int) []Line {
	if c == nil || c.Note != "" {
		return nil
	}
	if leader := c.leader(); leader != nil {
		cells := leader.cells(now)
		if c.Late {
			return append([]Line{{{"CONTROLLER ", Dim}, {leader.Name, Head}, {"   " + cells[len(cells)-1], Bad}}}, c.warningLines(c.late(ago(now)), width, spare)...)
		}
		return []Line{{{"CONTROLLER ", Dim}, {leader.Name, Head}, {"   " + cells[len(cells)-1], Good}}}
	}
	return append([]Line{{{"CONTROLLER ", Dim}, {"none leads", Bad}}}, c.warningLines(c.warning(ago(now)), width, spare)...)
}

// warningLines are a warning and the first command that helps.
func (c *Controllers) warningLines(warning string, width int, spare *int) []Line {
	out := labelled("warning", warning, Bad, width, spare)
	if len(c.Do) > 0 {
		out = append(out, labelled("to do", c.Do[0], Plain, width, spare)...)
	}
	return out
}

// look is the last look at a repository of the replica that led last; false where that is not known.
func (c *Controllers) look(source string) (v1alpha1.SourceLook, bool) {
	leader := c.lastLeader()
	if leader == nil {
		return v1alpha1.SourceLook{}, false
	}
	look, ok := leader.Report.Sources[source]
	return look, ok
}

// overdue tells that the leader has not looked at a repository for longer than two intervals and the timeout of a look. Where none
// leads, that is the problem.
func (c *Controllers) overdue(src *v1alpha1.GitSource) bool {
	look, ok := c.look(src.Name)
	leader := c.leader()
	if !ok || src.Spec.Suspend || leader == nil {
		return false
	}
	interval, timeout := cmp.Or(src.Spec.Interval.Duration, time.Minute), cmp.Or(src.Spec.Timeout.Duration, time.Minute)
	return leader.at().Sub(look.At.Time) > 2*interval+timeout
}

// controllerLines are those of the controllers, and what concerns nothing else.
func (s Status) controllerLines(now time.Time, width int, spare *int) []Line {
	out := s.Controllers.lines(now, width, spare)
	for _, w := range s.Warnings {
		out = append(out, labelled("warning", w, Bad, width, spare)...)
	}
	for _, r := range s.Sources {
		if r.Overdue {
			out = append(out, labelled("warning", r.overdue(ago(now)), Bad, width, spare)...)
		}
	}
	return out
}

// warnings are what concerns no pool, node or server alone.
func warnings(f *fleet, c *Controllers) []string {
	var all []string
	if text := f.withoutSource(); text != "" && c != nil {
		all = append(all, text)
	}
	if text := withoutWorkers(f); text != "" {
		all = append(all, text)
	}
	if f.DaemonsNote != "" {
		all = append(all, "it is not known which daemons run: "+f.DaemonsNote)
	}
	return all
}

// withoutWorkers says that the pool is missing to which most nodes belong.
func withoutWorkers(f *fleet) string {
	if n := len(f.nobodys); n > 0 && f.pools["worker"] == nil {
		return "there is no MachineConfigPool worker: " + count(n, "node") + " of no pool get no config"
	}
	return ""
}

// withoutSource says that nothing follows git, where that is so.
func (f *fleet) withoutSource() string {
	if len(f.Sources) > 0 || len(f.Pools) == 0 {
		return ""
	}
	var from []string
	for i := range f.Pools {
		if of := f.Pools[i].Annotations[v1alpha1.SourceAnnotation]; of != "" && !slices.Contains(from, of) {
			from = append(from, of)
		}
	}
	slices.Sort(from)
	text := "there is no GitSource: pushes have no effect"
	if len(from) > 0 {
		text += "; these pools came from GitSource " + strings.Join(from, ", ")
	}
	return text
}
