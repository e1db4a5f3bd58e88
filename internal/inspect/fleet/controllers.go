package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// Controllers are a cluster's machine-config-controllers, as their Leases report them.
type Controllers struct {
	// Note says why the replicas are unknown, or is empty.
	Note string `json:"note,omitempty"`
	// Replicas run or have run. They are sorted by name.
	Replicas []ControllerRow `json:"replicas,omitempty"`
	// Problem is why no controller renders or rolls out; empty while a replica leads. It contains no ages.
	Problem string `json:"problem,omitempty"`
	// Late: the leader missed its last report. It may hang.
	Late bool `json:"late,omitempty"`
	// Do helps against a Problem or a Late leader.
	Do []string `json:"do,omitempty"`

	at time.Time
}

// ControllerRow is one replica.
type ControllerRow struct {
	Heartbeat `json:",inline"`
	// Report is nil if it cannot be read.
	Report *v1alpha1.ControllerReport `json:"report,omitempty"`
}

// Heartbeat is the part of a Lease about the replica that holds it.
type Heartbeat struct {
	Name  string `json:"name"`
	Alive bool   `json:"alive"`
	// Seen is nil if there was no heartbeat.
	Seen *time.Time `json:"seen,omitempty"`

	// how long the last heartbeat was valid
	lasting time.Duration
}

func heartbeatOf(l *coordinationv1.Lease, component string, now time.Time) Heartbeat {
	h := Heartbeat{Name: strings.TrimPrefix(l.Name, component+"-")}
	if l.Spec.HolderIdentity != nil {
		h.Name = cmp.Or(*l.Spec.HolderIdentity, h.Name)
	}
	if l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil {
		h.Seen = TimeOrNil(l.Spec.RenewTime.Time)
		h.lasting = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		h.Alive = now.Before(h.Seen.Add(h.lasting))
	}
	return h
}

// Alive returns the heartbeats of a component's replicas that run, by name.
func Alive(leases []coordinationv1.Lease, component string, now time.Time) (all []Heartbeat) {
	for i := range leases {
		if componentOf(&leases[i]) != component {
			continue
		}
		if h := heartbeatOf(&leases[i], component, now); h.Alive {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Heartbeat) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// isLate reports whether a heartbeat is missing although the last one has not expired. The process may be stopped.
func (h Heartbeat) isLate(now time.Time) bool {
	return h.Alive && h.Seen != nil && now.Sub(*h.Seen) > h.lasting/2
}

// hasEnded reports whether the replica reported its own end.
func (h Heartbeat) hasEnded() bool { return !h.Alive && h.Seen != nil && h.lasting <= time.Second }

// state says whether the replica runs, and that a heartbeat is late, because the process may be stopped then.
func (h Heartbeat) state(started, now time.Time) string {
	switch {
	case h.Seen == nil:
		return "gone"
	case h.isLate(now):
		return "last seen " + terminal.Age(*h.Seen, now) + " ago"
	case h.Alive && !started.IsZero():
		return "up " + terminal.Age(started, now)
	case h.Alive:
		return "up"
	case h.hasEnded():
		return "ended " + terminal.Age(*h.Seen, now) + " ago"
	}
	return "gone, last seen " + terminal.Age(*h.Seen, now) + " ago"
}

// at is zero without a heartbeat.
func (h Heartbeat) at() (t time.Time) {
	if h.Seen != nil {
		t = *h.Seen
	}
	return t
}

func componentOf(l *coordinationv1.Lease) string {
	return cmp.Or(l.Labels[v1alpha1.ServerLabel], v1alpha1.ServerComponent)
}

// ReadControllers reads the Leases of controllers. It returns nil if the Leases were not read.
func (f *Fleet) ReadControllers() *Controllers {
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
		row := ControllerRow{Heartbeat: heartbeatOf(l, v1alpha1.ControllerComponent, f.Now)}
		if report, err := v1alpha1.ParseControllerReport(l.Annotations[v1alpha1.ControllerAnnotation]); err == nil {
			row.Report = &report
		}
		c.Replicas = append(c.Replicas, row)
	}
	slices.SortFunc(c.Replicas, func(a, b ControllerRow) int { return strings.Compare(a.Name, b.Name) })
	c.at, c.Problem = f.Now, c.problem()
	c.Late = c.LateText(Ago(f.Now)) != ""
	if c.Problem != "" || c.Late {
		c.Do = c.controllerCommands()
	}
	return c
}

// Leader returns the replica that renders and rolls out, or nil. One that hangs may still claim to lead, so the newest
// report counts.
func (c *Controllers) Leader() *ControllerRow {
	if last := c.lastLeader(); last != nil && last.Alive {
		return last
	}
	return nil
}

// lastLeader was the last to report that it leads, or is nil.
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

// LateText is about a leader that missed its last report although its last heartbeat has not expired; else "".
func (c *Controllers) LateText(when func(time.Time) string) string {
	leader := c.Leader()
	if leader == nil || !leader.isLate(c.at) {
		return ""
	}
	return "machine-config-controller " + leader.Name + " was last seen " + when(*leader.Seen) +
		" and should have reported since: it may hang"
}

// last has the newest heartbeat, or is nil.
func (c *Controllers) last() *ControllerRow {
	if len(c.Replicas) == 0 {
		return nil
	}
	last := slices.MaxFunc(c.Replicas, func(a, b ControllerRow) int { return a.at().Compare(b.at()) })
	return &last
}

// unread returns a replica that runs and whose report cannot be read, or nil.
func (c *Controllers) unread() *ControllerRow {
	at := slices.IndexFunc(c.Replicas, func(r ControllerRow) bool { return r.Alive && r.Report == nil })
	if at < 0 {
		return nil
	}
	return &c.Replicas[at]
}

func (c *Controllers) problem() string {
	last := c.last()
	if r := c.unread(); r != nil {
		return "the report of machine-config-controller " + r.Name + " cannot be read"
	}
	switch {
	case c.Leader() != nil:
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

// WarningText returns the problem with its consequence, and the age of the last heartbeat.
func (c *Controllers) WarningText(when func(time.Time) string) string {
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
	if c.Leader() == nil {
		text += ": nothing is rendered or rolled out"
	}
	return text
}

// Problems prints why nothing is rendered or rolled out, and what to do; "" if a controller leads.
func (c *Controllers) Problems(now time.Time) string {
	w := c.WarningText(Ago(now))
	if w == "" {
		return ""
	}
	return c.warned(w)
}

func (c *Controllers) warned(warning string) string {
	return warningText(warning, c.Do)
}

func warningText(warning string, do []string) string {
	var b terminal.Labels
	b.Line("WARNING: %s", warning)
	for _, command := range do {
		b.Line("To do: %s", command)
	}
	return b.String()
}

// Text prints the replicas, and a warning if the leader may hang.
func (c *Controllers) Text(now time.Time) string {
	if c == nil {
		return ""
	}
	if c.Note != "" {
		var b terminal.Labels
		b.Line("controllers: %s", c.Note)
		return b.String()
	}
	t := terminal.Table{Head: []string{"CONTROLLER", "VERSION", "ROLE", "STATE"}}
	for _, r := range c.Replicas {
		if !r.Alive && c.Leader() != nil && now.Sub(r.at()) > recently {
			continue
		}
		t.Rows = append(t.Rows, r.cells(now))
	}
	text := t.String()
	if w := c.LateText(Ago(now)); w != "" && c.Problem == "" {
		text += c.warned(w)
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
	return []string{r.Name, terminal.Dash(r.Report.Version), role, r.state(r.Report.Started.Time, now)}
}

// Lines returns the lines of the screen about controllers: the leader, or the problem.
func (c *Controllers) Lines(now time.Time, width int, spare *int) []terminal.Line {
	if c == nil || c.Note != "" {
		return nil
	}
	if leader := c.Leader(); leader != nil {
		cells := leader.cells(now)
		if c.Late {
			return append([]terminal.Line{{
				terminal.Dim.Of("CONTROLLER "), terminal.Head.Of(leader.Name),
				terminal.Bad.Of("   " + cells[len(cells)-1]),
			}}, c.warningLines(c.LateText(Ago(now)), width,
				spare)...)
		}
		return []terminal.Line{{
			terminal.Dim.Of("CONTROLLER "), terminal.Head.Of(leader.Name),
			terminal.Good.Of("   " + cells[len(cells)-1]),
		}}
	}
	return append([]terminal.Line{{terminal.Dim.Of("CONTROLLER "), terminal.Bad.Of("none leads")}},
		c.warningLines(c.WarningText(Ago(now)), width, spare)...)
}

// warningLines has the first command that helps.
func (c *Controllers) warningLines(warning string, width int, spare *int) []terminal.Line {
	out := terminal.Labelled("warning", terminal.Bad.Of(warning), width, spare)
	if len(c.Do) > 0 {
		out = append(out, terminal.Labelled("to do", terminal.Plain.Of(c.Do[0]), width, spare)...)
	}
	return out
}

// LastCheck returns when the last leader read the repository of a source; false if that is unknown.
func (c *Controllers) LastCheck(src *v1alpha1.GitSource) (time.Time, bool) {
	leader := c.lastLeader()
	if leader == nil {
		return time.Time{}, false
	}
	check, ok := leader.Report.Sources[src.Name]
	last := check.At.Time
	// The report is some seconds old. If a commit was applied or refused since, the controller must have read the
	// repository after that time. The same holds for the time of the commit, unless the clock of its author was wrong.
	var later []time.Time
	if made := src.Status.AppliedCommit; made != nil {
		later = append(later, made.Time.Time)
	}
	if len(src.Status.History) > 0 {
		later = append(later, src.Status.History[0].At.Time)
	}
	for _, at := range later {
		if ok && at.After(last) && at.Before(c.at) {
			last = at
		}
	}
	return last, ok
}

// IsOverdue reports whether the leader has not read a repository for longer than two intervals and the timeout of a
// request, and reports no progress of an apply either. It is false without a leader, which is another problem.
func (c *Controllers) IsOverdue(src *v1alpha1.GitSource) bool {
	leader := c.Leader()
	if src.Spec.IsSuspended(c.at) || leader == nil {
		return false
	}
	check, ok := leader.Report.Sources[src.Name]
	last := check.At.Time
	if p := src.Status.Progress; p != nil && p.Reported.After(last) {
		last = p.Reported.Time // Who applies a commit is at work.
	}
	interval, timeout := cmp.Or(src.Spec.Interval.Duration, time.Minute), cmp.Or(src.Spec.Timeout.Duration, time.Minute)
	return ok && leader.at().Sub(last) > 2*interval+timeout
}

// OverdueText returns a text that says that the controller should have read the repository of a source again.
func OverdueText(source, when string) string {
	return fmt.Sprintf("the controller last looked at the repository of GitSource %s %s, longer ago than two "+
		"intervals; a newer commit has no effect yet", source, when)
}

// controllerCommands help if no controller leads, or if the leader may hang.
func (c *Controllers) controllerCommands() []string {
	const list = "kubectl -n bunsen-system get pods,leases"
	last := c.last()
	if r := c.unread(); r != nil {
		return r.RestartCommands()
	}
	switch {
	case c.Leader() != nil:
		return c.Leader().RestartCommands()
	case last == nil || last.hasEnded():
		return []string{list, "start machine-config-controller"}
	case last.Alive:
		return []string{list, "kubectl -n bunsen-system delete lease machine-config-controller   # if its holder is " +
			"gone: a replica that stands by then leads"}
	}
	return last.RestartCommands()
}

// RestartCommands restart a controller that hangs or has ended: the pod or the process that it reported. One of an
// older version reports neither, so both commands are returned.
func (r *ControllerRow) RestartCommands() []string {
	const deployment = "kubectl -n bunsen-system rollout restart deployment machine-config-controller"
	if r.Report != nil && r.Report.Pod != "" {
		namespace, pod, _ := strings.Cut(r.Report.Pod, "/")
		return []string{
			fmt.Sprintf("kubectl -n %s delete pod %s   # its Deployment starts another", namespace, pod),
			Alternative("that pod is gone", fmt.Sprintf("kubectl -n %s get pods,leases", namespace)),
		}
	}
	if r.Report != nil && r.Report.Host != "" {
		return []string{
			"systemctl restart machine-config-controller   # on host " + r.Report.Host,
			Alternative("it does not run under systemd",
				fmt.Sprintf("kill -9 %d   # on host %s; then start machine-config-controller again", r.Report.PID,
					r.Report.Host)),
		}
	}
	return []string{
		deployment,
		Alternative("it is a process on a host", "systemctl restart machine-config-controller   # controller "+
			r.Name+"; without systemd: kill -9 its process and start it again"),
	}
}
