package lab

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ContainerPackages are what a node needs besides Packages to run containers.
var ContainerPackages = []string{
	"containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "ethtool", "socat", "mount",
	"util-linux",
}

// containers is what a host needs so that a container runtime works in it: Options.Containers asks for it.
type containers struct {
	// hierarchies are the host's own cgroups in each hierarchy of cgroup v1. There are none on a machine with cgroup v2
	// alone.
	hierarchies []string
	// binds are directories on this machine's disk, for what must not lie on an overlay.
	binds []string
}

// newContainers makes the directories and the cgroups of a host.
func newContainers(p *place) (*containers, error) {
	c := &containers{}
	for _, dir := range []string{"/var/lib/containerd", "/var/lib/kubelet"} {
		at := filepath.Join(p.dir, filepath.Base(dir))
		if err := os.Mkdir(at, 0o755); err != nil {
			return nil, err
		}
		c.binds = append(c.binds, "--bind="+at+":"+dir)
	}
	own, err := hierarchiesV1()
	if err != nil {
		return nil, err
	}
	for _, h := range own {
		dir := filepath.Join(h.dir, "bunsen-"+p.id)
		if err := p.note("cgroup1", dir); err != nil {
			return nil, err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if h.cpuset {
			if err := copyCPUs(dir); err != nil {
				return nil, err
			}
		}
		c.hierarchies = append(c.hierarchies, dir)
	}
	return c, nil
}

// copyCPUs gives a new cgroup of the controller cpuset the processors and the memory of its parent.
func copyCPUs(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0)
}

// args are for systemd-nspawn.
func (c *containers) args() []string {
	return append([]string{"--capability=all", "--system-call-filter=@known", "--bind=/dev/kmsg"}, c.binds...)
}

// env is for systemd-nspawn. Where the machine has controllers in cgroup v1, the host gets such a tree too, because in
// a unified one it would have none of them.
func (c *containers) env() []string {
	env := []string{"SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"}
	if len(c.hierarchies) == 0 {
		env = append(env, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	return env
}

// wrap returns a command line that enters the cgroups of version 1 and becomes systemd-nspawn.
func (c *containers) wrap(argv []string) []string {
	script := ""
	for _, dir := range c.hierarchies {
		script += "echo $$ > " + filepath.Join(dir, "cgroup.procs") + "; "
	}
	return append([]string{"bash", "-euc", script + `exec "$@"`, "bash"}, argv...)
}

// clear removes what containers of the last boot left: a kubelet would ask its runtime for each of them.
func (c *containers) clear() error {
	for _, dir := range c.hierarchies {
		if err := removeBelow(dir); err != nil {
			return err
		}
	}
	return nil
}

// removeBelow removes the cgroups below one.
func removeBelow(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// hierarchy is the cgroup of this process in one hierarchy of cgroup v1.
type hierarchy struct {
	dir    string
	cpuset bool
}

// hierarchiesV1 returns the cgroups of this process in cgroup v1, the one of systemd included.
func hierarchiesV1() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	at := map[string]string{} // by option, such as memory or name=systemd
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[2] == "cgroup" {
			for option := range strings.SplitSeq(f[3], ",") {
				if _, known := at[option]; !known {
					at[option] = f[1]
				}
			}
		}
	}
	own, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	defer own.Close() //nolint:errcheck // it is only read
	var all []hierarchy
	for lines := bufio.NewScanner(own); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 || f[1] == "" {
			continue
		}
		first, _, _ := strings.Cut(f[1], ",")
		mount := at[first]
		if mount == "" {
			continue
		}
		path := f[2]
		if first == "name=systemd" {
			path = "/"
		}
		all = append(all, hierarchy{filepath.Join(mount, path), strings.Contains(f[1], "cpuset")})
	}
	return all, nil
}

// freshNetwork makes a host's network namespace anew, as a boot does: rules, bridges and routes of the last boot are
// gone.
func freshNetwork(h *Host) error {
	if _, err := os.Lstat("/run/netns/" + h.netns()); err == nil {
		if err := run("ip", "netns", "del", h.netns()); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := run("ip", "netns", "add", h.netns()); err != nil {
		return err
	}
	if err := run("ip", "-n", h.netns(), "link", "set", "lo", "up"); err != nil {
		return err
	}
	if h.options.Network == nil {
		return nil
	}
	if err := h.options.Network.plug(h.netns(), h.Address); err != nil {
		return err
	}
	return run("ip", "-n", h.netns(), "route", "add", "default", "via", h.options.Network.Address())
}
