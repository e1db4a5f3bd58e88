package rollout_test

import (
	"bufio"
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// A pool as text: a line for the pool, lines for what its policy, its record and other pools say, and a line per node,
// `name current desired state [key[=value]]…`. A word is key=value; an underscore in a text is a blank; a time is how
// long ago it was, negative for one to come.

type reader struct {
	t *testing.T
	f poolstate.Facts
}

func parseFacts(t *testing.T, text string) poolstate.Facts {
	t.Helper()
	r := reader{t, poolstate.Facts{Pool: "worker", MaxUnavailable: 1}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		read := map[string]func(key, value string) bool{
			"pool": r.pool, "policy": r.policy, "step": r.step(), "gate": r.gate(), "record": r.record,
			"ahead":    r.ahead,
			"together": r.together(), "custom": r.custom(),
		}[words[0]]
		if read == nil {
			r.f.Nodes = append(r.f.Nodes, r.node(words))
			continue
		}
		for _, w := range append(words[1:], "") { // the last one is for a line without any
			if key, value, _ := strings.Cut(w, "="); !read(key, value) && w != "" {
				t.Fatalf("unknown word %q in %q", w, lines.Text())
			}
		}
	}
	return r.f
}

func blanks(s string) string { return strings.ReplaceAll(s, "_", " ") }

func (r *reader) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *reader) ago(s string) time.Time { return noon.Add(-r.duration(s)) }

func (r *reader) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *reader) pool(key, value string) bool {
	f, c := &r.f, &r.f.Care
	switch key {
	case "name":
		f.Pool = value
	case "target":
		f.Target = version(value)
	case "healthy":
		c.Healthy = version(value)
	case "paused":
		f.Paused, f.PausedBy = true, blanks(value)
	case "max":
		f.MaxUnavailable = r.number(value)
	case "host":
		f.Host = value
	case "retry":
		c.RetryAt = r.ago(value)
	case "open":
		c.OpenUntil = r.ago(value)
	case "invalid":
		c.Invalid = blanks(value)
	case "lost":
		c.Lost = blanks(value)
	case "fetches":
		c.Fetches = true
	case "quorum":
		c.Around.Quorum = blanks(value)
	case "cycle":
		c.Around.Cycle = strings.Split(value, ",")
	default:
		return false
	}
	return true
}

// policy reads what a RolloutPolicy comes to; there is one as soon as there is such a line, and it halts after one
// failure.
func (r *reader) policy(key, value string) bool {
	p := &r.f.Care.Pace
	if p.Policies == nil {
		p.Policies, p.Failures = []string{"careful"}, schedule.Failures{After: 1, Action: v1alpha1.FailureHalt}
	}
	switch key {
	case "halt":
		p.Failures.After = r.number(value)
	case "revert":
		p.Failures.After, p.Failures.Action = r.number(value), v1alpha1.FailureRevert
	case "deadline":
		p.Failures.NodeDeadline = r.duration(value)
	case "max":
		p.MaxUnavailable = new(intstr.Parse(value))
	case "perzone":
		p.PerZone = new(intstr.Parse(value))
	case "moveon":
		p.Drain = schedule.Drain{WhenBlocked: v1alpha1.DrainMoveOn, After: r.duration(value)}
	case "window": // open for two hours from then
		set, err := schedule.ParseWindow([]schedule.Window{{
			Name: "night", Schedule: "0 " + value + " * * *",
			Duration: 2 * time.Hour,
		}})
		if err != nil {
			r.t.Fatal(err)
		}
		p.Windows = set
	default:
		return false
	}
	return true
}

func (r *reader) step() func(key, value string) bool {
	steps := &r.f.Care.Pace.Steps
	added := false
	return func(key, value string) bool {
		if !added && key != "" {
			*steps, added = append(*steps, schedule.Step{}), true
		}
		s := &(*steps)[len(*steps)-1]
		switch key {
		case "canary":
			s.Canary = true
		case "upto":
			s.UpTo = intstr.Parse(value)
		case "select":
			s.Selector = labels.SelectorFromSet(labels.Set{value: ""})
		case "soak":
			s.Soak = r.duration(value)
		default:
			return false
		}
		return true
	}
}

func (r *reader) gate() func(key, value string) bool {
	c := &r.f.Care
	var name string
	return func(key, value string) bool {
		switch key {
		case "ready":
			c.Pace.Gates = append(c.Pace.Gates, v1alpha1.HealthGate{
				Name:  "ready",
				Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: r.duration(value)}},
			})
		case "job":
			name = value
			c.Pace.Gates = append(c.Pace.Gates, v1alpha1.HealthGate{Name: name, Job: &v1alpha1.JobGate{}})
		case "query":
			name = value
			c.Pace.Gates = append(c.Pace.Gates, v1alpha1.HealthGate{Name: name, Prometheus: &v1alpha1.PrometheusGate{}})
		case "open":
			c.Gates = append(c.Gates, poolstate.Gate{Name: name, Verdict: poolstate.GateOpen})
		case "waits":
			c.Gates = append(c.Gates, poolstate.Gate{Name: name, Verdict: poolstate.GateWaits, Why: blanks(value)})
		case "failed":
			c.Gates = append(c.Gates, poolstate.Gate{Name: name, Verdict: poolstate.GateFailed, Why: blanks(value)})
		default:
			return false
		}
		return true
	}
}

func (r *reader) record(key, value string) bool {
	rec := &r.f.Care.Record
	at := func() *metav1.Time { return new(metav1.NewTime(r.ago(value))) }
	switch key {
	case "config":
		rec.Config, rec.Began, rec.Healthy = value, metav1.NewTime(noon.Add(-24*time.Hour)), r.f.Care.Healthy.Config
	case "began":
		rec.Began = *at()
	case "steps":
		rec.Steps = r.number(value)
	case "well":
		rec.WellSince = at()
	case "away":
		rec.Forgiven = append(rec.Forgiven, value+"/away")
	case "again":
		rec.Forgiven = append(rec.Forgiven, value+"/again")
	case "forgiven":
		rec.Forgiven = append(rec.Forgiven, value)
	case "ended":
		rec.Ended = at()
	case "halted":
		rec.Verdict, rec.At, rec.Why = v1alpha1.RolloutHalted, at(), "n9 failed it"
	case "reverted":
		rec.Verdict, rec.At, rec.Why, rec.Back = v1alpha1.RolloutReverted, at(), "n9 failed it", r.f.Care.Healthy.Config
	default:
		return false
	}
	return true
}

func (r *reader) ahead(key, value string) bool {
	if key == "" {
		return true
	}
	r.f.Care.Around.Ahead = append(r.f.Care.Around.Ahead, poolstate.Ahead{
		Pool: key, Done: value == "",
		Why: blanks(value),
	})
	return true
}

func (r *reader) together() func(key, value string) bool {
	s := &r.f.Care.Around.Together
	added := false
	return func(key, value string) bool {
		if !added {
			*s, added = append(*s, poolstate.Shared{Policy: "all"}), true
		}
		t := &(*s)[len(*s)-1]
		switch key {
		case "max":
			t.Max = r.number(value)
		case "used":
			t.Used, t.Who = r.number(value), "infra "+value
		default:
			return false
		}
		return true
	}
}

func (r *reader) custom() func(key, value string) bool {
	s := &r.f.Care.Around.Customs
	return func(key, value string) bool {
		if key == "" {
			return true
		}
		*s = append(*s, poolstate.Custom{Pool: key, Labels: map[string]string{value: ""}})
		return true
	}
}

func (r *reader) node(words []string) poolstate.Node {
	if len(words) < 4 {
		r.t.Fatalf("no node: %q", words)
	}
	absent := func(s string) string { return strings.TrimPrefix(s, "-") }
	n := poolstate.Node{Name: words[0], State: absent(words[3])}
	n.Config.Current, n.Config.Desired = version(absent(words[1])), version(absent(words[2]))
	for _, word := range words[4:] {
		key, value, _ := strings.Cut(word, "=")
		if !r.nodeWord(&n, key, value) && !r.stepWord(&n, key, value) && !r.downloadWord(&n, key, value) {
			r.t.Fatalf("unknown word %q for node %s", word, n.Name)
		}
	}
	return n
}

func (r *reader) nodeWord(n *poolstate.Node, key, value string) bool {
	switch key {
	case "zone":
		n.Zone = value
	case "label":
		n.Labels = map[string]string{value: ""}
	case "age":
		n.Created = r.ago(value)
	case "notready":
		n.Health.Trouble, n.Health.NotReady, n.Health.Since = "not Ready", true, r.ago(value)
	case "pressure":
		n.Health.Trouble, n.Health.Since = "short of disk space", r.ago(value)
	case "live":
		n.LiveMember = true
	case "silent":
		n.Health.NotReady = true
		n.Health.Trouble, n.Health.Silence, n.Health.Since = "not Ready", "its kubelet stopped reporting", r.ago(value)
	case "ready":
		n.Health.ReadySince = r.ago(value)
	case "cordoned":
		n.Cordon = poolstate.Cordon{Unschedulable: true}
	case "cordoned-for":
		n.Cordon = poolstate.Cordon{Unschedulable: true, For: value}
	case "taint":
		n.Tainted = true
	case "image":
		n.Config.CurrentImage, n.Config.DesiredImage = value, value
	case "desired-image":
		n.Config.DesiredImage = value
	case "reason":
		n.Reason = blanks(value)
	case "problem":
		n.Failure.Problem = blanks(value)
	case "failed": // the config of its daemon's record
		n.Failure.Config = value
	case "gate":
		n.Gate = blanks(value)
	default:
		return false
	}
	return true
}

func (r *reader) stepWord(n *poolstate.Node, key, value string) bool {
	switch key {
	case "draining":
		n.Step.Draining, n.Step.DrainStarted = true, r.ago(value)
	case "heldup":
		n.Step.HeldUpSince = r.ago(value)
	case "for":
		n.Step.DrainStatus = blanks(value)
	case "rebooting":
		n.Step.Rebooting = true
	case "postponed":
		n.Postponed = poolstate.Postponed{For: cmp.Or(r.f.Target, version("v1")), At: r.ago(value)}
	case "drains": // how often they were postponed, before the first that began 3 hours ago
		n.Drains = poolstate.Drains{For: n.Config.Desired, First: noon.Add(-3 * time.Hour), Postponed: r.number(value)}
	case "answered": // the retry that its failure answers
		n.Failure = v1alpha1.Failure{
			Config: n.Config.Desired.Config, Cause: v1alpha1.FailureApply,
			Retry: new(metav1.NewTime(r.ago(value))),
		}
	case "booted":
		n.Booted = value
	case "attested": // the pool for which the server let it in; "no": its records name none
		n.Checked, n.Attested = true, strings.TrimPrefix(value, "no")
	default:
		return false
	}
	return true
}

// downloadWord reads what a node with a daemon that downloads ahead says: next=CONFIG,AGE has=CONFIG lacks=CONFIG,WHY.
func (r *reader) downloadWord(n *poolstate.Node, key, value string) bool {
	config, rest, _ := strings.Cut(value, ",")
	switch key {
	case "ahead":
	case "next":
		n.Next = v1alpha1.NextConfig{Config: config, Since: r.ago(rest)}
	case "has":
		n.Fetched = v1alpha1.FetchReport{Config: config}
	case "lacks":
		n.Fetched = v1alpha1.FetchReport{Config: config, Problem: blanks(rest)}
	default:
		return false
	}
	n.Ahead = true
	return true
}

// version reads a config in the form of v1alpha1.ConfigVersion.String.
func version(text string) v1alpha1.ConfigVersion { return v1alpha1.ParseConfigVersion(text) }
