package ostree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
)

// First is the pull spec of the image that a host starts with.
const First = "registry.example/os@sha256:1111111111111111111111111111111111111111111111111111111111111111"

// stateroot is OSTree's name for the OS.
const stateroot = "lab"

// Options say what a host is like. The zero value is a host of the base alone, without a network.
type Options struct {
	// Name is the host's name; "" is host.
	Name string
	// Network that it is tied to; nil: none.
	Network *lab.Network
	// Image adds to the first image, below a root that has nothing yet: usr/… and the defaults of /etc in usr/etc/….
	Image func(root string) error
	// Prepare changes the first deployment before its first boot, as Ignition does: /etc, and /var, which is mounted
	// there.
	Prepare func(root string) error
	// Kargs are its kernel arguments; nil is `root=LABEL=root rw console=ttyS0`.
	Kargs []string
	// Args for systemd-nspawn, besides those that every host has.
	Args []string
}

// Host is a running OSTree host.
type Host struct {
	*lab.Host
	// Sysroot is the directory that is its disk: /sysroot, with the deployments and the boot loader's entries in it.
	Sysroot string

	t                testing.TB
	registry, loader string
}

// Booted is what a host runs.
type Booted struct {
	// Image is the pull spec.
	Image string
	// Kargs are the kernel's arguments, without that of the boot loader.
	Kargs []string
	// Deployment is the directory that is its root.
	Deployment string
}

// Start makes a host of the first image, boots it and waits until it is up.
func Start(t testing.TB, options Options) *Host {
	t.Helper()
	lab.Need(t, "ostree:ostree", "chattr:e2fsprogs")
	dir := t.TempDir()
	h := &Host{t: t, Sysroot: filepath.Join(dir, "sysroot"), registry: filepath.Join(dir, "registry")}
	// What is mounted below /proc has to have the same path outside and inside.
	var err error
	if h.loader, err = os.MkdirTemp("/run", "bunsen-ostree-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.clear() })
	if err := h.install(front(t, dir), images(t), options); err != nil {
		t.Fatalf("installing host %s: %v", options.Name, err)
	}
	if options.Prepare != nil {
		if err := h.prepare(options.Prepare); err != nil {
			t.Fatalf("preparing host %s: %v", options.Name, err)
		}
	}
	h.Host = lab.Start(t, lab.Options{
		Name: options.Name, Network: options.Network, Boot: h.boot,
		Args: append([]string{"--bind-ro=" + h.registry + ":/run/registry"}, options.Args...),
	})
	return h
}

// clear takes away what the test's own directory cannot be rid of by itself: deployments are immutable.
func (h *Host) clear() {
	deployments, err := filepath.Glob(filepath.Join(h.Sysroot, "ostree/deploy", stateroot, "deploy", "*.[0-9]*"))
	for _, d := range deployments {
		if !strings.HasSuffix(d, ".origin") {
			exec.Command("chattr", "-i", d).Run() //nolint:errcheck,gosec // not every file system knows immutable files
		}
	}
	if err = errors.Join(err, os.RemoveAll(h.loader)); err != nil {
		h.t.Errorf("clearing an OSTree host: %v", err)
	}
}

// install makes the registry and the disk.
func (h *Host) install(front, images string, options Options) error {
	repo := "--repo=" + h.registry
	if err := os.Mkdir(h.Sysroot, 0o755); err != nil {
		return err
	}
	if err := runAll(
		[]string{"ostree", repo, "init", "--mode=bare"},
		[]string{"ostree", repo, "config", "set", "core.fsync", "false"},
		[]string{"ostree", repo, "pull-local", images, baseRef},
		[]string{"ostree", "admin", "init-fs", "--modern", h.Sysroot},
		[]string{"ostree", "admin", "os-init", "--sysroot=" + h.Sysroot, stateroot},
		[]string{"ostree", "--repo=" + h.disk(), "config", "set", "sysroot.bootloader", "none"},
		[]string{"ostree", "--repo=" + h.disk(), "config", "set", "core.fsync", "false"},
	); err != nil {
		return err
	}
	if err := h.commit(First, baseRef, func(root string) error {
		if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
			return err
		}
		if err := run("install", "-m", "0755", front, filepath.Join(root, "usr/bin/rpm-ostree")); err != nil {
			return err
		}
		if options.Image == nil {
			return nil
		}
		return options.Image(root)
	}); err != nil {
		return err
	}
	origin := filepath.Join(h.loader, "origin")
	text := "[origin]\nrefspec=" + refOf(First) + "\ncontainer-image-reference=ostree-unverified-registry:" + First +
		"\n"
	if err := os.WriteFile(origin, []byte(text), 0o600); err != nil {
		return err
	}
	kargs := options.Kargs
	if kargs == nil {
		kargs = []string{"root=LABEL=root", "rw", "console=ttyS0"}
	}
	deploy := []string{"ostree", "admin", "deploy", "--sysroot=" + h.Sysroot, "--os=" + stateroot, "--origin-file=" +
		origin, "--karg-none"}
	for _, a := range kargs {
		deploy = append(deploy, "--karg-append="+a)
	}
	return runAll([]string{"ostree", "--repo=" + h.disk(), "pull-local", h.registry, refOf(First)},
		append(deploy, refOf(First)))
}

// prepare lets somebody change the first deployment, with /var where the host will have it.
func (h *Host) prepare(change func(root string) error) error {
	first, err := h.boot(1)
	if err != nil {
		return err
	}
	if err := run("mount", "--bind", h.variable(), filepath.Join(first.Root, "var")); err != nil {
		return err
	}
	return errors.Join(change(first.Root), run("umount", filepath.Join(first.Root, "var")))
}

// variable is what the host has as /var, whatever it boots.
func (h *Host) variable() string { return filepath.Join(h.Sysroot, "ostree/deploy", stateroot, "var") }

func (h *Host) disk() string { return filepath.Join(h.Sysroot, "ostree/repo") }

// Commit puts an image into the registry: the first image with what change adds or writes over, below a root that has
// nothing yet. A pull spec that is there already gets a new image, as a tag that moves does.
func (h *Host) Commit(image string, change func(root string) error) {
	h.t.Helper()
	if err := h.commit(image, refOf(First), change); err != nil {
		h.t.Fatalf("making image %s: %v", image, err)
	}
}

func (h *Host) commit(image, on string, change func(root string) error) error {
	root, err := os.MkdirTemp(filepath.Dir(h.registry), "image-")
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(root, 0o755), change(root)); err != nil {
		return err
	}
	return run("ostree", "--repo="+h.registry, "commit", "--branch="+refOf(image), "--tree=ref="+on, "--tree=dir="+root,
		"--subject="+image)
}

// Withdraw takes an image out of the registry, as a registry does that is out of reach.
func (h *Host) Withdraw(image string) {
	h.t.Helper()
	if err := run("ostree", "--repo="+h.registry, "refs", "--delete", refOf(image)); err != nil {
		h.t.Fatal(err)
	}
}

// Booted tells what the host runs.
func (h *Host) Booted() Booted {
	h.t.Helper()
	b := Booted{Deployment: h.Root}
	text, err := os.ReadFile(h.Root + ".origin")
	if err != nil {
		h.t.Fatal(err)
	}
	_, reference, _ := strings.Cut(string(text), "container-image-reference=ostree-unverified-registry:")
	b.Image, _, _ = strings.Cut(reference, "\n")
	b.Kargs = slices.DeleteFunc(strings.Fields(h.Do("cat", "/proc/cmdline")), func(a string) bool {
		return strings.HasPrefix(a, "ostree=")
	})
	return b
}

// boot plays the boot loader: the entry with the highest version.
func (h *Host) boot(int) (lab.Boot, error) {
	options, err := newestEntry(filepath.Join(h.Sysroot, "boot/loader/entries"))
	if err != nil {
		return lab.Boot{}, err
	}
	var link string
	for _, a := range strings.Fields(options) {
		if at, ok := strings.CutPrefix(a, "ostree="); ok {
			link = at
		}
	}
	root, err := filepath.EvalSymlinks(filepath.Join(h.Sysroot, link))
	if err != nil || link == "" {
		return lab.Boot{}, fmt.Errorf("entry %q names no deployment: %w", options, err)
	}
	cmdline, marker := filepath.Join(h.loader, "cmdline"), filepath.Join(h.loader, "booted")
	if err := errors.Join(os.WriteFile(cmdline, []byte(options+"\n"), 0o644),
		os.WriteFile(marker, nil, 0o644)); err != nil {
		return lab.Boot{}, err
	}
	return lab.Boot{
		Root: root,
		Env:  []string{"SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes"},
		Args: []string{
			"--bind=" + h.Sysroot + ":/sysroot", "--bind=" + filepath.Join(h.Sysroot, "boot") + ":/boot",
			"--bind=" + h.variable() + ":/var", "--bind-ro=" + filepath.Join(root, "usr") + ":/usr",
			"--bind-ro=" + marker + ":/run/ostree-booted", "--bind-ro=" + h.loader, "--bind-ro=" + cmdline +
				":/proc/cmdline",
		},
	}, nil
}

// newestEntry is the options of the boot loader's entry with the highest version.
func newestEntry(dir string) (options string, err error) {
	entries, err := filepath.Glob(filepath.Join(dir, "*.conf"))
	if err != nil || len(entries) == 0 {
		return "", fmt.Errorf("no boot loader entries in %s: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	newest := -1
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			return "", err
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			fields[key] = value
		}
		version, err := strconv.Atoi(fields["version"])
		if err != nil {
			return "", fmt.Errorf("%s: %w", entry, err)
		}
		if version > newest {
			newest, options = version, fields["options"]
		}
	}
	return options, nil
}

func runAll(programs ...[]string) error {
	for _, argv := range programs {
		if err := run(argv...); err != nil {
			return err
		}
	}
	return nil
}
