package plan

import (
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Inverse returns the step that undoes a step: Before and After change places. An action is its own inverse, because a
// rollback reloads or restarts the service again. Inverse(Inverse(s)) == s.
func Inverse(s Step) Step {
	s.Before, s.After = s.After, s.Before
	switch s.Verb {
	case host.Enable:
		s.Verb = host.Disable
	case host.Disable:
		s.Verb = host.Enable
	case host.SetUser, host.DropUser:
		s.Verb = userStep(s.Target, s.Before.User, s.After.User).Verb
	case host.SetGroup, host.DropGroup:
		s.Verb = groupStep(s.Target, s.Before.Group, s.After.Group).Verb
	default:
		if s.IsPath() {
			s.Verb = pathStep(s.Target, s.Before.Entry, s.After.Entry).Verb
		}
	}
	return s
}

// Inverse returns the plan of the rollback. Changes are undone last first. Actions keep their order and follow the
// changes. The steps of the record and of the reboot are last.
func (p Plan) Inverse() Plan {
	var changes, hard, actions, record, reboot []Step
	for _, s := range p.Steps {
		switch {
		case s.Verb == host.Reboot:
			reboot = append(reboot, s)
		case s.IsAction():
			actions = append(actions, Inverse(s))
		case s.Verb == host.WriteRecord:
			record = append(record, Inverse(s))
		case s.Before.Entry.Kind == host.Hard: // The files to which hard links lead must exist again before the links.
			hard = append(hard, Inverse(s))
		default:
			changes = append(changes, Inverse(s))
		}
	}
	slices.Reverse(changes)
	slices.Reverse(hard)
	p.From, p.To = p.To, p.From
	p.Steps = slices.Concat(changes, hard, actions, record, reboot)
	return p
}
