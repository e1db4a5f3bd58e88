package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// forecast is the part of `bunsen diff -o json` that nodes can be held to, as docs/review-json.md describes it.
type forecast struct {
	Pools []forecastPool `json:"pools"`
}

type forecastPool struct {
	Pool       string                           `json:"pool"`
	From       string                           `json:"from"`
	To         string                           `json:"to"`
	Disruption string                           `json:"disruption"`
	Actions    []struct{ Type, Service string } `json:"actions"`
	// Nodes are those with configs of their own that the entry is about.
	Nodes   []string `json:"nodes"`
	Rollout struct {
		Nodes   int `json:"nodes"`
		AtOnce  int `json:"atOnce"`
		Reboots int `json:"reboots"`
		Drains  int `json:"drains"`
	} `json:"rollout"`
}

// deeds is what the API server saw of a node.
type deeds struct {
	boots, drains []string
	from          string
}

// note keeps what a node says of itself. The watcher's lock is held.
func (w *watcher) note(n *corev1.Node) {
	d := w.seen[n.Name]
	if d == nil {
		d = &deeds{
			from:   n.Annotations[v1alpha1.CurrentConfigAnnotation],
			drains: []string{n.Annotations[v1alpha1.DesiredDrainAnnotation]},
		}
		w.seen[n.Name] = d
	}
	if id := n.Status.NodeInfo.BootID; !slices.Contains(d.boots, id) {
		d.boots = append(d.boots, id)
	}
	if drain := n.Annotations[v1alpha1.DesiredDrainAnnotation]; !slices.Contains(d.drains, drain) {
		d.drains = append(d.drains, drain)
	}
}

// rebooted and drained tell what happened since the record began.
func (d deeds) rebooted() bool { return len(d.boots) > 1 }

func (d deeds) drained() bool {
	return slices.ContainsFunc(d.drains[1:], func(s string) bool {
		return strings.HasPrefix(s, v1alpha1.DrainVerb+"-")
	})
}

// logEnds is how long each host's log is now.
func (s *story) logEnds() map[string]int64 {
	ends := map[string]int64{}
	for name, p := range s.running {
		if info, err := os.Stat(p.log); err == nil {
			ends[name] = info.Size()
		}
	}
	return ends
}

var simulated = regexp.MustCompile(`msg="simulated: (reboot|daemon-reload|(?:reload|restart) [^" ]+)`)

// acts are the reloads, restarts and reboots of a simulated host since the record began, in order.
func (s *story) acts(node string) ([]string, error) {
	log, err := os.Open(s.running[node].log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(s.watch.logs[node], io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	acts := []string{}
	for _, m := range simulated.FindAllStringSubmatch(string(text), -1) {
		acts = append(acts, m[1])
	}
	return acts, nil
}

// foretold FILE holds what every node did against what the forecast says of its pool.
func (s *story) foretold(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 || s.watch == nil {
		return usage("foretold FILE, after watchnodes")
	}
	var f forecast
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &f); err != nil {
		return fmt.Errorf("reading %s: %w", args[0], err)
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	var errs []error
	reached := 0
	var own []string
	for _, pool := range f.Pools {
		own = append(own, pool.Nodes...)
	}
	for _, pool := range f.Pools {
		n, err := s.holdTo(pool, own)
		reached += n
		errs = append(errs, err)
	}
	if reached != len(s.watch.nodes) {
		errs = append(errs, fmt.Errorf("the forecast is about %d nodes, there are %d", reached, len(s.watch.nodes)))
	}
	return errors.Join(append(errs, s.watch.err)...)
}

// outcome is what a pool's nodes did, in the words of the forecast.
type outcome struct {
	Nodes, Reboots, Drains int
	// Acts of each node.
	Acts map[string][]string
	// Configs from and to, of each node.
	Configs map[string][2]string
}

// holdTo compares one entry, and returns how many nodes it has: those that it names, or else those of its pool that no
// entry names.
func (s *story) holdTo(pool forecastPool, own []string) (int, error) {
	want := outcome{
		pool.Rollout.Nodes, pool.Rollout.Reboots, pool.Rollout.Drains,
		map[string][]string{},
		map[string][2]string{},
	}
	got := outcome{Acts: map[string][]string{}, Configs: map[string][2]string{}}
	for name, is := range s.watch.nodes {
		if len(pool.Nodes) == 0 && (is.pool != pool.Pool || slices.Contains(own, name)) ||
			len(pool.Nodes) > 0 && !slices.Contains(pool.Nodes, name) {
			continue
		}
		acts, err := s.acts(name)
		if err != nil {
			return 0, err
		}
		seen := *s.watch.seen[name]
		got.Nodes++
		if seen.rebooted() {
			got.Reboots++
		}
		if seen.drained() {
			got.Drains++
		}
		got.Acts[name], want.Acts[name] = acts, pool.acts()
		got.Configs[name], want.Configs[name] = [2]string{seen.from, is.current}, [2]string{pool.From, pool.To}
	}
	var errs []error
	if diff := cmp.Diff(want, got); diff != "" {
		errs = append(errs, fmt.Errorf("pool %s was forecast to have disruption %s; said (-) and done (+):\n%s",
			pool.Pool, pool.Disruption, diff))
	}
	name, _, _ := strings.Cut(pool.Pool, " (")
	if peak := s.watch.peak[name]; peak > pool.Rollout.AtOnce {
		errs = append(errs, fmt.Errorf("pool %s: %d nodes were out at once, the forecast says %d", pool.Pool, peak,
			pool.Rollout.AtOnce))
	}
	return got.Nodes, errors.Join(errs...)
}

// acts are what one node of the pool does by the forecast, in order. A reboot is all that happens, where there is one.
func (p forecastPool) acts() []string {
	acts := []string{}
	for _, a := range p.Actions {
		switch a.Type {
		case "Reboot":
			return []string{"reboot"}
		case "Reload", "Restart":
			acts = append(acts, strings.ToLower(a.Type)+" "+a.Service)
		case "DaemonReload":
			acts = append(acts, "daemon-reload")
		}
	}
	return acts
}
