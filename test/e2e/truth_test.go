package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bunsen-os/bunsen/test/ports"
)

var update = flag.Bool("update", false, "rewrite the goldens of TestTruth; read the diff before you commit it")

// settle is how long a state may take to show in every output.
var settle = flag.Duration("settle", 2*time.Minute, "how long TestTruth waits until all outputs show a state")

// steady is for how long the outputs have to be the same before they become a golden.
const steady = 3 * time.Second

// TestTruth is the table of the states that a cluster can be in. Each state is checked for facts, for agreement between
// all outputs, and against a golden file in testdata/truth/SCRIPT/STATE.txt.
func TestTruth(t *testing.T) {
	t.Parallel()
	p := findParts(t)
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for _, set := range []map[string]func(*story, *testscript.TestScript, []string) error{
		storyCommands,
		truthCommands,
	} {
		for name, do := range set {
			commands[name] = command(do)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/truth", RequireUniqueNames: true, Cmds: commands,
		Setup: func(env *testscript.Env) error {
			if err := begin(env, p); err != nil {
				return err
			}
			return env.Values[storyKey{}].(*story).beginTruth(env)
		},
	})
}

// truthCommands are what the scripts of the truth table can do besides.
var truthCommands = map[string]func(*story, *testscript.TestScript, []string) error{
	"state": (*story).state, "fix": (*story).fix, "advice": (*story).advice, "instead": (*story).instead,
	"alternative": (*story).alternative, "poweron": (*story).poweron,
	"freeze": (*story).freeze, "thaw": (*story).thaw, "kubelet": (*story).reportKubelet,
	"nokubelet": (*story).nokubelet,
	"replica":   (*story).replica, "backdate": (*story).backdate, "network": (*story).userNetwork,
	"smalldisk": (*story).smalldisk, "fill": (*story).fill,
}

// truth is what a script of the truth table has collected.
type truth struct {
	// script is the name of the file, which is the directory of its goldens.
	script string
	// metrics is the address of the controller's metrics.
	metrics string
	// events are those that an earlier state had.
	events map[string]int32
	// configs are the words for rendered configs, by name.
	configs map[string]string
	// people do what advice says that is not a command.
	people []person
	// commands are those that only scripts of the truth table have.
	commands map[string]func(*story, *testscript.TestScript, []string) error
	// routes to the API server that the script can cut, by process.
	routes map[string]*way
}

// beginTruth gives the story an address for metrics, and git and kubectl an editor that does not ask.
func (s *story) beginTruth(env *testscript.Env) error {
	address, err := ports.Address()
	if err != nil {
		return err
	}
	script := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
	s.truth = &truth{
		script: script, metrics: address, events: map[string]int32{}, configs: map[string]string{},
		routes: map[string]*way{}, commands: truthCommands,
	}
	env.Setenv("METRICS", address)
	env.Setenv("GIT_EDITOR", "true")
	env.Setenv("KUBE_EDITOR", "false") // a script that needs an editor sets one
	env.Setenv("NO_COLOR", "1")
	return nil
}

// progress is for whoever watches the test run: testscript prints a script at its end.
func (s *story) progress(format string, args ...any) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format("15:04:05"), s.truth.script,
			fmt.Sprintf(format, args...))
	}
}

// want is one fact that must be true in a state.
type want struct{ about, field, value string }

// isOfPrograms says that `bunsen why` or `bunsen status` knows the fact.
func (w want) isOfPrograms() bool {
	return w.about == "status" || strings.HasPrefix(w.about, "node/") || strings.HasPrefix(w.about, "pool/")
}

// parseWants reads ABOUT=VALUE and ABOUT:FIELD=VALUE.
func parseWants(args []string) ([]want, error) {
	var out []want
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if strings.HasPrefix(arg, "metric:") { // labels have their own =
			i := strings.LastIndex(arg, "=")
			key, value, ok = arg[:i], arg[i+1:], true
		}
		about, field, _ := strings.Cut(key, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not ABOUT=OUTCOME, KIND/NAME:CONDITION=STATUS, metric:SERIES=VALUE or "+
				"status=EXITCODE", arg)
		}
		out = append(out, want{about, field, value})
	}
	return out, nil
}

// state NAME WANT... waits until every WANT is true and no two outputs contradict each other; then it compares all
// outputs with the golden file. WANT is node/NAME=OUTCOME[:CAUSE], pool/NAME=OUTCOME[:CAUSE],
// mcp/NAME:CONDITION=STATUS, gitsource/NAME:CONDITION=STATUS, metric:SERIES=VALUE or status=EXITCODE.
func (s *story) state(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return usage("state NAME WANT...")
	}
	wants, err := parseWants(args[1:])
	if err != nil {
		return err
	}
	var last snapshot
	var text string
	var since time.Time // when text changed last
	path := filepath.Join(s.root, "test", "e2e", "testdata", "truth", s.truth.script, args[0]+".txt")
	golden, _ := os.ReadFile(path) // one that is missing differs from everything
	err = poll(*settle, func() (bool, error) {
		if last, err = s.observe(ts, wants); err != nil {
			return false, fmt.Errorf("state %s: %w", args[0], err)
		}
		if wrong := append(last.missing(wants), last.contradictions()...); len(wrong) > 0 {
			return false, fmt.Errorf("state %s: outputs are wrong or disagree:\n  %s\n%s", args[0],
				strings.Join(wrong, "\n  "), last.text(strings.Clone))
		}
		before := text
		if text, err = s.normal(ts, last); err != nil {
			return false, err
		}
		if text != before {
			since = time.Now()
		}
		if *update {
			return time.Since(since) > steady, fmt.Errorf("state %s: the outputs keep changing:\n%s", args[0],
				difference(before, text))
		}
		return text == string(golden), fmt.Errorf("state %s differs from %s (-update rewrites it):\n%s", args[0], path,
			difference(string(golden), text))
	})
	if err != nil {
		return err
	}
	s.truth.remember(last.events)
	s.progress("state %s: every output is true", args[0])
	if !*update || text == string(golden) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// difference lists the lines that only one of two texts has.
func difference(is, now string) string {
	a, b := strings.Split(is, "\n"), strings.Split(now, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	if len(out) == 0 {
		return "the same lines in another order:\n" + now
	}
	return strings.Join(out, "\n")
}
