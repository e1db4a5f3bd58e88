package cluster_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

// sight is a Node at one time, as the API server told it.
type sight struct {
	at                      time.Time
	unschedulable           bool
	state, reason           string
	current, desired        string
	wantsDrain, appliedWant string
}

// isDone tells whether the daemon says that the node has the config that it should have.
func (s sight) isDone() bool { return s.state == v1alpha1.StateDone && s.current == s.desired }

// podSight is a pod at one time.
type podSight struct {
	at   time.Time
	name string
	node string
	// there: it exists and has not ended. alive: it is not being deleted either.
	there, alive bool
}

// watcher keeps what the API server told about Nodes and pods of the namespace default.
type watcher struct {
	mu    sync.Mutex
	nodes map[string][]sight
	pods  map[string][]podSight // by UID
	// deleted are pods that began to be deleted without an eviction.
	deleted []string
	changed chan struct{}
}

func watch(t *testing.T, c *cluster.Cluster) *watcher {
	w := &watcher{nodes: map[string][]sight{}, pods: map[string][]podSight{}, changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for kind, see := range map[string]func(string, object){"nodes": w.seeNode, "pods": w.seePod} {
		ended.Go(func() {
			for ctx.Err() == nil {
				cmd := c.Network.Command(ctx, filepath.Join(os.Getenv("BUNSEN_BIN"), "assets", "kubectl"), "--kubeconfig",
					c.Kubeconfig, "get", kind, "--watch", "--output-watch-events", "--output=json")
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Errorf("watching %s: %v", kind, err)
					return
				}
				for d := json.NewDecoder(out); ; {
					var event struct {
						Type   string `json:"type"`
						Object object `json:"object"`
					}
					if err := d.Decode(&event); err != nil {
						break
					}
					see(event.Type, event.Object)
				}
				io.Copy(io.Discard, out) //nolint:errcheck,gosec // it ends
				cmd.Wait()               //nolint:errcheck,gosec // it was told to end
			}
		})
	}
	t.Cleanup(func() { stop(); ended.Wait() })
	return w
}

// object has the fields of Nodes and pods that lives look at.
type object struct {
	Metadata struct {
		Name, UID         string
		Annotations       map[string]string
		DeletionTimestamp *time.Time
	}
	Spec struct {
		Unschedulable bool
		NodeName      string
	}
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason string }
	}
}

func (w *watcher) seeNode(_ string, o object) {
	a := o.Metadata.Annotations
	now := sight{
		at: time.Now(), unschedulable: o.Spec.Unschedulable,
		state: a[v1alpha1.StateAnnotation], reason: a[v1alpha1.ReasonAnnotation],
		current: a[v1alpha1.CurrentConfigAnnotation], desired: a[v1alpha1.DesiredConfigAnnotation],
		wantsDrain: a[v1alpha1.DesiredDrainAnnotation], appliedWant: a[v1alpha1.LastAppliedDrainAnnotation],
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.nodes[o.Metadata.Name]
	if len(all) > 0 {
		last := all[len(all)-1]
		last.at = now.at
		if last == now {
			return
		}
	}
	w.nodes[o.Metadata.Name] = append(all, now)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) seePod(event string, o object) {
	now := podSight{
		at: time.Now(), name: o.Metadata.Name, node: o.Spec.NodeName,
		there: event != "DELETED" && o.Status.Phase != "Succeeded" && o.Status.Phase != "Failed",
	}
	now.alive = now.there && o.Metadata.DeletionTimestamp == nil
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.pods[o.Metadata.UID]
	if !now.alive && len(all) > 0 && all[len(all)-1].alive && o.Status.Phase == "Running" {
		evicted := false
		for _, is := range o.Status.Conditions {
			evicted = evicted || is.Type == "DisruptionTarget" && is.Status == "True"
		}
		if !evicted {
			w.deleted = append(w.deleted, now.name)
		}
	}
	w.pods[o.Metadata.UID] = append(all, now)
}

// node is the newest of a Node.
func (w *watcher) node(name string) (sight, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.nodes[name]
	if len(all) == 0 {
		return sight{}, w.changed
	}
	return all[len(all)-1], w.changed
}

// nodeSince is a Node from a time on, beginning with how it was then.
func (w *watcher) nodeSince(name string, from time.Time) (found []sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.nodes[name] {
		if s.at.Before(from) {
			found = found[:0]
		}
		found = append(found, s)
	}
	return found
}

// podsAt are the pods that were on a node at a time.
func (w *watcher) podsAt(node string, at time.Time) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.pods {
		var last podSight
		for _, s := range all {
			if !s.at.After(at) {
				last = s
			}
		}
		if last.there && last.node == node {
			names = append(names, last.name)
		}
	}
	return names
}

// await waits until a Node is as a function wants it.
func (w *watcher) await(ctx context.Context, name string, is func(sight) bool) (sight, error) {
	for {
		now, changed := w.node(name)
		if is(now) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-changed:
		case <-time.After(500 * time.Millisecond): // is may look at more than the Node
		}
	}
}

// tellSights writes a history of a Node for people.
func tellSights(all []sight) string {
	var b strings.Builder
	for _, s := range all {
		reason := s.reason
		if len(reason) > 300 {
			reason = reason[:300]
		}
		b.WriteString("  " + s.at.Format("15:04:05.000") + " " + s.state + " " + short(s.current) + "→" +
			short(s.desired) + " drain " + short(s.wantsDrain) + "/" + short(s.appliedWant))
		if s.unschedulable {
			b.WriteString(" cordoned")
		}
		b.WriteString(" " + reason + "\n")
	}
	return b.String()
}

// short is the end of a name of a config, or the beginning of a request.
func short(name string) string {
	before, after, found := strings.Cut(name, "-rendered-worker-")
	if !found {
		return strings.TrimPrefix(name, "rendered-worker-")[:min(6, len(strings.TrimPrefix(name, "rendered-worker-")))]
	}
	return before + " " + after[:min(6, len(after))]
}
