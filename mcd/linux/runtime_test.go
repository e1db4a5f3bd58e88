package linux_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/images"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

var (
	a = "r.example.com/team/a@sha256:" + strings.Repeat("a", 64)
	b = "r.example.com/team/b@sha256:" + strings.Repeat("b", 64)
)

// program plays crictl and ctr of a machine: it records its calls, and answers from files of the root.
const program = `#!/bin/sh
root=${0%/usr/local/bin/*}
echo "${0##*/} $*" >> "$root/calls"
test "${0##*/}" = crictl || { test ! -e "$root/gone" || { echo 'ctr: image "x": not found' >&2; exit 1; }; exit 0; }
shift 2
case $1 in
images) cat "$root/images.json" ;;
inspecti) grep -qx "$4" "$root/aliases" && exit 0; echo "FATA[0000] no such image \"$4\" present" >&2; exit 1 ;;
pull) test ! -e "$root/says" || { cat "$root/says" >&2; exit 1; }
	test ! -e "$root/fail" || { echo 'FATA[0000] pulling image: https://user:geheim@r.example.com/v2: 401 Unauthorized' >&2; exit 1; } ;;
esac
`

// pullLog is what crictl 1.34 prints if an image does not exist, with shorter names.
const pullLog = `time="2026-11-27T06:21:07Z" level=warning msg="Config \"/etc/crictl.yaml\" does not exist, trying next: \"/usr/bin/crictl.yaml\""
E1127 06:21:07.792881   17071 log.go:32] "PullImage from image service failed" err="rpc error: code = NotFound desc = failed to resolve image: \"r\": not found"
time="2026-11-27T06:21:07Z" level=fatal msg="pulling image: rpc error: code = NotFound desc = failed to resolve image: \"r\": not found"
`

// units records what is reloaded.
type units struct {
	host.Units
	calls func(string)
	fails error
}

func (u *units) Reload(_ context.Context, name string) error {
	u.calls("reload " + name)
	return u.fails
}

type machine struct {
	*testing.T
	dir   string
	root  *files.Root
	units *units
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, dir: t.TempDir()}
	m.units = &units{calls: func(line string) {
		f, err := os.OpenFile(filepath.Join(m.dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.WriteString(line + "\n")
	}}
	m.write("images.json", `{"images":[]}`)
	m.write("aliases", "")
	m.write("var/lib/x", "")
	m.write("etc/x", "")
	root, err := files.Open(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.root = root
	t.Cleanup(func() { root.Close() })
	return m
}

func (m *machine) write(name, text string) {
	m.Helper()
	at := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		m.Fatal(err)
	}
}

// open returns the runtime as another process would find it.
func (m *machine) open() *linux.Runtime {
	return &linux.Runtime{
		Root: m.root, Dir: m.dir, Units: m.units, Lock: func() func() { return func() {} },
		Simulated: true,
	}
}

// calls returns the calls since the last time.
func (m *machine) calls() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "calls"))
	os.Remove(filepath.Join(m.dir, "calls"))
	return strings.TrimSpace(string(text))
}

func (m *machine) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(text)
}

func (m *machine) wants(what, got, want string) {
	m.Helper()
	if got != want {
		m.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

const dropIn = "etc/crio/crio.conf.d/50-pinned-images"

func TestCRIO(t *testing.T) {
	m := newMachine(t)
	m.write("usr/local/bin/crictl", program)
	m.write("etc/kubernetes/kubelet.conf",
		`{"kind": "KubeletConfiguration", "containerRuntimeEndpoint": "/var/run/crio/crio.sock"}`)
	bring := func(all ...string) error { return images.Bring(t.Context(), m.open(), all) }
	if err := bring(a, b); err != nil {
		t.Fatal(err)
	}
	const to = "crictl --runtime-endpoint unix:///var/run/crio/crio.sock "
	m.wants("the calls", m.calls(), to+"images --output json\n"+to+"inspecti --output json "+a+"\n"+to+
		"inspecti --output json "+b+"\n"+to+"pull "+a+"\n"+to+"pull "+b+"\nreload crio.service")
	m.wants("the drop-in", m.read(dropIn), "[crio]\n  [crio.image]\n    pinned_images = [\""+a+"\", \""+b+"\"]\n")
	m.write("images.json", `{"images":[{"repoDigests":["`+a+`","`+b+`"]}]}`)
	if err := bring(a, b); err != nil {
		t.Fatal(err)
	}
	m.wants("what is done is not done again", m.calls(), to+"images --output json")
	m.units.fails = os.ErrPermission
	if err := bring(a); err == nil {
		t.Fatal("the reload failed")
	}
	m.calls()
	m.units.fails = nil
	if err := bring(a); err != nil {
		t.Fatal(err)
	}
	m.wants("a reload that failed is tried again", m.calls(), to+"images --output json\nreload crio.service")
	if err := bring(); err != nil {
		t.Fatal(err)
	}
	m.wants("unpinning", m.calls(), "reload crio.service")
	m.wants("the drop-in", m.read(dropIn), "")
	if err := bring(); err != nil {
		t.Fatal(err)
	}
	m.wants("unpinning again", m.calls(), "")
}

func TestContainerd(t *testing.T) {
	m := newMachine(t)
	m.write("usr/local/bin/crictl", program)
	m.write("usr/local/bin/ctr", program)
	m.write("run/containerd/containerd.sock", "")
	m.write("images.json", `{"images":[{"repoDigests":["`+a+`"]}]}`)
	m.write("aliases", b+"\n")
	if err := images.Bring(t.Context(), m.open(), []string{a, b}); err != nil {
		t.Fatal(err)
	}
	const look = "crictl --runtime-endpoint unix:///run/containerd/containerd.sock "
	const set = "ctr --address /run/containerd/containerd.sock --namespace k8s.io images label "
	m.wants("the calls", m.calls(), look+"images --output json\n"+look+"inspecti --output json "+b+"\n"+set+a+
		" io.cri-containerd.pinned=pinned\n"+set+b+" io.cri-containerd.pinned=pinned")
	m.write("images.json", `{"images":[]}`) // A user deletes both images, and containerd loses their labels.
	m.write("aliases", "")
	if err := m.open().Pull(t.Context(), a); err != nil { // The daemon crashes after it.
		t.Fatal(err)
	}
	m.calls()
	m.write("images.json", `{"images":[{"repoDigests":["`+a+`"]}]}`)
	m.write("aliases", b+"\n")
	if err := images.Bring(t.Context(), m.open(), []string{a, b}); err != nil {
		t.Fatal(err)
	}
	m.wants("the label of an image that was pulled again", m.calls(), look+"images --output json\n"+look+
		"inspecti --output json "+b+"\n"+set+a+" io.cri-containerd.pinned=pinned\n"+set+b+
		" io.cri-containerd.pinned=pinned")
	m.write("gone", "")
	if err := m.open().Pin(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.wants("unpinning", m.calls(), set+a+" io.cri-containerd.pinned=\n"+set+b+" io.cri-containerd.pinned=")
	m.wants("the record", m.read("var/lib/machine-config-daemon/pinned-images.json"), "")
	m.wants("the drop-in", m.read(dropIn), "")
}

// TestSpaceIsThatOfTheRuntimesImages mounts a small file system where each runtime has its images.
func TestSpaceIsThatOfTheRuntimesImages(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("it takes root, and CI runs all tests")
		}
		t.Skip("it mounts file systems, which takes root: run the tests as root, as make test does in CI")
	}
	for runtime, at := range map[string]string{
		"run/containerd/containerd.sock":     "var/lib/containerd",
		"run/crio/crio.sock":                 "var/lib/containers/storage",
		"run/k3s/containerd/containerd.sock": "var/lib/rancher",
		"no runtime":                         "var/lib/containerd",
	} {
		t.Run(runtime, func(t *testing.T) {
			m := newMachine(t)
			m.write(runtime, "")
			for _, dir := range []string{"var/lib/containerd", "var/lib/containers/storage", "var/lib/rancher"} {
				size := "4m"
				if dir == at {
					size = "1m"
				}
				m.write(dir+"/x", "")
				if err := unix.Mount("none", filepath.Join(m.dir, dir), "tmpfs", 0, "size="+size); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = unix.Unmount(filepath.Join(m.dir, dir), unix.MNT_DETACH) })
			}
			if _, total, err := m.open().Space(); err != nil || total != 1<<20 {
				t.Errorf("the total is %d, %v", total, err)
			}
		})
	}
}

// TestAnotherRuntimePinsAgain: what CRI-O had pinned has no label in containerd, although it is all there.
func TestAnotherRuntimePinsAgain(t *testing.T) {
	m := newMachine(t)
	m.write("usr/local/bin/crictl", program)
	m.write("usr/local/bin/ctr", program)
	m.write("images.json", `{"images":[{"repoDigests":["`+a+`"]}]}`)
	m.write("etc/kubernetes/kubelet.conf", `{"containerRuntimeEndpoint": "/var/run/crio/crio.sock"}`)
	if err := images.Bring(t.Context(), m.open(), []string{a}); err != nil {
		t.Fatal(err)
	}
	m.write("etc/kubernetes/kubelet.conf", `{"containerRuntimeEndpoint": "/run/containerd/containerd.sock"}`)
	m.calls()
	if err := images.Bring(t.Context(), m.open(), []string{a}); err != nil {
		t.Fatal(err)
	}
	if got := m.calls(); !strings.Contains(got, a+" io.cri-containerd.pinned=pinned") {
		t.Errorf("the calls: %s", got)
	}
	m.wants("the drop-in", m.read(dropIn), "")
}

// TestACrashLosesNoPin kills the daemon before each system call of pinning and unpinning, and lets another process
// continue.
func TestACrashLosesNoPin(t *testing.T) {
	for _, to := range [][]string{{a, b}, {b}, {}} {
		for n := 1; ; n++ {
			m := newMachine(t)
			m.write("usr/local/bin/crictl", program)
			m.write("run/crio/crio.sock", "")
			if err := m.open().Pin(t.Context(), []string{a}); err != nil {
				t.Fatal(err)
			}
			calls := 0
			m.root.Trap(func(string, string) error {
				if calls++; calls >= n {
					return os.ErrClosed
				}
				return nil
			})
			err := m.open().Pin(t.Context(), to)
			m.root.Trap(func(string, string) error { return nil })
			m.calls()
			if again := m.open().Pin(t.Context(), to); again != nil {
				t.Fatalf("after %d calls: %v", n, again)
			}
			want := ""
			if len(to) > 0 {
				want = "[crio]\n  [crio.image]\n    pinned_images = [\"" + strings.Join(to, "\", \"") + "\"]\n"
			}
			m.wants("the drop-in", m.read(dropIn), want)
			if err == nil {
				break
			}
			if got := m.calls(); got != "reload crio.service" &&
				!strings.Contains(m.read("var/lib/machine-config-daemon/pinned-images.json"), `"done":true`) &&
				len(to) > 0 {
				t.Errorf("after %d calls, CRI-O was not reloaded: %q", n, got)
			}
		}
	}
}

func TestMachinesThatCannotPull(t *testing.T) {
	for sentence, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"neither runtime":          {map[string]string{"usr/local/bin/crictl": program}, "the machine has neither CRI-O nor containerd"},
		"no crictl":                {map[string]string{"run/crio/crio.sock": ""}, "the machine has no program crictl"},
		"another runtime":          {map[string]string{"usr/local/bin/crictl": program, "var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/cri-dockerd.sock\n"}, "neither CRI-O nor containerd"},
		"an endpoint on a network": {map[string]string{"usr/local/bin/crictl": program, "etc/crictl.yaml": "runtime-endpoint: tcp://127.0.0.1:1\n"}, "which is no socket"},
		"a pull that fails":        {map[string]string{"usr/local/bin/crictl": program, "run/crio/crio.sock": "", "fail": ""}, "pulling " + a + ": crictl: exit status 1: FATA[0000] pulling image: https://…@r.example.com/v2: 401 Unauthorized"},
		"a pull with a log":        {map[string]string{"usr/local/bin/crictl": program, "run/crio/crio.sock": "", "says": pullLog}, "pulling " + a + ": crictl: pulling image: rpc error: code = NotFound desc = failed to resolve image: \"r\": not found"},
		"no list":                  {map[string]string{"usr/local/bin/crictl": program, "run/crio/crio.sock": "", "images.json": "x"}, "crictl printed no list"},
		"an endless list":          {map[string]string{"usr/local/bin/crictl": "#!/bin/sh\nexec yes\n", "run/crio/crio.sock": ""}, "it printed more than 16777216 bytes"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := newMachine(t)
			for name, text := range c.files {
				m.write(name, text)
			}
			err := images.Bring(t.Context(), m.open(), []string{a})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("it says %v", err)
			}
			if len(c.files) > 0 && m.open().HasCrictl() != (c.files["usr/local/bin/crictl"] != "") {
				t.Error("it has crictl or not")
			}
		})
	}
}
