package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

func poolWith(name string, kind mcfgv1.MachineConfigPoolConditionType, message string) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status.Conditions = []mcfgv1.MachineConfigPoolCondition{{
		Type: kind, Status: corev1.ConditionTrue,
		Message: message,
	}}
	return p
}

func sourceWith(ready metav1.ConditionStatus, reason, message string) *v1alpha1.GitSource {
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os"}}
	s.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ReadyCondition, Status: ready, Reason: reason,
		Message: message,
	}}
	return s
}

// TestClusterConditions has the state of the whole cluster: each line is a condition that differs from its normal
// state.
func TestClusterConditions(t *testing.T) {
	daemons := func(version string, count int32) v1alpha1.ComponentVersion {
		return v1alpha1.ComponentVersion{Component: v1alpha1.DaemonComponent, Version: version, Count: count}
	}
	const look = "; for what to do: bunsen why gitsource/os"
	for sentence, tc := range map[string]struct {
		facts status.ClusterFacts
		want  string
	}{
		"all is well":                           {status.ClusterFacts{Nodes: 2, Versions: []v1alpha1.ComponentVersion{daemons("v2", 2)}}, "no commit is being applied, and no pool is updating\n"},
		"there are no nodes":                    {status.ClusterFacts{}, "no commit is being applied, and no pool is updating\n"},
		"no daemon reports":                     {status.ClusterFacts{Nodes: 2}, "no machine-config-daemon of 2 nodes reports\nAvailable=False|NoDaemons|no machine-config-daemon of 2 nodes reports\n"},
		"the servers ended":                     {status.ClusterFacts{ServersGone: true}, "no machine-config-server reports any more: new machines get no config\nAvailable=False|NoServers|no machine-config-server reports any more: new machines get no config\nDegraded=True|NoServers|no machine-config-server reports any more\n"},
		"a pool is updating":                    {status.ClusterFacts{Pools: []*mcfgv1.MachineConfigPool{poolWith("worker", mcfgv1.MachineConfigPoolUpdating, "All nodes are updating")}}, "pool worker: All nodes are updating\nProgressing=True|PoolsUpdating|pool worker: All nodes are updating\n"},
		"a pool is degraded":                    {status.ClusterFacts{Pools: []*mcfgv1.MachineConfigPool{poolWith("worker", mcfgv1.MachineConfigPoolDegraded, "Node n0 is reporting")}}, "pool worker: Node n0 is reporting\nDegraded=True|PoolsDegraded|pool worker: Node n0 is reporting\nUpgradeable=False|PoolsDegraded|pool worker: Node n0 is reporting\n"},
		"a source is applied":                   {status.ClusterFacts{Sources: []*v1alpha1.GitSource{sourceWith(metav1.ConditionUnknown, "Progressing", "fetching main@sha1:bb")}}, "GitSource os: fetching main@sha1:bb\nProgressing=True|SourcesApplying|GitSource os: fetching main@sha1:bb\n"},
		"a source fails":                        {status.ClusterFacts{Sources: []*v1alpha1.GitSource{sourceWith(metav1.ConditionFalse, "RefNotFound", "no branch main")}}, "GitSource os: no branch main" + look + "\nDegraded=True|SourcesFailing|GitSource os: no branch main" + look + "\n"},
		"a failure of many lines is one line":   {status.ClusterFacts{Sources: []*v1alpha1.GitSource{sourceWith(metav1.ConditionFalse, "TranspileFailed", "10.bu:6:3: error: mode must be octal\nin main@sha1:cccccccc \"a typo\" by Bob\n")}}, "GitSource os: 10.bu:6:3: error: mode must be octal; in main@sha1:cccccccc \"a typo\" by Bob" + look + "\nDegraded=True|SourcesFailing|GitSource os: 10.bu:6:3: error: mode must be octal; in main@sha1:cccccccc \"a typo\" by Bob" + look + "\n"},
		"a long failure keeps what to do":       {status.ClusterFacts{Sources: []*v1alpha1.GitSource{sourceWith(metav1.ConditionFalse, "TranspileFailed", strings.Repeat("x\n", 600))}}, "GitSource os: x" + strings.Repeat("; x", 331) + "; … and 268 more" + look + "\nDegraded=True|SourcesFailing|GitSource os: x" + strings.Repeat("; x", 331) + "; … and 268 more" + look + "\n"},
		"a source was suspended from the start": {status.ClusterFacts{Sources: []*v1alpha1.GitSource{sourceWith(metav1.ConditionFalse, "Suspended", "suspended")}}, "no commit is being applied, and no pool is updating\n"},
		"a daemon is silent":                    {status.ClusterFacts{Nodes: 2, Versions: []v1alpha1.ComponentVersion{daemons("v2", 1)}, Silent: map[string]time.Time{"n1": noon}}, "no heartbeat of the machine-config-daemon of n1 since 2026-01-02 12:00 UTC\nDegraded=True|DaemonsSilent|no heartbeat of the machine-config-daemon of n1 since 2026-01-02 12:00 UTC\n"},
		"an upgrade has not ended":              {status.ClusterFacts{Nodes: 2, Versions: []v1alpha1.ComponentVersion{daemons("v1", 1), daemons("v2", 1)}}, "no commit is being applied, and no pool is updating\nUpgradeable=False|VersionsDiffer|1 machine-config-daemon with version v1, the controller has v2\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.facts.Generation, tc.facts.Version = 3, "v2"
			got := status.Cluster(v1alpha1.ClusterStatus{}, tc.facts, noon)
			var b strings.Builder
			b.WriteString(got.Message + "\n")
			for _, c := range got.Conditions {
				if c.ObservedGeneration != 3 {
					t.Errorf("%s has the generation %d", c.Type, c.ObservedGeneration)
				}
				if c.Reason != v1alpha1.ReasonAsExpected {
					fmt.Fprintf(&b, "%s=%s|%s|%s\n", c.Type, c.Status, c.Reason, c.Message)
				}
			}
			if len(got.Conditions) != 4 || got.ObservedGeneration != 3 {
				t.Errorf("generation %d, conditions %+v", got.ObservedGeneration, got.Conditions)
			}
			if diff := gocmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("the conditions (-want +got):\n%s", diff)
			}
			later := status.Cluster(got, tc.facts, noon.Add(time.Hour))
			if diff := gocmp.Diff(got, later); diff != "" {
				t.Errorf("equal facts changed the status:\n%s", diff)
			}
		})
	}
}

// TestClusterVerdicts has the outcome of the whole cluster: the worst of all, and what is not fine, the worst first.
func TestClusterVerdicts(t *testing.T) {
	pool := func(name string, outcome v1alpha1.Outcome, message string) v1alpha1.Verdict {
		return v1alpha1.Verdict{Kind: "MachineConfigPool", Name: name, Outcome: outcome, Message: message}
	}
	var many []v1alpha1.Verdict
	for i := range 150 {
		many = append(many, pool(fmt.Sprint("p", i), v1alpha1.OutcomeBlocked, "paused"))
	}
	many = append(many, pool("last", v1alpha1.OutcomeDegraded, strings.Repeat("ü", 2000)))
	for sentence, tc := range map[string]struct {
		verdicts []v1alpha1.Verdict
		want     v1alpha1.Outcome
		first    string
		count    int
	}{
		"nothing judges":       {nil, "", "", 0},
		"there is nothing yet": {[]v1alpha1.Verdict{}, v1alpha1.OutcomeFine, "", 0},
		"all is fine":          {[]v1alpha1.Verdict{pool("a", v1alpha1.OutcomeFine, "ok")}, v1alpha1.OutcomeFine, "", 0},
		"the worst stands first": {[]v1alpha1.Verdict{
			pool("a", v1alpha1.OutcomeWaiting, "soaks"), pool("b", v1alpha1.OutcomeFine, "ok"),
			pool("c", v1alpha1.OutcomeUnknown, "silent"), pool("d", v1alpha1.OutcomeProgressing, "updates"),
		}, v1alpha1.OutcomeUnknown, "c", 3},
		"there are more than fit": {many, v1alpha1.OutcomeDegraded, "last", 100},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := status.Cluster(v1alpha1.ClusterStatus{}, status.ClusterFacts{Verdicts: tc.verdicts}, noon)
			if got.Outcome != tc.want || len(got.Verdicts) != tc.count {
				t.Fatalf("%s and %d verdicts, not %s and %d", got.Outcome, len(got.Verdicts), tc.want, tc.count)
			}
			for i, v := range got.Verdicts {
				if len(v.Message) > 1024 || i == 0 && v.Name != tc.first {
					t.Errorf("verdict %d is %s, %d bytes", i, v.Name, len(v.Message))
				}
			}
		})
	}
}
