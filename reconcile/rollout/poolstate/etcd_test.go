package poolstate_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestANodeWithALiveMember: what a daemon last said about the member of its own node counts while it says anything.
func TestANodeWithALiveMember(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	down := v1alpha1.EtcdReport{Members: 3, Healthy: 2, Down: true}
	for sentence, tc := range map[string]struct {
		report *v1alpha1.EtcdReport
		age    time.Duration
		want   bool
	}{
		"its member runs":           {&v1alpha1.EtcdReport{Members: 3, Healthy: 2}, time.Minute, true},
		"its member does not run":   {&down, time.Minute, false},
		"whether it runs is hidden": {&v1alpha1.EtcdReport{Problem: "the certificate expired"}, time.Minute, true},
		"nobody reports any more":   {&v1alpha1.EtcdReport{Members: 3, Healthy: 2}, time.Hour, false},
		"it has no member":          {nil, time.Minute, false},
	} {
		f := poolstate.Facts{Nodes: []poolstate.Node{{Name: "m0"}}}
		f.HoldForEtcd(map[string]v1alpha1.DaemonReport{
			"m0": {Seen: metav1.NewTime(now.Add(-tc.age)), Etcd: tc.report},
		}, now)
		if got := f.Nodes[0].LiveMember; got != tc.want {
			t.Errorf("%s: live: %v, want %v", sentence, got, tc.want)
		}
		if holds := f.Care.Around.Quorum != ""; holds != (tc.report != nil) {
			t.Errorf("%s: the pool waits: %v", sentence, holds)
		}
	}
}

func TestANodeOfEtcdWaitsForTheQuorum(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	node := func(name string, ready time.Duration) poolstate.Node {
		return poolstate.Node{Name: name, Health: poolstate.Health{ReadySince: now.Add(-ready)}}
	}
	masters := []poolstate.Node{node("m0", time.Hour), node("m1", time.Hour), node("m2", 2*time.Minute)}
	report := func(age time.Duration, members, healthy int, problem string) v1alpha1.DaemonReport {
		return v1alpha1.DaemonReport{Seen: metav1.NewTime(now.Add(-age)), Etcd: &v1alpha1.EtcdReport{
			Members: members,
			Healthy: healthy, Problem: problem,
		}}
	}
	const lost = "2 of 3 members of etcd are healthy, and without another one it would lose its quorum"
	for name, c := range map[string]struct {
		nodes   []poolstate.Node
		reports map[string]v1alpha1.DaemonReport
		want    string
	}{
		"no etcd on the nodes":                {masters, map[string]v1alpha1.DaemonReport{"m0": {Seen: metav1.NewTime(now)}}, ""},
		"etcd of other nodes":                 {[]poolstate.Node{node("w0", time.Hour)}, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 3, 2, "")}, ""},
		"a node of another pool reports":      {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 3, 3, ""), "w0": report(time.Minute, 3, 1, "")}, ""},
		"all members are healthy":             {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 3, 3, "")}, ""},
		"one of three is not":                 {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 3, 2, "")}, lost},
		"one of five is not":                  {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 5, 4, "")}, ""},
		"a cluster of one member":             {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 1, 1, "")}, ""},
		"daemons disagree":                    {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 3, 3, ""), "m1": report(time.Minute, 3, 2, "")}, lost},
		"a daemon that cannot ask":            {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 0, 0, "no answer"), "m1": report(time.Minute, 3, 3, "")}, ""},
		"no daemon can ask":                   {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 0, 0, "no answer")}, "the state of etcd is unknown: no answer"},
		"a report from before a node is back": {masters, map[string]v1alpha1.DaemonReport{"m0": report(150*time.Second, 3, 3, "")}, "waiting for a report about the members of etcd after m2 became Ready"},
		"a report from the future":            {masters[:2], map[string]v1alpha1.DaemonReport{"m0": report(-time.Hour, 3, 3, "")}, "no daemon of a node with etcd has reported its members for 4m"},
		"a problem in many lines":             {masters, map[string]v1alpha1.DaemonReport{"m0": report(time.Minute, 0, 0, strings.Repeat("a", 400)+"\nb")}, "the state of etcd is unknown: " + strings.Repeat("a", 300) + "…"},
		"an old report":                       {masters[:2], map[string]v1alpha1.DaemonReport{"m0": report(5*time.Minute, 3, 3, "")}, "no daemon of a node with etcd has reported its members for 4m"},
	} {
		if got := poolstate.EtcdHold(c.nodes, c.reports, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
