package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

const mostListed = 100

// Overview draws the state of the whole cluster: the verdict, warnings, a card for each pool, the worst first, sources,
// controllers, servers, and nodes of no pool.
func Overview(s inspect.Status, now time.Time) []Region {
	warnings := lines(s.Controllers.Problems(now))
	for _, r := range s.Sources {
		if r.Ready == string(metav1.ConditionFalse) {
			warnings = append(warnings, fmt.Sprintf("GitSource %s is not ready: %s", r.Name, fleet.Brief(r.Message)))
		}
		if r.Overdue && r.LastLook != nil {
			warnings = append(warnings, fleet.OverdueText(r.Name, terminal.Age(*r.LastLook, now)+" ago"))
		}
	}
	warnings = append(warnings, s.Warnings...)
	worstFirst := slices.Clone(s.Pools)
	slices.SortStableFunc(worstFirst, func(a, b inspect.PoolRow) int {
		return cmp.Compare(b.Outcome.Rank(), a.Outcome.Rank())
	})
	var cards []Region
	for _, row := range worstFirst {
		cards = append(cards, poolCard(s, row))
	}
	var sources []Region
	for _, row := range s.Sources {
		sources = append(sources, sourceLine(row, now))
	}
	var more int
	var unmanaged []fact
	for _, n := range s.Unmanaged {
		if len(unmanaged) == mostListed {
			more = len(s.Unmanaged) - mostListed
			break
		}
		unmanaged = append(unmanaged, fact{Text: n.Name, Href: nodePath(n.Name)})
	}
	return []Region{
		draw("verdict", "overview-verdict", struct{ Outcome, Sentence string }{
			string(s.Outcome), strings.TrimPrefix(s.Sentence(), string(s.Outcome)+": "),
		}),
		draw("warnings", "overview-warnings", warnings),
		draw("pools", "overview-pools", len(s.Pools), cards...),
		draw("sources", "overview-sources", len(s.Sources), sources...),
		draw("controllers", "overview-controllers", lines(s.Controllers.Text(now))),
		draw("servers", "overview-servers", lines(s.Servers.Text(now))),
		draw("unmanaged", "overview-unmanaged", struct {
			Count, More int
			Nodes       []fact
		}{len(s.Unmanaged), more, unmanaged}),
	}
}

func lines(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// stateText shortens the state of a pool such as "Halted: node-1 failed" to its first word if one of the texts has the
// rest, and removes the step of the rollout, which has a line of its own.
func stateText(row *inspect.PoolRow, texts ...string) string {
	state := row.State
	if row.Step != "" {
		state = strings.TrimSuffix(state, ", "+row.Step)
	}
	word, rest, found := strings.Cut(state, ": ")
	if found && slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, fleet.Shorten(rest))
	}) {
		return word
	}
	return state
}

func poolCard(s inspect.Status, row inspect.PoolRow) Region {
	id := idOf("pool", row.Name)
	data := struct {
		ID, Href, Numbers, Why string
		Bar                    []barPart
		Row                    inspect.PoolRow
		Target                 *fact
	}{ID: id, Href: poolPath(row.Name), Numbers: countsText(row.PoolCounts), Bar: bar(row.PoolCounts), Row: row}
	data.Row.State = fleet.Brief(stateText(&row, row.Blocked...))
	if hidden := len(row.Blocked) == 0 && !strings.Contains(row.State, ": "); hidden &&
		row.Outcome.NeedsUser() {
		data.Why = "Why it is " + strings.ToLower(string(row.Outcome))
	}
	if c, known := s.Targets[row.Name]; known && c.Name != "" {
		f := configFact("Target", row.Name, c)
		data.Target = &f
	}
	return draw(id, "overview-pool", data)
}

func sourceLine(row inspect.SourceRow, now time.Time) Region {
	id := idOf("source", row.Name)
	data := struct {
		ID, Revision, Looked, Signed, Message string
		Row                                   inspect.SourceRow
	}{
		ID: id, Revision: fleet.ShortRevision(row.Revision), Looked: "unknown", Signed: row.SignedBy,
		Message: cutLine(fleet.Brief(row.Message)), Row: row,
	}
	if row.LastLook != nil {
		data.Looked = terminal.Age(*row.LastLook, now) + " ago"
	}
	if row.Verified != "" && row.SignedBy == "" {
		data.Signed = "verified: " + row.Verified
	}
	return draw(id, "overview-source", data)
}
