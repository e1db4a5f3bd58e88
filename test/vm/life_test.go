package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// How long a step may wait: an emulated machine boots in half a minute where nobody else is at work, and in minutes
// where somebody is.
const (
	soon   = 5 * time.Minute
	aBoot  = 10 * time.Minute
	twoOf  = 15 * time.Minute
	asGone = 20 * time.Second // long enough to see that nothing happens
)

// nodeName is the machine's.
const nodeName = "worker-0"

// life is everything that the steps speak with.
type life struct {
	*transcript
	image   image
	plane   *plane
	repo    *repository
	machine *machine
	shell   *shell
	node    *watcher
	// config is the machine's rendered config by the last commit.
	config string
	// token that the machine was handed, and the file with what the cluster is to keep of it.
	token, keep string
}

// TestLife is the whole life, a subtest for each step. A step that fails does not end it: the next says what it sees.
func TestLife(t *testing.T) {
	root, bin := findParts(t)
	dir, err := os.MkdirTemp("", "bunsen-vm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if *keepRun || t.Failed() {
			t.Logf("the run's logs are in %s", dir)
			_ = os.Remove(filepath.Join(dir, "machine", "disk.raw")) // the largest, and rarely of use
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l := begin(t, root, bin, dir)
	for _, s := range []struct {
		title string
		do    func(*testing.T)
	}{
		{"A token that the cluster does not know: Ignition is refused, and the machine tries again", l.refused},
		{"First boot: Ignition asks our server, the daemon takes over", l.firstBoot},
		{"A change that needs no reboot", l.rebootless},
		{"A change that reboots", l.reboots},
		{"A unit that does not start: back by itself", l.badUnit},
		{"git revert", l.revertBadUnit},
		{"The power is cut in the middle of an update", l.powerCut},
		{"Another OS, with a kernel argument", l.newOS},
		{"git revert of the OS", l.oldOS},
		{"The power is cut while the machine goes down into another OS", l.cutGoingDown},
	} {
		l.step(t, s.title, s.do)
	}
	if *transcriptPath != "" {
		if err := l.save(*transcriptPath, l.head()); err != nil {
			t.Fatal(err)
		}
	}
}

// begin makes everything that the machine needs to be born.
func begin(t *testing.T, root, bin, dir string) *life {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	l := &life{transcript: &transcript{t: t, hide: strings.NewReplacer(dir, "RUN", root, "REPOSITORY", home, "HOME",
		host, "HOST")}}
	l.image = makeImage(t, root)
	free := freePorts(t, 1)
	l.shell = newShell(t, dir, free[0])
	t.Cleanup(l.shell.hangUp)
	l.repo = newRepository(t, dir, filepath.Join(root, "test", "vm", "config"), "CORE_KEY", l.shell.public, "OS_IMAGE",
		l.image.v1)
	l.plane = startPlane(t, root, bin, dir)
	l.node = watchNode(t, l.plane.kubeconfig(), nodeName)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ignition := filepath.Join(dir, "pointer.ign")
	l.keep = filepath.Join(dir, "token.yaml")
	l.token = l.plane.makeToken(t, l.keep)
	if err := os.WriteFile(ignition, l.plane.pointer(t, l.token), 0o600); err != nil {
		t.Fatal(err)
	}
	l.machine = &machine{
		dir: filepath.Join(dir, "machine"), ignition: ignition,
		netdev: netdev(self, l.shell.port, map[int]int{
			seenAPI: l.plane.ports.api, seenServer: l.plane.ports.server,
			seenStore: serveStore(t, l.image.store),
		}),
	}
	l.machine.prepare(t, l.image.disk)
	return l
}

// makeToken makes a token of the machine that is good once, and returns its text. The cluster does not know it yet:
// what it is to keep of it is in a file.
func (p *plane) makeToken(t *testing.T, keep string) string {
	t.Helper()
	out, _, err := p.bunsenOut(t.Context(), "token", "create", "--pool", "worker", "--node", nodeName, "--uses", "1",
		"--ttl", "2h", "--tokens-file", keep)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// pointer is the config that whoever makes a machine hands to it: whom to ask, whom to believe, and a token, as `bunsen
// pointer` prints it; and what this network lacks, which is names.
func (p *plane) pointer(t *testing.T, token string) []byte {
	t.Helper()
	out, _, err := p.bunsenOut(t.Context(), "pointer", "--pool", "worker", "--server",
		fmt.Sprintf("https://%s:%d", seenAddress, seenServer), "--token", token)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(out), &config); err != nil {
		t.Fatal(err)
	}
	file := func(path, text string) map[string]any {
		return map[string]any{
			"path": path, "mode": 0o644, "overwrite": true,
			"contents": map[string]any{"source": "data:," + url.PathEscape(text)},
		}
	}
	config["storage"] = map[string]any{"files": []any{
		file("/etc/hostname", nodeName+"\n"),
		file("/etc/hosts", "127.0.0.1 localhost\n"+seenAddress+" "+apiName+"\n"),
	}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// head is the page's beginning.
func (l *life) head() string {
	qemu, err := exec.Command("qemu-system-x86_64", "--version").Output()
	if err != nil {
		qemu = []byte(err.Error())
	}
	version, _, _ := strings.Cut(string(qemu), "\n")
	return fmt.Sprintf(`# The life of a machine, once in a virtual one

Written by the run itself: %s. A machine is emulated (%s, TCG without KVM, on %d cores shared with the
control plane, the controllers and whoever else was at work), boots an OSTree host by a real kernel (%s) and an initramfs
with Ignition %s, and is then brought from commit to commit by our daemon. What follows %s was typed on the machine, by
SSH; what the daemon logged has the seconds since the boot. Times say more about the emulator than about the daemon.
`, "`test/vm/run --transcript dist/vm-transcript.md`", version, runtime.NumCPU(), l.image.kernel, ignitionVersion, "`"+nodeName+"$`")
}

// look runs a script on the machine and writes down both.
func (l *life) look(ctx context.Context, script string) string {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	out, err := l.shell.run(ctx, script)
	if err != nil {
		out = strings.TrimSpace(out + "\n" + err.Error())
	}
	l.show(nodeName+"$", script, out)
	return out
}

// ask is look without writing it down.
func (l *life) ask(ctx context.Context, script string) string {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	out, err := l.shell.run(ctx, script)
	if err != nil {
		return err.Error()
	}
	return out
}

// render pushes what do makes and waits until the pool is rendered from it; it returns when that was.
func (l *life) render(t *testing.T, do func() (hash, diff string, err error)) time.Time {
	t.Helper()
	hash, diff, err := do()
	l.must(t, err)
	l.show("$", "git push  # "+hash[:12], diff)
	begin := time.Now()
	before := l.config
	_, err = l.plane.kubectl(t.Context(), nil, "wait", "mcp/worker", "--timeout=90s",
		`--for=jsonpath={.metadata.annotations.bunsen\.dev/revision}=main@sha1:`+hash)
	if err != nil {
		out, _ := l.plane.kubectl(t.Context(), nil, "get", "gitsource,mcp", "-o", "yaml")
		t.Log(out)
		l.must(t, err)
	}
	l.config = l.own(t, l.plane.must(t, "get", "mcp", "worker", "-o", "jsonpath={.spec.configuration.name}"))
	l.check(l.config != before, fmt.Sprintf("the pool is rendered from it after %.1f s", time.Since(begin).Seconds()),
		l.config)
	return begin
}

// own returns the machine's config of a target.
func (l *life) own(t *testing.T, target string) string {
	t.Helper()
	key := strings.ReplaceAll(v1alpha1.NodeConfigsAnnotation, ".", `\.`)
	of, err := v1alpha1.ParseNodeConfigs(l.plane.must(t, "get", "mc", target, "-o", "jsonpath={.metadata.annotations."+
		key+"}"))
	l.must(t, err)
	return of.Of(nodeName)
}

// must ends a step that cannot go on, and writes down why.
func (l *life) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		l.check(false, "the step cannot go on", err)
		t.FailNow()
	}
}

// change is a commit of some edits.
func (l *life) change(subject string, edits ...error) func() (string, string, error) {
	return func() (string, string, error) {
		for _, err := range edits {
			if err != nil {
				return "", "", err
			}
		}
		return l.repo.commit(subject)
	}
}

// becomes waits for the Node and writes down how it got there.
func (l *life) becomes(t *testing.T, begin time.Time, limit time.Duration, what string,
	ask func(*corev1.Node) error,
) *corev1.Node {
	t.Helper()
	node, err := l.node.await(t.Context(), limit, ask)
	l.show("$", "kubectl get node "+nodeName+" --watch  # what its annotations say", l.node.since(begin))
	if boots, died := l.machine.booted(); died != nil {
		l.must(t, fmt.Errorf("the machine ended after %d boots: %w", len(boots), died))
	}
	if err != nil {
		l.check(false, what, err)
		return node
	}
	l.check(true, fmt.Sprintf("%s, %.1f s after the push", what, time.Since(begin).Seconds()), said(node))
	return node
}

// bootID is the running boot's, as the machine says; boots counts how often it was switched on.
func (l *life) bootID(ctx context.Context) string {
	return l.ask(ctx, "cat /proc/sys/kernel/random/boot_id")
}

func (l *life) boots() int {
	boots, _ := l.machine.booted()
	return len(boots)
}

// events of the Node, oldest first, that have a reason.
func (l *life) events(ctx context.Context, reasons ...string) string {
	out, err := l.plane.kubectl(ctx, nil, "get", "events", "-A", "--sort-by=.metadata.creationTimestamp", "-o",
		`jsonpath={range .items[?(@.involvedObject.kind=="Node")]}{.type} {.reason}: {.message}{"\n"}{end}`)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(out) {
		for _, reason := range reasons {
			if strings.Contains(line, " "+reason+": ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// noise is what every line of the daemon's log has.
var noise = regexp.MustCompile(`time=\S+ |level=INFO |node=` + nodeName + ` ?`)

// daemonSaid is what the daemon logged, by the journal on the serial line, from an offset on.
func (l *life) daemonSaid(from int64) string {
	var lines []string
	for line := range strings.Lines(l.machine.saidSince(from)) {
		at, message, ok := strings.Cut(strings.TrimSpace(line), "machine-config-daemon[")
		if !ok {
			continue
		}
		_, message, _ = strings.Cut(message, "]: ")
		lines = append(lines, at+noise.ReplaceAllString(message, ""))
	}
	return strings.Join(lines, "\n")
}

// done asks for the config in force by the last commit.
func (l *life) done() func(*corev1.Node) error { return is(v1alpha1.StateDone, l.config) }
