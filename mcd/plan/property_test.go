package plan_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// state makes a State out of few names, so that two of them often share some.
func state(r *rand.Rand) host.State {
	s := host.State{Paths: map[string]host.Entry{}, Units: map[string]host.Unit{}}
	s.Support = host.Support{Image: true, Kargs: true, KernelType: true, Extensions: true}
	for _, p := range []string{"/a", "/a/b", "/a/c", "/d", host.RecordPath} {
		s.Paths[p] = []host.Entry{
			{},
			{Kind: host.File, Mode: 0o644, Digest: "one"},
			{Kind: host.File, Mode: 0o600, Digest: "two", Owner: host.Owner{UID: 1}},
			{Kind: host.Link, Target: "/dev/null"},
			{Kind: host.Dir, Mode: 0o755},
		}[r.IntN(5)]
	}
	for _, u := range []string{"a.service", "b.timer"} {
		s.Units[u] = host.Unit{Enabled: r.IntN(2) == 0, Install: []string{
			"WantedBy=a.target",
			"WantedBy=b.target",
		}[r.IntN(2)]}
	}
	s.Users, s.Groups = map[string]host.User{}, map[string]host.Group{}
	for _, name := range []string{"u", "v"} {
		s.Users[name] = []host.User{{}, {There: true, UID: 1, GID: 7}, {
			There: true, UID: 1, GID: 8, Groups: "g",
			Password: "one",
		}}[r.IntN(3)]
	}
	for _, name := range []string{"g", "h"} {
		s.Groups[name] = []host.Group{{}, {There: true, GID: 7}, {There: true, GID: 8, Members: "w"}}[r.IntN(3)]
	}
	s.OS = host.OS{
		Image: []string{"one", "two"}[r.IntN(2)], Kargs: []string{"", "a b", "b a", "a a"}[r.IntN(4)],
		KernelType: []string{"default", "realtime"}[r.IntN(2)],
	}
	return s
}

func decision(r *rand.Rand) disruption.Decision {
	return disruption.Decision{Actions: [][]disruption.Action{
		nil,
		{{Type: disruption.ActionReboot}},
		{{Type: disruption.ActionRestart, Service: "a.service"}, {Type: disruption.ActionReload, Service: "a.service"}, {Type: disruption.ActionDaemonReload}, {Type: disruption.ActionReload, Service: "b.service"}},
		{{Type: disruption.ActionRestart, Service: "db.service"}, {Type: disruption.ActionReload, Service: "app.service"}},
		{{Type: disruption.ActionRestart, Service: "a.service"}, {Type: disruption.ActionRestart, Service: "b.service"}, {Type: disruption.ActionRestart, Service: "a.service"}},
		{{Type: disruption.ActionNone}},
	}[r.IntN(6)]}
}

func TestPropertiesOfPlans(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := state(r), state(r)
		ask := plan.DiffOptions{From: "a", To: "b", Decision: decision(r)}
		p := plan.Diff(a, b, ask)
		if !plan.Diff(a, a, plan.DiffOptions{}).Empty() {
			t.Fatalf("seed %d: Diff(x, x) is not empty", seed)
		}
		if again := plan.Diff(a, b, ask); again.String() != p.String() {
			t.Fatalf("seed %d: two prints of one plan differ", seed)
		}
		if diff := cmp.Diff(p, p.Inverse().Inverse()); diff != "" {
			t.Fatalf("seed %d: the inverse of the inverse: %s", seed, diff)
		}
		for _, s := range p.Steps {
			if plan.Inverse(plan.Inverse(s)) != s {
				t.Fatalf("seed %d: the inverse of the inverse of %s", seed, s)
			}
		}
		ordered(t, p.Steps)
		repeated(t, ask.Decision.Actions, p.Steps)
	}
}

// repeated checks that the actions are those of the decision, in its order and with its repetitions.
func repeated(t *testing.T, actions []disruption.Action, steps []plan.Step) {
	t.Helper()
	var want, got []string
	for _, a := range actions {
		if a.Type != disruption.ActionNone {
			want = append(want, strings.ToLower(strings.ReplaceAll(a.String(), "DaemonReload", "Daemon-reload")))
		}
	}
	for _, s := range steps {
		if s.IsAction() {
			got = append(got, s.String())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("actions of the decision and steps (-want +got):\n%s", diff)
	}
}

// ordered checks the contract of the package's documentation.
func ordered(t *testing.T, steps []plan.Step) {
	t.Helper()
	rank := func(s plan.Step) int {
		switch s.Verb {
		case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
			return 0
		case host.Disable:
			return 1
		case host.Remove:
			return 2
		case host.SetUser, host.DropUser, host.SetGroup, host.DropGroup:
			return 3
		case host.Write, host.MakeLink, host.MakeDir:
			return 4
		case host.Enable:
			return 5
		case host.DaemonReload, host.Reload, host.Restart, host.Stop:
			return 6
		case host.WriteRecord:
			return 9
		}
		return 10
	}
	for i := 1; i < len(steps); i++ {
		before, after := steps[i-1], steps[i]
		if rank(before) > rank(after) {
			t.Fatalf("%s comes before %s", before, after)
		}
		if before.Verb == host.Remove && after.Verb == host.Remove && before.Target < after.Target {
			t.Fatalf("%s is removed before %s", before.Target, after.Target)
		}
		if rank(before) == 4 && rank(after) == 4 && before.Target > after.Target {
			t.Fatalf("%s is made before %s", before.Target, after.Target)
		}
	}
}
