package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/source"
	corev1 "k8s.io/api/core/v1"
)

// Event is the present state of a source or of a pool. Templates can use its fields, and the JSON of a Webhook has
// them.
type Event struct {
	// ID does not change if only counts or texts do.
	ID string `json:"id"`
	// Delivery is the same for a repeated request about one change.
	Delivery string `json:"delivery"`
	// the kind of the state, and the name of the cluster
	Event   v1alpha1.NotificationEvent `json:"event"`
	Cluster string                     `json:"cluster"`
	// what the event is about
	Source string `json:"source,omitempty"`
	Pool   string `json:"pool,omitempty"`
	// The commit, if known, and how many nodes of a pool are updated.
	EventCommit
	EventRollout
	// why a commit is refused, or a rollout is blocked or degraded
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// for people: the output of the Notification's template, or one line without one
	Text string `json:"text"`
}

// EventCommit is the commit of an event.
type EventCommit struct {
	// as in `main@sha1:<hex>`
	Revision string `json:"revision,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Author   string `json:"author,omitempty"`
}

// EventRollout is the rollout of an event.
type EventRollout struct {
	Config string `json:"config,omitempty"`
	// Updated of the Nodes run the config, Degraded report a failure.
	Updated  int `json:"updated"`
	Nodes    int `json:"nodes"`
	Degraded int `json:"degraded"`
}

// Name returns `source/NAME` or `pool/NAME`.
func (e Event) Name() string {
	if e.Pool != "" {
		return "pool/" + e.Pool
	}
	return "source/" + e.Source
}

func (e Event) identified(parts ...string) Event {
	e.ID = digest(append([]string{e.Name(), string(e.Event)}, parts...)...)
	return e
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Events returns the present state of each selected source and pool, sources first.
func (f Facts) Events(spec v1alpha1.NotificationSpec) []Event {
	var out []Event
	for _, s := range f.Sources {
		if e, ok := f.sourceEvent(s); ok && selects(spec.Sources, s.Name) {
			out = append(out, e)
		}
	}
	for _, p := range f.Pools {
		if e, ok := f.poolEvent(p); ok && selects(spec.Pools, p.Name) &&
			(len(spec.Sources) == 0 || f.feeds(spec.Sources, p.Name)) {
			out = append(out, e)
		}
	}
	return out
}

func selects(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

// feeds reports whether one of the sources has ever given the pool a config, by its history.
func (f Facts) feeds(sources []string, pool string) bool {
	for _, s := range f.Sources {
		for _, h := range s.Status.History {
			if _, ok := h.Pools[pool]; ok && slices.Contains(sources, s.Name) {
				return true
			}
		}
	}
	return false
}

// sourceEvent says whether the newest commit was applied or refused.
func (f Facts) sourceEvent(s *v1alpha1.GitSource) (Event, bool) {
	if len(s.Status.History) == 0 {
		return Event{}, false
	}
	h := s.Status.History[0]
	e := Event{Event: v1alpha1.EventApplied, Cluster: f.Cluster, Source: s.Name, EventCommit: EventCommit{
		h.Revision,
		line(h.Subject), line(h.Author),
	}}
	if h.Refused != nil {
		e.Event, e.Reason, e.Message = v1alpha1.EventRefused, h.Refused.Reason, line(h.Refused.Message)
	}
	return e.identified(h.Revision, e.Reason), true
}

func (f Facts) poolEvent(p *mcfgv1.MachineConfigPool) (Event, bool) {
	target, record := p.Spec.Configuration.Name, recordOf(p)
	if target == "" || !isFresh(p) {
		// The pool's status does not belong to its target yet; the next one reports the rollout.
		return Event{}, false
	}
	e := Event{
		Event: v1alpha1.EventRolloutStarted, Cluster: f.Cluster, Pool: p.Name, EventCommit: EventCommit{
			record.Revision,
			line(record.Subject), line(record.Author),
		},
		EventRollout: EventRollout{
			target, int(p.Status.UpdatedMachineCount), int(p.Status.MachineCount),
			int(p.Status.DegradedMachineCount),
		},
	}
	degraded, blocked := condition(p, mcfgv1.MachineConfigPoolDegraded), condition(p, rolloutBlocked)
	switch {
	case degraded.Status == corev1.ConditionTrue:
		e.Event, e.Message = v1alpha1.EventRolloutDegraded, line(degraded.Message)
		e.Reason = cmp.Or(string(record.Verdict), failedCondition(p))
	case hasFinished(p, record):
		e.Event = v1alpha1.EventRolloutFinished
	case blocked.Status == corev1.ConditionTrue && !slices.Contains(brief, blocked.Reason):
		e.Event, e.Reason, e.Message = v1alpha1.EventRolloutBlocked, blocked.Reason, line(blocked.Message)
	}
	return e.identified(target, e.Reason), true
}

// brief: these belong to every healthy rollout: the controller writes a revision, or updated nodes have to stay healthy
// for some time.
var brief = []string{"Applying", "Soak"}

// failedCondition makes a pool degraded.
func failedCondition(p *mcfgv1.MachineConfigPool) string {
	for _, kind := range []mcfgv1.MachineConfigPoolConditionType{
		mcfgv1.MachineConfigPoolNodeDegraded,
		mcfgv1.MachineConfigPoolRenderDegraded,
	} {
		if condition(p, kind).Status == corev1.ConditionTrue {
			return string(kind)
		}
	}
	return string(mcfgv1.MachineConfigPoolDegraded)
}

// line is for a Notification without a template.
func (e Event) line() string {
	nodes := fmt.Sprintf("%d/%s updated", e.Updated, plural(e.Nodes, "node"))
	if e.Nodes == 0 {
		nodes = "no nodes"
	}
	commit := ""
	if r, err := source.ParseRevision(e.Revision); err == nil {
		commit = " " + r.Short()
		if e.Subject != "" {
			commit += " " + source.Quote(e.Subject)
		}
	}
	why := ""
	if e.Message != "" || e.Reason != "" {
		why = ": " + strings.TrimSuffix(e.Reason+": "+e.Message, ": ")
	}
	text := map[v1alpha1.NotificationEvent]string{
		v1alpha1.EventApplied:         "applied" + commit,
		v1alpha1.EventRefused:         "refused" + commit + why,
		v1alpha1.EventRolloutStarted:  "rollout of" + cmp.Or(commit, " "+e.Config) + " started (" + nodes + ")",
		v1alpha1.EventRolloutFinished: "rollout of" + cmp.Or(commit, " "+e.Config) + " finished (" + nodes + ")",
		v1alpha1.EventRolloutBlocked: "rollout of" + cmp.Or(commit, " "+e.Config) + " is blocked (" + nodes + ")" +
			why,
		v1alpha1.EventRolloutDegraded: "degraded (" + nodes + ", " + itoa(e.Degraded) + " degraded)" + why,
	}[e.Event]
	return e.Cluster + " " + e.Name() + ": " + text
}

// Decision has the messages that a receiver gets now.
type Decision struct {
	// in order
	Send []Event
	// the new record, without the states in Send
	Sent []v1alpha1.SentState
	// when to decide again without a change; zero if never
	Next time.Time
}

// Decide returns the messages for states that differ from those that the receiver got. During quiet hours, there are
// none, and the record stays, so that it gets the last state afterwards. States that the spec does not select change
// the record alone. The error is about the spec.
func Decide(n *v1alpha1.Notification, f Facts, now time.Time) (Decision, error) {
	quiet, until, err := Quiet(n.Spec.QuietHours, now)
	if err != nil {
		return Decision{}, err
	}
	text, err := ParseTemplate(n.Spec.Template)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Next: until}
	for _, e := range f.Events(n.Spec) {
		at := slices.IndexFunc(n.Status.Sent, func(s v1alpha1.SentState) bool { return s.Subject == e.Name() })
		selected := len(n.Spec.Events) == 0 || slices.Contains(n.Spec.Events, e.Event)
		switch {
		case at >= 0 && n.Status.Sent[at].ID == e.ID:
			d.Sent = append(d.Sent, n.Status.Sent[at])
		case !selected && !quiet:
			d.Sent = append(d.Sent, Record(e, now))
		default:
			var earlier v1alpha1.SentState
			if at >= 0 {
				earlier = n.Status.Sent[at]
				d.Sent = append(d.Sent, earlier)
			}
			if selected && !quiet {
				e.Delivery = digest(e.ID, earlier.ID, earlier.Time.UTC().Format(time.RFC3339))
				if e.Text, err = text.Execute(e); err != nil {
					return Decision{}, err
				}
				d.Send = append(d.Send, e)
			}
		}
	}
	return d, nil
}

// Quiet reports whether a time is in quiet hours, and when quiet hours begin or end next (zero: not within a year).
func Quiet(hours []v1alpha1.QuietHours, now time.Time) (quiet bool, until time.Time, err error) {
	windows := make([]schedule.Window, len(hours))
	for i, h := range hours {
		windows[i] = schedule.Window{Deny: true, Schedule: h.Schedule, Duration: h.Duration.Duration, Zone: h.TimeZone}
	}
	set, err := schedule.ParseWindow(windows)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("reading spec.quietHours: %w", err)
	}
	state := set.At(now)
	return !state.Open, state.Until, nil
}

// Record returns the entry of status.sent for a state.
func Record(e Event, now time.Time) v1alpha1.SentState {
	return v1alpha1.SentState{Subject: e.Name(), ID: e.ID, Time: metav1.NewTime(now)}
}

// Recorded returns the record of sent states with one more state, sorted by subject.
func Recorded(sent []v1alpha1.SentState, s v1alpha1.SentState) []v1alpha1.SentState {
	out := slices.DeleteFunc(slices.Clone(sent), func(o v1alpha1.SentState) bool { return o.Subject == s.Subject })
	out = append(out, s)
	slices.SortFunc(out, func(a, b v1alpha1.SentState) int { return strings.Compare(a.Subject, b.Subject) })
	return out
}

// Check returns the mistakes in the spec of a Notification that the API server does not find.
func Check(spec v1alpha1.NotificationSpec) error {
	var errs []error
	if spec.Type.IsGitHost() {
		for field, set := range map[string]bool{
			"events": len(spec.Events) > 0, "pools": len(spec.Pools) > 0,
			"template": spec.Template != "", "quietHours": len(spec.QuietHours) > 0,
		} {
			if set {
				errs = append(errs, fmt.Errorf("spec.%s has no effect for type %s, which gets commit statuses: "+
					"remove it", field, spec.Type))
			}
		}
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return errors.Join(errs...)
	}
	_, _, err := Quiet(spec.QuietHours, time.Time{})
	_, errTemplate := ParseTemplate(spec.Template)
	return errors.Join(err, errTemplate)
}
