package progress_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/policy"
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
func going(phase progress.Phase, change ...func(*progress.Place)) progress.Place {
	p := progress.Place{
		Node: "worker-0", Phase: phase, Planned: true, Drains: true, Reboots: true,
		Told: protocol.Assignment{UID: "u", Current: "rendered-worker-a", Desired: "rendered-worker-b", State: "Working"},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func asked(p *progress.Place)  { p.Told.DesiredDrain = "drain-rendered-worker-b" }
func closed(p *progress.Place) { p.Told.Drain.Started = time.Unix(1, 0) }
func drained(p *progress.Place) {
	p.Told.DesiredDrain, p.Told.LastAppliedDrain = "drain-rendered-worker-b", "drain-rendered-worker-b"
}

func inPlace(p *progress.Place)   { p.Drains, p.Reboots = false, false }
func opening(p *progress.Place)   { p.Told.DesiredDrain = "uncordon-rendered-worker-b" }
func inForce(p *progress.Place)   { p.InForce = true }
func opened(p *progress.Place)    { p.Told.LastAppliedDrain = p.Told.DesiredDrain }
func returning(p *progress.Place) { p.Returning = true }

// done is a node that is told to be in b, and is.
func done(p *progress.Place) {
	*p = progress.Place{Node: p.Node, Phase: p.Phase, InForce: true, Told: protocol.Assignment{UID: "u", Current: "rendered-worker-b", Desired: "rendered-worker-b", State: "Done"}}
}

// ill is a node that says so.
func ill(state, reason string) func(*progress.Place) {
	return func(p *progress.Place) { p.Told.State, p.Told.Reason = state, reason }
}

// refound leaves out what the daemon does not know before it has planned again.
func refound(p *progress.Place) { p.Planned, p.Drains, p.Reboots = false, false, false }

var places = []struct {
	says string
	at   progress.Place
	want string
	// words are `Type: word` that a condition's reason or message has.
	words []string
}{
	{"a node that nobody assigned", progress.Place{Node: "worker-0", Phase: progress.Idle, Told: protocol.Assignment{State: "Done"}}, "", []string{"Updated: told no config yet", "Drained: NotYetOccurred"}},
	{"a node that has what it should have", going(progress.Idle, done), "upd", []string{"Updated: is in rendered-worker-b", "UpdatePrepared: no update is under way", "NodeDegraded: NotYetOccurred"}},
	{"one that was drained for it", going(progress.Idle, done, opening, opened), "upd", nil},
	{"it waits to be closed", going(progress.Draining), "prep cord? drain? exec?", []string{"Updated: from rendered-worker-a to rendered-worker-b", "UpdatePrepared: with a drain and a reboot", "RebootedNode: NotYetOccurred"}},
	{"it is closed, and waits for pods", going(progress.Draining, asked, closed), "prep cord drain? exec?", []string{"Drained: bunsen why node/worker-0"}},
	{"its files are being changed", going(progress.Applying, drained), "prep cord drain files? exec?", nil},
	{"the machine goes down", going(progress.Rebooting, drained), "prep cord drain files exec boot? post?", nil},
	{"it is back, and its health is looked at", going(progress.Checking, drained), "prep cord drain files exec boot post?", []string{"UpdatePostActionComplete: healthy"}},
	{"it is healthy, and waits to be opened", going(progress.Confirming, drained, opening, inForce), "prep cord drain files exec boot post compl uncord? resum?", nil},
	{"the same, by a daemon that was started then", going(progress.Confirming, drained, opening, inForce, refound, func(p *progress.Place) { p.Told.PostAction = "Rebooting" }), "prep cord drain files exec boot post compl uncord? resum?", nil},
	{"nobody opens it", going(progress.RolledBack, drained, opening, inForce, refound, ill("Degraded", "not opened again within 10m"), func(p *progress.Place) { p.Reboots = true }), "prep cord drain files exec boot post compl uncord? resum? DEGR", []string{"NodeDegraded: not opened again"}},

	{"an update in place changes files", going(progress.Applying, inPlace), "prep files? exec?", []string{"UpdatePrepared: without a drain or a reboot", "Drained: NotNeeded", "Cordoned: NotNeeded", "RebootedNode: NotNeeded"}},
	{"an update in place has its services looked at", going(progress.Checking, inPlace), "prep files exec post?", []string{"RebootedNode: NotNeeded"}},
	{"a node that an earlier update closed is so still", going(progress.Applying, inPlace, func(p *progress.Place) {
		p.Told.DesiredDrain, p.Told.LastAppliedDrain = "drain-rendered-worker-x", "drain-rendered-worker-x"
	}), "prep cord files? exec?", nil},

	{"a config that a running node cannot take", going(progress.Refused, refound, ill("Unreconcilable", "fips: no")), "DEGR", []string{"NodeDegraded: Refused", "NodeDegraded: fips: no", "UpdatePrepared: Refused"}},
	{"a config that could not be fetched", going(progress.RolledBack, refound, ill("Degraded", "fetching it")), "DEGR", []string{"NodeDegraded: RolledBack", "UpdatePrepared: could not begin", "AppliedFilesAndOS: NotYetOccurred"}},
	{"a step failed, and all was taken back", going(progress.RolledBack, inPlace, ill("Degraded", "reload crio.service: exit status 1; see journalctl")), "prep DEGR", []string{"NodeDegraded: see journalctl", "AppliedFilesAndOS: TakenBack", "UpdateExecuted: is in rendered-worker-a"}},
	{"a step failed, and the node stays closed", going(progress.RolledBack, drained, ill("Degraded", "x")), "prep cord drain DEGR", nil},
	{"a drain takes too long", going(progress.RolledBack, asked, closed, ill("Degraded", "not drained after 1h")), "prep cord drain? DEGR", nil},
	{"the machine goes down, to go back", going(progress.Rebooting, drained, returning, ill("Degraded", "unit x failed")), "prep cord drain boot? DEGR", []string{"NodeDegraded: RolledBack", "RebootedNode: go back to rendered-worker-a"}},
	{"the machine did not live with it", going(progress.Rejected, drained, refound, ill("Degraded", "unit x failed")), "prep cord drain DEGR", []string{"NodeDegraded: Rejected", "AppliedFilesAndOS: TakenBack"}},
	{"one that is tried again goes down, and says still what was wrong", going(progress.Rebooting, drained, ill("Degraded", "x")), "prep cord drain files exec boot? post? DEGR", []string{"NodeDegraded: RolledBack"}},
	{"somebody changed a file by hand", going(progress.Drifted, done, ill("Degraded", "/etc/motd")), "upd DEGR", []string{"NodeDegraded: Drifted", "NodeDegraded: /etc/motd"}},
}

func TestWhatIsShownFollowsFromThePlace(t *testing.T) {
	for _, c := range places {
		t.Run(c.says, func(t *testing.T) {
			s := c.at.Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(100, 0))
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
			again := c.at.Status(s, 1, metav1.Unix(200, 0))
			if diff := cmp.Diff(s, again); diff != "" || !progress.Same(s, again) {
				t.Errorf("said again, it is something else: %s", diff)
			}
		})
	}
}

func TestATimeOfTransitionMovesWithTheStatusOnly(t *testing.T) {
	at := going(progress.Draining, asked)
	s := at.Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(100, 0))
	s = going(progress.Draining, asked, closed).Status(s, 2, metav1.Unix(200, 0))
	s = going(progress.RolledBack, asked, closed, ill("Degraded", "a")).Status(s, 3, metav1.Unix(300, 0))
	s = going(progress.RolledBack, asked, closed, ill("Degraded", "b")).Status(s, 3, metav1.Unix(400, 0))
	want := map[string]int64{"Cordoned": 200, "Drained": 100, "NodeDegraded": 300, "UpdateExecuted": 300, "UpdatePrepared": 100, "Resumed": 100}
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
		at   progress.Place
		want string // pool, spec's desired, status' desired and current
	}{
		{"nobody assigned it", progress.Place{Node: "n", Phase: progress.Idle}, "not-yet-set not-yet-set not-yet-set "},
		{"it is not known whether it can be taken", going(progress.RolledBack, refound), "worker rendered-worker-b not-yet-set rendered-worker-a"},
		{"it can", going(progress.Draining), "worker rendered-worker-b rendered-worker-b rendered-worker-a"},
		{"it cannot", going(progress.Refused, refound), "worker rendered-worker-b not-yet-set rendered-worker-a"},
		{"it was, and is not tried again", going(progress.Rejected, refound), "worker rendered-worker-b rendered-worker-b rendered-worker-a"},
		{"it is in force", going(progress.Idle, done), "worker rendered-worker-b rendered-worker-b rendered-worker-b"},
		{"a pool with dashes", progress.Place{Phase: progress.Idle, Told: protocol.Assignment{Desired: "rendered-gpu-big-0123abc"}}, "gpu-big rendered-gpu-big-0123abc not-yet-set "},
		{"somebody wrote no name", progress.Place{Phase: progress.Idle, Told: protocol.Assignment{Desired: "No Name", Current: "Neither"}}, "not-yet-set not-yet-set not-yet-set "},
	} {
		t.Run(c.says, func(t *testing.T) {
			spec, status := c.at.Spec(), c.at.Status(mcfgv1.MachineConfigNodeStatus{ObservedGeneration: 7}, 3, metav1.Time{})
			if got := fmt.Sprint(spec.Pool.Name, " ", spec.ConfigVersion.Desired, " ", status.ConfigVersion.Desired, " ", status.ConfigVersion.Current); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if spec.Node.Name != c.at.Node || status.ObservedGeneration != 7 { // the API takes no smaller one
				t.Errorf("%+v %d", spec, status.ObservedGeneration)
			}
		})
	}
}

func TestTheObjectGoesWithItsNode(t *testing.T) {
	at := going(progress.Idle)
	if owners := at.Owners(); len(owners) != 1 || owners[0].Kind != "Node" || owners[0].APIVersion != "v1" || owners[0].Name != "worker-0" || owners[0].UID != "u" {
		t.Errorf("%+v", owners)
	}
	at.Told.UID = ""
	if owners := at.Owners(); len(owners) != 0 {
		t.Errorf("%+v", owners)
	}
}

func TestWhatARunningNodeCannotTakeIsListedByField(t *testing.T) {
	at := going(progress.Refused, refound, func(p *progress.Place) {
		p.Refusals = []policy.Refusal{
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
	for _, c := range at.Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges {
		got = append(got, c.FieldPath+": "+c.Diff)
		if n := len([]rune(c.Diff)); n == 0 || n > 4096 {
			t.Errorf("%s has %d characters", c.FieldPath, n)
		}
	}
	want := []string{
		"spec.fips: fips: install the node anew", "spec.config.storage.files: storage.files /etc/a append: a\nstorage.files /etc/b append: b",
		"spec.config.kernelArguments: kernelArguments (of Ignition): c", "spec.kernelArguments: kernelArguments: d", "spec.config: /etc/f: e\nf",
	}
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" || !strings.HasPrefix(got[len(got)-1], "spec.config.passwd.users: ") {
		t.Error(diff, got)
	}
	for i := range 100 {
		at.Refusals = append(at.Refusals, policy.Refusal{Field: fmt.Sprintf("systemd.units%d%s", i, strings.Repeat("x", 100)), Why: "x"})
	}
	if all := at.Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges; len(all) != 32 || len(all[31].FieldPath) > 70 {
		t.Errorf("%d: %+v", len(all), all[len(all)-1])
	}
	at.Phase = progress.Idle
	if all := at.Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Time{}).IrreconcilableChanges; len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestWhatOthersAddToAStatusIsLeftAlone(t *testing.T) {
	should := going(progress.Idle, done).Status(mcfgv1.MachineConfigNodeStatus{}, 1, metav1.Unix(1, 0))
	is := *should.DeepCopy()
	is.Conditions = append([]metav1.Condition{{Type: "PinnedImageSetsDegraded", Status: "False"}}, is.Conditions...)
	if !progress.Same(is, should) {
		t.Error("another order, and a condition more, is something else")
	}
	is.Conditions[1].Message = "x"
	if progress.Same(is, should) || progress.Same(mcfgv1.MachineConfigNodeStatus{}, should) {
		t.Error("another message is the same")
	}
}

// TestEveryPhaseMayFollowAndBeFollowed reads the table of transitions.
func TestEveryPhaseMayFollowAndBeFollowed(t *testing.T) {
	followed := map[progress.Phase]bool{}
	for _, p := range progress.Phases() {
		for _, next := range progress.Transitions[p] {
			if _, known := progress.Transitions[next]; !known {
				t.Errorf("%s is followed by %s, which is no phase", p, next)
			}
			followed[next] = true
		}
		if len(progress.Transitions[p]) == 0 || !progress.Legal(p, p) {
			t.Errorf("%s is never left, or may not stay", p)
		}
	}
	for _, p := range progress.Phases() {
		if !followed[p] {
			t.Errorf("%s is never entered", p)
		}
	}
	if progress.Legal(progress.Idle, progress.Rebooting) {
		t.Error("nobody reboots out of the blue")
	}
}
