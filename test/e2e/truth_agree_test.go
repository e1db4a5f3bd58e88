package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// outcomes are all outcomes, the best first.
var outcomes = []string{"Fine", "Progressing", "Waiting", "Blocked", "Unknown", "Degraded"}

// exitCodes are what docs/reading-status.md says of each outcome.
var exitCodes = map[string]int{"Fine": 0, "Progressing": 0, "Waiting": 0, "Unknown": 5, "Blocked": 5, "Degraded": 6}

// missing are the facts that are not true.
func (snap snapshot) missing(wants []want) []string {
	var out []string
	for _, w := range wants {
		if is := snap.fact(w); is != w.value {
			out = append(out, fmt.Sprintf("%s %s is %s, not %s", w.about, w.field, is, w.value))
		}
	}
	return out
}

// fact is what the outputs say of one fact.
func (snap snapshot) fact(w want) string {
	kind, name, _ := strings.Cut(w.about, "/")
	switch kind {
	case "node", "pool":
		a := snap.answers[w.about]
		if strings.Contains(w.value, ":") {
			return a.Outcome + ":" + a.Cause
		}
		return a.Outcome
	case "mcp":
		return conditionOf(snap.mcps, name, w.field)
	case "gitsource":
		return conditionOf(snap.sources, name, w.field)
	case "metric":
		return snap.metrics[w.field]
	case "status":
		return strconv.Itoa(snap.status.code)
	}
	return "of no kind that the table knows"
}

// conditionOf is the status of a condition of one object of a list.
func conditionOf(list []unstructured.Unstructured, name, kind string) string {
	for i := range list {
		if list[i].GetName() == name {
			text, _ := field(&list[i], "condition:"+kind)
			status, _, _ := strings.Cut(text, " ")
			return status
		}
	}
	return "(no such object)"
}

// contradictions are the places where two outputs do not agree. Where no controller answers, what it wrote last may be
// old.
func (snap snapshot) contradictions() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for about, a := range snap.answers {
		if code, known := exitCodes[a.Outcome]; known && code != a.text.code {
			say("why %s is %s in JSON and has exit code %d", about, a.Outcome, a.text.code)
		}
		if fine := strings.HasPrefix(a.text.out, about+" is fine"); fine != (a.Outcome == "Fine") {
			say("why %s is %s in JSON, and its text begins with %q", about, a.Outcome, firstLine(a.text.out))
		}
	}
	worst := "Fine"
	for _, outcome := range snap.outcomes() {
		if slices.Index(outcomes, outcome) > slices.Index(outcomes, worst) {
			worst = outcome
		}
	}
	if snap.outcome != "" && (snap.outcome != worst || snap.status.code != exitCodes[worst]) {
		say("status is %s with exit code %d, and the worst of its pools and sources is %s", snap.outcome,
			snap.status.code, worst)
	}
	if len(snap.verdicts) > 0 { // A controller answers, so what it wrote is current, or is soon.
		if snap.summary != worst {
			say("the BunsenStatus is %s, and the worst of the pools and sources is %s", snap.summary, worst)
		}
		rank := func(kind, name, outcome string) {
			series := fmt.Sprintf("bunsen_outcome{kind=%q,name=%q}", kind, name)
			if got, want := snap.verdicts[series], strconv.Itoa(slices.Index(outcomes, outcome)); got != want {
				say("%s is %s, and status says %s", series, got, outcome)
			}
		}
		rank("Cluster", "", worst)
		for _, p := range snap.pools {
			rank("MachineConfigPool", p.Name, p.Outcome)
		}
		for _, src := range snap.looked {
			rank("GitSource", src.Name, src.Outcome)
		}
	}
	for i := range snap.mcps {
		for _, p := range snap.pools {
			if p.Name == snap.mcps[i].GetName() && (p.Nodes > 0 || snap.answers["pool/"+p.Name].Outcome != "") {
				out = append(out, snap.poolContradictions(p, &snap.mcps[i])...)
			}
		}
	}
	for i := range snap.nodes {
		out = append(out, snap.nodeContradictions(&snap.nodes[i])...)
	}
	return out
}

// outcomes are the outcomes of all pools and sources in the JSON of `bunsen status`.
func (snap snapshot) outcomes() (all []string) {
	for _, p := range snap.pools {
		all = append(all, p.Outcome)
	}
	for _, s := range snap.looked {
		all = append(all, s.Outcome)
	}
	for _, row := range snap.rows {
		if row.Cause == "Conflict" { // No pool has this node.
			all = append(all, "Blocked")
		}
	}
	return all
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// poolContradictions compares what status, why, the pool's conditions and the metrics say of a pool.
func (snap snapshot) poolContradictions(p poolNumbers, u *unstructured.Unstructured) []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, "pool "+p.Name+": "+fmt.Sprintf(format, args...))
	}
	is := func(kind string) bool { return conditionOf(snap.mcps, p.Name, kind) == "True" }
	why, asked := snap.answers["pool/"+p.Name]
	if asked && why.Outcome != p.Outcome {
		say("why says %s, status says %s", why.Outcome, p.Outcome)
	}
	if p.Outcome == "Fine" && p.Nodes > 0 && p.Updated != p.Nodes {
		say("it is Fine with %d of %d nodes updated", p.Updated, p.Nodes)
	}
	// no controller answers, or one that stands by
	if _, leads := snap.metrics[`mco_machine_count{pool="worker"}`]; !leads {
		return out
	}
	for name, n := range map[string]int{"machineCount": p.Nodes, "degradedMachineCount": p.Degraded} {
		if told, _, _ := unstructured.NestedInt64(u.Object, "status", name); told != int64(n) {
			say("%s is %d, status has %d", name, told, n)
		}
	}
	for name, series := range map[string]string{
		"machineCount": "mco_machine_count", "updatedMachineCount": "mco_updated_machine_count",
		"degradedMachineCount":    "mco_degraded_machine_count",
		"unavailableMachineCount": "mco_unavailable_machine_count",
	} {
		told, _, _ := unstructured.NestedInt64(u.Object, "status", name)
		if metric := snap.metrics[fmt.Sprintf("%s{pool=%q}", series, p.Name)]; metric != strconv.FormatInt(told, 10) {
			say("%s is %d, the metric %s is %s", name, told, series, metric)
		}
	}
	blocked := snap.blockedBy(p.Name)
	reason, _ := field(u, "condition:RolloutBlocked")
	switch {
	case is("RolloutBlocked") && p.Outcome == "Fine":
		say("RolloutBlocked is %q, and why says Fine", reason)
	case is("RolloutBlocked") != (len(blocked) > 0):
		say("RolloutBlocked is %q, and the metric bunsen_pool_blocked has the causes %q", reason, blocked)
	case is("RolloutBlocked") && !strings.Contains(" "+strings.Join(blocked, " ")+" ", " "+strings.Fields(reason)[1]+
		" "):
		say("RolloutBlocked is %q, and the metric bunsen_pool_blocked has the causes %q", reason, blocked)
	}
	if p.Nodes > 0 && p.Target != "" {
		switch {
		case p.Outcome == "Fine" && !is("Updated"):
			say("it is Fine, and the condition Updated is not True")
		case is("Updated") && is("Updating"):
			say("it is Updated and Updating")
		case is("Updated") && p.Updated != p.Nodes:
			say("the condition Updated is True with %d of %d nodes updated", p.Updated, p.Nodes)
		case is("Updating") && p.Outcome == "Blocked" && !is("RolloutBlocked"):
			say("why says Blocked, and kubectl only that it is Updating")
		}
	}
	if is("Degraded") && (p.Outcome == "Fine" || p.Outcome == "Progressing") {
		say("the condition Degraded is True, and why says %s", p.Outcome)
	}
	if p.Outcome == "Degraded" && !is("Degraded") && !is("RolloutBlocked") {
		say("why says Degraded, and no condition says so")
	}
	return out
}

// blockedBy are the causes that the metrics have for a pool.
func (snap snapshot) blockedBy(pool string) []string {
	var out []string
	for series, value := range snap.metrics {
		if strings.HasPrefix(series, "bunsen_pool_blocked{") && strings.Contains(series,
			fmt.Sprintf("pool=%q", pool)) && value == "1" {
			_, rest, _ := strings.Cut(series, `cause="`)
			cause, _, _ := strings.Cut(rest, `"`)
			out = append(out, cause)
		}
	}
	return out
}

// nodeContradictions compares what is said of a node with its own conditions.
func (snap snapshot) nodeContradictions(n *corev1.Node) []string {
	var out []string
	ready := corev1.ConditionUnknown
	pressure := false
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			ready = c.Status
		case c.Type == corev1.NodeDiskPressure:
			pressure = c.Status == corev1.ConditionTrue
		}
	}
	a, asked := snap.answers["node/"+n.Name]
	if asked && ready != corev1.ConditionTrue && a.Outcome == "Fine" && a.Cause != "NoPool" {
		out = append(out, fmt.Sprintf("node %s has Ready=%s, and why says Fine", n.Name, ready))
	}
	texts := snap.status.out
	for _, about := range snap.order {
		texts += snap.answers[about].text.out
	}
	for _, line := range strings.Split(texts, "\n") {
		if !pressure && strings.Contains(line, n.Name) && strings.Contains(line, "disk space") &&
			strings.Contains(line, "short of") {
			out = append(out, fmt.Sprintf("node %s has no DiskPressure, and it is said: %s", n.Name,
				strings.TrimSpace(line)))
		}
	}
	return out
}
