package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// printed is what a command printed, and its exit code.
type printed struct {
	out, errs string
	code      int
}

// answer is what `bunsen why` says of one thing.
type answer struct {
	text printed
	// The parts of its JSON that facts are about.
	Outcome string `json:"outcome"`
	Cause   string `json:"cause"`
	Reason  string `json:"reason"`
	Target  struct {
		Name     string `json:"name"`
		Revision string `json:"revision"`
	} `json:"target"`
	Also []struct {
		Outcome string `json:"outcome"`
		Cause   string `json:"cause"`
	} `json:"also"`
}

// sourceNumbers is a GitSource in the JSON of `bunsen status`.
type sourceNumbers struct{ Name, Outcome string }

// nodeNumbers is a node in the JSON of `bunsen status`.
type nodeNumbers struct{ Name, Cause string }

// poolNumbers is a pool in the JSON of `bunsen status`.
type poolNumbers struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	Revision string `json:"revision"`
	Nodes    int    `json:"nodes"`
	Updated  int    `json:"updated"`
	Degraded int    `json:"degraded"`
	Unknown  int    `json:"unknown"`
	State    string `json:"state"`
	Outcome  string `json:"outcome"`
}

// snapshot is everything that people and programs can read of a cluster at one time.
type snapshot struct {
	status printed
	// outcome, pools and looked are from the JSON of `bunsen status`.
	outcome string
	pools   []poolNumbers
	looked  []sourceNumbers
	rows    []nodeNumbers
	// order is the order in which things are asked about; answers has them.
	order   []string
	answers map[string]answer
	table   string
	mcps    []unstructured.Unstructured
	sources []unstructured.Unstructured
	nodes   []corev1.Node
	// metrics by series; nil where no controller answers.
	metrics map[string]string
	// verdicts are the series of bunsen_outcome, and summary is the outcome of the BunsenStatus.
	verdicts map[string]string
	summary  string
	events   []event
}

// event is an event about an object of ours.
type event struct {
	key, line string
	count     int32
}

// run executes a command with the script's environment, in a directory below $WORK.
func (s *story) run(ts *testscript.TestScript, dir, name string, args ...string) (printed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = ts.MkAbs(dir)
	for _, key := range []string{
		"PATH", "HOME", "KUBECONFIG", "KUBECACHEDIR", "KUBE_EDITOR", "NO_COLOR", "GIT_EDITOR", "GIT_CONFIG_NOSYSTEM",
		"GIT_TERMINAL_PROMPT",
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	} {
		if v := ts.Getenv(key); v != "" {
			cmd.Env = append(cmd.Env, key+"="+v)
		}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return printed{}, fmt.Errorf("running %s: %w", name, err)
	}
	return printed{out.String(), errs.String(), cmd.ProcessState.ExitCode()}, nil
}

// observe takes a snapshot. It asks about every node and pool that the facts name, once what the API server and the
// metrics say is as wanted: a question to a program costs much more.
func (s *story) observe(ts *testscript.TestScript, wants []want) (snapshot, error) {
	snap := snapshot{answers: map[string]answer{}}
	for _, w := range wants {
		if (strings.HasPrefix(w.about, "node/") || strings.HasPrefix(w.about, "pool/")) && !slices.Contains(snap.order,
			w.about) {
			snap.order = append(snap.order, w.about)
		}
	}
	if err := s.observeCluster(&snap); err != nil {
		return snap, err
	}
	if wrong := snap.missing(slices.DeleteFunc(slices.Clone(wants), want.isOfPrograms)); len(wrong) > 0 {
		return snap, errors.New(strings.Join(wrong, "\n  "))
	}
	bunsen := filepath.Join(s.bin, "bunsen")
	raw, err := s.run(ts, "", bunsen, "status", "-o", "json")
	if err != nil {
		return snap, err
	}
	if raw.out != "" {
		parsed := struct {
			Outcome *string
			Pools   *[]poolNumbers
			Sources *[]sourceNumbers
			Nodes   *[]nodeNumbers
		}{&snap.outcome, &snap.pools, &snap.looked, &snap.rows}
		if err := json.Unmarshal([]byte(raw.out), &parsed); err != nil {
			return snap, fmt.Errorf("reading the JSON of bunsen status: %w", err)
		}
	}
	for _, about := range snap.order {
		raw, err := s.run(ts, "", bunsen, "why", about, "-o", "json")
		if err != nil {
			return snap, err
		}
		var a answer
		if raw.out != "" {
			if err := json.Unmarshal([]byte(raw.out), &a); err != nil {
				return snap, fmt.Errorf("reading the JSON of bunsen why %s: %w", about, err)
			}
		}
		if a.text, err = s.run(ts, "", bunsen, "why", about); err != nil {
			return snap, err
		}
		snap.answers[about] = a
	}
	if snap.status, err = s.run(ts, "", bunsen, "status"); err != nil {
		return snap, err
	}
	mcp, err := s.run(ts, "", "kubectl", "get", "mcp")
	if err != nil {
		return snap, err
	}
	snap.table = mcp.out
	return snap, nil
}

// observeCluster reads the objects, the events and the metrics.
func (s *story) observeCluster(snap *snapshot) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for kind, to := range map[string]*[]unstructured.Unstructured{"mcp": &snap.mcps, "gitsource": &snap.sources} {
		list, err := s.cluster.dynamic.Resource(kinds[kind].GroupVersionResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing every %s: %w", kind, err)
		}
		*to = list.Items
	}
	nodes, err := s.cluster.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	snap.nodes = nodes.Items
	events, err := s.cluster.clients.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	for _, e := range events.Items {
		count := int32(1)
		if e.Series != nil {
			count = e.Series.Count
		}
		other := e.Regarding.Kind == "MachineConfigPool" && !slices.Contains(snap.order, "pool/"+e.Regarding.Name)
		ours := e.ReportingController == "machineconfigdaemon" || strings.HasPrefix(e.ReportingController,
			"machine-config-")
		if count <= s.truth.events[string(e.UID)] || other || !ours || e.Regarding.Kind == "Lease" {
			continue
		}
		snap.events = append(snap.events, event{string(e.UID), fmt.Sprintf("%s %s %s/%s: %s", e.Type, e.Reason,
			e.Regarding.Kind, e.Regarding.Name, e.Note), count})
	}
	snap.metrics = s.scrape(ctx)
	snap.verdicts = map[string]string{}
	for series, value := range snap.metrics {
		if strings.HasPrefix(series, "bunsen_outcome{") {
			snap.verdicts[series] = value
			delete(snap.metrics, series)
		}
	}
	status, err := s.cluster.dynamic.Resource(kinds["bunsenstatus"].GroupVersionResource).Get(ctx, "cluster",
		metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the BunsenStatus: %w", err)
	}
	if err == nil {
		snap.summary, _, _ = unstructured.NestedString(status.Object, "status", "outcome")
	}
	return nil
}

// remember leaves out events from now on.
func (t *truth) remember(events []event) {
	for _, e := range events {
		t.events[e.key] = e.count
	}
}

// statusMetrics are the metrics that say how the cluster is.
var statusMetrics = regexp.MustCompile(
	`^(mco_\w+_count|mcc_pool_alert|mcc_drain_err|bunsen_pool_\w+|bunsen_window_open|bunsen_rollout_verdict|bunsen_rollout_failures|bunsen_node_\w+|bunsen_suspended|bunsen_outcome|bunsen_source_(ready|stalled|behind)|bunsen_daemon\w*)\{`)

// scrape reads the controller's metrics; nil where it does not answer.
func (s *story) scrape(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.truth.metrics+"/metrics", nil)
	if err != nil {
		return nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if i := strings.LastIndex(lines.Text(), " "); i > 0 && statusMetrics.MatchString(lines.Text()) {
			out[lines.Text()[:i]] = lines.Text()[i+1:]
		}
	}
	return out
}

// text is all of a snapshot. Lists that have no order of their own are sorted after words has changed their lines.
func (snap snapshot) text(words func(string) string) string {
	var b strings.Builder
	show := func(title string, p printed) {
		fmt.Fprintf(&b, "\n## %s: exit code %d\n%s%s", title, p.code, words(p.out), words(p.errs))
	}
	list := func(title string, lines []string) {
		for i := range lines {
			lines[i] = words(lines[i])
		}
		lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
		sort.Strings(lines)
		fmt.Fprintf(&b, "\n## %s\n%s\n", title, strings.Join(slices.Compact(lines), "\n"))
	}
	show("bunsen status", snap.status)
	for _, about := range snap.order {
		show("bunsen why "+about, snap.answers[about].text)
	}
	fmt.Fprintf(&b, "\n## kubectl get mcp\n%s", words(snap.table))
	for i := range snap.mcps {
		if u := &snap.mcps[i]; snap.shows(u) {
			list("conditions of mcp/"+u.GetName(), conditions(u))
		}
	}
	for i := range snap.sources {
		list("conditions of gitsource/"+snap.sources[i].GetName(), conditions(&snap.sources[i]))
	}
	var lines []string
	for _, e := range snap.events {
		lines = append(lines, e.line)
	}
	list("events", lines)
	lines = nil
	for series, value := range snap.metrics {
		if strings.HasPrefix(series, "bunsen_daemon_silent_seconds") {
			value = "<age>"
		}
		if value != "0" {
			lines = append(lines, series+" "+value)
		}
	}
	list("metrics of the controller", lines)
	return strings.TrimSpace(b.String()) + "\n"
}

// shows leaves out pools without nodes that nobody asked about.
func (snap snapshot) shows(u *unstructured.Unstructured) bool {
	machines, _, _ := unstructured.NestedInt64(u.Object, "status", "machineCount")
	return machines > 0 || slices.Contains(snap.order, "pool/"+u.GetName())
}

// conditions are the conditions of an object, a line each.
func conditions(u *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var lines []string
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%v=%v %v: %v", m["type"], m["status"], m["reason"],
				m["message"])))
		}
	}
	return lines
}
