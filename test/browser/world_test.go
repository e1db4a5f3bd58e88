package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/bunsen-os/bunsen/test/ports"
)

// hosts is how many simulated hosts run. The last two of them belong to each of the pools edge, gpu and storage, the
// others to worker.
const hosts = 24

// world is a control plane with Bunsen and simulated hosts, and the console in a browser.
type world struct {
	// bin has our programs, and standalone is the control plane.
	bin, standalone string
	// dir has everything that the test writes, data is the control plane's part of it, and clone is a clone of the
	// repository.
	dir, data, clone string
	env              []string
	// origin is the address of `bunsen ui`, without path. The browser has its cookie.
	origin   string
	chromium *chromium
	pictures *album
	// certificate is the one of shared, a console for several users.
	certificate certificate
	shared      *shared
	// silent is a tab whose network carries nothing, and quiet one whose page does not change.
	silent, quiet *tab
}

// newWorld starts everything. The test fails if a program is missing.
func newWorld(t *testing.T) *world {
	t.Helper()
	os.Getenv("BUNSEN_INPUTS") // for the test cache: see test/inputs
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bin: os.Getenv("BUNSEN_BIN"), dir: t.TempDir(), pictures: newAlbum(t)}
	if w.bin == "" {
		w.bin = filepath.Join(root, "bin")
	}
	if w.standalone, err = filepath.EvalSymlinks(filepath.Join(w.bin, "bunsen-standalone")); err != nil {
		t.Fatalf("no control plane to test with: run make standalone: %v", err)
	}
	for _, name := range []string{
		"bunsen", "machine-config-controller", "machine-config-server",
		"simulated-host",
	} {
		if _, err := os.Stat(filepath.Join(w.bin, name)); err != nil {
			t.Fatalf("no %s to test with: run make build: %v", name, err)
		}
	}
	w.data, w.clone = filepath.Join(w.dir, "data"), filepath.Join(w.dir, "clone")
	w.env = []string{
		"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "KUBECONFIG=" + filepath.Join(w.data,
			"kubeconfig"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	}
	w.write(t, ".gitconfig", "[user]\n\tname = Ada Lovelace\n\temail = ada@example.com\n")
	w.certificate = newCertificate(t, w.dir)
	w.chromium = startChromium(t, w.dir, chromedp.Flag("ignore-certificate-errors-spki-list", w.certificate.pin))
	w.startPlane(t, root)
	w.startConsole(t)
	w.shared = w.startShared(t)
	return w
}

// startPlane starts the control plane as `make run` does, with more hosts.
func (w *world) startPlane(t *testing.T, root string) {
	t.Helper()
	free, err := ports.Free(4)
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("testdata/repository")
	if err != nil {
		t.Fatal(err)
	}
	command := []string{
		w.standalone, "up", "--data", w.data, "--bin", w.bin, "--config", filepath.Join(root, "config"), "--examples",
		repository,
		"--nodes", strconv.Itoa(hosts), "--unsafe-no-fsync",
	}
	for i, flag := range []string{"--api-port", "--etcd-port", "--etcd-peer-port", "--ignition-port"} {
		command = append(command, flag, strconv.Itoa(free[i]))
	}
	startProcess(t, w.dir, "standalone", w.env, command...).printed(t, `(?m)^Up after (.*)`)
	for n := range hosts {
		labels := []string{
			"label", "node", fmt.Sprintf("node-%d", n+1),
			fmt.Sprintf("topology.kubernetes.io/zone=zone-%c", 'a'+n%3),
		}
		if pool := poolOf(n + 1); pool != "worker" {
			labels = append(labels, "node-role.kubernetes.io/"+pool+"=")
		}
		w.kubectl(t, labels...)
	}
	w.git(t, w.dir, "clone", "--quiet", filepath.Join(w.data, "config.git"), w.clone)
}

// poolOf returns the pool of the host with a number, from 1.
func poolOf(n int) string {
	switch {
	case n > hosts-2:
		return "storage"
	case n > hosts-4:
		return "gpu"
	case n > hosts-6:
		return "edge"
	}
	return "worker"
}

// first returns the name of the first node of a pool.
func first(pool string) string {
	for n := range hosts {
		if poolOf(n+1) == pool {
			return fmt.Sprintf("node-%d", n+1)
		}
	}
	return ""
}

// startConsole starts `bunsen ui` with the rights of the administrator, and opens its address in the browser.
func (w *world) startConsole(t *testing.T) {
	t.Helper()
	ui := startProcess(t, w.dir, "ui", w.env, filepath.Join(w.bin, "bunsen"), "ui", "--no-browser", "--repo", w.clone)
	found := ui.printed(t, `(http://127\.0\.0\.1:\d+)/\?token=\S+`)
	w.origin = found[1]
	b := w.chromium.open(t, w.origin)
	b.do("signing in", chromedp.Navigate(found[0]))
	b.until(`location.pathname === "/" && location.search === "" && document.title.includes("Overview")`)
}

// run executes a program, and returns what it prints on standard output.
func (w *world) run(t *testing.T, dir, stdin string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, w.env, strings.NewReader(stdin)
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", command, err, out, notes.String())
	}
	return strings.TrimSpace(string(out))
}

func (w *world) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return w.run(t, dir, "", append([]string{"git"}, args...)...)
}

func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return w.run(t, w.dir, "", append([]string{w.standalone, "kubectl"}, args...)...)
}

func (w *world) apply(t *testing.T, objects string) {
	t.Helper()
	w.run(t, w.dir, objects, w.standalone, "kubectl", "apply", "--server-side", "-f", "-")
}

// push writes files into the clone, commits and pushes them. It returns the first digits of the commit, as pages show
// it.
func (w *world) push(t *testing.T, subject string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		w.write(t, filepath.Join("clone", name), content)
	}
	w.git(t, w.clone, "add", "--all")
	w.git(t, w.clone, "commit", "--quiet", "--message", subject)
	return w.pushed(t)
}

// revert undoes the last commit.
func (w *world) revert(t *testing.T) string {
	t.Helper()
	w.git(t, w.clone, "revert", "--no-edit", "HEAD")
	return w.pushed(t)
}

func (w *world) pushed(t *testing.T) string {
	t.Helper()
	w.git(t, w.clone, "push", "--quiet")
	return w.git(t, w.clone, "rev-parse", "HEAD")[:8]
}

// write writes a file below the directory of the test.
func (w *world) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// onHost returns the path of a file of a simulated host, below the directory of the test.
func onHost(node, path string) string { return filepath.Join("data", "hosts", node, path) }
