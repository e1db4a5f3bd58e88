package histories

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podset is what runs on the machines.
type podset struct {
	apps []app
	pods []*corev1.Pod
	made int
	// refused are pods whose last eviction was refused: that it is again is no news.
	refused map[string]bool
}

// app is a Deployment with a PodDisruptionBudget, as numbers.
type app struct {
	name string
	// spare is how many of its pods may be missing at a time; shut: none, whatever runs.
	spare int
	shut  bool
}

// namespace of all pods.
const namespace = "shop"

func (p *podset) add(app, node string) {
	p.made++
	name := fmt.Sprintf("%s-%d", app, p.made)
	p.pods = append(p.pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID(name),
			Labels: map[string]string{"app": app},
		},
		Spec: corev1.PodSpec{NodeName: node},
	})
}

// on are the pods of a node; "" has those that wait for one.
func (p *podset) on(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range p.pods {
		if pod.Spec.NodeName == node {
			out = append(out, pod)
		}
	}
	return out
}

// evict asks for a pod to go. It tells whether a budget has room for that.
func (p *podset) evict(w *world, uid string) (allowed bool) {
	i := slices.IndexFunc(p.pods, func(pod *corev1.Pod) bool { return string(pod.UID) == uid })
	if i < 0 {
		return true
	}
	pod := p.pods[i]
	if !p.room(pod.Labels["app"]) {
		if !p.refused[uid] {
			p.refused[uid] = true
			w.tell("the eviction of pod %s is refused", pod.Name)
		}
		return false
	}
	delete(p.refused, uid)
	p.end(w, i, "evicted")
	return true
}

// remove deletes a pod past its budget.
func (p *podset) remove(w *world, uid string) {
	if i := slices.IndexFunc(p.pods, func(pod *corev1.Pod) bool { return string(pod.UID) == uid }); i >= 0 {
		p.end(w, i, "deleted")
	}
}

func (p *podset) end(w *world, i int, how string) {
	if p.pods[i].DeletionTimestamp != nil {
		return
	}
	pod := *p.pods[i]
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: w.now}, new(int64)
	p.pods[i] = &pod
	w.tell("pod %s is %s", pod.Name, how)
}

// room tells whether one more pod of an app may go.
func (p *podset) room(name string) bool {
	for _, a := range p.apps {
		if a.name != name {
			continue
		}
		missing := 0
		for _, pod := range p.pods {
			if pod.Labels["app"] == name && (pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil) {
				missing++
			}
		}
		return !a.shut && missing < a.spare
	}
	return true
}

// live lets the kubelet of a machine end pods, and begin one that waits.
func (p *podset) live(w *world, m *machine) {
	for i := 0; i < len(p.pods); i++ {
		pod := p.pods[i]
		if pod.Spec.NodeName == m.name && pod.DeletionTimestamp != nil {
			p.pods = slices.Delete(p.pods, i, i+1)
			w.tell("pod %s ends on %s", pod.Name, m.name)
			p.add(pod.Labels["app"], "")
			i--
		}
	}
	n := w.api.nodes[m.name]
	if n == nil || n.Spec.Unschedulable || m.ill {
		return
	}
	for i, pod := range p.pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		bound := *pod
		bound.Spec.NodeName = m.name
		p.pods[i] = &bound
		w.tell("pod %s begins on %s", pod.Name, m.name)
		return
	}
}

// orphan takes the pods off a node that is gone.
func (p *podset) orphan(node string) {
	for i, pod := range p.pods {
		if pod.Spec.NodeName == node {
			lost := *pod
			lost.Spec.NodeName, lost.DeletionTimestamp = "", nil
			p.pods[i] = &lost
		}
	}
}
