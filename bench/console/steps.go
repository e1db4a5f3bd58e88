package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

const (
	// maxPaint is the goal for a page, maxEvent the goal for a change on an open page, and maxUser that for the memory
	// of a further user.
	maxPaint = 300 * time.Millisecond
	maxEvent = 300 * time.Millisecond
	maxUser  = 5e6
	poolPath = "/pool/" + pool
)

// bench measures a cluster.
type bench struct {
	cluster
	child *console
	// first is the first user.
	first   *browser
	readers []*reader
	figures []measure.Figure
}

func newBench(o options, out io.Writer, rc *rest.Config) (*bench, error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	admin, err := client.NewWithWatch(rc, client.Options{Scheme: scheme})
	return &bench{cluster: cluster{options: o, out: out, admin: admin}}, err
}

// add adds a figure, whose size is the number of nodes.
func (b *bench) add(what string, now measure.Amount, beside []measure.Peer, goals ...measure.Bound) {
	b.figures = append(b.figures, measure.Figure{
		What: what, Size: b.nodes, Of: "nodes", Now: now, Peers: beside, Goals: goals,
	})
}

// list measures the floor of a page about all nodes: the API server lists them.
func (b *bench) list(ctx context.Context) ([]measure.Peer, error) {
	var times []time.Duration
	for range b.events {
		begun := time.Now()
		if err := b.admin.List(ctx, &corev1.NodeList{}); err != nil {
			return nil, fmt.Errorf("listing the nodes: %w", err)
		}
		times = append(times, time.Since(begun))
	}
	return []measure.Peer{measure.Took("a list of the nodes", measure.Percentile(times, 50))}, nil
}

// pages measures the first page of a user, which waits for all objects of the cluster, and pages of an open session.
func (b *bench) pages(ctx context.Context) error {
	token, err := b.user(ctx, "first")
	if err != nil {
		return err
	}
	if b.first, err = b.child.signIn(ctx, token); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nPages: time until the last byte\n")
	grid := measure.Grid{Head: []string{
		"<page", "first", "median", "slowest", "CPU of the first", "CPU of others",
		"pages", "KB", "KB on the wire",
	}}
	floor, err := b.list(ctx)
	if err != nil {
		return err
	}
	for _, p := range []struct{ name, path string }{
		{"a pool", poolPath},
		{"the overview", "/"},
		{"a node", "/node/" + nodeName(1)},
		{"a commit", poolPath + "/commit/" + after},
		{"a search", "/search?q=chrony"},
		{"a comparison", "/compare?from=" + before + "&to=" + after},
	} {
		var times []time.Duration
		var page loaded
		var first, firstCPU time.Duration
		start, err := b.child.usage()
		if err != nil {
			return err
		}
		for i := range b.events {
			if page, err = b.first.load(ctx, p.path); err != nil {
				return err
			}
			if i == 0 {
				first = page.took
				now, err := b.child.usage()
				if err != nil {
					return err
				}
				firstCPU = now.CPU - start.CPU
			} else {
				times = append(times, page.took)
			}
		}
		if err := b.copyPage(p.path, page.text); err != nil {
			return err
		}
		end, err := b.child.usage()
		if err != nil {
			return err
		}
		others := (end.CPU - start.CPU - firstCPU) / time.Duration(max(1, len(times)))
		slowest := max(first, measure.Percentile(times, 100))
		grid.Add(p.name, measure.Duration(first), measure.Duration(measure.Percentile(times, 50)),
			measure.Duration(slowest), measure.Duration(firstCPU), measure.Duration(others), fmt.Sprint(b.events),
			fmt.Sprintf("%.0f", float64(len(page.text))/1e3), fmt.Sprintf("%.0f", float64(page.bytes)/1e3))
		b.add(p.name+", page"+": median", measure.Time(measure.Percentile(times, 50)), floor)
		b.add(p.name+", page"+": slowest", measure.Time(slowest), floor, measure.AtMost(measure.Time(maxPaint)))
	}
	return grid.Print(b.out)
}

// copyPage writes a page into the folder of -pages.
func (b *bench) copyPage(path, text string) error {
	if b.keep == "" {
		return nil
	}
	name := strings.NewReplacer("/", "_", "?", "_").Replace(path) + ".html"
	return os.WriteFile(filepath.Join(b.keep, name), []byte(text), 0o600)
}

// latencies are the times from a change until a plain watch, the fastest reader and the slowest reader got it.
type latencies struct{ watch, fastest, slowest []time.Duration }

// follow changes nodes one after another.
func (b *bench) follow(ctx context.Context, readers []*reader) (l latencies, err error) {
	for range b.events {
		node := 3 + 2*(b.changes%(b.nodes/2-2)) // nodes that wait
		text := `id="cell-` + nodeName(node) + `"`
		watched, stop, err := b.watch(ctx, node)
		if err != nil {
			return l, err
		}
		began, err := b.change(ctx, node)
		if err != nil {
			stop()
			return l, err
		}
		limited, cancel := context.WithTimeout(ctx, b.limit)
		low, high := b.limit, time.Duration(0)
		for _, r := range readers {
			at, err := r.until(limited, text)
			if err != nil {
				cancel()
				stop()
				return l, err
			}
			low, high = min(low, at.Sub(began)), max(high, at.Sub(began))
		}
		cancel()
		l.fastest, l.slowest = append(l.fastest, low), append(l.slowest, high)
		if at, ok := <-watched; ok {
			l.watch = append(l.watch, at.Sub(began))
		}
		stop()
		if err := pause(ctx, b.pause); err != nil {
			return l, err
		}
	}
	return l, nil
}

// watch watches a node, and sends the time of its next change.
func (b *bench) watch(ctx context.Context, i int) (<-chan time.Time, func(), error) {
	w, err := b.admin.Watch(ctx, &corev1.NodeList{}, client.MatchingFields{"metadata.name": nodeName(i)})
	if err != nil {
		return nil, nil, fmt.Errorf("watching node %s: %w", nodeName(i), err)
	}
	out := make(chan time.Time, 1)
	go func() {
		defer close(out)
		for e := range w.ResultChan() {
			if e.Type == watch.Modified {
				out <- time.Now()
				return
			}
		}
	}()
	return out, w.Stop, nil
}

// measured prints the events of readers, with what the console used meanwhile.
func (b *bench) measured(ctx context.Context, what string, readers []*reader) error {
	before, err := b.child.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	l, err := b.follow(ctx, readers)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	wall := time.Since(began)
	used, err := b.child.usage()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\n%s: an event reaches the fastest reader after %s (median) and the slowest after %s "+
		"(median), %s (90 %%), %s (maximum).\n",
		what, measure.Duration(measure.Percentile(l.fastest, 50)), measure.Duration(measure.Percentile(l.slowest, 50)),
		measure.Duration(measure.Percentile(l.slowest, 90)), measure.Duration(measure.Percentile(l.slowest, 100)))
	for _, p := range []int{50, 90} {
		var goals []measure.Bound
		if p == 90 {
			goals = append(goals, measure.AtMost(measure.Time(maxEvent)))
		}
		b.add(fmt.Sprintf("%s: an event reaches the slowest, %d %%", what, p),
			measure.Time(measure.Percentile(l.slowest, p)),
			[]measure.Peer{measure.Took("a plain watch", measure.Percentile(l.watch, p))}, goals...)
	}
	b.add(what+": memory", measure.Bytes(used.Held), nil)
	fmt.Fprintf(b.out, "  A plain watch of the API server gets it after %s (median), %s (90 %%).\n",
		measure.Duration(measure.Percentile(l.watch, 50)), measure.Duration(measure.Percentile(l.watch, 90)))
	_, err = fmt.Fprintf(b.out, "  The console: %.0f MB now, %.0f MB at most, %.0f %% of a core with an event "+
		"every %s.\n",
		float64(used.Held)/1e6, float64(used.Peak)/1e6, 100*float64(used.CPU-before.CPU)/float64(wall),
		measure.Duration(wall/time.Duration(b.events)))
	return err
}

// oneReader measures events with one open page.
func (b *bench) oneReader(ctx context.Context) error {
	r, err := b.first.open(ctx, poolPath)
	if err != nil {
		return err
	}
	b.readers = append(b.readers, r)
	return b.measured(ctx, "one open page", b.readers)
}

// manyReaders measures events with many open pages of one user.
func (b *bench) manyReaders(ctx context.Context) error {
	for len(b.readers) < b.options.readers {
		r, err := b.first.open(ctx, poolPath)
		if err != nil {
			return err
		}
		b.readers = append(b.readers, r)
	}
	return b.measured(ctx, fmt.Sprintf("%d open pages of one user", len(b.readers)), b.readers)
}

// grouped is a page whose events are large: a node that changes its state moves to another group.
const grouped = poolPath + "?by=state"

// slowReader measures the same with a page more, which first reads its stream and then does not.
func (b *bench) slowReader(ctx context.Context) error {
	extra, err := b.first.open(ctx, grouped)
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range extra.got { // until it is closed
		}
	}()
	if err := b.measured(ctx, "and a page by state that reads its stream", b.readers); err != nil {
		return err
	}
	extra.stop()
	<-drained
	slow, err := b.first.blockedReader(ctx, grouped)
	if err != nil {
		return err
	}
	defer slow.Close() //nolint:errcheck // the bench does not read this stream
	if err := b.measured(ctx, "and a page by state that does not read its stream", b.readers); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, "  The stream that nobody read: %s.\n", slow.state())
	return err
}

// manyUsers measures users with a session each, who have as many pages together as the first user had alone: their
// first page, and the memory that each one costs.
func (b *bench) manyUsers(ctx context.Context) error {
	for _, r := range b.readers[1:] {
		r.stop()
	}
	one, err := b.child.usage()
	if err != nil {
		return err
	}
	each := max(1, b.options.readers/b.users)
	readers := b.readers[:1]
	for range each - 1 {
		r, err := b.first.open(ctx, poolPath)
		if err != nil {
			return err
		}
		readers = append(readers, r)
	}
	var times []time.Duration
	for i := range b.users - 1 {
		token, err := b.user(ctx, fmt.Sprintf("user-%d", i))
		if err != nil {
			return err
		}
		user, err := b.child.signIn(ctx, token)
		if err != nil {
			return err
		}
		page, err := user.load(ctx, poolPath)
		if err != nil {
			return err
		}
		times = append(times, page.took)
		for range each {
			r, err := user.open(ctx, poolPath)
			if err != nil {
				return err
			}
			readers = append(readers, r)
		}
	}
	what := fmt.Sprintf("%d open pages of %d users", len(readers), b.users)
	if err := b.measured(ctx, what, readers); err != nil {
		return err
	}
	all, err := b.child.usage()
	if err != nil || len(times) == 0 {
		return err
	}
	slowest := measure.Percentile(times, 100)
	b.add("the first page of a user", measure.Time(slowest), nil, measure.AtMost(measure.Time(maxPaint)))
	b.add("memory of each further user", measure.Bytes((int64(all.Held)-int64(one.Held))/int64(len(times))), nil,
		measure.AtMost(measure.Bytes(int64(maxUser))))
	_, err = fmt.Fprintf(b.out, "  The first page of a user: %s (median), %s (slowest).\n",
		measure.Duration(measure.Percentile(times, 50)), measure.Duration(slowest))
	return err
}
