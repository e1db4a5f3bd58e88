package tour_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	uncommitted = flag.Bool("uncommitted", false, "type the pages of the working tree, not those of the commit")
	only        = flag.String("only", "", "type only the pages whose path matches this regular expression")
	again       = flag.String("again", "", "keep everything in this folder, and use it again, for a faster start")
)

// stop is a page of the tour.
type stop struct {
	file string
	// in is the folder of the reader, in the clone. With "config", it is a new clone of the repository of `make run`.
	in string
	// prepared is set if the reader has the programs in PATH and a kubeconfig, as operators do.
	prepared bool
}

// configRepository is the folder of readers of pages about a config repository.
const configRepository = "config"

// tour are the pages, in the order in which they are typed.
var tour = []stop{
	{"README.md", ".", false},
	{"docs/getting-started.md", ".", false},
	{"examples/quickstart/README.md", "examples/quickstart", true},
	{"examples/cookbook/README.md", "examples/cookbook", true},
	{"examples/bare-metal/README.md", "examples/bare-metal", true},
	{"examples/secrets/README.md", configRepository, true},
	{"examples/ci/README.md", ".", true},
	{"examples/fcos-kubeadm/README.md", "examples/fcos-kubeadm", true},
	{"examples/flatcar-kubeadm/README.md", "examples/flatcar-kubeadm", true},
	{"docs/laptop.md", ".", true},
	{"docs/installing.md", configRepository, true},
	{"docs/rollouts.md", configRepository, true},
	{"docs/gates.md", configRepository, true},
	{"docs/drains.md", configRepository, true},
	{"docs/rollback.md", configRepository, true},
	{"docs/blocked-rollouts.md", configRepository, true},
	{"docs/per-node.md", configRepository, true},
	{"docs/editor.md", configRepository, true},
	{"docs/secrets.md", configRepository, true},
	{"docs/secrets-checks.md", configRepository, true},
	{"docs/secrets-keys.md", configRepository, true},
	{"docs/remote-content.md", configRepository, true},
	{"docs/oci-files.md", configRepository, true},
	{"docs/os-images.md", configRepository, true},
	{"docs/large-files.md", configRepository, true},
	{"docs/new-repository.md", ".", true},
	{"docs/adopting.md", ".", true},
	{"docs/catalogue.md", ".", true},
	{"docs/console.md", ".", true},
	{"docs/trust.md", ".", true},
	{"docs/sources.md", configRepository, true},
	{"docs/sources-credentials.md", configRepository, true},
	{"docs/sources-signatures.md", configRepository, true},
	{"docs/sources-oci.md", configRepository, true},
	{"docs/sources-webhooks.md", configRepository, true},
	{"docs/pull-requests.md", configRepository, true},
	{"docs/ci.md", configRepository, true},
	{"docs/notifications.md", configRepository, true},
	{"docs/provisioning.md", ".", true},
	{"docs/provisioning-problems.md", ".", true},
	{"docs/provisioning-pools.md", ".", true},
	{"docs/pinned-images.md", configRepository, true},
	{"docs/upgrading.md", ".", true},
}

// root is the repository.
var root, _ = filepath.Abs("../..")

// pages reads the pages of the tour.
func pages(t *testing.T, root string) map[string]page {
	t.Helper()
	out := map[string]page{}
	for _, s := range tour {
		text, err := os.ReadFile(filepath.Join(root, s.file))
		if err != nil {
			t.Fatal(err)
		}
		p, errs := read(s.file, string(text))
		for _, e := range errs {
			t.Error(e)
		}
		out[s.file] = p
	}
	return out
}

// maxSkipped is the part of all blocks that pages may skip, in percent.
const maxSkipped = 15

// Each block of the pages is used, or skipped for a reason, and few are.
func TestBlocksAreAccountedFor(t *testing.T) {
	account(t, pages(t, root))
}

func account(t *testing.T, pages map[string]page) {
	t.Helper()
	all, skipped := 0, 0
	for _, s := range tour {
		count := map[string]int{}
		for _, b := range pages[s.file].blocks {
			fate, err := b.fate()
			if err != nil {
				t.Error(err)
			}
			count[fate]++
			for _, d := range b.all("skip") {
				t.Logf("%s: skipped: %s", d, d.text)
			}
		}
		all, skipped = all+len(pages[s.file].blocks), skipped+count["skip"]
		t.Logf("%-36s %d typed, %d as files, %d as output, %d skipped", s.file, count["typed"]+count["run"],
			count["file"], count["output"], count["skip"])
	}
	t.Logf("%d of %d blocks are skipped", skipped, all)
	if skipped*100 > all*maxSkipped {
		t.Errorf("%d of %d blocks are skipped, which is more than %d %%", skipped, all, maxSkipped)
	}
}

// A reader types the pages in order, and gets what they promise.
func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs everything, which takes minutes")
	}
	folder := *again
	if folder == "" {
		folder = t.TempDir()
	}
	m := newMachine(t, root, folder)
	book := pages(t, m.clone)
	account(t, book)
	t.Cleanup(func() {
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
	begun := time.Now()
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("make run was up after %.0f s", time.Since(begun).Seconds())
	for _, s := range tour {
		if ok, _ := regexp.MatchString(*only, s.file); !ok || len(book[s.file].blocks) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(s.file, "/", "-"), func(t *testing.T) { m.visit(t, s, book[s.file]) })
	}
}

// visit types one page.
func (m *machine) visit(t *testing.T, s stop, p page) {
	r := &visitor{T: t, machine: m, stop: s}
	if m.run == nil {
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
	}
	r.reset()
	r.open()
	for _, b := range p.blocks {
		if !r.block(b) {
			t.Errorf("%s: the rest of the page is not typed", b)
			break
		}
	}
	for _, b := range r.backgrounds {
		if err := b.interrupt(stopLimit); err != nil {
			t.Error(err)
		}
	}
}

// visitor types a page.
type visitor struct {
	*testing.T
	machine *machine
	stop    stop
	// directory is where terminals open.
	directory string
	terminal  *terminal
	// scratch is an empty folder for directives: $SCRATCH.
	scratch string
	// last is what the last block printed.
	last        string
	backgrounds []*background
}

// operator is a terminal with the programs in PATH and a kubeconfig.
func (r *visitor) operator(directory string) *terminal {
	m := r.machine
	return openTerminal(r.T, directory, append(r.environment(),
		"KUBECONFIG="+filepath.Join(m.clone, ".run", "kubeconfig"),
		"PATH="+filepath.Join(m.clone, "bin")+":"+os.Getenv("PATH")))
}

// environment is that of the reader, with the folder of the clone and an empty one for directives.
func (r *visitor) environment() []string {
	if r.scratch == "" {
		r.scratch = r.TempDir()
	}
	return append(slices.Clone(r.machine.env), "TOUR="+r.machine.clone, "SCRATCH="+r.scratch,
		fmt.Sprintf("PORT=%d", r.machine.ports[4]))
}

// reset brings the cluster back to the first commit, and removes what other pages have left.
func (r *visitor) reset() {
	r.Helper()
	tm := r.operator(r.machine.clone)
	if out, err := tm.succeed(leftBehind, commandLimit); err != nil {
		r.Fatalf("resetting: %v\n%s", err, out)
	}
	if err := r.machine.settle(tm); err != nil {
		status, _, _ := tm.do("bunsen status; bunsen why pool/worker", commandLimit)
		r.Fatalf("the cluster did not come back to the first commit: %v\n%s", err, status)
	}
}

// leftBehind makes the tree of the first commit the newest one, and deletes objects that pages created. Commits stay,
// as after a revert.
const leftBehind = `
set -e
git -C .run/config.git rev-parse -q --verify refs/tour/first >/dev/null ||
  git -C .run/config.git update-ref refs/tour/first main
if ! git -C .run/config.git diff --quiet refs/tour/first main; then
  git -C .run/config.git update-ref refs/heads/main $(git -C .run/config.git -c user.name=Ada \
    -c user.email=ada@example.org commit-tree -p main -m 'Back to the first commit' 'refs/tour/first^{tree}')
fi
kubectl get gitsources -o name | grep -v /config$ | xargs -r kubectl delete
[ -e .run/tour.json ] || kubectl get gitsource config -o jsonpath='{.spec}' > .run/tour.json
kubectl patch gitsource config --type json -p '[{"op": "replace", "path": "/spec", "value": '"$(cat .run/tour.json)"'}]'
kubectl delete notifications,provisioningtokens,rolloutpolicies,driftpolicies --all
for ns in bunsen-sources bunsen-secrets bunsen-notifications; do
  kubectl delete secrets,configmaps --all -n $ns
done
kubectl delete -n bunsen-system --ignore-not-found secret/bunsen-age
bunsen release pool/worker >/dev/null 2>&1 || true
bunsen resume pool/worker >/dev/null 2>&1 || true
set +e
`

// open opens a terminal where the page begins.
func (r *visitor) open() {
	r.Helper()
	m := r.machine
	if r.directory == "" {
		r.directory = filepath.Join(m.clone, r.stop.in)
		if r.stop.in == configRepository {
			r.directory = filepath.Join(r.TempDir(), "os-config")
			if out, err := exec.Command("git", "clone", "-q", filepath.Join(m.clone, ".run", "config.git"),
				r.directory).CombinedOutput(); err != nil {
				r.Fatalf("%v\n%s", err, out)
			}
		}
	}
	if r.stop.prepared {
		r.terminal = r.operator(r.directory)
		return
	}
	r.terminal = openTerminal(r.T, r.directory, r.environment())
}

// block uses one block. It returns false if the rest of the page makes no sense.
func (r *visitor) block(b block) bool {
	fate, err := b.fate()
	if err != nil {
		r.Error(err)
		return true
	}
	if fate == "skip" {
		return true
	}
	steps := []func(block, string) error{r.before, r.use, r.after}
	for _, step := range steps {
		if err := step(b, fate); err != nil {
			r.Error(err)
			return !errors.Is(err, errHangs)
		}
	}
	return true
}

func (r *visitor) before(b block, _ string) error {
	if b.has("stop") {
		if err := r.machine.stop(); err != nil {
			return fmt.Errorf("%s: Ctrl-C: %w", b, err)
		}
	}
	if b.has("terminal") {
		r.open()
	}
	return r.hidden(b.all("before"))
}

// after does and awaits what comes after a block, in the order of the directives.
func (r *visitor) after(b block, _ string) error {
	for _, d := range b.does {
		var err error
		switch d.verb {
		case "after":
			err = r.hidden([]directive{d})
		case "until":
			err = r.until(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rolledOut is what a directive says in place of a command if the reader waits for a rollout.
const rolledOut = "rolled out"

// hidden types commands that the page does not show.
func (r *visitor) hidden(commands []directive) error {
	for _, d := range commands {
		if d.text == rolledOut {
			if err := r.machine.settle(r.operator(r.machine.clone)); err != nil {
				return fmt.Errorf("%s: %w", d, err)
			}
			continue
		}
		if _, err := r.terminal.succeed(d.text, commandLimit); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// use does with a block what a reader does.
func (r *visitor) use(b block, fate string) error {
	if fate != "typed" {
		text, err := r.replaced(b, strings.Join(b.lines, "\n"))
		if err != nil {
			return err
		}
		b.lines = strings.Split(text, "\n")
	}
	switch fate {
	case "run":
		if got := strings.TrimSpace(strings.Join(b.lines, "\n")); got != r.machine.run.command {
			return fmt.Errorf("%s: the page says %q, and the tour began with %q", b, got, r.machine.run.command)
		}
		return nil
	case "file":
		return r.file(b)
	case "output":
		return r.output(b)
	}
	if b.has("background") {
		return r.background(b)
	}
	return r.typed(b)
}

// replaced puts values in place of what the page says to replace. A value may come from the command before.
func (r *visitor) replaced(b block, text string) (string, error) {
	for _, d := range b.all("replace") {
		old, value, ok := strings.Cut(d.text, " with ")
		if !ok || !strings.Contains(strings.Join(b.lines, "\n"), old) {
			return "", fmt.Errorf("%s: write: replace OLD with NEW, where the block has OLD", d)
		}
		if !strings.Contains(text, old) {
			continue
		}
		value, err := r.terminal.expand(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", d, err)
		}
		text = strings.ReplaceAll(text, old, value)
	}
	return text, nil
}

func (r *visitor) file(b block) error {
	d := b.all("file")[0]
	name, err := r.terminal.expand(d.text)
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	here, _, err := r.terminal.here()
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(here, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	if err := os.WriteFile(name, []byte(strings.Join(b.lines, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	return nil
}

func (r *visitor) output(b block) error {
	d := b.all("output")[0]
	shown, came, what := strings.Join(b.lines, "\n"), r.last, "what was typed before"
	if d.text != "" {
		command, ok := strings.CutPrefix(d.text, "of ")
		if !ok {
			return fmt.Errorf("%s: write: output of COMMAND", d)
		}
		var err error
		if came, _, err = r.terminal.do(command, commandLimit); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		what = command
	}
	if b.language == "json" {
		for _, text := range []*string{&came, &shown} {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(*text)); err != nil {
				return fmt.Errorf("%s: output of %s: %w", b, what, err)
			}
			*text = compact.String()
		}
	}
	if got := differs(strings.Split(shown, "\n"), strings.Split(came, "\n")); got != "" {
		return fmt.Errorf("%s: output of %s: %s", b, what, got)
	}
	return nil
}

// typed types the commands of a block, one after another.
func (r *visitor) typed(b block) error {
	r.last = ""
	commands := b.commands()
	for i, c := range commands {
		want, err := b.code(c, i == len(commands)-1)
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%s:%d: %s", b.file, c.line, c.command)
		command, err := r.replaced(b, c.command)
		if err != nil {
			return err
		}
		out, code, err := r.terminal.do(command, commandLimit)
		r.last += out
		switch {
		case err != nil:
			return fmt.Errorf("%s\n%w:\n%s", at, err, indented(strings.Split(out, "\n")))
		case code != want:
			return fmt.Errorf("%s\nit ended with %d, not %d:\n%s", at, code, want, indented(strings.Split(out, "\n")))
		case len(trimmed(c.shown)) > 0:
			if got := differs(c.shown, strings.Split(out, "\n")); got != "" {
				return fmt.Errorf("%s\n%s", at, got)
			}
		}
	}
	return r.prints(b)
}

// code is the exit code that the page promises for a command: that of a directive that names the beginning of the
// command, or names none and the command is the last one.
func (b block) code(c typing, last bool) (int, error) {
	for _, d := range b.all("exits") {
		text, command, _ := strings.Cut(d.text, " ")
		code, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", d, err)
		}
		if command == "" && last || command != "" && strings.HasPrefix(c.command, command) {
			return code, nil
		}
	}
	return 0, nil
}

// prints compares the output of a block with what the page says about it.
func (r *visitor) prints(b block) error {
	for _, d := range b.all("prints") {
		pattern, err := regexp.Compile("(?m)" + d.text)
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		if !pattern.MatchString(r.last) {
			return fmt.Errorf("%s: the block at line %d does not print %q:\n%s", d, b.line, d.text,
				indented(strings.Split(r.last, "\n")))
		}
	}
	return nil
}

// background starts a block that runs until the page ends.
func (r *visitor) background(b block) error {
	commands := b.commands()
	last := commands[len(commands)-1]
	for i := range commands {
		command, err := r.replaced(b, commands[i].command)
		if err != nil {
			return err
		}
		if commands[i].command = command; i == len(commands)-1 {
			last = commands[i]
			break
		}
		if _, err := r.terminal.succeed(command, commandLimit); err != nil {
			return fmt.Errorf("%s:%d: %w", b.file, commands[i].line, err)
		}
	}
	here, env, err := r.terminal.here()
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	bg, err := startBackground(last.command, here, filepath.Join(r.TempDir(), "output"), env)
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	r.backgrounds = append(r.backgrounds, bg)
	for _, d := range b.all("prints") {
		pattern, err := regexp.Compile("(?m)" + d.text)
		if err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		if err := bg.until(pattern, rolloutLimit); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// until waits for what the page says that happens.
func (r *visitor) until(d directive) error {
	expression, command, _ := strings.Cut(d.text, " ")
	pattern, err := regexp.Compile("(?m)" + expression)
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	err = poll(rolloutLimit, func() error {
		out, _, err := r.terminal.do(command, commandLimit)
		if err != nil {
			return fmt.Errorf("%w: %w", errOver, err)
		}
		if !pattern.MatchString(out) {
			return fmt.Errorf("%q does not print %q:\n%s", command, expression, indented(strings.Split(out, "\n")))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	return nil
}
