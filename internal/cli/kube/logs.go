package kube

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxDaemons is for how many pods of the daemon a bundle has logs.
	maxDaemons = 50
	// logTimeout is how long reading one log may take.
	logTimeout = 5 * time.Minute
	// logLines is how many lines of a log are read.
	logLines = 20000
	// maxLog is how many bytes of a log are read. maskedLog is how many of its last bytes are masked: twice as many as
	// the bundle has, so that the part in the bundle does not begin inside of a secret of several lines.
	maxLog    = 64 << 20
	maskedLog = 2 * MaxBundleFile
)

// logs adds the logs of Bunsen's pods: of all controllers and servers, and of some daemons, those with a problem first.
func (c collector) logs(ctx context.Context) {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.namespace)); err != nil {
		c.LeaveOut("logs", err.Error())
		return
	}
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int {
		if d := priority(&a) - priority(&b); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	daemons := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if isDaemon(p) {
			if daemons++; daemons > maxDaemons {
				c.LeaveOut("logs/"+p.Name, fmt.Sprintf("the bundle has the logs of %d daemons: first of those that "+
					"are not ready", maxDaemons))
				continue
			}
		}
		for _, s := range p.Status.ContainerStatuses {
			c.log(ctx, p, s.Name, false)
			if s.RestartCount > 0 {
				c.log(ctx, p, s.Name, true)
			}
		}
	}
}

// log adds the log of a container, or of the container that ran before its last restart.
func (c collector) log(ctx context.Context, p *corev1.Pod, container string, previous bool) {
	name := fmt.Sprintf("logs/%s/%s.log", p.Name, container)
	if previous {
		name = fmt.Sprintf("logs/%s/%s.previous.log", p.Name, container)
	}
	stream, err := c.api.Get().AbsPath("/api/v1/namespaces", p.Namespace, "pods", p.Name, "log").Param("container",
		container).
		Param("previous", strconv.FormatBool(previous)).Param("tailLines", strconv.Itoa(logLines)).Param("timestamps",
		"true").Stream(ctx)
	if previous && apierrors.IsBadRequest(err) {
		return // The kubelet has deleted this log.
	}
	if err != nil {
		c.LeaveOut(name, err.Error())
		return
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, maxLog))
	if err != nil {
		c.LeaveOut(name, "only the part before an error is here: "+err.Error())
	}
	if len(text) == maxLog {
		c.LeaveOut(name, fmt.Sprintf("it is longer than %d bytes; the end is missing", maxLog))
	}
	c.text(name, string(text[max(0, len(text)-maskedLog):]))
}

// priority orders pods: controllers and servers, then daemons that are not ready, then the other daemons.
func priority(p *corev1.Pod) int {
	if !isDaemon(p) {
		return 0
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if !ready || slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.RestartCount > 0
	}) {
		return 1
	}
	return 2
}

func isDaemon(p *corev1.Pod) bool {
	return p.Labels["app.kubernetes.io/name"] == "machine-config-daemon"
}
