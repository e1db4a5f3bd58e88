package agent

import (
	"cmp"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// Board shows people where the daemon is, on the Node's MachineConfigNode.
type Board interface {
	// Show replaces what was shown before. It returns at once and never fails; what is replaced soon may never be seen.
	Show(at progress.Place)
}

// sign is what the agent puts on the Board. Every pass finds it out anew.
type sign struct{ *Agent }

// put shows it. A Node that nobody knows is not shown.
func (s sign) put() {
	if s.Board != nil && (s.at.Told.Desired != "" || s.at.Phase == progress.Idle) {
		s.Board.Show(s.at)
	}
}

// says notes what the Node is told.
func (s sign) says(state, reason string) { s.at.Told.State, s.at.Told.Reason = state, fit(reason) }

// recall finds out about the update of a journal, which another process may have begun, before the Node is read.
func (s sign) recall(rec host.Record) {
	s.at.Planned, s.at.Reboots = true, health.Reboots(rec)
	if s.at.Told.Desired == rec.To {
		return
	}
	s.at.Told = protocol.Assignment{Current: rec.From}
	if t, err := s.memory.task(rec.To); err == nil && t != nil {
		s.at.Told = t.Node // as it was when the steps were begun
	}
	s.at.Told.Desired = rec.To
	if s.at.Told.State != v1alpha1.StateDegraded {
		s.says(v1alpha1.StateWorking, "")
	}
	s.at.Drains = s.at.Reboots || strings.HasPrefix(s.at.Told.LastAppliedDrain, v1alpha1.DrainVerb+"-")
}

// reboots shows that the machine goes down for the update of a journal.
func (s sign) reboots(rec host.Record) {
	s.recall(rec)
	s.at.Phase = progress.Rebooting
	s.put()
}

// returns shows that the machine goes down, to go back.
func (s sign) returns(end apply.Applied, why string) {
	s.at.Phase, s.at.Planned, s.at.Returning = progress.Rebooting, true, true
	s.at.Told.Desired, s.at.Told.Current = cmp.Or(s.at.Told.Desired, end.To), end.From
	s.says(v1alpha1.StateDegraded, why)
	s.put()
}
