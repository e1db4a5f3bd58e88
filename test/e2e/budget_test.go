package e2e

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// watcher records every change of every node, as the API server tells it.
type watcher struct {
	cancel func()
	ended  chan struct{}

	mu    sync.Mutex
	nodes map[string]sight
	// peak is the most nodes of a pool that were out at once, by pool.
	peak map[string]int
	// assigned are the configs that nodes were assigned, each with the names of the nodes.
	assigned map[string]map[string]bool
	// seen is what each node was seen to do.
	seen map[string]*deeds
	// logs says where the logs of the hosts ended when the record began.
	logs map[string]int64
	// versions are the resource versions of the nodes that the record has.
	versions map[string]uint64
	// book is what happened, in words.
	book []string
	err  error
}

// sight is what a node looked like.
type sight struct {
	pool, current, desired, state string
	ready, cordoned               bool
}

// out tells whether the node is taken out of service or on its way to another config.
func (n sight) out() bool {
	return !n.ready || n.cordoned || n.desired != n.current || n.state == v1alpha1.StateWorking
}

func (n sight) String() string {
	words := []string{n.state, n.current}
	if n.desired != n.current {
		words = append(words, "→ "+n.desired)
	}
	if n.cordoned {
		words = append(words, "cordoned")
	}
	if !n.ready {
		words = append(words, "not ready")
	}
	return strings.Join(words, " ")
}

func sightOf(n *corev1.Node) sight {
	a := n.Annotations
	out := sight{
		current: a[v1alpha1.CurrentConfigAnnotation], desired: a[v1alpha1.DesiredConfigAnnotation],
		state: a[v1alpha1.StateAnnotation], cordoned: n.Spec.Unschedulable, ready: true,
	}
	// rendered-<pool>-<hash>
	name := strings.TrimPrefix(out.desired, "rendered-")
	if i := strings.LastIndex(name, "-"); i > 0 {
		out.pool = name[:i]
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// watchnodes begins a new record.
func (s *story) watchnodes(_ *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("watchnodes")
	}
	s.watch.stop()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{
		cancel: cancel, ended: make(chan struct{}), nodes: map[string]sight{}, peak: map[string]int{},
		seen: map[string]*deeds{}, assigned: map[string]map[string]bool{}, logs: s.logEnds(),
		versions: map[string]uint64{},
	}
	s.watch = w
	nodes := s.cluster.clients.CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		w.see(&list.Items[i])
	}
	stream, err := nodes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	go func() {
		defer close(w.ended)
		for event := range stream.ResultChan() {
			if n, ok := event.Object.(*corev1.Node); ok {
				w.see(n)
			}
		}
		if ctx.Err() == nil { // a gap in the record would be a gap in the proof
			w.mu.Lock()
			w.err = fmt.Errorf("the watch of the nodes ended")
			w.mu.Unlock()
		}
	}()
	return nil
}

func (w *watcher) see(n *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := sightOf(n)
	if w.nodes[n.Name] != now {
		w.book = append(w.book, fmt.Sprintf("%s %s: %s", time.Now().Format("05.000"), n.Name, now))
	}
	w.nodes[n.Name] = now
	w.versions[n.Name] = version(n)
	if now.desired != "" {
		if w.assigned[now.desired] == nil {
			w.assigned[now.desired] = map[string]bool{}
		}
		w.assigned[now.desired][n.Name] = true
	}
	w.note(n)
	out := map[string]int{}
	for _, s := range w.nodes {
		if s.out() {
			out[s.pool]++
		}
	}
	for pool, count := range out {
		w.peak[pool] = max(w.peak[pool], count)
	}
}

// version is the resource version of a node, which the API server counts upwards.
func version(n *corev1.Node) uint64 {
	v, err := strconv.ParseUint(n.ResourceVersion, 10, 64)
	if err != nil {
		panic("the API server has no number as resource version: " + n.ResourceVersion)
	}
	return v
}

// catchUp waits until the record has everything that the nodes have done by now: the watch may be behind.
func (s *story) catchUp() error {
	list, err := s.cluster.clients.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	w := s.watch
	return poll(patience, func() (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range list.Items {
			if n := &list.Items[i]; w.err == nil && w.versions[n.Name] < version(n) {
				return false, fmt.Errorf("the record of node %s is behind", n.Name)
			}
		}
		return true, nil // or the watch has ended, which whoever reads the record reports
	})
}

func (w *watcher) stop() {
	if w != nil {
		w.cancel()
		<-w.ended
	}
}

// budget POOL N compares the record with the budget, and prints the record.
func (s *story) budget(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 || s.watch == nil {
		return usage("budget POOL N, after watchnodes")
	}
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	book := append([]string(nil), w.book...)
	sort.Strings(book)
	fmt.Fprintln(ts.Stdout(), strings.Join(book, "\n"))
	if w.err != nil {
		return w.err
	}
	if got := w.peak[args[0]]; got != want {
		return fmt.Errorf("at most %d nodes of pool %s were out at one time, %d should have been; the record:\n%s", got,
			args[0], want, strings.Join(book, "\n"))
	}
	return nil
}
