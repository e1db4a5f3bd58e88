package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// short are the conditions by the columns of kubectl get machineconfignodes -o wide, and NodeDegraded.
var short = []struct{ letter, kind string }{
	{"upd", "Updated"},
	{"prep", "UpdatePrepared"},
	{"cord", "Cordoned"},
	{"drain", "Drained"},
	{"files", "AppliedFilesAndOS"},
	{"exec", "UpdateExecuted"},
	{"boot", "RebootedNode"},
	{"post", "UpdatePostActionComplete"},
	{"compl", "UpdateComplete"},
	{"uncord", "Uncordoned"},
	{"resum", "Resumed"},
	{"DEGR", "NodeDegraded"},
}

// line is a status in a line: what is True, and what is Unknown with a question mark.
func line(s mcfgv1.MachineConfigNodeStatus) string {
	is := map[string]metav1.ConditionStatus{}
	for _, c := range s.Conditions {
		is[c.Type] = c.Status
	}
	var words []string
	for _, c := range short {
		switch is[c.kind] {
		case metav1.ConditionTrue:
			words = append(words, c.letter)
		case metav1.ConditionUnknown:
			words = append(words, c.letter+"?")
		case "":
			words = append(words, c.letter+" is missing")
		}
	}
	return strings.Join(words, " ")
}

// going is a node on its way from a to b, with a drain and a reboot.
func going(phase report.Phase, change ...func(*report.Status)) report.Status {
	p := report.Status{
		NodeName: "worker-0", Phase: phase, Planned: true, Drains: true, Reboots: true,
		Node: report.Node{UID: "u", Current: "rendered-worker-a", Desired: "rendered-worker-b", State: "Working"},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func requested(p *report.Status) { p.Node.DesiredDrain = "drain-rendered-worker-b" }
func cordoned(p *report.Status)  { p.Node.Drain.Started = time.Unix(1, 0) }
func drained(p *report.Status) {
	p.Node.DesiredDrain, p.Node.LastAppliedDrain = "drain-rendered-worker-b", "drain-rendered-worker-b"
}

func inPlace(p *report.Status)     { p.Drains, p.Reboots = false, false }
func uncordoning(p *report.Status) { p.Node.DesiredDrain = "uncordon-rendered-worker-b" }
func inForce(p *report.Status)     { p.InForce = true }
func uncordoned(p *report.Status)  { p.Node.LastAppliedDrain = p.Node.DesiredDrain }
func returning(p *report.Status)   { p.RollingBack = true }

// done is a node that is told to be in b, and is.
func done(p *report.Status) {
	*p = report.Status{
		NodeName: p.NodeName, Phase: p.Phase, InForce: true,
		Node: report.Node{UID: "u", Current: "rendered-worker-b", Desired: "rendered-worker-b", State: "Done"},
	}
}

// ill is a node that says so.
func degraded(state, reason string) func(*report.Status) {
	return func(p *report.Status) { p.Node.State, p.Node.Reason = state, reason }
}

// after is a failure that left the update in a phase, as the Node has it.
func after(phase report.Phase) func(*report.Status) {
	return func(p *report.Status) {
		p.Node.Failure = v1alpha1.Failure{Cause: v1alpha1.FailureApply, Phase: string(phase)}.String()
	}
}

// refound leaves out what the daemon does not know before it has planned again.
func refound(p *report.Status) { p.Planned, p.Drains, p.Reboots = false, false, false }

var places = []struct {
	says string
	at   report.Status
	want string
	// words are `Type: word` that a condition's reason or message has.
	words []string
}{
	{"a node that nobody assigned", report.Status{NodeName: "worker-0", Phase: report.Idle, Node: report.Node{State: "Done"}}, "", []string{"Updated: no desired config yet", "Drained: NotYetOccurred"}},
	{"a node that has what it should have", going(report.Idle, done), "upd", []string{"Updated: is in rendered-worker-b", "UpdatePrepared: no update is under way", "NodeDegraded: NotYetOccurred"}},
	{"one that was drained for it", going(report.Idle, done, uncordoning, uncordoned), "upd", nil},
	{"it waits to be closed", going(report.Draining), "prep cord? drain? exec?", []string{"Updated: from rendered-worker-a to rendered-worker-b", "UpdatePrepared: with a drain and a reboot", "RebootedNode: NotYetOccurred"}},
	{"it is cordoned, and waits for pods", going(report.Draining, requested, cordoned), "prep cord drain? exec?", []string{"Drained: bunsen why node/worker-0"}},
	{"its files are being changed", going(report.Applying, drained), "prep cord drain files? exec?", nil},
	{"the machine goes down", going(report.Rebooting, drained), "prep cord drain files exec boot? post?", nil},
	{"it is back, and its health is looked at", going(report.Checking, drained), "prep cord drain files exec boot post?", []string{"UpdatePostActionComplete: healthy"}},
	{"it is healthy, and waits to be opened", going(report.Confirming, drained, uncordoning, inForce), "prep cord drain files exec boot post compl uncord? resum?", nil},
	{"the same, by a daemon that was started then", going(report.Confirming, drained, uncordoning, inForce, refound, func(p *report.Status) { p.Node.PostAction = "Rebooting" }), "prep cord drain files exec boot post compl uncord? resum?", nil},
	{"nobody opens it", going(report.Confirming, drained, uncordoning, inForce, refound, degraded("Degraded", "not opened again within 10m"), func(p *report.Status) { p.Reboots = true }), "prep cord drain files exec boot post compl uncord? resum? DEGR", []string{"NodeDegraded: Confirming: not opened again"}},

	{"an update in place changes files", going(report.Applying, inPlace), "prep files? exec?", []string{"UpdatePrepared: without a drain or a reboot", "Drained: NotNeeded", "Cordoned: NotNeeded", "RebootedNode: NotNeeded"}},
	{"an update in place has its services looked at", going(report.Checking, inPlace), "prep files exec post?", []string{"RebootedNode: NotNeeded"}},
	{"a node that an earlier update closed is so still", going(report.Applying, inPlace, func(p *report.Status) {
		p.Node.DesiredDrain, p.Node.LastAppliedDrain = "drain-rendered-worker-x", "drain-rendered-worker-x"
	}), "prep cord files? exec?", nil},

	{"a config that a running node cannot take", going(report.Refused, refound, degraded("Unreconcilable", "fips: no")), "DEGR", []string{"NodeDegraded: Refused", "NodeDegraded: fips: no", "UpdatePrepared: Refused"}},
	{"a config that could not be fetched", going(report.Blocked, refound, degraded("Degraded", "fetching it")), "DEGR", []string{"NodeDegraded: Blocked", "UpdatePrepared: cannot begin", "AppliedFilesAndOS: NotYetOccurred"}},
	{"the machine would stop the update half-way", going(report.Blocked, degraded("Degraded", "nothing has changed yet; /etc/motd: chattr -i")), "DEGR", []string{"NodeDegraded: Blocked", "NodeDegraded: chattr -i", "UpdatePrepared: Blocked", "AppliedFilesAndOS: NotYetOccurred", "UpdateExecuted: not reached", "Drained: NotYetOccurred", "RebootedNode: NotYetOccurred"}},
	{"the same on a node that is cordoned already, and drained further", going(report.Blocked, requested, cordoned, degraded("Degraded", "chattr -i")), "cord drain? DEGR", []string{"NodeDegraded: Blocked"}},
	{"a step failed, and all was taken back", going(report.RolledBack, inPlace, degraded("Degraded", "reload crio.service: exit status 1; see journalctl")), "prep DEGR", []string{"NodeDegraded: see journalctl", "AppliedFilesAndOS: TakenBack", "UpdateExecuted: is in rendered-worker-a"}},
	{"a step failed, and the node stays closed", going(report.RolledBack, drained, degraded("Degraded", "x")), "prep cord drain DEGR", nil},
	{"a drain takes too long", going(report.Draining, requested, cordoned, degraded("Degraded", "not drained after 1h"), after(report.Draining)), "prep cord drain? exec? DEGR", []string{"NodeDegraded: Draining: not drained", "UpdateExecuted: UnderWay"}},
	{"a rollback that failed", going(report.Applying, drained, degraded("Degraded", "parts of both"), after(report.Applying)), "prep cord drain files? exec? DEGR", []string{"NodeDegraded: Applying: parts of both"}},
	{"it is drained for another try", going(report.Draining, requested, cordoned, degraded("Degraded", "x"), after(report.RolledBack)), "prep cord drain? exec? DEGR", []string{"NodeDegraded: RolledBack: x"}},
	{"the machine goes down, to go back", going(report.Rebooting, drained, returning, degraded("Degraded", "unit x failed")), "prep cord drain boot? DEGR", []string{"NodeDegraded: RolledBack", "RebootedNode: roll back to rendered-worker-a"}},
	{"the machine is not healthy with it", going(report.Rejected, drained, refound, degraded("Degraded", "unit x failed")), "prep cord drain DEGR", []string{"NodeDegraded: Rejected", "AppliedFilesAndOS: TakenBack"}},
	{"one that is tried again goes down, and says still what was wrong", going(report.Rebooting, drained, degraded("Degraded", "x"), after(report.RolledBack)), "prep cord drain files exec boot? post? DEGR", []string{"NodeDegraded: RolledBack"}},
	{"somebody changed a file by hand", going(report.Drifted, done, degraded("Degraded", "/etc/motd")), "upd DEGR", []string{"NodeDegraded: Drifted", "NodeDegraded: /etc/motd"}},
}

func TestWhatIsShownFollowsFromThePlace(t *testing.T) {
	for _, c := range places {
		t.Run(c.says, func(t *testing.T) {
			s := c.at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(100, 0))
			if got := line(s); got != c.want {
				t.Errorf("it shows\n  %s\nwant\n  %s", got, c.want)
			}
			for _, want := range c.words {
				kind, word, _ := strings.Cut(want, ": ")
				for _, is := range s.Conditions {
					if text := is.Reason + ": " + is.Message; is.Type == kind && !strings.Contains(text, word) {
						t.Errorf("%s says %q, not %q", kind, text, word)
					}
				}
			}
			again := c.at.ObjectStatus(s, 1, metav1.Unix(200, 0))
			if diff := cmp.Diff(s, again); diff != "" || !report.SameStatus(s, again) {
				t.Errorf("said again, it is something else: %s", diff)
			}
		})
	}
}

func TestATimeOfTransitionMovesWithTheStatusOnly(t *testing.T) {
	at := going(report.Draining, requested)
	s := at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(100, 0))
	s = going(report.Draining, requested, cordoned).ObjectStatus(s, 2, metav1.Unix(200, 0))
	s = going(report.RolledBack, requested, cordoned, degraded("Degraded", "a")).ObjectStatus(s, 3, metav1.Unix(300, 0))
	s = going(report.RolledBack, requested, cordoned, degraded("Degraded", "b")).ObjectStatus(s, 3, metav1.Unix(400, 0))
	want := map[string]int64{
		"Cordoned": 200, "Drained": 100, "NodeDegraded": 300, "UpdateExecuted": 300,
		"UpdatePrepared": 100, "Resumed": 100,
	}
	for _, c := range s.Conditions {
		if at, known := want[c.Type]; known && c.LastTransitionTime.Unix() != at {
			t.Errorf("%s: %d, want %d", c.Type, c.LastTransitionTime.Unix(), at)
		}
		if c.Type == "NodeDegraded" && c.Message != "b" {
			t.Error(c.Message)
		}
	}
}

func TestVersionsAreOnlySaidWhenTheyAreKnown(t *testing.T) {
	for _, c := range []struct {
		says string
		at   report.Status
		want string // pool, spec's desired, status' desired and current
	}{
		{"nobody assigned it", report.Status{NodeName: "n", Phase: report.Idle}, "not-yet-set not-yet-set not-yet-set "},
		{"it is not known whether it can be taken", going(report.Blocked, refound), "worker rendered-worker-b not-yet-set rendered-worker-a"},
		{"it can", going(report.Draining), "worker rendered-worker-b rendered-worker-b rendered-worker-a"},
		{"it cannot", going(report.Refused, refound), "worker rendered-worker-b not-yet-set rendered-worker-a"},
		{"it was, and is not tried again", going(report.Rejected, refound), "worker rendered-worker-b rendered-worker-b rendered-worker-a"},
		{"it is in force", going(report.Idle, done), "worker rendered-worker-b rendered-worker-b rendered-worker-b"},
		{"a pool with dashes", report.Status{Phase: report.Idle, Node: report.Node{Desired: "rendered-gpu-big-0123abc"}}, "gpu-big rendered-gpu-big-0123abc not-yet-set "},
		{"somebody wrote no name", report.Status{Phase: report.Idle, Node: report.Node{Desired: "No Name", Current: "Neither"}}, "not-yet-set not-yet-set not-yet-set "},
	} {
		t.Run(c.says, func(t *testing.T) {
			spec, status := c.at.Spec(), c.at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{ObservedGeneration: 7}, 3,
				metav1.Time{})
			if got := fmt.Sprint(spec.Pool.Name, " ", spec.ConfigVersion.Desired, " ", status.ConfigVersion.Desired,
				" ", status.ConfigVersion.Current); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if spec.Node.Name != c.at.NodeName || status.ObservedGeneration != 7 { // the API takes no smaller one
				t.Errorf("%+v %d", spec, status.ObservedGeneration)
			}
		})
	}
}

func TestTheObjectGoesWithItsNode(t *testing.T) {
	at := going(report.Idle)
	if owners := at.Owners(); len(owners) != 1 || owners[0].Kind != "Node" || owners[0].APIVersion != "v1" ||
		owners[0].Name != "worker-0" || owners[0].UID != "u" {
		t.Errorf("%+v", owners)
	}
	at.Node.UID = ""
	if owners := at.Owners(); len(owners) != 0 {
		t.Errorf("%+v", owners)
	}
}

func TestWhatARunningNodeCannotTakeIsListedByField(t *testing.T) {
	at := going(report.Refused, refound, func(p *report.Status) {
		p.Refusals = []disruption.Refusal{
			{Field: "fips", Why: "install the node anew"},
			{Field: "storage.files /etc/a append", Why: "a"},
			{Field: "storage.files /etc/b append", Why: "b"},
			{Field: "kernelArguments (of Ignition)", Why: "c"},
			{Field: "kernelArguments", Why: "d"},
			{Field: "/etc/f", Why: "e"},
			{Field: "", Why: "f"},
			{Field: "passwd.users cöre", Why: strings.Repeat("ü", 5000)},
		}
	})
	var got []string
	for _, c := range at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges {
		got = append(got, c.FieldPath+": "+c.Diff)
		if n := len([]rune(c.Diff)); n == 0 || n > 4096 {
			t.Errorf("%s has %d characters", c.FieldPath, n)
		}
	}
	want := []string{
		"spec.fips: fips: install the node anew", "spec.config.storage.files: storage.files /etc/a append: a\n" +
			"storage.files /etc/b append: b",
		"spec.config.kernelArguments: kernelArguments (of Ignition): c", "spec.kernelArguments: kernelArguments: d",
		"spec.config: /etc/f: e\nf",
	}
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" || !strings.HasPrefix(got[len(got)-1],
		"spec.config.passwd.users: ") {
		t.Error(diff, got)
	}
	for i := range 100 {
		at.Refusals = append(at.Refusals,
			disruption.Refusal{Field: fmt.Sprintf("systemd.units%d%s", i, strings.Repeat("x", 100)), Why: "x"})
	}
	if all := at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges; len(
		all) != 32 || len(all[31].FieldPath) > 70 {
		t.Errorf("%d: %+v", len(all), all[len(all)-1])
	}
	at.Phase = report.Idle
	if all := at.ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges; len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestWhatOthersAddToAStatusIsLeftAlone(t *testing.T) {
	should := going(report.Idle, done).ObjectStatus(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(1, 0))
	is := *should.DeepCopy()
	is.Conditions = append([]metav1.Condition{{Type: "PinnedImageSetsDegraded", Status: "False"}}, is.Conditions...)
	if !report.SameStatus(is, should) {
		t.Error("another order, and a condition more, is something else")
	}
	is.Conditions[1].Message = "x"
	if report.SameStatus(is, should) || report.SameStatus(mcfgv1.MachineConfigNodeStatus{}, should) {
		t.Error("another message is the same")
	}
}

// TestThePhaseChangesAsTheTableSays tries every change of the phase.
func TestThePhaseChangesAsTheTableSays(t *testing.T) {
	followed := map[report.Phase]bool{}
	for from, next := range report.Transitions {
		if len(next) == 0 {
			t.Errorf("%s is never left", from)
		}
		for _, to := range next {
			followed[to] = true
		}
		for to := range report.Transitions {
			var p report.Progress
			if err := p.Enter(from); err != nil || p.Phase() != from {
				t.Errorf("a daemon cannot start in %s: %v", from, err)
			}
			err := p.Enter(to)
			if legal := from == to || slices.Contains(next, to); legal != (err == nil) || p.Phase() != to {
				t.Errorf("%s, %s: %v", from, to, err)
			}
		}
	}
	for p := range report.Transitions {
		if !followed[p] {
			t.Errorf("%s is never entered", p)
		}
	}
	var p report.Progress
	if p.Phase() != report.Idle || p.Enter(report.Idle) != nil || p.Enter(report.Rebooting) == nil ||
		p.Enter("Lost") == nil {
		t.Error("a daemon starts idle, an idle node does not reboot, and no phase is called Lost")
	}
}
