package main

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// mostBytes is how large the binary may be that runs as root on every node.
const mostBytes = 40 << 20

// release builds the binary as a release is built: static and stripped.
func release(tb testing.TB) string {
	tb.Helper()
	at := filepath.Join(tb.TempDir(), "machine-config-daemon")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", at, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("building the binary: %v\n%s", err, out)
	}
	return at
}

func TestTheReleasedBinary(t *testing.T) {
	at := release(t)
	t.Run("is static and small", func(t *testing.T) { isStaticAndSmall(t, at) })
	t.Run("goes on inside of the machine's root", func(t *testing.T) { entersTheMachine(t, at) })
}

func isStaticAndSmall(t *testing.T, at string) {
	t.Helper()
	is, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB, of at most %.1f", float64(is.Size())/1e6, float64(mostBytes)/1e6)
	if is.Size() > mostBytes {
		t.Errorf("it has %d bytes; see what links what with go tool nm -size -sort size", is.Size())
	}
	program, err := elf.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close() //nolint:errcheck // only read
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("it is not static: it cannot go on inside of another root")
		}
	}
}

// contained is the binary as a container runs it: in a mount namespace, with a machine's root mounted without exec,
// which has a /proc. The directory is that root, outside of the namespace too.
func contained(tb testing.TB, binary, root string, args ...string) *exec.Cmd {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("mounting needs to be root")
	}
	const mount = `mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,noexec "$1" && mkdir -p "$1/proc" && mount -t proc proc "$1/proc" && shift && exec "$@"`
	cmd := exec.Command("sh", append([]string{"-ec", mount, "sh", root, binary}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// machineRoot is a directory with what every machine has.
func machineRoot(tb testing.TB, files map[string]string) string {
	tb.Helper()
	root := tb.TempDir()
	for p, text := range files {
		at := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

func entersTheMachine(t *testing.T, binary string) {
	t.Helper()
	t.Run("even where nothing can be executed there", func(t *testing.T) {
		root := machineRoot(t,
			map[string]string{
				"etc/ignition-machine-config-encapsulated.json": `{"it":"is the machine's"}`,
				"etc/os-release": "ID=test\n",
			})
		out, err := contained(t, binary, root, "firstboot", "--retry", "0", "--root-mount", root).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "metadata.name") {
			t.Errorf("%v\n%s", err, out)
		}
		if _, err := os.Stat(filepath.Join(root, "var/lib/machine-config-daemon/lock")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(root, "run")); err == nil {
			t.Error("it left something in /run")
		}
	})
	t.Run("not where the machine's own mounts are missing", func(t *testing.T) {
		root := machineRoot(t, map[string]string{"etc/hostname": "x\n"})
		cmd := exec.Command(binary, "firstboot", "--retry", "0", "--root-mount", root)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "HostToContainer") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("under its own name, in the same process", func(t *testing.T) {
		root := machineRoot(t, map[string]string{"etc/os-release": "ID=test\n"})
		cmd := contained(t, binary, root, "start", "--node-name", "worker-0", "--metrics", "127.0.0.1:0",
			"--root-mount", root)
		log, stop := running(t, cmd)
		defer stop()
		if line, err := log.ReadString('\n'); err != nil {
			t.Fatalf("it said nothing: %q %v", line, err)
		}
		if in, err := os.Readlink(fmt.Sprintf("/proc/%d/root", cmd.Process.Pid)); err != nil || in != root {
			t.Errorf("its root is %s, %v", in, err)
		}
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid)); err != nil ||
			!strings.HasPrefix(string(comm), "machine-config-") {
			t.Errorf("it is called %s, %v", comm, err)
		}
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		if err != nil || !strings.HasSuffix(string(args), "\x00--root-mount=/\x00--in-pod\x00") {
			t.Errorf("%q %v", args, err)
		}
	})
}

// running starts a command; what it logs can be read. The function ends it.
func running(tb testing.TB, cmd *exec.Cmd) (*bufio.Reader, func()) {
	tb.Helper()
	log, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return bufio.NewReader(log), func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
}

// BenchmarkIdle prints what the daemon costs while nothing happens: its memory, and how often its threads wake up. In a
// cluster, that is after it has written a hundred files.
//
//	go test -run '^$' -bench Idle -benchtime 1x ./cmd/machine-config-daemon
func BenchmarkIdle(b *testing.B) {
	binary := release(b)
	b.Run("in a cluster", func(b *testing.B) {
		p := controlPlane(b)
		// no server runs
		p.kubectl(b, "", "apply", "-k", filepath.Join("..", "..", "config", "components", "nodes-read-configs"))
		var files []string
		for i := range 100 { // at a path whose change disturbs nothing
			files = append(files,
				fmt.Sprintf(`{"path":"/etc/nmstate/openshift/%d.yml","contents":{"source":"data:,%s"}}`, i,
					strings.Repeat("x", 8000)))
		}
		p.kubectl(b,
			`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"rendered-worker-1"},"spec":{"config":{"ignition":{"version":"3.5.0"},"storage":{"files":[`+strings.Join(files, ",")+`]}}}}`, "create", "-f", "-")
		p.kubectl(b,
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-0","annotations":{"machineconfiguration.openshift.io/desiredConfig":"rendered-worker-1"}}}`, "create", "-f", "-")
		root := machineRoot(b, map[string]string{"etc/os-release": "ID=test\n", "var/lib/kubelet/kubeconfig": ""})
		p.identity(b, filepath.Join(root, "var/lib/kubelet/kubeconfig"), envtest.User{
			Name:   "system:node:worker-0",
			Groups: []string{"system:nodes"},
		})
		idle(b, contained(b, binary, root, "start", "--node-name", "worker-0", "--metrics", "127.0.0.1:0",
			"--root-mount", root), "msg=done node=worker-0 config=")
	})
	b.Run("without an API server that answers", func(b *testing.B) {
		root := machineRoot(b, map[string]string{"etc/os-release": "ID=test\n"})
		idle(b, contained(b, binary, root, "start", "--node-name", "worker-0", "--metrics", "127.0.0.1:0",
			"--root-mount", root), "the API server does not answer")
	})
}

// idle watches after the daemon has logged a line with these words.
func idle(b *testing.B, cmd *exec.Cmd, ready string) {
	b.Helper()
	log, stop := running(b, cmd)
	defer stop()
	patience := time.AfterFunc(time.Minute, stop)
	defer patience.Stop()
	for line := ""; !strings.Contains(line, ready); {
		var err error
		if line, err = log.ReadString('\n'); err != nil {
			b.Fatalf("it never said %q: %v", ready, err)
		}
	}
	go io.Copy(io.Discard, log) //nolint:errcheck // until it ends
	const warm, watched = 20 * time.Second, 20 * time.Second
	for b.Loop() {
		<-time.After(warm)
		before := switches(b, cmd.Process.Pid)
		<-time.After(watched)
		b.ReportMetric(float64(switches(b, cmd.Process.Pid)-before)/watched.Seconds(), "wakeups/s")
		b.ReportMetric(float64(status(b, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), "VmRSS"))/1024, "MiB-RSS")
		b.ReportMetric(float64(status(b, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), "RssAnon"))/1024, "MiB-own")
	}
}

// switches counts how often all threads of a process went to sleep.
func switches(tb testing.TB, pid int) (n int) {
	tb.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		tb.Fatalf("it has no threads: %v", err)
	}
	for _, at := range threads {
		n += status(tb, at, "voluntary_ctxt_switches")
	}
	return n
}

func status(tb testing.TB, at, field string) int {
	tb.Helper()
	text, err := os.ReadFile(at)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				tb.Fatal(err)
			}
			return n
		}
	}
	tb.Fatalf("%s has no %s", at, field)
	return 0
}
