package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Check is one run of the verb check.
type Check struct {
	kube.Target
	Out     cli.Output
	Version string
}

type report struct {
	Problems []Problem   `json:"problems"`
	Parts    []PartState `json:"parts"`
	// Versions counts the running programs by version, as the controller last reported them.
	Versions []v1alpha1.ComponentVersion `json:"versions,omitempty"`
}

// Run reads the cluster and prints the problems of the installation.
func (k *Check) Run(cmd *cobra.Command) error {
	if err := k.Out.Check(); err != nil {
		return err
	}
	c, err := connect(&k.Target)
	if err != nil {
		return err
	}
	found, err := check(cmd.Context(), c, k.Version)
	if err != nil {
		return err
	}
	if err := k.Out.Print(cmd.OutOrStdout(), cli.ForTerminal(safetext.Lines(found.text())), found); err != nil {
		return err
	}
	if !found.good() {
		return &cli.ExitError{Code: cli.ExitDegraded}
	}
	return nil
}

func check(ctx context.Context, c cluster, version string) (report, error) {
	ready, err := c.readiness(ctx)
	if err != nil {
		return report{}, err
	}
	var out report
	observed, err := c.observe(ctx)
	if err != nil {
		return report{}, err
	}
	out.Parts = States(observed)
	var installed Options
	for _, s := range out.Parts {
		switch {
		case s.Missing:
			installed.Without = append(installed.Without, s.Part)
		case s.Part == Console:
			installed.Console = []string{s.Part}
		}
	}
	status, err := c.status(ctx)
	if err != nil {
		return report{}, err
	}
	out.Versions = status.Versions
	out.Problems = append(ready.Check(installed), CheckVersions(version, status)...)
	now := time.Now()
	read, err := c.reports(ctx)
	if err != nil {
		return report{}, err
	}
	for i := range out.Parts {
		if s := &out.Parts[i]; s.Missing {
			s.Outside = outside(s.Part, read, now)
		}
	}
	out.Problems = append(out.Problems, reportProblems(read, out.Parts, now)...)
	return out, nil
}

// reportProblems returns the problems that the reports of the controllers, the notifier and the daemons show.
func reportProblems(read fleet.Cluster, parts []PartState, now time.Time) []Problem {
	out := podForm(parts)
	f := fleet.New(read, now)
	controllers := f.ReadControllers()
	if text := controllers.WarningText(fleet.Ago(now)); text != "" {
		out = append(out, Problem{Fatal: true, What: text, Fix: strings.Join(controllers.Do, "; ")})
	}
	if n := f.ReadNotifier(); n != nil {
		out = append(out, Problem{What: n.Problem, Fix: strings.Join(n.Do, "; ")})
	}
	silent := map[string]time.Time{}
	for node, r := range read.Daemons {
		if now.Sub(r.Seen.Time) > v1alpha1.DaemonSilentAfter {
			silent[node] = r.Seen.Time
		}
	}
	names := slices.Sorted(maps.Keys(silent))
	for _, node := range names[:min(len(names), maxSilent)] {
		out = append(out, Problem{What: fmt.Sprintf("the machine-config-daemon of %s last reported %s", node,
			fleet.Ago(now)(silent[node])), Fix: "bunsen why node/" + node})
	}
	if more := len(names) - maxSilent; more > 0 {
		out = append(out, Problem{What: fmt.Sprintf("the machine-config-daemons of %d more nodes do not report",
			more), Fix: "bunsen status"})
	}
	return out
}

// podForm returns the limit of daemons that run as pods, if the cluster has any.
func podForm(parts []PartState) []Problem {
	if !slices.ContainsFunc(parts, func(s PartState) bool { return s.Part == Daemon && s.Wanted > 0 }) {
		return nil
	}
	return []Problem{{
		What: "daemons that run as pods cannot undo a config that breaks the kubelet, because the kubelet starts them",
		Fix:  "have another way to log in on the nodes, or run the daemon as a service: docs/daemon.md",
	}}
}

func outside(part string, read fleet.Cluster, now time.Time) string {
	if part == Daemon {
		services, processes, pods := 0, 0, 0
		for _, r := range read.Daemons {
			switch {
			case now.Sub(r.Seen.Time) > v1alpha1.DaemonSilentAfter:
			case r.Form == "pod":
				pods++
			case r.Form == "service":
				services++
			default:
				processes++
			}
		}
		var all []string
		for _, form := range []struct {
			count     int
			one, many string
		}{{services, "service", "services"}, {processes, "process", "processes"}, {pods, "pod", "pods"}} {
			switch {
			case form.count == 1:
				all = append(all, "1 "+form.one)
			case form.count > 1:
				all = append(all, fmt.Sprint(form.count, " ", form.many))
			}
		}
		return strings.Join(all, ", ")
	}
	var hosts []string
	for _, h := range fleet.Alive(read.Leases, part, now) {
		hosts = append(hosts, h.Name)
	}
	if len(hosts) == 0 {
		return ""
	}
	if len(hosts) == 1 {
		return "1 process on " + hosts[0]
	}
	return fmt.Sprintf("%d processes on %s", len(hosts), strings.Join(hosts, ", "))
}

// good reports whether the installation works: the controller exists, and all existing parts are ready.
func (r report) good() bool {
	if len(Fatal(r.Problems)) > 0 {
		return false
	}
	for _, s := range r.Parts {
		if s.Missing && s.Part == Controller && s.Outside == "" || !s.Missing && !s.Done() {
			return false
		}
	}
	return true
}

func (r report) text() string {
	table := terminal.Table{Head: []string{"PART", "READY", "VERSION", "PROBLEM"}}
	for _, s := range r.Parts {
		ready := fmt.Sprintf("%d/%d", s.Ready, s.Wanted)
		if s.Missing {
			ready = cmp.Or(s.Outside, "not installed")
		}
		table.Rows = append(table.Rows, []string{
			s.Part, ready, terminal.Dash(r.versionsOf(s.Part)),
			terminal.Dash(strings.Join(s.Problems, "; ")),
		})
	}
	var b strings.Builder
	b.WriteString(table.String())
	writeProblems(&b, r.Problems)
	return b.String()
}

func (r report) versionsOf(part string) string {
	var versions []string
	for _, v := range r.Versions {
		if v.Component == part {
			versions = append(versions, v.Version)
		}
	}
	return strings.Join(versions, ", ")
}

// Removal is one run of the verb uninstall.
type Removal struct {
	kube.Target
	Poll time.Duration

	everything, dryRun, force bool
	timeout                   time.Duration
}

// Flags adds the flags.
func (r *Removal) Flags(cmd *cobra.Command) {
	r.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&r.everything, "everything", false, "also delete the kinds and the namespaces: every pool, config and "+
		"token, the credentials of repositories, and the server's CA")
	f.BoolVar(&r.force, "force", false, "do not wait for nodes that are being updated; they stay as they are, "+
		"possibly cordoned")
	f.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long to wait for nodes that are being updated")
	f.BoolVar(&r.dryRun, "dry-run", false, "let the API server check the deletions, and delete nothing")
}

// Run deletes the objects of an installation.
func (r *Removal) Run(cmd *cobra.Command) error {
	c, err := connect(&r.Target)
	if err != nil {
		return err
	}
	if !r.force && !r.dryRun {
		if err := r.awaitNodes(cmd.Context(), c, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return r.remove(cmd.Context(), c, cmd.OutOrStdout())
}

// awaitNodes waits until no node is in an update. Without the controller and its rights, such a node would stay
// cordoned or would never report how its update ended.
func (r *Removal) awaitNodes(ctx context.Context, c cluster, progress io.Writer) error {
	last := ""
	err := until(ctx, r.Poll, r.timeout, func() (bool, error) {
		nodes, err := c.nodes(ctx)
		if err != nil {
			return false, err
		}
		names := strings.Join(Updating(nodes), ", ")
		if names != "" && names != last {
			fmt.Fprintln(progress, safetext.OneLine("waiting for the updates of: "+names))
		}
		last = names
		return names == "", nil
	})
	if !errors.Is(err, errTimeout) {
		return err
	}
	return &cli.ExitError{Code: cli.ExitTimeout, Err: fmt.Errorf("these nodes are still being updated after %s: %s. "+
		"Nothing was removed. To prevent updates of further nodes, pause their pools "+
		"(bunsen pause POOL); for the reason, run: bunsen why; to remove Bunsen anyway, add --force", r.timeout, last)}
}

func (r *Removal) remove(ctx context.Context, c cluster, out io.Writer) error {
	all, err := Everything(config.Files)
	if err != nil {
		return err
	}
	settings, err := c.settings(ctx)
	if err != nil {
		return err
	}
	deleted := 0
	for _, o := range RemovalPhases(append(all, Missing(settings, all)...), r.everything) {
		did, err := c.remove(ctx, o, r.dryRun)
		if err != nil {
			return err
		}
		if did {
			deleted++
		}
	}
	words := "deleted"
	if r.dryRun {
		words = "would be deleted (dry run)"
	}
	_, err = fmt.Fprintf(out, "%d objects are %s.\n\n%s", deleted, words, remains(r.everything))
	return err
}

func remains(everything bool) string {
	text := "What remains:\n  Nodes keep their files, units and users, and the annotations " +
		"machineconfiguration.openshift.io/*.\n" +
		"  Nodes that were cordoned for an update stay so: kubectl uncordon NODE.\n" +
		"  Daemons that run as services of their hosts go on until you stop them there.\n"
	if everything {
		return text
	}
	return text + "  The kinds with all pools, configs and sources, and the namespaces " + Namespace + ", " +
		SourcesNamespace + " and " + NotificationsNamespace + ".\n" +
		"  A new installation continues with them. `bunsen uninstall --everything` deletes them, too.\n"
}

// Updating returns the names of the nodes whose daemons are in an update or about to start one. A node that failed its
// update is not among them: it waits for a user.
func Updating(nodes []metav1.PartialObjectMetadata) []string {
	var names []string
	for i := range nodes {
		a := nodes[i].Annotations
		desired := a[v1alpha1.DesiredConfigAnnotation]
		assigned := a[v1alpha1.StateAnnotation] == v1alpha1.StateDone && desired != "" &&
			desired != a[v1alpha1.CurrentConfigAnnotation]
		if assigned || a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking {
			names = append(names, nodes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
