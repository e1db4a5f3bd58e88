package review

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Checked has the findings of a tree: of its documents, and of the rendered configs.
type Checked struct {
	// Report has the findings of the transpiler and of the renderer, ordered by file, line and column.
	Report transpile.Report
	// Rendering has no pools if a document is invalid.
	Rendering Rendering
}

// Those about rendered configs. Notices have their own.
const (
	ruleRender = "render"
	ruleSize   = "size"
	// ruleUnreadKeys is about SSH keys that sshd would not read, because of a setting in the same config.
	ruleUnreadKeys = "unread-keys"
)

// CheckTree returns everything that `bunsen validate` says about the files of a tree: the findings of Check, and then
// those of CheckEncryption. The store has results of earlier runs; nil for none.
func CheckTree(tree source.Tree, res transpile.Result, r Rendering, owner SecretOwner, store transpile.Store) Checked {
	out := Check(res, r)
	owner.Marks = r.SecretPaths()
	out.Report = append(out.Report, CheckEncryption(tree.FS, res, owner, store)...)
	return out
}

// Check adds the findings of rendering to the transpiler's report, each at the last line that sets the value.
func Check(res transpile.Result, r Rendering) Checked {
	out := Checked{Report: slices.Clone(res.Report), Rendering: r}
	if res.Report.Fatal() {
		return out
	}
	var problems []string
	if r.Err != nil {
		problems = strings.Split(r.Err.Error(), "\n")
	}
	l := locator{res: res, read: map[string]*lineage.Lineage{}}
	for _, p := range problems {
		out.Report = append(out.Report, l.entry(transpile.Fatal, ruleRender, p, l.mentioned(p)))
	}
	for _, p := range r.Pools {
		for _, text := range p.Rendered.Warnings {
			out.Report = append(out.Report, transpile.Entry{
				Severity: transpile.Warning, Rule: ruleSize,
				Message: fmt.Sprintf("pool %s: %s", p.Rendered.Pool, text),
			})
		}
		if u := disruption.UnreadKeysOf(p.Rendered.Config.Ignition); len(u.Users) > 0 {
			message := fmt.Sprintf("pool %s: file %s: %s", p.Rendered.Pool, u.File, u.Problem())
			at := l.place(p.Rendered.Winner(disruption.KindFile, u.File), disruption.KindFile, u.File)
			out.Report = append(out.Report, l.entry(transpile.Warning, ruleUnreadKeys, message, at))
		}
		for _, n := range p.Rendered.Notices {
			if n.Rule == render.RuleOverridesWorker {
				continue // A pool may override inherited values.
			}
			at := ""
			if len(n.Inputs) > 0 {
				at = l.place(n.Inputs[len(n.Inputs)-1], disruption.ChangeKind(n.Kind), n.Name)
			}
			message := fmt.Sprintf("pool %s: %s: %s", p.Rendered.Pool, strings.TrimSpace(n.Kind+" "+n.Name), n.Message)
			out.Report = append(out.Report, l.entry(transpile.Warning, n.Rule, message, at))
		}
	}
	slices.SortStableFunc(out.Report, func(a, b transpile.Entry) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	out.Report = slices.Compact(out.Report)
	return out
}

type locator struct {
	res  transpile.Result
	read map[string]*lineage.Lineage
}

// place returns where a fragment sets an item, or else its start.
func (l locator) place(fragment string, kind disruption.ChangeKind, name string) string {
	i := slices.IndexFunc(l.res.Fragments, func(f transpile.Fragment) bool { return f.Name == fragment })
	if i < 0 {
		return ""
	}
	f := l.res.Fragments[i]
	if l.read[fragment] == nil {
		// The transpiler creates only fragments that can be read.
		layers, _ := lineage.LayersOf([]*mcfgv1.MachineConfig{f.MachineConfig}, []transpile.Fragment{f})
		l.read[fragment] = lineage.New(layers, lineage.Options{})
	}
	if last, ok := l.read[fragment].Last(kind, name); ok {
		return last.At.String()
	}
	start, _ := f.Origin.Find("$")
	return start.String()
}

// mentioned returns a position for a problem: in the last fragment that it names, the longest item that it names.
func (l locator) mentioned(problem string) string {
	words := strings.FieldsFunc(problem, func(r rune) bool { return strings.ContainsRune(" ,:;()\"", r) })
	for _, w := range slices.Backward(words) {
		if at := l.place(w, "", ""); at == "" {
			continue
		}
		var best lineage.Name
		for _, n := range l.read[w].NamesOf() {
			if n.Name != "" && slices.Contains(words, n.Name) &&
				(len(n.Name) > len(best.Name) || len(n.Name) == len(best.Name) && n.Kind < best.Kind) {
				best = n
			}
		}
		return l.place(w, best.Kind, best.Name)
	}
	return ""
}

func (l locator) entry(s transpile.Severity, rule, message, at string) transpile.Entry {
	e := transpile.Entry{Severity: s, Rule: rule, Message: message, File: at}
	for range 2 {
		i := strings.LastIndexByte(e.File, ':')
		if i < 0 {
			break
		}
		n, err := strconv.Atoi(e.File[i+1:])
		if err != nil {
			break
		}
		e.File, e.Line, e.Column = e.File[:i], n, e.Line
	}
	return e
}
