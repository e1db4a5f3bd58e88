package image

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fakeRoot names the environment variable under which this test binary plays the machine's program: it writes down how
// it was called, and does with the files what the program does.
const fakeRoot = "BUNSEN_FAKE_ROOT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeDir); dir != "" {
		os.Exit(ostreePlay(dir, filepath.Base(os.Args[0]), os.Args[1:]))
	}
	if dir := os.Getenv(fakeRoot); dir != "" {
		if err := play(dir, append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the program. update-grub reads its files with sh, as the real one.
func play(dir string, argv []string) error {
	log, err := os.OpenFile(filepath.Join(dir, "does"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%q\n", argv)
	if err := log.Close(); err != nil {
		return err
	}
	if why, err := os.ReadFile(filepath.Join(dir, "broken")); err == nil {
		return errors.New(strings.TrimSpace(string(why)))
	}
	script := `. ./etc/default/grub; for f in ./etc/default/grub.d/*.cfg; do [ -e "$f" ] && . "$f"; done
printf 'menuentry one {\n\tlinux\t/vmlinuz root=/dev/sda1 ro %s %s\n}\n' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT" >./boot/grub/grub.cfg`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd.Run()
}

// testMachine is a machine of a script in a directory.
type testMachine struct {
	dir  string
	root *files.Root
	// running is the command line of the kernel.
	running string
	// seen are the files of the script, by path.
	seen []string
}

// machineOf makes the machine of a script: the sections with a slash are its files.
func machineOf(t *testing.T, script *txtar.Archive) *testMachine {
	t.Helper()
	m := &testMachine{dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		switch {
		case f.Name == "running":
			m.running = strings.TrimSpace(string(f.Data))
		case f.Name == "programs":
			for _, name := range strings.Fields(string(f.Data)) {
				at := filepath.Join(m.dir, "usr/sbin", name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(self, at)); err != nil {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(f.Name, "/"):
			m.put(t, f.Name, string(f.Data))
			m.seen = append(m.seen, f.Name)
		}
	}
	for _, dir := range []string{"run", "etc"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if m.root, err = files.Open(m.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.root.Close() })
	return m
}

func (m *testMachine) put(t *testing.T, at, text string) {
	t.Helper()
	at = filepath.Join(m.dir, at)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600),
		os.Chmod(at, 0o640)); err != nil {
		t.Fatal(err)
	}
}

func (m *testMachine) read(at string) string {
	text, err := os.ReadFile(filepath.Join(m.dir, at))
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)\n"
	}
	return string(text)
}

// open starts a daemon on the machine.
func (m *testMachine) open(t *testing.T) *BootLoaderFile {
	t.Helper()
	o, ok := DetectBootLoader(m.root, m.dir).(*BootLoaderFile)
	if !ok {
		t.Fatal("the machine has no known boot loader")
	}
	if o.generate.Path != "" {
		o.generate.Path, o.generate.Root, o.generate.Env = filepath.Join(m.dir, o.generate.Path), "/",
			[]string{fakeRoot + "=" + m.dir}
	}
	o.running = func() (string, error) { return m.running, nil }
	return o
}

// boot is a reboot: the running kernel gets the arguments that GRUB would give it.
func (m *testMachine) boot(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(m.dir, nodepath.BootedArguments)); err != nil {
		t.Fatal(err)
	}
	if line, ok := kernelLine(m.read(grubConfig)); ok {
		m.running = strings.Join(strings.Fields(line)[1:], " ")
		return
	}
	for _, at := range oemConfigs {
		if text := m.read(at); text != "(none)\n" {
			script := strings.ReplaceAll("\n"+text, "\nset ", "\n") // an assignment is a set in GRUB
			out, err := exec.Command("sh", "-c", script+"\nprintf %s \"$linux_append\"").Output()
			if err != nil {
				t.Fatal(err)
			}
			m.running = strings.Join(strings.Fields("rootflags=rw root=LABEL=ROOT console=tty0 "+string(out)), " ")
			return
		}
	}
	t.Fatal("nothing boots")
}

// do is one line of the script's steps.
func (m *testMachine) do(t *testing.T, line string) error {
	t.Helper()
	switch verb, rest, _ := strings.Cut(line, ":"); verb {
	case "boot":
		m.boot(t)
	case "break":
		m.put(t, "broken", rest)
	case "mend":
		return os.Remove(filepath.Join(m.dir, "broken"))
	case "append":
		at, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
		m.put(t, at, strings.TrimSuffix(m.read(at), "(none)\n")+text+"\n")
	default:
		before, after, ok := strings.Cut(rest, "->")
		if !ok {
			t.Fatalf("%q is no step", line)
		}
		return m.open(t).Stage(t.Context(),
			host.Step{
				Verb: host.Verb(verb), Before: host.Value{Word: strings.TrimSpace(before)},
				After: host.Value{Word: strings.TrimSpace(after)},
			})
	}
	return nil
}

// TestWhatEachStepDoesToTheFiles compares calls, files and the reported OS after each line of "steps".
func TestWhatEachStepDoesToTheFiles(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) < 4 {
		t.Fatalf("found %d scripts, %v", len(scripts), err)
	}
	for _, at := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(at), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(at)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: script.Comment}
			var steps []string
			for _, f := range script.Files {
				if strings.HasPrefix(f.Name, "after ") {
					continue
				}
				got.Files = append(got.Files, f)
				if f.Name == "steps" {
					steps = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
				}
			}
			m := machineOf(t, script)
			for i, line := range steps {
				text := m.after(t, line)
				got.Files = append(got.Files, txtar.File{
					Name: fmt.Sprintf("after %d, %s", i+1, line),
					Data: []byte(text),
				})
			}
			if *update {
				if err := os.WriteFile(at, txtar.Format(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(script)), string(txtar.Format(got))); diff != "" {
				t.Errorf("%s (-want +got), or run with -update:\n%s", at, diff)
			}
		})
	}
}

// after does a line and returns what changed, as text.
func (m *testMachine) after(t *testing.T, line string) string {
	t.Helper()
	var b strings.Builder
	before := map[string]string{}
	watched := slices.Concat(m.seen, []string{nodepath.GrubArguments, nodepath.BootedArguments}, oemConfigs)
	slices.Sort(watched)
	watched = slices.Compact(watched)
	for _, at := range watched {
		before[at] = m.read(at)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "does")); err != nil {
		t.Fatal(err)
	}
	if err := m.do(t, line); err != nil {
		fmt.Fprintf(&b, "error: %s\n", strings.ReplaceAll(err.Error(), m.dir, ""))
	}
	if does := m.read("does"); does != "(none)\n" {
		b.WriteString("calls " + does)
	}
	for _, at := range watched {
		if now := m.read(at); now != before[at] {
			fmt.Fprintf(&b, "%s:\n%s", at, indented(now))
		}
	}
	is, err := m.open(t).Status(t.Context())
	if err != nil {
		return b.String() + "status: " + err.Error() + "\n"
	}
	fmt.Fprintf(&b, "booted %s\nnext   %s\nown    %s\n", is.Booted.Kargs, is.Next.Kargs, is.Support.OwnKargs)
	return b.String()
}

func indented(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n\t") + "\n"
}

// TestACrashAfterAnyChangeEndsInOneOfTwoStates: the step again leads to the new arguments, and its inverse to every
// byte as before.
func TestACrashAfterAnyChangeEndsInOneOfTwoStates(t *testing.T) {
	step := host.Step{
		Verb: host.SetKargs, Before: host.Value{Word: "quiet old"},
		After: host.Value{Word: "quiet nosmt a=1"},
	}
	inverse := host.Step{Verb: host.SetKargs, Before: step.After, After: step.Before}
	for _, name := range []string{"debian", "flatcar"} {
		script, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, dies := range []string{
			"before all", "after the record of the boot", "after the file",
			"in the program",
		} {
			for _, goesOn := range []host.Step{step, inverse} {
				t.Run(name+", "+dies+", then "+goesOn.String(), func(t *testing.T) {
					m := machineOf(t, script)
					if err := m.open(t).Stage(t.Context(),
						host.Step{
							Verb: host.SetKargs, Before: host.Value{Word: "quiet"},
							After: host.Value{Word: "quiet old"},
						}); err != nil {
						t.Fatal(err)
					}
					m.boot(t)
					before := m.files()
					crash(t, m, step, dies)
					if err := m.open(t).Stage(t.Context(), goesOn); err != nil {
						t.Fatal(err)
					}
					is, err := m.open(t).Status(t.Context())
					if want := strings.TrimSuffix(m.running, " old") + strings.TrimPrefix(goesOn.After.Word,
						"quiet"); err != nil || is.Next.Kargs != want {
						t.Errorf("next is %q, %v; want %q", is.Next.Kargs, err, want)
					}
					if after := m.files(); goesOn == inverse && after != before {
						t.Errorf("the files are\n%s\nwant\n%s", after, before)
					}
					m.boot(t)
					if is, err = m.open(t).Status(t.Context()); err != nil || is.Booted != is.Next ||
						host.JoinArgs(host.OwnArgs(is.Booted.Kargs, step.Before.Word,
							step.After.Word)) != goesOn.After.Word {
						t.Errorf("after the reboot: %+v, %v", is, err)
					}
				})
			}
		}
	}
}

// files are the boot loader's files as text.
func (m *testMachine) files() string {
	return m.read(nodepath.GrubArguments) + m.read(oemConfigs[0]) + m.read(grubConfig)
}

// crash leaves a machine as a daemon that dies in a step.
func crash(t *testing.T, m *testMachine, step host.Step, dies string) {
	t.Helper()
	if dies == "before all" {
		return
	}
	o := m.open(t)
	v, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	added, _ := host.AddedArgs(host.JoinArgs(v.own), step)
	switch dies {
	case "after the record of the boot":
		err = m.root.Write(nodepath.BootedArguments, host.Entry{Mode: 0o600}, []byte(host.JoinArgs(v.added)+"\n"))
	case "after the file":
		err = o.write(v, added)
	default:
		m.put(t, "broken", "killed")
		if err = o.Stage(t.Context(), step); o.generate.Path != "" && err == nil {
			t.Fatal("it does not say that its program failed")
		}
		err = os.Remove(filepath.Join(m.dir, "broken"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMachinesWithoutAKnownBootLoader: the daemon refuses their kernel arguments.
func TestMachinesWithoutAKnownBootLoader(t *testing.T) {
	for says, text := range map[string]string{
		"another OS":        "-- /etc/os-release --\nID=arch\n-- programs --\nupdate-grub\n-- /boot/grub/grub.cfg --\nx\n",
		"no update-grub":    "-- /etc/os-release --\nID=debian\n-- /boot/grub/grub.cfg --\nx\n",
		"no GRUB installed": "-- /etc/os-release --\nID=ubuntu\n-- programs --\nupdate-grub\n",
		"no OEM partition":  "-- /etc/os-release --\nID=flatcar\n",
		"Fedora CoreOS":     "-- /etc/os-release --\nID=fedora\nVARIANT_ID=coreos\n-- programs --\nrpm-ostree update-grub\n",
		"no os-release":     "-- /boot/grub/grub.cfg --\nx\n",
	} {
		m := machineOf(t, txtar.Parse([]byte(text)))
		if o := DetectBootLoader(m.root, m.dir); o != nil {
			t.Errorf("%s: %+v", says, o)
		}
	}
}

func TestTheSpaceForTheConfig(t *testing.T) {
	script, err := txtar.ParseFile("testdata/debian.txtar")
	if err != nil {
		t.Fatal(err)
	}
	m := machineOf(t, script)
	o := m.open(t)
	config := strings.Repeat("x", 5000)
	m.put(t, grubConfig, config)
	s := o.BootSpace([]host.Step{{Verb: host.SetKargs}})
	if s.At != "/boot/grub" || s.Least != 5001 || s.Free < s.Least {
		t.Errorf("got %+v", s)
	}
	if s := o.BootSpace([]host.Step{{Verb: host.Reboot}}); s != (host.BootSpace{}) {
		t.Errorf("without a step about the OS: %+v", s)
	}
}
