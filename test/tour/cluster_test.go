package tour_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/test/ports"
)

// machine is the machine of a reader: a home, a clone of the repository in an empty folder, and `make run` in it.
type machine struct {
	// folder was empty before the tour, and clone is in it.
	folder, clone string
	env           []string
	// ports are those of `make run`, and another one for directives: $PORT.
	ports []int
	run   *background
	runs  int
}

// The limits of waiting. A build with a cold cache takes minutes.
const (
	buildLimit   = 15 * time.Minute
	stopLimit    = 60 * time.Second
	commandLimit = 90 * time.Second
	rolloutLimit = 90 * time.Second
	pollInterval = 300 * time.Millisecond
)

// newMachine clones the committed tree.
func newMachine(t *testing.T, root, folder string) *machine {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	m := &machine{folder: folder, clone: filepath.Join(folder, "bunsen")}
	m.git(t, root)
	home := filepath.Join(m.folder, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.ports, err = ports.Free(5); err != nil {
		t.Fatal(err)
	}
	m.env = append(readersEnvironment(t), "HOME="+home, fmt.Sprintf(
		"UP=--api-port %d --etcd-port %d --etcd-peer-port %d --ignition-port %d --unsafe-no-fsync",
		m.ports[0], m.ports[1], m.ports[2], m.ports[3]))
	return m
}

// git clones the repository, or cleans the clone of an earlier tour.
func (m *machine) git(t *testing.T, root string) {
	t.Helper()
	commands := [][]string{{"clone", "--quiet", root, m.clone}}
	if _, err := os.Stat(m.clone); err == nil {
		commands = [][]string{{"-C", m.clone, "clean", "-ffdqx", "-e", ".run", "-e", "bin"}}
	}
	// A wrong page must not push to the repository around this package.
	commands = append(commands, []string{"-C", m.clone, "remote", "set-url", "--push", "origin", "/nowhere"})
	for _, c := range commands {
		if out, err := exec.Command("git", c...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", c, err, out)
		}
	}
	if !*uncommitted {
		return
	}
	for _, p := range tour {
		text, err := os.ReadFile(filepath.Join(root, p.file))
		if err == nil {
			err = os.WriteFile(filepath.Join(m.clone, p.file), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readersEnvironment is the environment without what tests, make, git and other clusters set. The reader's Go has the
// cache and the settings of this one.
func readersEnvironment(t *testing.T) []string {
	t.Helper()
	ours := regexp.MustCompile(`^(MAKE|MFLAGS|KUBE|BUNSEN|GIT|XDG_|HOME=|PWD=|OLDPWD=|UP=|CI=|DISPLAY=|BROWSER=)`)
	var env []string
	for _, v := range os.Environ() {
		if !ours.MatchString(v) {
			env = append(env, v)
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOENV"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

// start types `make run`, and waits until it says that it is up.
func (m *machine) start() error {
	m.runs++
	run, err := startBackground("make run", m.clone, filepath.Join(m.folder, fmt.Sprintf("run-%d", m.runs)), m.env)
	if err != nil {
		return err
	}
	m.run = run
	return run.until(regexp.MustCompile(`(?m)^Up after .*`), buildLimit)
}

// until waits until a program in the background has printed something.
func (b *background) until(pattern *regexp.Regexp, limit time.Duration) error {
	err := poll(limit, func() error {
		select {
		case err := <-b.ended:
			b.ended <- err
			return fmt.Errorf("%w: %q ended (%v)", errOver, b.command, err)
		default:
		}
		if pattern.MatchString(b.printed()) {
			return nil
		}
		return fmt.Errorf("%q has not printed %q", b.command, pattern)
	})
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, b.tail())
	}
	return nil
}

// stop presses Ctrl-C, and checks that nothing of `make run` is left.
func (m *machine) stop() error {
	if m.run == nil {
		return nil
	}
	run := m.run
	m.run = nil
	if err := run.interrupt(stopLimit); err != nil {
		return err
	}
	var errs []error
	if !regexp.MustCompile(`(?m)^✓ stopping`).MatchString(run.printed()) {
		errs = append(errs, fmt.Errorf("make run did not say that it stopped all programs:\n%s", run.tail()))
	}
	for _, port := range m.ports[:4] {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			errs = append(errs, fmt.Errorf("a program of make run is left: %w", err))
			continue
		}
		l.Close()
	}
	return errors.Join(errs...)
}

// errOver is the error of a condition that waiting cannot change.
var errOver = errors.New("waiting is over")

// poll tries a condition again until it holds. Its error is the last one.
func poll(limit time.Duration, condition func() error) error {
	for deadline := time.Now().Add(limit); ; <-time.After(pollInterval) {
		err := condition()
		switch {
		case err == nil || errors.Is(err, errOver):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%w, in %s", err, limit)
		}
	}
}

// settle waits until every pool runs the newest commit of the repository of `make run`.
func (m *machine) settle(tm *terminal) error {
	return poll(rolloutLimit, func() error {
		out, err := tm.succeed("git -C .run/config.git rev-parse main && "+
			"kubectl get gitsources,machineconfigpools -o json", commandLimit)
		if err != nil {
			return err
		}
		head, objects, _ := strings.Cut(out, "\n")
		if err := settled("main@sha1:"+head, objects); err != nil {
			return err
		}
		out, _, err = tm.do("bunsen why pool/worker", commandLimit)
		if err == nil && !strings.Contains(out, "is fine") {
			err = errors.New(out)
		}
		return err
	})
}

// settled checks that the GitSource config has applied a revision, and that all nodes run the configs that it renders.
func settled(revision, objects string) error {
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name string }
			Status   struct {
				AppliedRevision string
				Applying        any
				History         []struct {
					Revision string
					Pools    map[string]string
				}
				MachineCount, UpdatedMachineCount, ReadyMachineCount int
				Configuration                                        struct{ Name string }
			}
		}
	}
	if err := json.Unmarshal([]byte(objects), &list); err != nil {
		return err
	}
	rendered := map[string]string{}
	for _, i := range list.Items {
		if i.Kind != "GitSource" || i.Metadata.Name != "config" {
			continue
		}
		if i.Status.AppliedRevision != revision || i.Status.Applying != nil || len(i.Status.History) == 0 ||
			i.Status.History[0].Revision != revision {
			return fmt.Errorf("the cluster has applied %s, not %s", i.Status.AppliedRevision, revision)
		}
		rendered = i.Status.History[0].Pools
	}
	pools := 0
	for _, i := range list.Items {
		s := i.Status
		config, rolledOut := rendered[i.Metadata.Name]
		if i.Kind != "MachineConfigPool" || !rolledOut {
			continue
		}
		pools++
		if s.Configuration.Name != config || s.UpdatedMachineCount != s.MachineCount ||
			s.ReadyMachineCount != s.MachineCount {
			return fmt.Errorf("pool %s runs %s on %d of %d nodes, not %s", i.Metadata.Name, s.Configuration.Name,
				s.UpdatedMachineCount, s.MachineCount, config)
		}
	}
	if pools == 0 {
		return fmt.Errorf("revision %s has no rendered pool", revision)
	}
	return nil
}
