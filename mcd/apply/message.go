package apply

import (
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// FailedStepText lists the commands that show why a step failed.
func FailedStepText(s *host.Step) string {
	switch {
	case s == nil:
		return "see the daemon's log"
	case s.Verb == host.Reload, s.Verb == host.Restart, s.Verb == host.Enable, s.Verb == host.Disable:
		return fmt.Sprintf("see journalctl -u %s and systemctl cat %s on the node", s.Target, s.Target)
	case s.Verb == host.DaemonReload:
		return "see journalctl -b _PID=1 on the node"
	case s.Verb == host.Reboot:
		return "see systemctl list-jobs and systemd-inhibit on the node"
	case s.IsPath():
		return fmt.Sprintf("see ls -ld %s, df and mount on the node", s.Target)
	case s.Verb == host.SetUser, s.Verb == host.DropUser, s.Verb == host.SetGroup, s.Verb == host.DropGroup:
		return fmt.Sprintf("see getent passwd, getent group and journalctl for %s on the node", s.Target)
	}
	return "see rpm-ostree status or bootc status, and journalctl -u rpm-ostreed, on the node"
}
