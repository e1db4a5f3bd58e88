package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Outcome is the effect of a commit on the nodes, for a comment on its pull request; zero for none.
type Outcome struct {
	// the first line of the comment
	marker, cluster, revision string
	// why nothing of the commit was applied
	refused string
	// the pools whose config the commit changed, and the number of the others
	changed   []progress
	unchanged int
}

// Exists reports whether there is an outcome to comment.
func (o Outcome) Exists() bool { return o.marker != "" }

// Ended reports whether the outcome is final, unless a user retries the rollout.
func (o Outcome) Ended() bool { return o.refused != "" || o.worst() != pending }

func (o Outcome) worst() state {
	worst := done
	for _, p := range o.changed {
		worst = max(worst, p.state)
	}
	return worst
}

func (f Facts) marked(src string, h v1alpha1.HistoryEntry) Outcome {
	_, hash, _ := strings.Cut(h.Revision, "sha1:")
	return Outcome{
		marker:  "<!-- bunsen:outcome:v1:" + f.Cluster + "/" + src + " -->",
		cluster: f.Cluster, revision: hash[:min(8, len(hash))],
	}
}

func (f Facts) refused(src string, h v1alpha1.HistoryEntry) Outcome {
	o := f.marked(src, h)
	o.refused = h.Refused.Reason + ": " + line(h.Refused.Message)
	return o
}

// outcome covers the pools whose config differs from that at the previous commit.
func (f Facts) outcome(src string, h v1alpha1.HistoryEntry, rolled []progress, before map[string]string) Outcome {
	if len(h.Pools) == 0 {
		return Outcome{}
	}
	o := f.marked(src, h)
	for _, p := range rolled {
		if before[p.pool] == p.config {
			o.unchanged++
			continue
		}
		o.changed = append(o.changed, p)
	}
	return o
}

// Forecast has the numbers that a review predicted before the merge.
type Forecast struct {
	// who posted the review; empty if there is none
	Author string
	// the nodes of all changed pools, those that reboot, and those of pools whose nodes are drained
	Nodes, Reboots, Drains int
	// the longest estimate for the rollout of one pool
	Takes string
}

// planMarker begins a review. The key and the end of an HTML comment follow.
const planMarker = "<!-- bunsen:plan:v1:"

// ParseForecast reads the numbers of a review's table from a comment; false for other comments, and for a review
// without numbers of nodes. It reads only numbers and estimates of times, because every user can write such a comment.
func ParseForecast(body string) (Forecast, bool) {
	lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	if !strings.HasPrefix(strings.TrimSpace(lines[0]), planMarker) {
		return Forecast{}, false
	}
	var f Forecast
	found := false
	for _, l := range lines {
		cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
		if len(cells) != 9 || strings.Contains(cells[1], "Rendered") || strings.Contains(cells[0], "---") ||
			strings.TrimSpace(cells[1]) == "unchanged" {
			continue
		}
		nodes, ok := number(cells[6])
		reboots, isNumber := number(cells[7])
		if !ok || !isNumber {
			return Forecast{}, false
		}
		f.Nodes, f.Reboots, found = f.Nodes+nodes, f.Reboots+reboots, true
		if strings.Contains(cells[5], "drain") {
			f.Drains += nodes
		}
		if takes, _, _ := strings.Cut(strings.TrimSpace(cells[8]), "("); isEstimate(takes) {
			f.Takes = longer(f.Takes, strings.TrimSpace(takes))
		}
	}
	return f, found
}

// number reads such as `8`, `**8**` or `1,200`.
func number(cell string) (int, bool) {
	n, err := strconv.Atoi(strings.NewReplacer("*", "", ",", "", "\u202f", "", "\u00a0", "", " ", "").Replace(cell))
	return n, err == nil && n >= 0 && n < 1_000_000
}

// isEstimate reports whether a text is such as `10 min – 2 h`.
func isEstimate(text string) bool {
	words := strings.Fields(text)
	for _, w := range words {
		if _, err := strconv.Atoi(w); err != nil && !slices.Contains([]string{
			"up", "to", "min", "h", "d", "–", "-",
			"less", "than", "about",
		}, w) {
			return false
		}
	}
	return len(words) > 0 && len(text) < 40
}

// longer returns the estimate with the larger last number, in minutes.
func longer(a, b string) string {
	minutes := func(text string) (total int) {
		words := strings.Fields(text)
		for i, w := range words {
			n, err := strconv.Atoi(w)
			if err != nil || i+1 >= len(words) {
				continue
			}
			total = n * map[string]int{"h": 60, "d": 24 * 60}[words[i+1]]
			if words[i+1] == "min" {
				total = n
			}
		}
		return total
	}
	if minutes(b) > minutes(a) {
		return b
	}
	return a
}

// Body returns the comment in Markdown, its marker first. The parameter review is the forecast of the pull request's
// review, if there is one, and nodes are the MachineConfigNodes of the cluster, which say whether a node was drained
// and rebooted.
func (o Outcome) Body(review *Forecast, nodes []mcfgv1.MachineConfigNode) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n### OS config rollout · %s · %s\n\n%s\n", o.marker, code(o.cluster), code(o.revision),
		o.headline())
	if o.refused != "" || len(o.changed) == 0 {
		return b.String()
	}
	o.writeComparison(&b, review, nodes)
	b.WriteString("\n| Pool | Config | Result | Nodes | Time |\n|---|---|---|---|---|\n")
	for _, p := range o.changed {
		count, took := fmt.Sprintf("%d/%d", p.updated, p.nodes), p.took()
		if p.state == pending {
			// Without counts of updated nodes while the rollout continues: the comment must not change with each node.
			count, took = itoa(p.nodes), "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(p.pool), code(shortConfig(p)), resultText(p.state), count,
			took)
	}
	if o.unchanged > 0 {
		fmt.Fprintf(&b, "\nThe commit does not change %s.\n", plural(o.unchanged, "other pool"))
	}
	for _, p := range o.changed {
		if p.state == failed {
			fmt.Fprintf(&b, "\n- %s: %s\n", code(p.pool), code(p.why))
		}
	}
	return b.String()
}

func (o Outcome) headline() string {
	switch {
	case o.refused != "":
		return "**Refused.** The cluster applied nothing of this commit: " + code(o.refused)
	case len(o.changed) == 0:
		return "**Nothing to roll out.** The commit changes no config of a pool."
	}
	return map[state]string{
		done:     "**Rolled out.**",
		replaced: "**Replaced** by a later commit before all nodes had it.",
		pending:  "The rollout is in progress. The commit status shows how far it is.",
		failed:   "**Failed.**",
	}[o.worst()]
}

func resultText(s state) string {
	return map[state]string{done: "rolled out", replaced: "replaced", pending: "in progress", failed: "**failed**"}[s]
}

// writeComparison compares the forecast with the real numbers.
func (o Outcome) writeComparison(b *strings.Builder, review *Forecast, machines []mcfgv1.MachineConfigNode) {
	updated, nodes, reboots, drains := 0, 0, 0, 0
	for _, p := range o.changed {
		updated, nodes = updated+p.updated, nodes+p.nodes
		r, d := Disruptions(p.pool, p.outcome.Began.Time, p.outcome.Ended.Time, machines)
		reboots, drains = reboots+r, drains+d
	}
	forecast := [4]string{itoa(nodes), "–", "–", "–"}
	if review != nil {
		forecast = [4]string{itoa(review.Nodes), itoa(review.Reboots), itoa(review.Drains), review.Takes}
	}
	happened := [4]string{"–", "–", "–", "–"}
	if o.worst() != pending {
		happened = [4]string{itoa(updated) + " of " + itoa(nodes) + " updated", itoa(reboots), itoa(drains), o.took()}
	}
	b.WriteString("\n| | Forecast | Happened |\n|---|---|---|\n")
	for i, what := range []string{"Nodes", "Reboots", "Drains", "Time"} {
		fmt.Fprintf(b, "| %s | %s | %s |\n", what, forecast[i], happened[i])
	}
	if review != nil {
		fmt.Fprintf(b, "\nThe forecast is from the review by %s.\n", code(review.Author))
		return
	}
	b.WriteString("\nThe pull request has no review with numbers, so the forecast has only the nodes of the changed " +
		"pools.\n")
}

// Disruptions counts the nodes of a pool that rebooted and were drained during a rollout; a zero end means that it has
// not ended. A condition of a MachineConfigNode changes only if the node drains or reboots, so a last transition within
// the rollout counts. A node that takes part in a later one hides its earlier drain or reboot.
func Disruptions(pool string, began, ended time.Time, machines []mcfgv1.MachineConfigNode) (reboots, drains int) {
	for i := range machines {
		n := &machines[i]
		if n.Spec.Pool.Name != pool || !n.CreationTimestamp.Time.Before(began) {
			// They have the time of its creation, and prove nothing.
			continue
		}
		happened := func(kind mcfgv1.StateProgress) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c metav1.Condition) bool {
				at := c.LastTransitionTime.Time
				return c.Type == string(kind) && !at.Before(began) &&
					(ended.IsZero() || !at.After(ended.Add(time.Minute)))
			})
		}
		if happened(mcfgv1.MachineConfigNodeUpdateRebooted) {
			reboots++
		}
		if happened(mcfgv1.MachineConfigNodeUpdateDrained) {
			drains++
		}
	}
	return reboots, drains
}

func (p progress) took() string { return duration(p.outcome.Began.Time, p.outcome.Ended.Time) }

// took is from the begin of the first pool's rollout to the end of the last one's.
func (o Outcome) took() string {
	var from, to time.Time
	for _, p := range o.changed {
		from = sooner(from, p.outcome.Began.Time)
		if p.outcome.Ended.After(to) {
			to = p.outcome.Ended.Time
		}
	}
	return duration(from, to)
}

func duration(from, to time.Time) string {
	switch took := to.Sub(from); {
	case from.IsZero() || to.IsZero() || took < 0:
		return "unknown"
	case took < time.Minute:
		return itoa(int(took.Seconds())) + " s"
	case took < 2*time.Hour:
		return itoa(int(took.Minutes())) + " min"
	default:
		return fmt.Sprintf("%.1f h", took.Hours())
	}
}

func shortConfig(p progress) string {
	hash := strings.TrimPrefix(p.config, "rendered-"+p.pool+"-")
	return hash[:min(5, len(hash))]
}

// code returns a code span of Markdown, on one line, in which no character begins a link or a mention, or ends the cell
// of a table. A dash stands for a text without visible characters, because two backticks would begin another code span.
func code(text string) string {
	text = strings.TrimSpace(safetext.OneLine(text))
	return "`" + strings.NewReplacer("`", "'", "|", "/").Replace(cmp.Or(text, "–")) + "`"
}
