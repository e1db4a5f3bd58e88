package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	"github.com/bunsen-os/bunsen/reconcile/status"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func node(name, current, desired, state string, reason ...string) poolstate.Node {
	return poolstate.Node{
		Name: name, Config: poolstate.Configs{Current: version(current), Desired: version(desired)}, State: state,
		Reason: strings.Join(reason, ""),
	}
}

// observed is the status of a pool whose generation the controller has seen before.
var observed = mcfgv1.MachineConfigPoolStatus{ObservedGeneration: 7}

func facts(target string, nodes ...poolstate.Node) status.PoolFacts {
	return status.PoolFacts{
		Generation:    7,
		Configuration: configuration(target),
		Rollout:       poolstate.Facts{Pool: "worker", Target: version(target), Nodes: nodes, MaxUnavailable: 1},
	}
}

func configuration(name string) mcfgv1.MachineConfigPoolStatusConfiguration {
	return mcfgv1.MachineConfigPoolStatusConfiguration{
		ObjectReference: corev1.ObjectReference{Name: name},
		Source:          []corev1.ObjectReference{{Name: "10-worker-chrony"}},
	}
}

// show prints conditions one a line: type, status, reason, message.
func show(s mcfgv1.MachineConfigPoolStatus) string {
	var b strings.Builder
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s|%s|%s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

// mend is what to do about nodes that failed a config.
const mend = "; for what to do: bunsen why node/n1"

// TestPoolConditions has the texts that people and programs match.
func TestPoolConditions(t *testing.T) {
	done := node("n0", "v1", "v1", v1alpha1.StateDone)
	broken := node("n1", "v0", "v1", v1alpha1.StateDegraded, `writing "/etc/chrony.conf": no space`)
	paused := facts("v1", node("n0", "v0", "v0", v1alpha1.StateDone))
	paused.Rollout.Paused = true
	pausedDone := facts("v1", done)
	pausedDone.Rollout.Paused = true
	const well = "NodeDegraded=False||\nRolloutBlocked=False||\nDegraded=False||\n"
	known := facts("v1", done, broken)
	known.Commits = map[v1alpha1.ConfigVersion]string{{Config: "v1"}: `main@sha1:4f1c2ab1 "chrony: use site NTP"`}
	drifted := facts("v1", node("n1", "v1", "v1", v1alpha1.StateDegraded, "drift"))
	halted := facts("v1", done, node("n1", "v0", "v0", v1alpha1.StateDone))
	halted.Decision.Record = v1alpha1.RolloutRecord{
		Config:     "v1",
		RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted},
	}
	halted.Decision.Blocks = []poolstate.Block{
		{Cause: poolstate.CausePaused, Reason: "it is paused"},
		{Cause: poolstate.CauseHalted, Reason: "n7 failed v1"},
	}
	reverted := facts("v1", node("n1", "v0", "v0", v1alpha1.StateDone))
	reverted.Decision.Record = v1alpha1.RolloutRecord{
		Config:     "v1",
		RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutReverted, Back: "v0"},
	}
	reverted.Decision.Blocks = []poolstate.Block{{Cause: poolstate.CauseReverted, Reason: "n7 failed v1"}}
	soaking := facts("v1", done, node("n1", "v0", "v0", v1alpha1.StateDone))
	soaking.Decision.Blocks = []poolstate.Block{
		{Cause: poolstate.CauseSoak, Reason: "step 1 soaks"},
		{Cause: poolstate.CauseDrain, Reason: "n2 waits for default/web"},
	}
	dead := facts("v1", done, node("n1", "v1", "v1", v1alpha1.StateDone))
	dead.Rollout.Nodes[1].Health.Trouble = "not Ready"
	dead.Decision.Blocks = []poolstate.Block{{Cause: poolstate.CauseNotReady, Reason: "n1 is dead"}}
	for sentence, tc := range map[string]struct {
		facts         status.PoolFacts
		configuration string
		want          string
	}{
		"a pool whose nodes all run the target is updated": {facts("v1", done), "v1", "Updated=True||All nodes are updated with MachineConfig v1\nUpdating=False||\n" + well},
		"a pool on its way is updating":                    {facts("v1", node("n0", "v0", "v1", v1alpha1.StateWorking)), "v0", "Updated=False||\nUpdating=True||All nodes are updating to MachineConfig v1\n" + well},
		"a paused pool says so":                            {paused, "v0", "Updated=False||\nUpdating=False||Pool is paused; will not update to MachineConfig v1\n" + well},
		"a paused pool that is updated is updated":         {pausedDone, "v1", "Updated=True||All nodes are updated with MachineConfig v1\nUpdating=False||\n" + well},
		"a pool without a rendered config waits for one":   {facts(""), "v0", "Updated=False||No MachineConfig is rendered for this pool yet\nUpdating=False||\n" + well},
		"a broken node is named with its daemon's words, its config, and what to do": {
			facts("v1", done, broken), "v0",
			"Updated=False||\nUpdating=True||All nodes are updating to MachineConfig v1: 1 of 2 run it, 1 degraded\n" +
				`NodeDegraded=True|1 nodes are reporting degraded status on sync|Node n1 is reporting: "writing '/etc/chrony.conf': no space" (v1)` + mend +
				"\nRolloutBlocked=False||\n" +
				`Degraded=True||Node n1 is reporting: "writing '/etc/chrony.conf': no space" (v1)` + mend + "\n",
		},
		"and with the commit that brought it": {
			known, "v0",
			"Updated=False||\nUpdating=True||All nodes are updating to MachineConfig v1: 1 of 2 run it, 1 degraded\n" +
				`NodeDegraded=True|1 nodes are reporting degraded status on sync|Node n1 is reporting: "writing '/etc/chrony.conf': no space" (v1 from main@sha1:4f1c2ab1 "chrony: use site NTP")` + mend +
				"\nRolloutBlocked=False||\n" +
				`Degraded=True||Node n1 is reporting: "writing '/etc/chrony.conf': no space" (v1 from main@sha1:4f1c2ab1 "chrony: use site NTP")` + mend + "\n",
		},
		"a node that is degraded in what it should run has failed no config": {drifted, "v0", "Updated=False||\n" +
			"Updating=True||All nodes are updating to MachineConfig v1: 0 of 1 run it, 1 unavailable, 1 degraded\n" +
			"NodeDegraded=True|1 nodes are reporting degraded status on sync|Node n1 is reporting: \"drift\"\n" +
			"RolloutBlocked=False||\nDegraded=True||Node n1 is reporting: \"drift\"\n"},
		"a halted rollout is blocked and degraded, also while it is paused": {
			halted, "v0",
			"Updated=False||\nUpdating=False||Rollout is halted; will not update to MachineConfig v1\n" +
				"NodeDegraded=False||\nRolloutBlocked=True|Halted|it is paused; n7 failed v1; for what to do: " +
				"bunsen why " +
				"pool/worker\nDegraded=True||it is paused; n7 failed v1; for what to do: bunsen why pool/worker\n",
		},
		"so is one that is reverted": {reverted, "v0", "Updated=False||\n" +
			"Updating=False||Rollout is reverted to MachineConfig v0; will not update to MachineConfig v1\n" +
			"NodeDegraded=False||\nRolloutBlocked=True|Reverted|n7 failed v1; for what to do: bunsen why " +
			"pool/worker\nDegraded=True||n7 failed v1; for what to do: bunsen why pool/worker\n"},
		"patience is no failure": {soaking, "v0", "Updated=False||\nUpdating=True||All nodes are updating " +
			"to MachineConfig v1: 1 of 2 run it, the rollout waits (Soak), see RolloutBlocked\n" +
			"NodeDegraded=False||\nRolloutBlocked=True|Soak|step 1 soaks; n2 waits for default/web\n" +
			"Degraded=False||\n"},
		"a dead node that runs the target keeps the pool from being updated": {dead, "v0", "Updated=False||\n" +
			"Updating=True||All nodes are updating to MachineConfig v1: all run it, 1 of 2 are unavailable " +
			"(NotReady), see RolloutBlocked\n" +
			"NodeDegraded=False||\nRolloutBlocked=True|NotReady|n1 is dead\nDegraded=False||\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			old := mcfgv1.MachineConfigPoolStatus{Configuration: configuration("v0")}
			old.ObservedGeneration = observed.ObservedGeneration
			got := status.Pool(old, tc.facts, noon)
			if diff := gocmp.Diff(tc.want, show(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got.Configuration.Name != tc.configuration || got.ObservedGeneration != 7 {
				t.Errorf("configuration %q, generation %d; want %q, 7", got.Configuration.Name, got.ObservedGeneration,
					tc.configuration)
			}
		})
	}
}

// TestAPoolThatCannotBeRendered keeps saying so beside what its nodes report, until it can.
func TestAPoolThatCannotBeRendered(t *testing.T) {
	bad := status.Rendered(observed, "worker", nil,
		errors.New(`merging "10-worker-chrony": two files at /etc/chrony.conf`), noon)
	bad = status.Pool(bad, facts("v1", node("n0", "v1", "v1", v1alpha1.StateDegraded, "drift")), noon)
	want := `RenderDegraded=True||Failed to render configuration for pool worker: merging "10-worker-chrony": two files at /etc/chrony.conf
Degraded=True||Node n0 is reporting: "drift"; Failed to render configuration for pool worker: merging "10-worker-chrony": two files at /etc/chrony.conf
Updated=False||
Updating=True||All nodes are updating to MachineConfig v1: 0 of 1 run it, 1 unavailable, 1 degraded
NodeDegraded=True|1 nodes are reporting degraded status on sync|Node n0 is reporting: "drift"
RolloutBlocked=False||
`
	if diff := gocmp.Diff(want, show(bad)); diff != "" {
		t.Errorf("while it cannot (-want +got):\n%s", diff)
	}
	good := status.Pool(status.Rendered(bad, "worker", nil, nil, noon),
		facts("v1", node("n0", "v1", "v1", v1alpha1.StateDone)), noon)
	if got := show(good); !strings.HasPrefix(got, "RenderDegraded=False||\nDegraded=False||\nUpdated=True|") {
		t.Errorf("once it can:\n%s", got)
	}
}

// TestAnImageWithoutADigest is a condition while a config has one, and no failure of the pool.
func TestAnImageWithoutADigest(t *testing.T) {
	never := status.Rendered(observed, "worker", nil, nil, noon)
	is := status.Rendered(never, "worker", []string{"MachineConfig a: x", "MachineConfig b: y"}, nil, noon)
	unknown := status.Rendered(is, "worker", nil, errors.New("no"), noon)
	gone := status.Rendered(unknown, "worker", nil, nil, noon)
	for says, c := range map[string]struct {
		status mcfgv1.MachineConfigPoolStatus
		want   string
	}{
		"no config had one":      {never, "RenderDegraded=False||\nDegraded=False||\n"},
		"two images":             {is, "RenderDegraded=False||\nDegraded=False||\nImageWithoutDigest=True|NoDigest|MachineConfig a: x; MachineConfig b: y\n"},
		"a later config is none": {unknown, "RenderDegraded=True||Failed to render configuration for pool worker: no\nDegraded=True||Failed to render configuration for pool worker: no\nImageWithoutDigest=True|NoDigest|MachineConfig a: x; MachineConfig b: y\n"},
		"no image any more":      {gone, "RenderDegraded=False||\nDegraded=False||\nImageWithoutDigest=False||\n"},
	} {
		if diff := gocmp.Diff(c.want, show(c.status)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", says, diff)
		}
	}
}

// TestAPoolThatWasCreatedAgain: a pool that was deleted and created again with its record says what all nodes ran last,
// also while they fail its target.
func TestAPoolThatWasCreatedAgain(t *testing.T) {
	f := facts("v1", node("n0", "v0", "v1", v1alpha1.StateDegraded, "no space"))
	f.Decision.Record = v1alpha1.RolloutRecord{Config: "v1", Healthy: "v0"}
	if got := status.Pool(observed, f, noon).Configuration; got.Name != "v0" ||
		len(got.Source) > 0 {
		t.Errorf("status.configuration is %+v", got)
	}
	f.Decision.Record.Healthy = ""
	if got := status.Pool(observed, f, noon).Configuration; got.Name != "" {
		t.Errorf("a pool that was never healthy has status.configuration %+v", got)
	}
}

// TestTransitionTimes: a condition's time moves where its status does, and nowhere else.
func TestTransitionTimes(t *testing.T) {
	one := status.Pool(observed, facts("v1", node("n0", "v0", "v1", v1alpha1.StateWorking)),
		noon)
	same := status.Pool(one, facts("v1", node("n0", "v0", "v1", v1alpha1.StateWorking)), noon.Add(time.Hour))
	if diff := gocmp.Diff(one, same); diff != "" {
		t.Errorf("equal facts give another status:\n%s", diff)
	}
	later := noon.Add(time.Hour)
	next := status.Pool(one, facts("v2", node("n0", "v0", "v1", v1alpha1.StateWorking)), later)
	done := status.Pool(next, facts("v1", node("n0", "v1", "v1", v1alpha1.StateDone)), later)
	for _, tc := range []struct {
		sentence string
		status   mcfgv1.MachineConfigPoolStatus
		kind     mcfgv1.MachineConfigPoolConditionType
		want     time.Time
	}{
		{"only the message changes", next, mcfgv1.MachineConfigPoolUpdating, noon},
		{"the status changes", done, mcfgv1.MachineConfigPoolUpdating, later},
		{"nothing changes", done, mcfgv1.MachineConfigPoolDegraded, noon},
	} {
		for _, c := range tc.status.Conditions {
			if c.Type == tc.kind && !c.LastTransitionTime.Time.Equal(tc.want) {
				t.Errorf("%s: %s moved at %s, want %s", tc.sentence, tc.kind, c.LastTransitionTime, tc.want)
			}
		}
	}
}

// TestTheOldPoolStatusIsLeftAlone: what others wrote stays, and the old status is not written to.
func TestTheOldPoolStatusIsLeftAlone(t *testing.T) {
	old := mcfgv1.MachineConfigPoolStatus{
		Conditions: []mcfgv1.MachineConfigPoolCondition{{
			Type:   mcfgv1.MachineConfigPoolPinnedImageSetsDegraded,
			Status: corev1.ConditionTrue, Message: "no room", LastTransitionTime: metav1.NewTime(noon),
		}},
		CertExpirys: []mcfgv1.CertExpiry{{Bundle: "KubeAPIServerServingCAData"}},
	}
	before := old.DeepCopy()
	got := status.Pool(old, facts("v1"), noon)
	if diff := gocmp.Diff(*before, old); diff != "" {
		t.Errorf("the old status was written to:\n%s", diff)
	}
	if diff := gocmp.Diff(old.CertExpirys, got.CertExpirys); diff != "" {
		t.Errorf("certificate dates:\n%s", diff)
	}
	if got := show(got); !strings.Contains(got, "PinnedImageSetsDegraded=True||no room\n") ||
		!strings.Contains(got, "\nDegraded=True||no room\n") {
		t.Errorf("another's condition is lost:\n%s", got)
	}
}

// TestTheOrderOfNodesDoesNotMatter: a cache lists nodes in any order.
func TestTheOrderOfNodesDoesNotMatter(t *testing.T) {
	a, b := node("n0", "v0", "v1", v1alpha1.StateDegraded, "a"), node("n1", "v0", "v1", v1alpha1.StateDegraded, "b")
	one := status.Pool(observed, facts("v1", a, b), noon)
	if diff := gocmp.Diff(one, status.Pool(one, facts("v1", b, a), noon.Add(time.Hour))); diff != "" {
		t.Errorf("another order gives another status:\n%s", diff)
	}
}

// TestManyBrokenNodesFitIntoAMessage: the API takes 32 KiB.
func TestManyBrokenNodesFitIntoAMessage(t *testing.T) {
	var nodes []poolstate.Node
	for i := range 5000 {
		nodes = append(nodes, node(fmt.Sprintf("n%04d", i), "v0", "v1", v1alpha1.StateDegraded,
			strings.Repeat("ä", 1500)))
	}
	for _, c := range status.Pool(observed, facts("v1", nodes...), noon).Conditions {
		if len(c.Message) > 32768 {
			t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
		}
		if c.Type == mcfgv1.MachineConfigPoolNodeDegraded &&
			(!strings.Contains(c.Message, " more; for what to do: bunsen why node/n0000") || c.Reason != "5000 nodes "+
				"are reporting degraded status on sync") {
			t.Errorf("reason %q, message ends with %q", c.Reason, c.Message[len(c.Message)-200:])
		}
	}
}

// TestSilentDaemons: a pool is not Updated while nobody knows what one of its nodes runs, whatever the node said last.
func TestSilentDaemons(t *testing.T) {
	f := facts("v1", node("n0", "v1", "v1", v1alpha1.StateDone), node("n1", "v1", "v1", v1alpha1.StateDone))
	f.Decision.Blocks = []poolstate.Block{
		poolstate.SilentBlock(map[string]time.Time{"n1": noon.Add(-12 * time.Minute)}),
	}
	got := status.Pool(observed, f, noon)
	want := "Updated=False||\n" +
		"Updating=True||All nodes are updating to MachineConfig v1: all ran it when they last reported " +
		"(DaemonSilent), see RolloutBlocked\n" +
		"NodeDegraded=False||\n" +
		"RolloutBlocked=True|DaemonSilent|no heartbeat of the machine-config-daemon of " +
		"n1 since 2026-01-02 11:48 UTC\n" +
		"Degraded=False||\n"
	if diff := gocmp.Diff(want, show(got)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got.Configuration.Name != "" {
		t.Error("the config counts as running on all nodes")
	}
	f.Decision.Blocks = nil
	if got := show(status.Pool(got, f, noon)); !strings.HasPrefix(got, "Updated=True") {
		t.Errorf("once all report again:\n%s", got)
	}
}

// TestAnUpdatedPoolMayWait: that a pool cannot be rendered is said although all its nodes are updated.
func TestAnUpdatedPoolMayWait(t *testing.T) {
	f := facts("v1", node("n0", "v1", "v1", v1alpha1.StateDone))
	f.Decision.Blocks = []poolstate.Block{{
		Cause: poolstate.CauseApplying,
		Reason: "GitSource config: MachineConfig a is " +
			"not as main@sha1:1 has it",
	}}
	got := show(status.Pool(observed, f, noon))
	for _, want := range []string{
		"Updated=True||All nodes are updated with MachineConfig v1\n",
		"RolloutBlocked=True|Applying|GitSource config: MachineConfig a is not as main@sha1:1 has it\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// version reads a config in the form of v1alpha1.ConfigVersion.String.
func version(text string) v1alpha1.ConfigVersion { return v1alpha1.ParseConfigVersion(text) }

// TestANewGenerationIsReconciling: nobody who waits for the pool takes the verdict on the generation before for that on
// the new one.
func TestANewGenerationIsReconciling(t *testing.T) {
	behind := facts("v1", node("n0", "v0", "v0", v1alpha1.StateDone))
	verdict := func(o v1alpha1.Outcome) v1alpha1.Verdict {
		return v1alpha1.Verdict{Kind: "MachineConfigPool", Name: "worker", Outcome: o}
	}
	outcome := func(s mcfgv1.MachineConfigPoolStatus) string {
		var out []string
		for _, c := range s.Conditions {
			if c.Type == v1alpha1.StalledCondition || c.Type == v1alpha1.ReconcilingCondition {
				out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
			}
		}
		return strings.Join(out, ", ")
	}
	for _, before := range v1alpha1.Outcomes {
		old := mcfgv1.MachineConfigPoolStatus{ObservedGeneration: 6}
		began := status.Pool(status.Judged(old, verdict(before), noon), behind, noon)
		if got := outcome(began); got != "Reconciling=True Progressing" {
			t.Errorf("after %s: %s", before, got)
		}
		judged := status.Judged(began, verdict(v1alpha1.OutcomeDegraded), noon)
		if got := outcome(status.Pool(judged, behind, noon)); got != "Stalled=True Degraded" {
			t.Errorf("after %s, and with the verdict on the same generation: %s", before, got)
		}
	}
	done := facts("v1", node("n0", "v1", "v1", v1alpha1.StateDone))
	if got := outcome(status.Pool(mcfgv1.MachineConfigPoolStatus{}, done, noon)); got != "" {
		t.Errorf("a pool that runs its config already: %s", got)
	}
}
