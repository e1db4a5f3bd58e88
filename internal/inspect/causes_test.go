package inspect_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"golang.org/x/tools/txtar"
)

// causeRow says who helps against a cause. Exactly one of the fields is set.
type causeRow struct {
	// typed names the test that types what `bunsen why` prints, in the state in which it prints it, until all is well:
	// a script of test/e2e/testdata with one of its states, or a script with lines `todo` and `fine`.
	typed string
	// ends says why nobody has to do anything.
	ends string
	// reads says what the commands show, if they change nothing.
	reads string
	// other says which other cause the answer with the commands has.
	other string
}

// waitCauses has each cause why a pool or a node waits.
var waitCauses = map[string]causeRow{
	"Invalid":    {typed: "truth/policies after-missing"},
	"Secrets":    {typed: "script/secret-changes"},
	"Applying":   {typed: "truth/source edited-while-suspended"},
	"Paused":     {typed: "truth/rollout paused"},
	"Halted":     {typed: "truth/rollout halted"},
	"Reverted":   {typed: "truth/rollout reverted"},
	"AfterPool":  {other: "that of the pool that is updated first, whose commands the answer repeats"},
	"Window":     {typed: "truth/rollout window"},
	"Gate":       {typed: "truth/policies gate-unreachable"},
	"Step":       {typed: "truth/policies empty-canary"},
	"Soak":       {ends: "the time ends"},
	"Together":   {other: "that of the nodes of the other pools, whose commands the answer has"},
	"Budget":     {other: "that of the nodes that take the places, such as Cordoned and NotReady"},
	"Drain":      {typed: "truth/course budget-of-pods"},
	"Cordoned":   {typed: "truth/course cordoned"},
	"NotReady":   {typed: "truth/dead node-dead"},
	"Failed":     {typed: "truth/rollout halted"},
	"Fetch":      {typed: "script/fetch-untrusted"},
	"Held":       {typed: "script/hold-again"},
	"Updating":   {ends: "the daemon is at work; a node that takes too long has the commands of Drain or NotReady"},
	"Next":       {ends: "the controller assigns the config in the same moment"},
	"Controller": {typed: "truth/processes controller-dead"},
	"Render":     {typed: "truth/manual render-refused"},
	"Source":     {typed: "truth/processes not-looked-at"},
	"Conflict":   {typed: "truth/course two-pools"},
	"NoDaemon":   {typed: "truth/dead no-daemon"},
	"Drift":      {other: "Failed: a node with drift that its policy does not allow is Degraded (truth/manual drift)"},
	"NoPool":     {reads: "which labels the node has, and which ones the pools select; a user may want no pool"},
	"Denied":     {reads: "why the certificate request was denied"},
	"Stale":      {reads: "whether a controller runs"},

	"DaemonSilent":    {typed: "truth/dead daemon-dead"},
	"HostsController": {ends: "the other nodes end their updates first"},
	"Labels":          {typed: "script/todo"},
}

// failureCauses has each cause why a node failed. `bunsen why` chooses commands by it, in the answer for Failed or
// Halted.
var failureCauses = map[string]causeRow{
	"Host":     {typed: "script/todo"},
	"DiskFull": {typed: "truth/manual full-disk"},
	"Drift":    {typed: "truth/manual drift"},
	"Apply":    {typed: "truth/rollout halted"},
	"Refused":  {other: "Apply: the commands revert the commit, as for any failure that a commit caused"},
	"Rejected": {other: "Apply: the commands revert the commit, as for any failure that a commit caused"},
	"Blocked":  {other: "Apply: the commands revert the commit, as for any failure that a commit caused"},
	"Lost":     {other: "NotReady: the commands are those for a node whose kubelet does not report"},
	"Drain":    {other: "Drain: the commands are those for the budget, also after an hour"},
	"Uncordon": {reads: "whether a controller runs, which is to uncordon the node"},
	"NoConfig": {typed: "script/todo"},
	"NoAccess": {typed: "script/no-config"},

	"UnsafePath": {typed: "script/unsafe-path"},
}

// TestEveryCause: each cause that a program may give has a row that says which test types its commands from the state
// in which they are printed, or why nobody has to do anything.
func TestEveryCause(t *testing.T) {
	waits := constantsOf(t, "Cause", "../../reconcile/rollout/poolstate", "fleet")
	failures := constantsOf(t, "FailureCause", "../../api/v1alpha1")
	printed := printedCauses(t)
	for _, c := range []struct {
		what  string
		found map[string]bool
		rows  map[string]causeRow
	}{{"cause", waits, waitCauses}, {"failure cause", failures, failureCauses}} {
		if len(c.found) < 10 {
			t.Fatalf("only %d constants of a %s were found", len(c.found), c.what)
		}
		for name := range c.found {
			if _, has := c.rows[name]; !has {
				t.Errorf("%s %s has no row: say who types its commands", c.what, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.rows)) {
			row := c.rows[name]
			if !c.found[name] {
				t.Errorf("no program gives the %s %s", c.what, name)
			}
			for problem := range row.problems(c.what, name, printed[c.what+" "+name]) {
				t.Errorf("%s %s: %s", c.what, name, problem)
			}
		}
	}
	for name := range constantsOf(t, "Cause", "../../reconcile/rollout") {
		if _, has := inspect.Advices()[poolstate.Cause(name)]; !has {
			t.Errorf("reason.Advices does not have the cause %s", name)
		}
	}
}

// problems yields what is wrong with a row. The parameter do has the commands that the screens print for the cause.
func (r causeRow) problems(what, cause string, do []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		set := 0
		for _, text := range []string{r.typed, r.ends, r.reads, r.other} {
			if text != "" {
				set++
			}
		}
		switch {
		case set != 1:
			yield(fmt.Sprintf("%d fields of its row are set", set))
		case r.typed != "" && len(do) == 0:
			yield("no screen shows its commands")
		case r.typed != "" && what == "failure cause":
			yieldError(yield, typedIn(r.typed, `"cause":"`+cause+`"`))
		case r.typed != "":
			yieldError(yield, typedIn(r.typed, ":"+cause))
		case r.ends != "" && len(do) > 0 && cause != "Updating":
			yield("it is said to end by itself, and a screen advises " + do[0])
		case r.reads != "" && len(do) == 0:
			yield("no screen shows its commands")
		case r.reads != "":
			for _, line := range do {
				if !readsOnly.MatchString(line) {
					yield("it is said to change nothing, and a screen advises " + line)
				}
			}
		}
	}
}

func yieldError(yield func(string) bool, err error) {
	if err != nil {
		yield(err.Error())
	}
}

// readsOnly are commands that change nothing.
var readsOnly = regexp.MustCompile(`^(kubectl (-n \S+ )?(get|describe)|bunsen (why|get)) `)

// typedIn returns an error unless a test has the cause and types what is printed then. A row `truth/SCRIPT STATE`
// names a state whose golden shows what `bunsen why` prints, and whose golden of `fix` shows what was typed until all
// was well. A row `script/NAME` names a story with a line `todo` and a later line `fine`.
func typedIn(row, cause string) error {
	const data = "../../test/e2e/testdata/"
	script, state, isState := strings.Cut(row, " ")
	text, err := os.ReadFile(data + script + ".txtar")
	if err != nil {
		return err
	}
	if !isState {
		name := strings.Trim(cause[strings.LastIndex(cause, ":")+1:], `"`)
		line := regexp.MustCompile(`(?m)^todo \S+ ` + name + ` `)
		todo := line.FindIndex(text)
		if todo == nil || !regexp.MustCompile(`(?m)^fine \S+$`).Match(text[todo[1]:]) {
			return fmt.Errorf("%s has no line `todo ABOUT %s …` with a line `fine` below", script, name)
		}
		return nil
	}
	fix := regexp.MustCompile(`(?m)^fix \S+ ` + state + `$`).FindIndex(text)
	if fix == nil {
		return fmt.Errorf("%s has no line `fix ABOUT %s`", script, state)
	}
	before := string(text[:fix[0]])
	before = before[max(0, strings.LastIndex(before, "\nfix ")):]
	if !regexp.MustCompile(`(?m)^state `+state+` `).MatchString(before) || !strings.Contains(before, cause) {
		return fmt.Errorf("%s has no state %s with %s before its fix", script, state, cause)
	}
	saw, err := os.ReadFile(data + script + "/" + state + ".txt")
	if err != nil {
		return err
	}
	did, err := os.ReadFile(data + script + "/" + state + ".fix.txt")
	if err != nil {
		return err
	}
	typed := 0
	for line := range strings.Lines(string(did)) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if advice, isAdvice := strings.CutPrefix(command, "# "); isAdvice {
			command, is = advice, true
		}
		if is && strings.Contains(string(saw), command) {
			typed++
		}
	}
	if typed == 0 || !strings.Contains(string(did), " is fine\n") {
		return fmt.Errorf("nothing that %s.txt advises was typed in %s.fix.txt until all was well", state, state)
	}
	return nil
}

// constantsOf returns the values of the constants of a type of string, or of constants that are named like it in a
// package that gives another package's type values.
func constantsOf(t *testing.T, of string, dirs ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				g, is := d.(*ast.GenDecl)
				if !is || g.Tok != token.CONST {
					continue
				}
				for _, s := range g.Specs {
					addConstants(t, s.(*ast.ValueSpec), of, out)
				}
			}
		}
	}
	return out
}

func addConstants(t *testing.T, s *ast.ValueSpec, of string, out map[string]bool) {
	t.Helper()
	isOf := false
	switch x := s.Type.(type) {
	case *ast.Ident:
		isOf = x.Name == of
	case *ast.SelectorExpr:
		isOf = x.Sel.Name == of
	}
	for i, name := range s.Names {
		var value *ast.BasicLit
		if i < len(s.Values) {
			value, _ = s.Values[i].(*ast.BasicLit)
		}
		switch {
		case isOf && value != nil:
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			out[text] = true
		case isOf, strings.HasPrefix(name.Name, of) && value == nil && s.Type == nil && of == "Cause":
			// Another name of a constant, such as fleet.CauseSilent.
			if _, alias := valueOf(s, i).(*ast.SelectorExpr); !alias {
				t.Errorf("the value of constant %s is not a literal: this test does not see it", name.Name)
			}
		}
	}
}

func valueOf(s *ast.ValueSpec, i int) ast.Expr {
	if i < len(s.Values) {
		return s.Values[i]
	}
	return nil
}

// printedCauses returns the commands that the screens of testdata print for each cause.
func printedCauses(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := parse(t, archive.Files[0].Data)
		for _, screen := range archive.Files[1:] {
			what, is := strings.CutPrefix(screen.Name, "why ")
			kind, name, _ := strings.Cut(what, "/")
			ask := map[string]func(fleet.Cluster, string, time.Time) (inspect.Why, error){
				"node": inspect.WhyNode, "pool": inspect.WhyPool, "gitsource": inspect.WhySource,
			}[kind]
			if !is || ask == nil {
				continue
			}
			w, err := ask(c.Cluster, name, noon)
			if err != nil {
				continue // The screen shows the error.
			}
			for _, a := range append(slices.Clone(w.Also), w.Answer) {
				key := "cause " + string(a.Cause)
				out[key] = append(out[key], a.Do...)
			}
			f := fleet.New(c.Cluster, noon)
			if row, of := f.Find(name); of != nil && kind == "node" {
				key := "failure cause " + string(inspect.FailureCause(f, row))
				for _, a := range append(slices.Clone(w.Also), w.Answer) {
					out[key] = append(out[key], a.Do...)
				}
			}
		}
	}
	return out
}
