package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/notify"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const hashA, hashB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

func entry(hash string, pools map[string]string) v1alpha1.HistoryEntry {
	return v1alpha1.HistoryEntry{CommitInfo: v1alpha1.CommitInfo{
		Revision: "main@sha1:" + hash,
		Subject:  "chrony: site NTP", Author: "Ada <ada@example.org>",
	}, Pools: pools}
}

func source(history ...v1alpha1.HistoryEntry) *v1alpha1.GitSource {
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	s.Status.History = history
	s.Status.Inventory = []v1alpha1.InventoryEntry{{Kind: "MachineConfig", Name: "x"}}
	for _, h := range history {
		if h.Refused == nil {
			s.Status.AppliedRevision = h.Revision
			break
		}
	}
	s.Status.ObservedRevision = history[0].Revision
	return s
}

// pool returns the pool worker with a target that a number of its 40 nodes run.
func pool(target string, updated int32, change ...func(*mcfgv1.MachineConfigPool,
	*v1alpha1.RolloutRecord),
) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
		Name: "worker", Generation: 3,
		Annotations: map[string]string{},
	}}
	p.Spec.Configuration.Name = target
	p.Status.ObservedGeneration, p.Status.MachineCount, p.Status.UpdatedMachineCount = 3, 40, updated
	record := v1alpha1.RolloutRecord{
		Config: target, Began: metav1.NewTime(noon.Add(-12 * time.Minute)),
		Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashB, Subject: "chrony: site NTP"},
	}
	if updated == p.Status.MachineCount {
		set(p, mcfgv1.MachineConfigPoolUpdated, "", "")
		p.Status.Configuration.Name = target
		ended := metav1.NewTime(noon)
		record.Ended = &ended
	}
	for _, c := range change {
		c(p, &record)
	}
	p.Annotations[v1alpha1.RolloutAnnotation] = record.String()
	return p
}

func set(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType, reason, message string) {
	p.Status.Conditions = append(p.Status.Conditions, mcfgv1.MachineConfigPoolCondition{
		Type:   kind,
		Status: corev1.ConditionTrue, Reason: reason, Message: message,
	})
}

func facts(src *v1alpha1.GitSource, pools ...*mcfgv1.MachineConfigPool) notify.Facts {
	return notify.Facts{Cluster: "prod", Sources: []*v1alpha1.GitSource{src}, Pools: pools}
}

func lines(commits []notify.Commit) string {
	var out []string
	for _, c := range commits {
		for _, s := range c.Statuses {
			out = append(out, fmt.Sprintf("%s %s %s: %s", c.Hash[:2],
				strings.TrimPrefix(s.Context, "bunsen/prod/config/"), s.State, s.Description))
		}
	}
	return strings.Join(out, "\n")
}

// TestCommits: each state of a commit has one status, whatever the process saw before.
func TestCommits(t *testing.T) {
	of := func(c string) map[string]string { return map[string]string{"worker": c} }
	one := entry(hashB, of("rendered-worker-b"))
	stale := func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) { p.Status.ObservedGeneration = 2 }
	reading := source(entry(hashA, of("a")))
	reading.Status.ObservedRevision = "main@sha1:" + hashB
	reading.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: "Unknown", Reason: "Progressing",
		Message: "checks 12 objects",
	}}
	refused := one
	refused.Refused = &v1alpha1.Refusal{Reason: "TranspileFailed", Message: "pools/worker/x.bu:3:1: unknown key\nmore"}
	failed := entry(hashB, of("b"))
	failed.NotRendered = map[string]string{"gpu": "two files /etc/a"}
	replaced := pool("rendered-worker-c", 3, func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
		p.Annotations[v1alpha1.RolloutHistoryAnnotation] = v1alpha1.AddRolloutOutcomes("",
			[]v1alpha1.RolloutOutcome{{
				Config: "rendered-worker-a", Result: v1alpha1.RolloutSuperseded, Updated: 17,
				Nodes: 40,
			}})
	})
	broughtBack := pool("rendered-worker-a", 2, func(p *mcfgv1.MachineConfigPool, r *v1alpha1.RolloutRecord) {
		r.Revision = "main@sha1:" + hashB
		r.RolloutEnd = v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted, Why: "worker-3 failed", Updated: 2}
		p.Annotations[v1alpha1.RolloutHistoryAnnotation] = v1alpha1.AddRolloutOutcomes("",
			[]v1alpha1.RolloutOutcome{{
				Requester: v1alpha1.Requester{Revision: "main@sha1:" + hashA}, Config: "rendered-worker-a",
				Result: v1alpha1.RolloutCompleted, Updated: 40, Nodes: 40,
			}})
	})
	for sentence, tc := range map[string]struct {
		facts notify.Facts
		want  string
	}{
		"a rollout in progress":         {facts(source(one), pool("rendered-worker-b", 17)), "bb render success: 1 pool rendered\nbb rollout pending: 17/40 nodes updated"},
		"a finished rollout":            {facts(source(one), pool("rendered-worker-b", 40)), "bb render success: 1 pool rendered\nbb rollout success: 40/40 nodes updated"},
		"counts of the target before":   {facts(source(one), pool("rendered-worker-b", 40, stale)), "bb render success: 1 pool rendered\nbb rollout pending: 0/40 nodes updated"},
		"a pool without the config yet": {facts(source(one), pool("rendered-worker-a", 40)), "bb render success: 1 pool rendered\nbb rollout pending: 0/40 nodes updated"},
		"a halted rollout": {facts(source(one),
			pool("rendered-worker-b", 17, func(_ *mcfgv1.MachineConfigPool, r *v1alpha1.RolloutRecord) {
				r.RolloutEnd = v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted, Why: "worker-3 failed", Updated: 17}
			})), "bb render success: 1 pool rendered\nbb rollout failure: 17/40 nodes updated; worker: Halted: " +
			"worker-3 failed"},
		"a failed node": {facts(source(one),
			pool("rendered-worker-b", 17, func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
				p.Status.DegradedMachineCount = 1
				set(p, mcfgv1.MachineConfigPoolNodeDegraded, "", "Node worker-3 is reporting: \x1b[31mno space")
			})), "bb render success: 1 pool rendered\nbb rollout failure: 17/40 nodes updated; worker: Node " +
			"worker-3 is " +
			"reporting: \\x1b[31mno space"},
		"a blocked rollout": {facts(source(one),
			pool("rendered-worker-b", 17, func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
				set(p, "RolloutBlocked", "Paused", "the pool is paused")
			})), "bb render success: 1 pool rendered\nbb rollout pending: 17/40 nodes updated; worker: the pool " +
			"is paused"},
		"a refused commit":                   {facts(source(refused, entry(hashA, of("rendered-worker-a"))), pool("rendered-worker-a", 40)), "bb render failure: TranspileFailed: pools/worker/x.bu:3:1: unknown key\naa render success: 1 pool rendered\naa rollout success: 40/40 nodes updated"},
		"a commit that the controller reads": {facts(reading, pool("a", 40)), "bb render pending: Progressing: checks 12 objects\naa render success: 1 pool rendered\naa rollout success: 40/40 nodes updated"},
		"a pool that is not rendered":        {facts(source(failed), pool("b", 40)), "bb render failure: 1 pool not rendered: gpu: two files /etc/a\nbb rollout success: 40/40 nodes updated"},
		"a replaced commit":                  {facts(source(entry(hashB, of("rendered-worker-c")), entry(hashA, of("rendered-worker-a"))), replaced), "bb render success: 1 pool rendered\nbb rollout pending: 3/40 nodes updated\naa render success: 1 pool rendered\naa rollout canceled: 17/40 nodes updated, then a later commit replaced this one"},
		"a commit whose config a later commit brought back, which halted": {
			facts(source(entry(hashB, of("rendered-worker-a")), entry(hashA, of("rendered-worker-a"))), broughtBack),
			"bb render success: 1 pool rendered\nbb rollout failure: 2/40 nodes updated; worker: Halted: worker-3 " +
				"failed\naa render success: 1 pool rendered\naa rollout success: 40/40 nodes updated",
		},
		"a node that joins after the end": {facts(source(one),
			pool("rendered-worker-b", 40, func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
				p.Status.MachineCount, p.Status.Conditions = 41, nil
			})), "bb render success: 1 pool rendered\nbb rollout success: 40/41 nodes updated"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(tc.facts.Commits(tc.facts.Sources[0]))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDue: a status is set on change only, at most once a minute, and not on commits before the newest one without an
// open status.
func TestDue(t *testing.T) {
	want := notify.Status{Context: "c", State: notify.Success, Description: "40/40"}
	have := func(s notify.State, age time.Duration) []notify.Posted {
		return []notify.Posted{{Status: notify.Status{
			Context: "c", State: s,
			Description: map[notify.State]string{notify.Success: "40/40"}[s],
		}, Time: noon.Add(-age)}}
	}
	for sentence, tc := range map[string]struct {
		newest bool
		have   []notify.Posted
		due    int
		next   time.Duration
	}{
		"nothing yet":                      {true, nil, 1, 0},
		"the same":                         {true, have(notify.Success, time.Second), 0, 0},
		"a change after more than a pace":  {true, have(notify.Pending, time.Hour), 1, 0},
		"a change within a pace":           {true, have(notify.Pending, 20*time.Second), 0, 40 * time.Second},
		"a git host with a fast clock":     {true, have(notify.Pending, -time.Hour), 1, 0},
		"an older commit without a status": {false, nil, 0, 0},
		"an older commit, still pending":   {false, have(notify.Pending, time.Hour), 1, 0},
		"an older commit that has failed":  {false, have(notify.Failure, time.Hour), 0, 0},
	} {
		due, next := notify.Due(notify.Commit{Newest: tc.newest, Statuses: []notify.Status{want}}, tc.have, noon,
			time.Minute)
		if len(due) != tc.due || tc.next == 0 != next.IsZero() || tc.next != 0 && !next.Equal(noon.Add(tc.next)) {
			t.Errorf("%s: %v, %v", sentence, due, next)
		}
	}
}

const review = "<!-- bunsen:plan:v1:prod -->\n### OS config plan\n\n| Pool | Rendered | Files | Units | Other | " +
	"Action | Nodes | Reboots | Takes |\n|---|---|---|---|---|---|---|---|---|\n" +
	"| `gpu` | `bc5b2` → `da230` |  | ~1 | +1 | drain + **reboot** | 8 | **8** | 10 min – 2 h (2 at a time) |\n" +
	"| `worker` | `bc5b2` → `da230` | ~1 |  |  | restart chronyd.service | 1,040 | 0 | up to 10 min |\n" +
	"| `master` | unchanged | | | | – | 3 | 0 | – |\n"

// TestForecast: only numbers and estimates of time are read from a comment that every user can write.
func TestForecast(t *testing.T) {
	got, ok := notify.ParseForecast(review)
	if want := (notify.Forecast{Nodes: 1048, Reboots: 8, Drains: 8, Takes: "10 min – 2 h"}); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, hostile := range []string{
		"", "hello", strings.Replace(review, "plan:v1", "x", 1),
		strings.Replace(review, "| 8 |", "| -8 |", 1), strings.Replace(review, "| 8 |", "| unknown |", 1),
	} {
		if f, ok := notify.ParseForecast(hostile); ok {
			t.Errorf("%q: %+v", hostile, f)
		}
	}
	if f, _ := notify.ParseForecast(strings.ReplaceAll(strings.ReplaceAll(review, "10 min – 2 h", "@everyone"),
		"up to 10 min", "[x](http://evil)")); f.Takes != "" {
		t.Errorf("takes %q", f.Takes)
	}
}

// TestOutcome: the comment has the forecast beside what happened, and changes once, at the end of the rollout.
func TestOutcome(t *testing.T) {
	src := source(entry(hashB, map[string]string{"worker": "rendered-worker-b1234567", "gpu": "g"}),
		entry(hashA, map[string]string{"worker": "rendered-worker-a", "gpu": "g"}))
	gpu := pool("g", 40)
	gpu.Name = "gpu"
	body := func(updated int32, f *notify.Forecast, machines ...mcfgv1.MachineConfigNode) string {
		return facts(src, gpu, pool("rendered-worker-b1234567", updated)).Commits(src)[0].Outcome.Body(f, machines)
	}
	if a, b := body(3, nil), body(17, nil); a != b {
		t.Errorf("the comment changes with each node: %s", cmp.Diff(a, b))
	}
	drained := mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.AddDate(-1,
		0, 0))}}
	drained.Spec.Pool.Name = "worker"
	drained.Status.Conditions = []metav1.Condition{
		{Type: string(mcfgv1.MachineConfigNodeUpdateDrained), LastTransitionTime: metav1.NewTime(noon.Add(-5 * time.Minute))},
		{Type: string(mcfgv1.MachineConfigNodeUpdateRebooted), LastTransitionTime: metav1.NewTime(noon.AddDate(0, -1, 0))},
	}
	want := "<!-- bunsen:outcome:v1:prod/config -->\n### OS config rollout · `prod` · `bbbbbbbb`\n\n" +
		"**Rolled out.**\n\n" +
		"| | Forecast | Happened |\n|---|---|---|\n| Nodes | 40 | 40 of 40 updated |\n| Reboots | 40 | 0 |\n" +
		"| Drains | 40 | 1 |\n| Time | up to 2 h | 12 min |\n\n" +
		"The forecast is from the review by `ci'bot`.\n\n" +
		"| Pool | Config | Result | Nodes | Time |\n|---|---|---|---|---|\n" +
		"| `worker` | `b1234` | rolled out | 40/40 | 12 min |\n\nThe commit does not change 1 other pool.\n"
	if diff := cmp.Diff(want, body(40, &notify.Forecast{
		Author: "ci`bot", Nodes: 40, Reboots: 40, Drains: 40,
		Takes: "up to 2 h",
	}, drained)); diff != "" {
		t.Error(diff)
	}
}

func notification(spec v1alpha1.NotificationSpec, sent ...v1alpha1.SentState) *v1alpha1.Notification {
	return &v1alpha1.Notification{Spec: spec, Status: v1alpha1.NotificationStatus{Sent: sent}}
}

// TestQuietHoursLoseNoState: during quiet hours nothing is sent, and at their end the last state, once.
func TestQuietHoursLoseNoState(t *testing.T) {
	n := notification(v1alpha1.NotificationSpec{
		Type: v1alpha1.NotifySlack,
		QuietHours: []v1alpha1.QuietHours{{
			Schedule: "0 11 * * *",
			Duration: metav1.Duration{Duration: 2 * time.Hour},
		}},
	})
	src := source(entry(hashB, map[string]string{"worker": "b"}))
	for _, updated := range []int32{3, 17, 40} {
		d, err := notify.Decide(n, facts(src, pool("b", updated)), noon)
		if err != nil || len(d.Send) != 0 || len(d.Sent) != 0 || !d.Next.Equal(noon.Add(time.Hour)) {
			t.Fatalf("in quiet hours: %+v, %v", d, err)
		}
	}
	after := noon.Add(time.Hour)
	d, err := notify.Decide(n, facts(src, pool("b", 40)), after)
	if err != nil || len(d.Send) != 2 || d.Send[1].Event != v1alpha1.EventRolloutFinished {
		t.Fatalf("after quiet hours: %+v, %v", d, err)
	}
	if want := `prod pool/worker: rollout of main@sha1:bbbbbbbb "chrony: site NTP" finished (40/40 nodes updated)`; d.Send[1].Text != want {
		t.Errorf("text %q, want %q", d.Send[1].Text, want)
	}
	for _, e := range d.Send {
		n.Status.Sent = notify.Recorded(n.Status.Sent, notify.Record(e, after))
	}
	if d, err := notify.Decide(n, facts(src, pool("b", 40)), after); err != nil || len(d.Send) != 0 {
		t.Errorf("sent twice: %+v, %v", d, err)
	}
}

// TestSelection: states that the spec does not select are recorded, so that the state after them is sent again.
func TestSelection(t *testing.T) {
	n := notification(v1alpha1.NotificationSpec{Events: []v1alpha1.NotificationEvent{v1alpha1.EventRolloutDegraded}})
	src := source(entry(hashB, map[string]string{"worker": "b"}))
	degraded := pool("b", 17, func(p *mcfgv1.MachineConfigPool, _ *v1alpha1.RolloutRecord) {
		set(p, mcfgv1.MachineConfigPoolNodeDegraded, "", "x")
		set(p, mcfgv1.MachineConfigPoolDegraded, "", "Node worker-3 fails")
	})
	sent := 0
	for _, p := range []*mcfgv1.MachineConfigPool{pool("b", 3), degraded, degraded, pool("b", 18), degraded} {
		d, err := notify.Decide(n, facts(src, p), noon)
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Sent = d.Sent
		for _, e := range d.Send {
			sent++
			n.Status.Sent = notify.Recorded(n.Status.Sent, notify.Record(e, noon))
		}
	}
	if sent != 2 {
		t.Errorf("%d messages, want one for each time that the pool became degraded", sent)
	}
}

// TestTemplates: a template is text and fields, in bounded time and size.
func TestTemplates(t *testing.T) {
	e := notify.Event{
		Pool: "worker", Event: v1alpha1.EventRolloutFinished,
		EventRollout: notify.EventRollout{Updated: 3, Nodes: 3}, Reason: `a"b`,
	}
	tpl, err := notify.ParseTemplate(`{{if eq .Updated .Nodes}}done{{else}}not{{end}} {{upper .Pool}} {{json .Reason}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tpl.Execute(e); err != nil || got != `done WORKER "a\"b"` {
		t.Errorf("%q, %v", got, err)
	}
	for text, want := range map[string]string{
		`{{range 1000000000}}x{{end}}`:                  "is not allowed",
		`{{define "a"}}{{template "a"}}{{end}}`:         "",
		`{{block "a" .}}x{{end}}`:                       "",
		`{{template "a"}}`:                              "",
		`{{printf "%1000000d" 1}}`:                      "it calls the function printf",
		`{{$x := .Pool}}{{$x}}`:                         "sets a variable",
		`{{print .Pool .Pool}}`:                         "it calls the function print",
		`{{call .Pool}}`:                                "it calls the function call",
		`{{.Nope}}`:                                     "Nope",
		`{{.Pool`:                                       "unclosed",
		`{{.|` + strings.Repeat("json|", 60) + `json}}`: "longer than 16 KiB",
		`{{env "HOME"}}`:                                `function "env" not defined`,
		`{{with $.Pool}}{{.}}{{end}}`:                   "is not allowed",
		`{{"` + strings.Repeat("x", 100) + `" | len | gt 3}}{{/* ok */}}{{.Foo.Bar}}`: "Foo",
	} {
		if _, err := notify.ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzTemplate: no template that is accepted fails to end, or writes more than the limit.
func FuzzTemplate(f *testing.F) {
	f.Add(`{{if .Pool}}{{.Pool | json | upper}}{{end}}`)
	f.Add(`{{with .Reason}}{{.}}{{else with .Pool}}{{len .}}{{end}}`)
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := notify.ParseTemplate(text)
		if err != nil || len(text) > 4096 {
			return
		}
		if out, err := tpl.Execute(notify.Event{Pool: "worker", Reason: "x"}); err == nil && len(out) > 3*(16<<10) {
			t.Errorf("%d bytes", len(out))
		}
	})
}

// TestCheck names each field that has no effect, and what is wrong with the others.
func TestCheck(t *testing.T) {
	for want, spec := range map[string]v1alpha1.NotificationSpec{
		"spec.template has no effect for type GitHub": {Type: v1alpha1.NotifyGitHub, Template: "x"},
		"spec.pools has no effect for type Gitea":     {Type: v1alpha1.NotifyGitea, Pools: []string{"worker"}},
		"reading spec.quietHours":                     {Type: v1alpha1.NotifySlack, QuietHours: []v1alpha1.QuietHours{{Schedule: "never"}}},
		"reading spec.template":                       {Type: v1alpha1.NotifySlack, Template: "{{"},
	} {
		if err := notify.Check(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := notify.Check(v1alpha1.NotificationSpec{Type: v1alpha1.NotifyMatrix}); err != nil {
		t.Error(err)
	}
}
