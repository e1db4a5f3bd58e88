package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// PartState is the progress of one part of an installation.
type PartState struct {
	Part string `json:"part"`
	// Ready is the number of ready pods of the current version, out of Wanted.
	Ready   int32 `json:"ready"`
	Wanted  int32 `json:"wanted"`
	Missing bool  `json:"missing,omitempty"`
	// Outside says how a part without pods runs: as which processes or services. It is empty if none reports.
	Outside string `json:"outside,omitempty"`
	// Problems are why containers do not start, or why pods have no node, each once.
	Problems []string `json:"problems,omitempty"`
}

// Done reports whether all pods of the current version are ready.
func (s PartState) Done() bool { return !s.Missing && s.Ready >= s.Wanted }

// String returns the progress of the part as a short text.
func (s PartState) String() string {
	if s.Missing {
		return s.Part + " is not installed"
	}
	return fmt.Sprintf("%s %d of %d", s.Part, s.Ready, s.Wanted)
}

// Observed are the objects of the parts as they were read.
type Observed struct {
	Deployments []appsv1.Deployment
	DaemonSets  []appsv1.DaemonSet
	Pods        []corev1.Pod
}

// States returns the state of each part, and of the console if the cluster has one. A part whose status is older than
// its object's generation is not ready.
func States(o Observed) []PartState {
	var all []PartState
	parts := Parts
	if slices.ContainsFunc(o.Deployments, func(d appsv1.Deployment) bool { return d.Name == Console }) {
		parts = append(slices.Clone(Parts), Console)
	}
	for _, part := range parts {
		s := PartState{Part: part, Missing: true}
		for _, d := range o.Deployments {
			if d.Name != part {
				continue
			}
			s.Missing, s.Wanted = false, 1
			if d.Spec.Replicas != nil {
				s.Wanted = *d.Spec.Replicas
			}
			if d.Status.ObservedGeneration >= d.Generation {
				// Available pods may be pods of the old version. Even if all old pods are available, at least this many
				// available pods have the current version.
				s.Ready = max(0, d.Status.AvailableReplicas-(d.Status.Replicas-d.Status.UpdatedReplicas))
			}
		}
		for _, d := range o.DaemonSets {
			if d.Name != part {
				continue
			}
			s.Missing, s.Wanted = false, d.Status.DesiredNumberScheduled
			if d.Status.ObservedGeneration < d.Generation {
				s.Wanted = max(s.Wanted, 1) // The controller of the DaemonSet has not counted the nodes yet.
				break
			}
			s.Ready = min(d.Status.UpdatedNumberScheduled, d.Status.NumberAvailable)
		}
		if !s.Missing {
			s.Problems = problemsOf(part, o.Pods)
		}
		all = append(all, s)
	}
	return all
}

// problemsOf returns why pods of a part do not run, each reason once.
func problemsOf(part string, pods []corev1.Pod) []string {
	found := map[string]bool{}
	for _, p := range pods {
		if p.Labels["app.kubernetes.io/name"] != part {
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
				found["no node for a pod: "+c.Message] = true
			}
		}
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				found[w.Reason+": "+cmp.Or(lastExit(c), w.Message)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// lastExit returns how a container ended, with the last line of its log, which says more than the kubelet's own
// message; "" if it never ended.
func lastExit(c corev1.ContainerStatus) string {
	t := c.LastTerminationState.Terminated
	if t == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(t.Message), "\n")
	return fmt.Sprintf("exit code %d: %s", t.ExitCode, lines[len(lines)-1])
}

// Settled reports whether all parts that should run are done.
func Settled(all []PartState, without []string) bool {
	return !slices.ContainsFunc(all, func(s PartState) bool { return !s.Done() && !slices.Contains(without, s.Part) })
}
