package vm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
)

// packages of the machine beside those that every lab host has.
var packages = []string{
	"linux-image-cloud-" + runtime.GOARCH, "dracut", "dracut-network", "ignition", "isc-dhcp-client", "gdisk",
	"e2fsprogs",
	"ostree", "ostree-boot", "bubblewrap", "libblkid1", "libnss-myhostname", "sudo",
}

// Ignition as of this version of its Go module takes the place of Debian's older one.
const ignitionVersion = "2.27.0"

// image is what a machine is made of. It is shared by runs and must not be written to.
type image struct {
	// kernel is its release.
	kernel string
	// disk is a raw ext4 file system with v1 deployed.
	disk string
	// store is an OSTree repository to serve, with v1 and v2.
	store string
	// v1 and v2 are how a config names the images; the machine's rpm-ostree knows which commits these are.
	v1, v2 string
}

// makeImage builds what is not cached: the root file system, Ignition, the initramfs, the disk.
func makeImage(t *testing.T, root string) image {
	t.Helper()
	base := lab.Base(t, packages...)
	ignition := lab.Cached(t, "vm-ignition", ignitionVersion+runtime.Version(), func(dir string) error {
		const module = "github.com/coreos/ignition/v2/internal"
		cmd := exec.Command("go", "install", "-ldflags", "-s -w -X "+module+"/version.Raw="+ignitionVersion+
			" -X "+module+"/distro.selinuxRelabel=false", module+"@v"+ignitionVersion)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod", "CGO_ENABLED=1")
		return heavy(cmd)
	})
	here := filepath.Join(root, "test", "vm", "image")
	boot := lab.Cached(t, "vm-boot", base+ignition+digest(t, here+"/boot", here+"/dracut.conf", here+"/dracut"),
		func(dir string) error {
			return heavy(exec.Command(here+"/boot", base, ignition+"/internal", dir))
		})
	programs := t.TempDir()
	buildPrograms(t, root, programs)
	units := filepath.Join(root, "config", "daemon", "systemd")
	disk := lab.Cached(t, "vm-disk", boot+digest(t, here+"/disk", here+"/files", programs, units),
		func(dir string) error {
			return heavy(exec.Command(here+"/disk", base, boot, programs, units, dir))
		})
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(disk, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	return image{
		kernel: read("release"), disk: disk + "/disk.raw", store: disk + "/store", v1: read("v1"),
		v2: read("v2"),
	}
}

// buildPrograms builds what runs inside of the machine: static, as it is shipped.
func buildPrograms(t *testing.T, root, out string) {
	t.Helper()
	for name, pkg := range map[string]string{
		"machine-config-daemon": "./cmd/machine-config-daemon", "kubelet": "./test/lab/kubelet",
		"join":       "./test/vm/join",
		"rpm-ostree": "./test/lab/ostree/front",
	} {
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(out, name), pkg)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if err := heavy(cmd); err != nil {
			t.Fatal(err)
		}
	}
}

// heavy runs what takes long, behind everything else.
func heavy(cmd *exec.Cmd) error {
	path, err := exec.LookPath("nice")
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = path, append([]string{"nice", "-n", "15", cmd.Path}, cmd.Args[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[3:], " "), err, out[max(0, len(out)-4000):])
	}
	return nil
}

// digest is over names, modes and contents of files and trees; what is not there counts as such.
func digest(t *testing.T, paths ...string) string {
	t.Helper()
	sum := sha256.New()
	for _, top := range paths {
		err := filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(filepath.Dir(top), at)
			if err != nil {
				return err
			}
			var text []byte
			if d.Type()&fs.ModeSymlink != 0 {
				target, err := os.Readlink(at)
				if err != nil {
					return err
				}
				text = []byte(target)
			} else if text, err = os.ReadFile(at); err != nil {
				return err
			}
			inner := sha256.Sum256(text)
			fmt.Fprintf(sum, "%s %v %x\n", rel, info.Mode(), inner)
			return nil
		})
		if err != nil {
			t.Fatalf("reading what the image is made of: %v", err)
		}
	}
	return hex.EncodeToString(bytes.Clone(sum.Sum(nil)))
}
