package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// longReason is as much of a reason as a line bears.
const longReason = 200

// watcher sees every change of the machine's Node.
type watcher struct {
	nodes typedcorev1.NodeInterface
	name  string

	mu      sync.Mutex
	last    *corev1.Node
	sights  []sight
	changed chan struct{}
}

// sight is what a Node said at a time.
type sight struct {
	at   time.Time
	text string
}

// watchNode watches until the test ends.
func watchNode(t *testing.T, kubeconfig, name string) *watcher {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{nodes: core.Nodes(), name: name, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.watch(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// watch sees changes until the API server ends it.
func (w *watcher) watch(ctx context.Context) {
	events, err := w.nodes.Watch(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()})
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if node, ok := event.Object.(*corev1.Node); ok {
			w.see(node)
		}
	}
}

func (w *watcher) see(node *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = node
	text := said(node)
	if len(w.sights) == 0 || w.sights[len(w.sights)-1].text != text {
		w.sights = append(w.sights, sight{time.Now(), text})
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// said is what matters of a Node, in one line.
func said(n *corev1.Node) string {
	a := n.Annotations
	words := []string{
		"state=" + a[v1alpha1.StateAnnotation], "current=" + short(a[v1alpha1.CurrentConfigAnnotation]),
		"desired=" + short(a[v1alpha1.DesiredConfigAnnotation]),
		"ready=" + ready(n), "boot=" + short(n.Status.NodeInfo.BootID),
	}
	if n.Spec.Unschedulable {
		words = append(words, "cordoned")
	}
	if reason := a[v1alpha1.ReasonAnnotation]; reason != "" {
		if runes := []rune(reason); len(runes) > longReason { // a look at the Node shows it whole
			reason = string(runes[:longReason]) + "…"
		}
		words = append(words, fmt.Sprintf("reason=%q", reason))
	}
	return strings.Join(words, " ")
}

// short is enough of a name or an id to know it again.
func short(name string) string {
	if pool, hash, ok := strings.Cut(strings.TrimPrefix(name, "rendered-"), "-"); ok && strings.HasPrefix(name,
		"rendered-") {
		return pool + "-" + hash[:min(8, len(hash))]
	}
	return name[:min(8, len(name))]
}

func ready(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return "unknown"
}

// await waits until the Node is as wanted; ask returns what is not.
func (w *watcher) await(ctx context.Context, limit time.Duration, ask func(*corev1.Node) error) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		w.mu.Lock()
		node, changed := w.last, w.changed
		w.mu.Unlock()
		err := errors.New("there is no Node yet")
		if node != nil {
			if err = ask(node); err == nil {
				return node, nil
			}
		}
		select {
		case <-ctx.Done():
			return node, fmt.Errorf("after %s: %w", limit, err)
		case <-changed:
		}
	}
}

// since is what the Node said from a time on, with the time passed.
func (w *watcher) since(begin time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, s := range w.sights {
		if !s.at.Before(begin) {
			lines = append(lines, fmt.Sprintf("%6.1fs  %s", s.at.Sub(begin).Seconds(), s.text))
		}
	}
	return strings.Join(lines, "\n")
}

// is asks for a state with a config that is both current and desired; "" is any.
func is(state, config string) func(*corev1.Node) error {
	return func(n *corev1.Node) error {
		a := n.Annotations
		if a[v1alpha1.StateAnnotation] != state || config != "" && (a[v1alpha1.CurrentConfigAnnotation] != config ||
			a[v1alpha1.DesiredConfigAnnotation] != config) ||
			a[v1alpha1.CurrentConfigAnnotation] == "" || n.Spec.Unschedulable && state == v1alpha1.StateDone ||
			ready(n) != "True" {
			return fmt.Errorf("wanted %s in %s, the Node says %s", state, config, said(n))
		}
		return nil
	}
}
