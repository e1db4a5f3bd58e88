package inspect

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestACommandHoldsNoOtherCommand: what a node reports is one word of the command that people paste.
func TestACommandHoldsNoOtherCommand(t *testing.T) {
	for item, want := range map[string]string{
		"/etc/motd":      "bunsen drift show node/n0 /etc/motd",
		"/etc/$(reboot)": "bunsen drift show node/n0 '/etc/$(reboot)'",
		"a; reboot":      "bunsen drift show node/n0 'a; reboot'",
		"it's":           `bunsen drift show node/n0 'it'\''s'`,
	} {
		if got := driftActions("n0", item)[0]; got != want {
			t.Errorf("for %q: %s, want %s", item, got, want)
		}
	}
}

// TestABudgetIsNotSetToWhatItIs: a pool whose nodes are at work gets no command that would change nothing.
func TestABudgetIsNotSetToWhatItIs(t *testing.T) {
	for most, want := range map[int]string{
		0: `kubectl patch mcp worker --type=merge -p '{"spec":{"maxUnavailable":1}}'`,
		1: "", 2: "",
	} {
		v := &fleet.Pool{Object: &mcfgv1.MachineConfigPool{}}
		v.Object.Name, v.Facts.MaxUnavailable = "worker", most
		if got := strings.Join(unavailableActions(&fleet.Fleet{}, v), "; "); got != want {
			t.Errorf("for %d nodes: %q, want %q", most, got, want)
		}
	}
}

// TestTheTextsOfOthersAreNoCommands: what programs call themselves, and what people write into commits and policies, is
// quoted, also in the comment behind a command, because a shell may take no comments from a terminal.
func TestTheTextsOfOthersAreNoCommands(t *testing.T) {
	change := v1alpha1.APIChange{
		Kind: fleet.KindMachineConfig, Name: "99-by-hand", Action: v1alpha1.APICreated, Manager: "$(reboot)",
	}
	if got, want := UndoChange(change), "kubectl delete mc 99-by-hand   # MachineConfig 99-by-hand, made through the "+
		"API ('$(reboot)')"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	gate := v1alpha1.HealthGate{Name: "errors", Prometheus: &v1alpha1.PrometheusGate{
		URL: "http://p/$(reboot)", Query: "up\nreboot",
	}}
	v := &fleet.Pool{Object: &mcfgv1.MachineConfigPool{}}
	v.Facts.Care.Pace.Gates = []v1alpha1.HealthGate{gate}
	v.Facts.Care.Gates = []poolstate.Gate{{Name: "errors"}}
	if got, want := gateActions(&fleet.Fleet{}, v)[0], "curl -fsG 'http://p/$(reboot)/api/v1/query' --data-urlencode "+
		"'query=up reboot'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	entry := func(digit, subject string) (e v1alpha1.HistoryEntry) {
		e.Revision, e.Subject = "main@sha1:"+strings.Repeat(digit, 40), subject
		return e
	}
	r := commitRange{good: "aaaaaaaa", bad: "bbbbbbbb"}
	src := &v1alpha1.GitSource{Status: v1alpha1.GitSourceStatus{History: []v1alpha1.HistoryEntry{
		entry("b", "$(reboot)"),
		entry("a", "well"),
	}}}
	r.describe(v, src)
	if got, want := r.commands(v)[1], "git revert --no-edit aaaaaaaa..bbbbbbbb && git push   # undoes "+
		`'$(reboot)', back to "well"; a pushed fix does too`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
