package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// freeze NAME stops a process, which keeps its connections and its locks.
func (s *story) freeze(_ *testscript.TestScript, args []string) error {
	if err := s.signal("freeze", args, syscall.SIGSTOP); err != nil {
		return err
	}
	pid := s.running[args[0]].cmd.Process.Pid
	return poll(patience, func() (bool, error) { return isFrozen(pid) })
}

// isFrozen reports whether all threads of a process have stopped, so that it writes nothing any more.
func isFrozen(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, errors.Join(err, fmt.Errorf("process %d has no threads", pid))
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		state := text[strings.LastIndex(string(text), ")")+1:] // the name of a thread may have brackets
		if !strings.HasPrefix(string(state), " T") {
			return false, fmt.Errorf("a thread is not stopped: %s", text)
		}
	}
	return true, nil
}

// thaw NAME lets it continue.
func (s *story) thaw(_ *testscript.TestScript, args []string) error {
	return s.signal("thaw", args, syscall.SIGCONT)
}

// poweron NODE is a machine that comes up again after `freeze` and `kubelet NODE silent`: its kubelet reports, and its
// daemon continues.
func (s *story) poweron(ts *testscript.TestScript, args []string) error {
	if err := s.thaw(ts, args); err != nil {
		return err
	}
	return s.reportKubelet(ts, append(args, "ready"))
}

func (s *story) signal(verb string, args []string, sig syscall.Signal) error {
	if len(args) != 1 || s.running[args[0]] == nil {
		return usage(verb + " controller|server|NODE")
	}
	return s.running[args[0]].cmd.Process.Signal(sig)
}

// nokubelet NODE... makes Nodes whose kubelet is what `kubelet` says, and starts their daemons.
func (s *story) nokubelet(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("nokubelet NODE...")
	}
	for _, name := range args {
		labels := map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
		if err := s.kubectlApply(
			[]manifest{{APIVersion: "v1", Kind: "Node", Metadata: manifestMeta{
				Name:   name,
				Labels: labels,
			}}}); err != nil {
			return err
		}
		if err := s.reportKubelet(ts, []string{name, "ready"}); err != nil {
			return err
		}
		if err := s.daemon(ts, name, "--no-kubelet"); err != nil {
			return err
		}
	}
	for _, name := range args {
		if err := s.waitfor(ts, []string{"node/" + name, "annotation:state", "Done"}); err != nil {
			return err
		}
	}
	return nil
}

// kubelet NODE ready|silent|diskpressure writes the conditions of a Node: those of a healthy kubelet; those that
// Kubernetes writes where a kubelet has stopped reporting, in the order that a real kubelet has; or those of a full
// disk.
func (s *story) reportKubelet(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("kubelet NODE ready|silent|diskpressure")
	}
	ctx := context.Background()
	nodes := s.cluster.clients.CoreV1().Nodes()
	n, err := nodes.Get(ctx, args[0], metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s: %w", args[0], err)
	}
	// Kubernetes counts a node that was away for a moment as healthy, and so does Bunsen.
	since := metav1.NewTime(time.Now().Add(-2 * time.Minute))
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason,
		message string,
	) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: since, LastTransitionTime: since,
		}
	}
	disk, ready := corev1.ConditionFalse, corev1.ConditionTrue
	if args[1] == "diskpressure" {
		disk = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
			"kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, disk, "KubeletDiskPressure", "kubelet reports its disk"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID",
			"kubelet has sufficient PID available"),
		condition(corev1.NodeReady, ready, "KubeletReady", "kubelet is posting ready status"),
	}
	if args[1] == "silent" {
		for i := range n.Status.Conditions {
			c := &n.Status.Conditions[i]
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown",
				"Kubelet stopped posting node status."
		}
	}
	_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // the daemon or the controller wrote in between
		return s.reportKubelet(ts, args)
	}
	if err != nil {
		return fmt.Errorf("writing the conditions of node %s: %w", args[0], err)
	}
	return nil
}

// smalldisk NODE SIZE makes a Node with the daemon of a simulated host whose disk is a file system of its own of SIZE,
// such as
// 400k. `fill NODE` and `fill NODE off` take the rest of the disk and give it back.
func (s *story) smalldisk(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("smalldisk NODE SIZE")
	}
	node, root := args[0], filepath.Join(s.work, "hosts", args[0])
	labels := map[string]string{"kubernetes.io/hostname": node, "kubernetes.io/os": "linux"}
	if err := s.kubectlApply(
		[]manifest{{APIVersion: "v1", Kind: "Node", Metadata: manifestMeta{Name: node, Labels: labels}}}); err != nil {
		return err
	}
	config, err := s.cluster.identity(node, kubelet(node))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	daemon := `mount -t tmpfs -o size="$0" tmpfs "$1" && exec simulated-host --node-name "$2" --kubeconfig "$3" --root "$1"`
	flags := []string{"--mount", "sh", "-c", daemon, args[1], root, node, config}
	if os.Getuid() != 0 { // who is not root may mount in a user namespace
		flags = append([]string{"--user", "--map-current-user", "--keep-caps"}, flags...)
	}
	if err := s.start(ts, node, "unshare", flags...); err != nil {
		return err
	}
	return s.waitfor(ts, []string{"node/" + node, "annotation:state", "Done"})
}

// fill NODE takes all that is free on the disk of a smalldisk; fill NODE off gives it back.
func (s *story) fill(_ *testscript.TestScript, args []string) error {
	if len(args) == 0 || s.running[args[0]] == nil {
		return usage("fill NODE [off], after smalldisk")
	}
	// The process's own view of its files, in which the disk is mounted.
	path := filepath.Join("/proc", strconv.Itoa(s.running[args[0]].cmd.Process.Pid), "root", s.work, "hosts", args[0],
		"var", "fill")
	if len(args) == 2 {
		return os.Remove(path)
	}
	err := os.WriteFile(path, make([]byte, 64<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("filling the disk of %s: %w", args[0], err)
	}
	return nil
}

// replica NAME FLAG... starts another machine-config-controller, with a store of its own.
func (s *story) replica(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("replica NAME FLAG...")
	}
	config, err := s.cluster.identity("controller", serviceAccount("machine-config-controller"))
	if err != nil {
		return err
	}
	flags := append([]string{"--kubeconfig", config, "--store", filepath.Join(s.work, "store-"+args[0])}, args[1:]...)
	return s.start(ts, args[0], filepath.Join(s.bin, "machine-config-controller"), flags...)
}

// network USER route|down|up leads USER (controller, NODE or admin) to the API server by a route that can be cut.
// `route` has to come before the process starts; admin is the user of bunsen and kubectl.
func (s *story) userNetwork(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("network controller|NODE|admin route|down|up")
	}
	w := s.truth.routes[args[0]]
	switch {
	case args[1] == "route" && w == nil:
		return s.route(args[0])
	case args[1] == "down" && w != nil:
		w.cut()
		return nil
	case args[1] == "up" && w != nil:
		return w.mend()
	}
	return usage("network controller|NODE|admin route|down|up")
}

// route rewrites a user's kubeconfig.
func (s *story) route(name string) error {
	user := kubelet(name)
	if name == "controller" {
		user = serviceAccount("machine-config-controller")
	}
	path, err := s.cluster.identity(name, user)
	if err != nil {
		return err
	}
	to, err := url.Parse(s.cluster.env.Config.Host)
	if err != nil {
		return fmt.Errorf("reading the API server's address: %w", err)
	}
	w := &way{to: to.Host}
	if err := w.mend(); err != nil {
		return err
	}
	s.truth.routes[name] = w
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + w.address
	}
	return clientcmd.WriteToFile(*config, path)
}

// backdate makes older what a frozen process last reported of itself:
//
//	backdate daemon/NODE AGE          the heartbeat of a daemon
//	backdate controller|server AGE    the Leases of all replicas
//	backdate look/SOURCE AGE          the last look at a repository; the controller's Lease is valid for an hour more
func (s *story) backdate(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("backdate daemon/NODE|controller|server|look/SOURCE AGE")
	}
	age, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	then := time.Now().Add(-age)
	switch kind, name, _ := strings.Cut(args[0], "/"); kind {
	case "daemon":
		return s.backdateDaemon(name, then)
	case "look":
		return s.changeLeases("machine-config-controller", func(l *coordinationv1.Lease) error {
			now, hour := metav1.NowMicro(), int32(3600)
			l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &now, &hour
			r, err := v1alpha1.ParseControllerReport(l.Annotations[v1alpha1.ControllerAnnotation])
			if err != nil {
				return err
			}
			look := r.Sources[name]
			look.At = metav1.NewTime(then)
			r.Sources = map[string]v1alpha1.SourceLook{name: look}
			l.Annotations[v1alpha1.ControllerAnnotation] = r.String()
			return nil
		})
	default:
		return s.backdateLeases("machine-config-"+kind, metav1.NewMicroTime(then.Truncate(time.Microsecond)))
	}
}

// backdateLeases writes until the Leases stay as they are: a request of a process that was frozen just now may arrive
// later.
func (s *story) backdateLeases(component string, renewed metav1.MicroTime) error {
	var written time.Time
	return poll(patience, func() (bool, error) {
		isLater := false
		err := s.changeLeases(component, func(l *coordinationv1.Lease) error {
			isLater = isLater || l.Spec.RenewTime == nil || !l.Spec.RenewTime.Equal(&renewed)
			l.Spec.RenewTime = &renewed
			return nil
		})
		if isLater || err != nil {
			written = time.Now()
		}
		return time.Since(written) > time.Second, err
	})
}

// changeLeases changes the Leases of a component's replicas, again where somebody else wrote in between.
func (s *story) changeLeases(component string, change func(*coordinationv1.Lease) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.changeLeasesOnce(component, change) })
}

func (s *story) changeLeasesOnce(component string, change func(*coordinationv1.Lease) error) error {
	ctx := context.Background()
	leases := s.cluster.clients.CoordinationV1().Leases("bunsen-system")
	list, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing leases: %w", err)
	}
	for i := range list.Items {
		l := &list.Items[i]
		if !strings.HasPrefix(l.Name, component) {
			continue
		}
		if err := change(l); err != nil {
			return fmt.Errorf("changing lease %s: %w", l.Name, err)
		}
		if _, err := leases.Update(ctx, l, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing lease %s: %w", l.Name, err)
		}
	}
	return nil
}

// backdateDaemon changes the heartbeat on a MachineConfigNode.
func (s *story) backdateDaemon(node string, then time.Time) error {
	o, err := s.object("machineconfignode/" + node)
	if err != nil {
		return err
	}
	report := v1alpha1.DaemonReport{Version: "dev", Seen: metav1.NewTime(then)}
	patch, err := json.Marshal(
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1alpha1.DaemonAnnotation: report.String()}},
		})
	if err != nil {
		return err
	}
	if _, err := o.client.Patch(context.Background(), node, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("writing the heartbeat of node %s: %w", node, err)
	}
	return nil
}
