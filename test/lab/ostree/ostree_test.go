package ostree_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/test/lab/ostree"
)

// TestMain is also the daemon's host, run inside of a machine: `stage <step>` and `status`.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "inside" {
		os.Exit(m.Run())
	}
	if err := inside(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inside(verb string, args []string) error {
	ctx := context.Background()
	h, closeAll, err := linux.OpenHost(ctx, "/")
	if err != nil {
		return err
	}
	defer closeAll()
	if verb == "status" {
		is, err := h.OS.Status(ctx)
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(is))
	}
	var step host.Step
	return errors.Join(json.Unmarshal([]byte(args[0]), &step), h.OS.Stage(ctx, step))
}

// machine is an OSTree host with the daemon's host in it.
type machine struct {
	*ostree.Host
	t     *testing.T
	boots int
}

func start(t *testing.T) machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := ostree.Start(t, ostree.Options{
		Name: "tree", Args: []string{"--bind-ro=" + self + ":/run/inside"},
		Image: write(map[string]string{
			"usr/lib/lab-release": "one\n", "usr/etc/lab-default.conf": "one\n", "usr/etc/lab-kept.conf": "one\n",
		}),
		Prepare: write(map[string]string{"etc/lab-kept.conf": "mine\n", "var/lib/lab-state": "kept\n"}),
	})
	h.Commit("registry.example/os:2", write(map[string]string{
		"usr/lib/lab-release": "two\n", "usr/etc/lab-default.conf": "two\n", "usr/etc/lab-kept.conf": "two\n",
		"usr/etc/lab-new.conf": "two\n",
	}))
	return machine{Host: h, t: t, boots: 1}
}

// write makes files.
func write(files map[string]string) func(string) error {
	return func(root string) error {
		for at, text := range files {
			at = filepath.Join(root, at)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755),
				os.WriteFile(at, []byte(text), 0o644)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (m machine) status() (is host.OSStatus) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.Do("/run/inside", "inside", "status")), &is); err != nil {
		m.t.Fatal(err)
	}
	return is
}

func (m machine) stage(verb host.Verb, before, after string) {
	m.t.Helper()
	step, err := json.Marshal(host.Step{Verb: verb, Before: host.Value{Word: before}, After: host.Value{Word: after}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Do("/run/inside", "inside", "stage", string(step))
}

// reboot makes what is staged run, and finds that it is what was told before.
func (m *machine) reboot() {
	m.t.Helper()
	next, id := m.status().Next, m.BootID()
	m.Do("systemctl", "reboot")
	m.boots++
	m.AwaitBoot(m.t.Context(), m.boots)
	if again := m.BootID(); again == id {
		m.t.Errorf("it is still boot %s", id)
	}
	if is := m.status(); is.Booted != next || is.Next != next {
		m.t.Errorf("after the reboot it is %+v, want %+v", is, next)
	}
}

// runs compares what the machine itself shows.
func (m machine) runs(image, release, karg string) {
	m.t.Helper()
	is := m.Booted()
	if is.Image != image || slices.Contains(is.Kargs, "bunsen.test=1") != (karg != "") {
		m.t.Errorf("it runs %s with %q, want %s and %q", is.Image, is.Kargs, image, karg)
	}
	if got := strings.TrimSpace(m.Do("cat", "/usr/lib/lab-release")); got != release {
		m.t.Errorf("/usr is of image %s, want %s", got, release)
	}
}

func TestAnImageAndAnArgumentAreStagedRunAfterTheRebootAndGoBack(t *testing.T) {
	m := start(t)
	const one, two = ostree.First, "registry.example/os:2"
	first := m.status()
	if first.Booted != first.Next || first.Booted.Image != one || !first.Support.Image || !first.Support.Kargs ||
		first.Support.Extensions {
		t.Fatalf("it begins as %+v", first)
	}
	m.runs(one, "one", "")
	if out, err := m.Exec(t.Context(), "touch", "/usr/nothing"); err == nil || !strings.Contains(out, "Read-only") {
		t.Errorf("/usr can be written: %s", out)
	}

	for range 2 { // staging twice is staging once
		m.stage(host.SetImage, one, two)
		m.stage(host.SetKargs, "", "bunsen.test=1")
	}
	if is := m.status(); is.Booted != first.Booted || is.Next.Image != two || is.Next.Kargs != first.Booted.Kargs+
		" bunsen.test=1" {
		t.Fatalf("staged, it is %+v", is)
	}
	m.runs(one, "one", "")
	m.reboot()
	m.runs(two, "two", "bunsen.test=1")
	for at, want := range map[string]string{
		"/etc/lab-default.conf": "two", "/etc/lab-kept.conf": "mine",
		"/etc/lab-new.conf": "two", "/var/lib/lab-state": "kept",
	} {
		if got := strings.TrimSpace(m.Do("cat", at)); got != want {
			t.Errorf("%s has %q, want %q", at, got, want)
		}
	}

	m.Sh("echo later > /etc/lab-later.conf")
	m.stage(host.SetKargs, "bunsen.test=1", "")
	m.stage(host.SetImage, two, one)
	m.reboot()
	m.runs(one, "one", "")
	if is := m.status(); is.Booted != first.Booted {
		t.Errorf("back, it is %+v, want %+v", is.Booted, first.Booted)
	}
	// Not the /etc of before, but today's: a file of after the update is there, as is what a person wrote before it.
	for at, want := range map[string]string{
		"/etc/lab-default.conf": "one", "/etc/lab-kept.conf": "mine",
		"/etc/lab-later.conf": "later",
	} {
		if got := strings.TrimSpace(m.Do("cat", at)); got != want {
			t.Errorf("back, %s has %q, want %q", at, got, want)
		}
	}
}

func TestAStageThatIsTakenBackLeavesNothing(t *testing.T) {
	m := start(t)
	first := m.status()
	m.stage(host.SetImage, ostree.First, "registry.example/os:2")
	m.stage(host.SetKargs, "", "bunsen.test=1")
	m.stage(host.SetKargs, "bunsen.test=1", "")
	m.stage(host.SetImage, "registry.example/os:2", ostree.First)
	if is := m.status(); is != first {
		t.Errorf("taken back, it is %+v, want %+v", is, first)
	}
	m.reboot()
	m.runs(ostree.First, "one", "")
}

func TestAPowerCutLosesTheStageAndNothingElse(t *testing.T) {
	m := start(t)
	m.stage(host.SetImage, ostree.First, "registry.example/os:2")
	m.PowerCut()
	m.AwaitBoot(t.Context(), 2)
	if is := m.status(); is.Booted.Image != ostree.First || is.Next != is.Booted {
		t.Errorf("after the power cut it is %+v", is)
	}
}
