package image

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// Paths of OSTree.
const (
	bootDir = "/boot"
	// kernelsDir has a directory for each kernel with its initramfs: <os>-<checksum of both>.
	kernelsDir = "/boot/ostree"
	deployDir  = "/ostree/deploy"
)

// leastBootSpace is enough for the boot loader's entries, which OSTree writes anew for each deployment.
const leastBootSpace = 64 << 10

// bootSpace knows the space for kernels in /boot, where that is a file system of its own. OSTree copies a kernel there
// only when the machine goes down, so a full one would be found by a boot into the old OS.
//
// Since its version 2023.7, OSTree removes the kernels of other deployments first, if the new one does not fit beside
// them. bootSpace counts all of them as free, for every version and also if a deployment is pinned, so that nothing is
// refused that OSTree can do.
type bootSpace struct {
	root *files.Root
	// running returns the checksum of the kernel that runs; "" if unknown.
	running func() string
}

// kernel has the sizes of the files of one kernel in /boot, by name.
type kernel map[string]int64

func (k kernel) bytes() (sum int64) {
	for _, size := range k {
		sum += size
	}
	return sum
}

// has reports whether a kernel has all files of another one. Files with the same name, which has the version, and size
// count as the same.
func (k kernel) has(other kernel) bool {
	for name, size := range other {
		if is, ok := k[name]; !ok || is != size {
			return false
		}
	}
	return true
}

// bootKernels are the kernels in /boot: the one that runs, and the others.
type bootKernels struct {
	running kernel
	others  []kernel
}

// room returns the bytes that a kernel needs beside the one that runs, without the others; 0 if /boot has it already.
func (k bootKernels) room(next kernel) int64 {
	need := next.bytes()
	for _, other := range k.others {
		if other.has(next) {
			return 0
		}
		need -= other.bytes()
	}
	if k.running.has(next) {
		return 0
	}
	return max(need, 0)
}

// BootSpace implements host.BootChecker. The estimate is a kernel as large as the one that runs.
func (b bootSpace) BootSpace(steps []host.Step) (s host.BootSpace) {
	free, k, ok := b.look()
	for _, step := range steps {
		if !ok || !step.Stages() {
			continue
		}
		s.At, s.Free, s.Least = bootDir, free, leastBootSpace
		if step.Verb == host.SetImage || step.Verb == host.SetKernelType {
			s.Likely = k.room(kernel{"": k.running.bytes()})
		}
	}
	return s
}

// fits returns an error if the kernel of a staged deployment does not fit into /boot, although OSTree removes the
// others first. Without the error, the machine would reboot into the old OS.
func (b bootSpace) fits(checksum string, serial int) error {
	free, k, ok := b.look()
	if !ok {
		return nil
	}
	if need := k.room(b.staged(checksum, serial)); need > free {
		return fmt.Errorf("the file system %s has %d KiB free, and the kernel of the new OS needs %d KiB there beside "+
			"the one that runs: see df %s: %w", bootDir, free>>10, need>>10, bootDir, syscall.ENOSPC)
	}
	return nil
}

// look reads /boot. The value ok is false if /boot is no file system of its own, or cannot be read.
func (b bootSpace) look() (free int64, k bootKernels, ok bool) {
	device, free, err := b.root.Volume(bootDir)
	if err != nil {
		return 0, k, false
	}
	if deployed, _, err := b.root.Volume(deployDir); err != nil || device == deployed {
		return 0, k, false
	}
	names, err := b.root.List(kernelsDir)
	if err != nil {
		return 0, k, false
	}
	running := b.running()
	for _, name := range names {
		is := b.sizes(path.Join(kernelsDir, name))
		if running != "" && strings.HasSuffix(name, "-"+running) {
			k.running = is
		} else {
			k.others = append(k.others, is)
		}
	}
	return free, k, k.running != nil
}

// sizes reads the sizes of the files in a directory.
func (b bootSpace) sizes(dir string) kernel {
	is := kernel{}
	names, _ := b.root.List(dir) // What cannot be read counts as nothing.
	for _, name := range names {
		if size, err := b.root.Size(path.Join(dir, name)); err == nil {
			is[name] = size
		}
	}
	return is
}

// staged reads the kernel of a deployment, with the names that it gets in /boot; nil if it is not found.
func (b bootSpace) staged(checksum string, serial int) kernel {
	systems, _ := b.root.List(deployDir) // Without the deployment, the kernel is unknown.
	for _, system := range systems {
		modules := path.Join(deployDir, system, "deploy", checksum+"."+strconv.Itoa(serial), "usr/lib/modules")
		versions, _ := b.root.List(modules) // as above
		for _, version := range versions {
			is := b.sizes(path.Join(modules, version))
			if _, boots := is["vmlinuz"]; boots {
				return kernel{
					"vmlinuz-" + version: is["vmlinuz"], "initramfs-" + version + ".img": is["initramfs.img"],
				}
			}
		}
	}
	return nil
}
