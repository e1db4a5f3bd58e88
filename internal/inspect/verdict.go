package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// WhySource says why the newest commit of a GitSource is not on the cluster, or else which pools do not run it yet.
func WhySource(c fleet.Cluster, name string, now time.Time) (Why, error) {
	f := fleet.New(c, now)
	at := slices.IndexFunc(f.Sources, func(s v1alpha1.GitSource) bool { return s.Name == name })
	if at < 0 {
		return Why{}, fmt.Errorf("there is no GitSource %q; `bunsen get sources` lists them", name)
	}
	src := &f.Sources[at]
	fed := poolsOf(f, src)
	var pools []Answer
	for _, v := range fed {
		if first := PoolReason(f, v, nil)[0]; first.Outcome != Fine && first.Cause != fleet.CauseController &&
			first.Cause != fleet.CauseSource {
			pools = append(pools, Answer{Outcome: first.Outcome, Cause: first.Cause, Reason: "pool " +
				v.Object.Name + ": " + first.Reason, Do: []string{"bunsen why pool/" + v.Object.Name}})
		}
	}
	return whySource(f, src, fed, pools), nil
}

// whySource needs the pools that get a config from the GitSource, and answers about them.
func whySource(f *fleet.Fleet, src *v1alpha1.GitSource, fed []*fleet.Pool, ofPools []Answer) Why {
	row := sourceRow(src, f.ReadControllers(), f.Now)
	why := Why{About: "gitsource/" + src.Name, Subjects: Subjects{Source: &row}}
	answers := sourceAnswers(f, src, fed)
	row.Outcome = answers[0].Outcome
	why.setAnswers(slices.Concat(answers, ofPools, sourceWarnings(src)))
	return why
}

// sourceAnswers are about a source itself, worst first; at least one. The parameter fed has the pools that get a config
// from it.
func sourceAnswers(f *fleet.Fleet, src *v1alpha1.GitSource, fed []*fleet.Pool) []Answer {
	// A placeholder, for a source from which no pool gets a config.
	v := &fleet.Pool{Object: &mcfgv1.MachineConfigPool{}}
	if len(fed) > 0 {
		v = fed[0]
	}
	answers := Controllers(f, []v1alpha1.GitSource{*src})
	if a, is := SourceReason(f, v, src); is {
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		return []Answer{sourceCourse(src)}
	}
	return WorstFirst(answers)
}

// sourceWarnings are the first ones of the applied commit.
func sourceWarnings(src *v1alpha1.GitSource) []Answer {
	const most = 5
	var out []Answer
	for i, w := range src.Status.Warnings {
		if i == most {
			out = append(out, Answer{
				Outcome: Fine, Cause: fleet.CauseSource,
				Reason: fmt.Sprintf("and %s: kubectl describe gitsource %s", fleet.Count(len(src.Status.Warnings)-most,
					"more warning"), src.Name),
			})
			break
		}
		out = append(out, Answer{Outcome: Fine, Cause: fleet.CauseSource, Reason: w})
	}
	return out
}

// poolsOf returns the pools that get their config from a source, by name.
func poolsOf(f *fleet.Fleet, src *v1alpha1.GitSource) []*fleet.Pool {
	var out []*fleet.Pool
	for _, name := range slices.Sorted(maps.Keys(f.PoolByName)) {
		if v := f.PoolByName[name]; v.Object.Annotations[v1alpha1.SourceAnnotation] == src.Name ||
			fleet.GavePool(src, name) {
			out = append(out, v)
		}
	}
	return out
}

// sourceCourse is for a source without a problem.
func sourceCourse(src *v1alpha1.GitSource) Answer {
	applied := src.Status.AppliedRevision
	switch {
	case src.Status.Progress != nil:
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource, Reason: fleet.ProgressText(src),
		}
	case src.Status.Applying != nil:
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: fleet.ShortRevision(src.Status.Applying.Revision) + " is being applied",
		}
	case applied == "":
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: "no commit of it is applied yet",
		}
	case src.Status.ObservedRevision != applied && src.Status.ObservedRevision != "":
		return Answer{
			Outcome: Progressing, Cause: fleet.CauseSource,
			Reason: fleet.ShortRevision(src.Status.ObservedRevision) + " is next; " + fleet.ShortRevision(applied) +
				" is applied",
		}
	}
	return Answer{Outcome: Fine, Reason: fleet.ShortRevision(applied) + " is applied"}
}

func (r SourceRow) line(now time.Time) string {
	text := r.Name + "   " + terminal.Dash(fleet.ShortRevision(r.Revision))
	if r.Subject != "" {
		text += " " + source.Quote(r.Subject)
	}
	if r.SignedBy != "" {
		text += "   signed by " + r.SignedBy
	}
	if r.LastLook != nil {
		text += "   looked " + r.looked(now)
	}
	return text
}

// Verdicts returns the outcome and the main reason of each GitSource, each pool, and each node in several pools, so
// that none has it: the first line of what `bunsen why` says.
func Verdicts(f *fleet.Fleet) []v1alpha1.Verdict {
	out := make([]v1alpha1.Verdict, 0, len(f.Sources)+len(f.Pools))
	add := func(kind, name string, first Answer) {
		out = append(out, v1alpha1.Verdict{
			Kind: kind, Name: name, Outcome: first.Outcome, Cause: string(first.Cause),
			Message: fleet.OneLine(first.Reason),
		})
	}
	for i := range f.Sources {
		src := &f.Sources[i]
		add("GitSource", src.Name, sourceAnswers(f, src, poolsOf(f, src))[0])
	}
	for i := range f.Pools {
		add("MachineConfigPool", f.Pools[i].Name, PoolReason(f, f.PoolByName[f.Pools[i].Name], nil)[0])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Conflicts)) {
		add("Node", name, NodeReason(f, nil, f.Conflicts[name], nil)[0])
	}
	return out
}

// mostNamed is for one outcome in a sentence.
const mostNamed = 3

// Sentence says how the whole cluster is: what is not fine by its outcome, the worst first, and how much there is.
func (s Status) Sentence() string {
	if s.Outcome == Fine && s.Unfollowed != "" {
		return fmt.Sprintf("%s: %s and %s.", s.Unfollowed, fleet.Count(len(s.Pools), "pool"),
			fleet.Count(len(s.Nodes), "node"))
	}
	if s.Outcome == Fine {
		return fmt.Sprintf("All is well: %s, %s and %s.", fleet.Count(len(s.Sources), "source"),
			fleet.Count(len(s.Pools), "pool"), fleet.Count(len(s.Nodes), "node"))
	}
	names := map[Outcome][]string{}
	for _, r := range s.Sources {
		names[r.Outcome] = append(names[r.Outcome], "gitsource/"+r.Name)
	}
	for _, r := range s.Pools {
		names[r.Outcome] = append(names[r.Outcome], "pool/"+r.Name)
	}
	for _, r := range s.Nodes {
		if r.Cause == fleet.CauseConflict {
			names[Blocked] = append(names[Blocked], "node/"+r.Name)
		}
	}
	var texts []string
	for i := len(v1alpha1.Outcomes) - 1; i > 0; i-- {
		if o := v1alpha1.Outcomes[i]; len(names[o]) > 0 {
			texts = append(texts, strings.ToLower(string(o))+": "+fleet.Names(names[o], mostNamed))
		}
	}
	text := strings.Join(texts, "; ")
	if fine := len(names[Fine]); fine > 0 {
		text += fmt.Sprintf("; the other %d are fine", fine)
		if fine == 1 {
			text = strings.TrimSuffix(text, "the other 1 are fine") + "the other one is fine"
		}
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// unfollowed returns what Status has of it.
func unfollowed(f *fleet.Fleet) (text string, begin []string) {
	switch {
	case f.ReadControllers() == nil, f.WithoutSource() == "":
		return "", nil
	case f.IsUnconfigured():
		return "Nothing is configured yet", beginCommands(f)
	case f.LostItsSource():
		return "No repository is followed", beginCommands(f)
	}
	return "", nil
}

// beginCommands create a GitSource: the one that was deleted, or the first.
func beginCommands(f *fleet.Fleet) []string {
	do := []string{createSource(f, "")}
	if f.IsUnconfigured() {
		do = append(do, fleet.Alternative("there is no repository yet", "bunsen init --help   # "+
			"docs/new-repository.md"))
	}
	return do
}

// noSourceAnswers are for a cluster without a GitSource.
func noSourceAnswers(f *fleet.Fleet) []Answer {
	text := f.WithoutSource()
	if text == "" || f.ReadControllers() == nil {
		return nil
	}
	return []Answer{{Outcome: Fine, Cause: fleet.CauseSource, Reason: text, Do: beginCommands(f)}}
}

// Controllers says that no controller runs, or that it no longer reads the repository of one of the sources.
func Controllers(f *fleet.Fleet, sources []v1alpha1.GitSource) []Answer {
	c := f.ReadControllers()
	if text := c.WarningText(f.WhenIn()); text != "" {
		return []Answer{{Outcome: Blocked, Cause: fleet.CauseController, Reason: text, Do: c.Do}}
	}
	var out []Answer
	if text := c.LateText(f.WhenIn()); text != "" {
		out = append(out, Answer{Outcome: Progressing, Cause: fleet.CauseController, Reason: text, Do: c.Do})
	}
	for i := range sources {
		if at, ok := c.LastCheck(&sources[i]); ok && c.IsOverdue(&sources[i]) {
			out = append(out, Answer{
				Outcome: Blocked, Cause: fleet.CauseSource,
				Reason: fleet.OverdueText(sources[i].Name, f.WhenIn()(at)), Do: c.Leader().RestartCommands(),
			})
		}
	}
	return out
}

// unhealthyOutcome is for a node that does not recover by itself. If its daemon does not report, only the last report
// is known.
func unhealthyOutcome(cause poolstate.Cause) Outcome {
	if cause == poolstate.CauseNotReady {
		return Blocked
	}
	return Unknown
}

// notReadyCommands help if a node is not Ready.
func notReadyCommands(f *fleet.Fleet, node string) []string {
	if f.HealthOf(node).Silence != "" {
		return deadNodeCommands(node)
	}
	describe := "kubectl describe node " + node
	if n := f.Node(node); n != nil && slices.ContainsFunc(n.Status.Conditions,
		func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue
		}) {
		return []string{describe, "free disk space on " + node + "; its kubelet then reports it by itself"}
	}
	return []string{describe, "journalctl -u kubelet   # on " + node + ": why it is not Ready"}
}

// daemonCommands are for the first of the nodes.
func daemonCommands(nodes ...string) []string {
	on := "on " + nodes[0]
	if len(nodes) > 1 {
		on += ", and in the same way on " + fleet.Names(nodes[1:], mostAdvised-1)
	}
	return []string{
		"kubectl get pods -A -o wide --field-selector spec.nodeName=" + nodes[0],
		"journalctl -u machine-config-daemon   # " + on + "; to install the daemon: docs/daemon.md",
	}
}

// silentCommands are for nodes whose daemons do not report any more. A heartbeat has the time of its node, so one with
// a wrong clock looks the same.
func silentCommands(nodes ...string) []string {
	do := daemonCommands(nodes...)
	return append(do, fleet.Alternative("its daemon runs and reports", "correct the clock of "+nodes[0]+", which is "+
		"behind"))
}

// deadNodeCommands help if a kubelet does not report.
func deadNodeCommands(node string) []string {
	return []string{
		"kubectl describe node " + node,
		"systemctl restart kubelet   # on " + node + "; start the machine first, if it is off",
		fleet.Alternative("the machine is gone permanently", "kubectl delete node "+node),
	}
}
