package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const (
	// the label of the daemon's pods, and the name of their container
	daemonLabel, daemonName = "app.kubernetes.io/name", "machine-config-daemon"
	daemonPath              = "/usr/local/bin/machine-config-daemon"
	// the size of the largest file of a config, as JSON, with some reserve
	longestAnswer = 64 << 20
)

// runOnNode runs a command of the daemon in its pod on a node, and returns what it prints. If that is not possible,
// manual says who can run it where, with the command line.
func (t *Target) runOnNode(ctx context.Context, c client.Client, node string,
	command ...string,
) (out []byte, manual string, err error) {
	pod, root, err := daemonPod(ctx, c, node)
	if err != nil {
		return nil, fmt.Sprintf("on %s, as root:\n  machine-config-daemon %s", node, fleet.ShellLine(command...)), err
	}
	argv := append([]string{daemonPath}, command...)
	manual = fmt.Sprintf("as a user with the right to create pods/exec in the namespace %s:\n"+
		"  kubectl exec -n %[1]s %s -c %s -- %s --root=%s", pod.Namespace, pod.Name, daemonName,
		fleet.ShellLine(argv...), fleet.ShellWord(root))
	out, err = t.runInPod(ctx, pod, append(argv, "--root="+root))
	return out, manual, err
}

// runInPod runs a command in the daemon's container of a pod, and returns what it prints.
func (t *Target) runInPod(ctx context.Context, pod *corev1.Pod, argv []string) ([]byte, error) {
	rc, err := t.Config()
	if err != nil {
		return nil, err
	}
	core, err := typedcorev1.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", rc.Host, err)
	}
	at := core.RESTClient().Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: daemonName, Command: argv, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(rc, "GET", at.String())
	if err != nil {
		return nil, fmt.Errorf("running a command in %s: %w", pod.Name, err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(rc, "POST", at)
	if err != nil {
		return nil, fmt.Errorf("running a command in %s: %w", pod.Name, err)
	}
	run, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("running a command in %s: %w", pod.Name, err)
	}
	stdout, stderr := boundedBuffer{limit: longestAnswer}, boundedBuffer{limit: 64 << 10}
	if err := run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			err = errors.New(safetext.Lines(said))
		}
		return nil, fmt.Errorf("running a command in pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return stdout.Bytes(), nil
}

// boundedBuffer has a limit, because an attacker may control a node.
type boundedBuffer struct {
	bytes.Buffer
	limit int
}

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("the node answers with more than %d bytes", b.limit)
	}
	return b.Buffer.Write(p)
}

// daemonPod finds the daemon's pod on a node, and the path at which its container mounts the node's root. Any user may
// set a label in any namespace. Only users with all rights of the daemon can mount the node's whole root.
func daemonPod(ctx context.Context, c client.Client, node string) (pod *corev1.Pod, root string, err error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingLabels{daemonLabel: daemonName}); err != nil {
		return nil, "", fmt.Errorf("looking for the daemon's pod: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if root := rootIn(p); p.Spec.NodeName == node && p.Status.Phase == corev1.PodRunning &&
			p.DeletionTimestamp == nil && root != "" {
			return p, root, nil
		}
	}
	return nil, "", fmt.Errorf("no pod of the daemon runs on %s", node)
}

// rootIn returns the path at which the daemon's container in a pod mounts the node's root; "" if it does not.
func rootIn(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			isRoot := func(v corev1.Volume) bool {
				return v.Name == m.Name && v.HostPath != nil && v.HostPath.Path == "/"
			}
			if c.Name == daemonName && m.SubPath == "" && m.SubPathExpr == "" && slices.ContainsFunc(pod.Spec.Volumes,
				isRoot) {
				return m.MountPath
			}
		}
	}
	return ""
}
