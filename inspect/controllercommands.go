package inspect

import (
	"fmt"
	"strings"
)

// controllerCommands help where no controller leads, or where the leader may hang.
func controllerCommands(c *Controllers) []string {
	const list = "kubectl -n bunsen-system get pods,leases"
	last := c.last()
	if r := c.unread(); r != nil {
		return r.restartCommands()
	}
	switch {
	case c.leader() != nil:
		return c.leader().restartCommands()
	case last == nil || last.hasEnded():
		return []string{list, "start machine-config-controller"}
	case last.Alive:
		return []string{list, "kubectl -n bunsen-system delete lease machine-config-controller   # if its holder is gone: a replica that stands by then leads"}
	}
	return last.restartCommands()
}

// restartCommands restart a controller that hangs or is gone: the pod or the process that it reported. A report that names neither, as that
// of an older version, leaves both.
func (r *ControllerRow) restartCommands() []string {
	const deployment = "kubectl -n bunsen-system rollout restart deployment machine-config-controller"
	if r.Report != nil && r.Report.Pod != "" {
		namespace, pod, _ := strings.Cut(r.Report.Pod, "/")
		return []string{
			fmt.Sprintf("kubectl -n %s delete pod %s   # its Deployment starts another", namespace, pod),
			alternative("that pod is gone", fmt.Sprintf("kubectl -n %s get pods,leases", namespace)),
		}
	}
	if r.Report != nil && r.Report.Host != "" {
		return []string{
			"systemctl restart machine-config-controller   # on host " + r.Report.Host,
			alternative("it does not run under systemd", fmt.Sprintf("kill -9 %d   # on host %s; then start machine-config-controller again", r.Report.PID, r.Report.Host)),
		}
	}
	return []string{
		deployment,
		alternative("it is a process on a host", "systemctl restart machine-config-controller   # controller "+r.Name+"; without systemd: kill -9 its process and start it again"),
	}
}
