package ignition

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// judge is the real Ignition, built from its module, and what it needs around it.
type judge struct {
	// bin is its program, version what it says of itself.
	bin, version string
	// run is what it sees as /run: a systemd that tells its version, and nothing else.
	run string
	// programs is a folder of programs that it finds before all others; "" is none.
	programs string
	// flags tell it where its config is, with what else only some Ignitions know.
	flags string
	// plain is true if it was built to write keys to ~/.ssh/authorized_keys, as that of SUSE is.
	plain bool
}

// summon builds Ignition once for all tests of this process.
var summon = sync.OnceValues(func() (judge, error) {
	dir, err := os.MkdirTemp("", "bunsen-ignition-")
	if err != nil {
		return judge{}, err
	}
	version, err := ignitionVersion()
	if err != nil {
		return judge{}, fmt.Errorf("asking which Ignition to build: %w", err)
	}
	j := judge{
		bin: filepath.Join(dir, "ignition"), version: version, run: filepath.Join(dir, "run"),
		flags: "-platform file -neednet neednet -state-file state",
	}
	if err := buildIgnition(j.bin, version, ""); err != nil {
		return judge{}, err
	}
	return j, serveSystemd(filepath.Join(j.run, "systemd", "private"))
})

// summonPlain builds the Ignition that writes keys as that of SUSE does, once for all tests of this process.
var summonPlain = sync.OnceValues(func() (judge, error) {
	j, err := summon()
	if err != nil {
		return judge{}, err
	}
	j.bin, j.plain = j.bin+"-plain", true
	return j, buildIgnition(j.bin, j.version, " -X "+ignitionModule+"/distro.writeAuthorizedKeysFragment=false")
})

const ignitionModule = "github.com/coreos/ignition/v2/internal"

// buildIgnition builds the program with further flags of the linker.
func buildIgnition(at, version, more string) error {
	flags := fmt.Sprintf("-X %s/version.Raw=%s -X %s/distro.selinuxRelabel=false", ignitionModule, version,
		ignitionModule)
	build := exec.Command("go", "build", "-o", at, "-ldflags", flags+more, ignitionModule)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building Ignition, which needs a C compiler and libblkid (Debian: gcc "+
			"libblkid-dev pkg-config): %w\n%s", err, out)
	}
	return nil
}

// needPlain is need for the Ignition of SUSE.
func needPlain(t *testing.T) judge {
	t.Helper()
	need(t)
	j, err := summonPlain()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ignitionVersion is the version that the module's go.mod requires.
func ignitionVersion() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/coreos/ignition/v2").Output()
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), err
}

// need returns the judge, or ends the test: it skips where nobody asked for it, and says what to install where somebody
// did.
func need(t *testing.T) judge {
	t.Helper()
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "to be root")
	}
	for program, from := range map[string]string{
		"unshare": "util-linux", "systemctl": "systemd", "useradd": "passwd",
		"gcc": "gcc",
	} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program+" (Debian: "+from+")")
		}
	}
	if len(missing) > 0 || os.Getenv("BUNSEN_LAB") != "1" {
		slices.Sort(missing)
		if os.Getenv("BUNSEN_LAB") == "1" {
			t.Fatalf("the real Ignition needs %s", strings.Join(missing, ", "))
		}
		t.Skip("the real Ignition judges in `make test-ignition`")
	}
	j, err := summon()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestMain takes the built program away again.
func TestMain(m *testing.M) {
	code := m.Run()
	if j, err := summoned(); err == nil && j.bin != "" {
		_ = os.RemoveAll(filepath.Dir(j.bin))
	}
	os.Exit(code)
}

// summoned is the judge where a test has called for it.
func summoned() (judge, error) {
	if os.Getenv("BUNSEN_LAB") != "1" {
		return judge{}, nil
	}
	return summon()
}

// system are the files of the three directories that hold configs of the image, by path below them.
type system struct{ runtime, local, vendor map[string]string }

// provision lets Ignition make a directory a machine of this config, as the first boot of an image does: config is the
// user's.
func (j judge) provision(ctx context.Context, root string, config []byte, s system) error {
	log, err := j.boot(ctx, root, config, s)
	if err != nil {
		return fmt.Errorf("%w: %s", err, complaints(log))
	}
	return nil
}

// boot is provision that returns what Ignition logged.
func (j judge) boot(ctx context.Context, root string, config []byte, s system) (log string, err error) {
	scratch, err := os.MkdirTemp(filepath.Dir(root), "scratch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a directory of the test's own
	files := map[string]string{"config.ign": string(config), "cmdline": ""}
	for dir, of := range map[string]map[string]string{"runtime": s.runtime, "local": s.local, "vendor": s.vendor} {
		for p, text := range of {
			files[filepath.Join(dir, p)] = text
		}
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if err := put(filepath.Join(scratch, p), files[p]); err != nil {
			return "", err
		}
	}
	// Where it runs, everybody can reach the machine's root: Ignition writes a user's keys as that user.
	const script = `mount --bind "$RUN" /run && mkdir -p "$ROOT/proc" /run/machine && mount --bind "$ROOT" /run/machine &&
mount --bind /proc /run/machine/proc && for stage in fetch files; do
"$IGNITION" $FLAGS -stage $stage -root /run/machine -log-to-stdout -config-cache ign.json || exit 1
done`
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
	cmd.Dir = scratch
	// Ignition may ask without end: who stops it has to stop all of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = []string{
		"PATH=" + strings.TrimPrefix(j.programs+":"+os.Getenv("PATH"), ":"), "LC_ALL=C.UTF-8", "RUN=" + j.run,
		"IGNITION=" + j.bin, "ROOT=" + root, "FLAGS=" + j.flags,
		"IGNITION_SYSTEM_RUNTIME_CONFIG_DIR=" + scratch + "/runtime", "IGNITION_SYSTEM_LOCAL_CONFIG_DIR=" + scratch +
			"/local",
		"IGNITION_SYSTEM_CONFIG_DIR=" + scratch + "/vendor", "IGNITION_KERNEL_CMDLINE_PATH=" + scratch + "/cmdline",
		"IGNITION_CONFIG_FILE=" + scratch + "/config.ign",
	}
	if !j.plain { // Debian's is built otherwise, and its tests are about other things.
		cmd.Env = append(cmd.Env, "IGNITION_WRITE_AUTHORIZED_KEYS_FRAGMENT=true")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// complaints are the lines of Ignition's log that say what went wrong.
func complaints(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "[CRITICAL]") || strings.Contains(line, "[ERROR]") ||
			strings.Contains(line, "failed") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) == 0 {
		return log
	}
	return strings.Join(lines, "\n")
}

// firstBoot does what the machine's first start does with what Ignition left: systemd enables what presets name, and
// the daemon takes Ignition's presets away, because what a config once said is no preset of the machine.
func firstBoot(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "systemctl", "--root", root, "preset-all", "--preset-mode=enable-only")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl preset-all: %w: %s", err, out)
	}
	if err := os.Remove(filepath.Join(root, ignitionPreset)); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// ignitionPreset is where Ignition writes what shall be enabled.
const ignitionPreset = "etc/systemd/system-preset/20-ignition.preset"

// put writes a file with its parents.
func put(at, text string) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, []byte(text), 0o644)
}
