package ostree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
)

// tree makes an image of a root file system: /etc becomes the defaults in /usr/etc, /var is empty, what people change
// lives in /var behind links, and a kernel is where OSTree looks for one. No boot loader reads it, so it is a line.
const tree = `set -eu
cp -a --reflink=auto "$1/." "$2"
cd "$2"
rm -rf boot home opt srv mnt media root tmp run proc sys dev
mkdir -p usr/share/dpkg-db && cp -a var/lib/dpkg/. usr/share/dpkg-db/
rm -rf var && mkdir -p boot sysroot run proc sys dev var tmp && chmod 1777 tmp
for dir in home opt srv mnt media; do ln -s "var/$dir" "$dir"; done
ln -s var/roothome root
ln -s sysroot/ostree ostree
mv etc usr/etc
cat > usr/lib/tmpfiles.d/lab.conf <<'X'
d /var/home 0755 root root -
d /var/roothome 0700 root root -
d /var/opt 0755 root root -
d /var/srv 0755 root root -
d /var/mnt 0755 root root -
d /var/media 0755 root root -
d /var/lib/dbus 0755 root root -
L /var/lib/dpkg - - - - ../../usr/share/dpkg-db
d /var/lib/systemd 0755 root root -
d /var/log/journal 0755 root root -
X
: > usr/etc/fstab
mkdir -p usr/lib/modules/1.0-lab
echo 'no boot loader reads this' > usr/lib/modules/1.0-lab/vmlinuz
echo 'nor this' > usr/lib/modules/1.0-lab/initramfs.img
# Debian enables neither: a staged deployment would then be dropped at the reboot without a word.
test -e usr/lib/systemd/system/ostree-finalize-staged.path -a -e usr/lib/systemd/system/ostree-remount.service
mkdir -p usr/lib/systemd/system/multi-user.target.wants usr/lib/systemd/system/local-fs.target.wants
ln -sf ../ostree-finalize-staged.path usr/lib/systemd/system/multi-user.target.wants/
ln -sf ../ostree-remount.service usr/lib/systemd/system/local-fs.target.wants/
`

// baseRef is the first image's commit in the cached repository.
const baseRef = "lab/base"

// front builds the stand-in for rpm-ostree, and returns its file.
func front(t testing.TB, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "rpm-ostree")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", file,
		"github.com/bunsen-os/bunsen/test/lab/ostree/front")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the stand-in for rpm-ostree: %v\n%s", err, out)
	}
	return file
}

// images is a repository that holds the image of the base alone, made once for its content.
func images(t testing.TB) string {
	t.Helper()
	base := lab.Base(t, "bubblewrap", "ostree", "ostree-boot")
	return filepath.Join(lab.Cached(t, "ostree", base+"\x00"+tree, func(dir string) error {
		t.Log("making an OSTree image of the base: half a minute, once")
		root, repo := filepath.Join(dir, "tree"), filepath.Join(dir, "repo")
		if err := os.Mkdir(root, 0o755); err != nil {
			return err
		}
		if err := run("nice", "sh", "-c", tree, "tree", base, root); err != nil {
			return err
		}
		if err := run("ostree", "--repo="+repo, "init", "--mode=bare"); err != nil {
			return err
		}
		if err := run("nice", "ostree", "--repo="+repo, "commit", "--branch="+baseRef, "--tree=dir="+root,
			"--subject=base"); err != nil {
			return err
		}
		return os.RemoveAll(root)
	}), "repo")
}

// run runs a program to its end.
func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil { //nolint:gosec // the lab's own
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// refOf is the ref under which the registry holds an image: a pull spec has signs that a ref cannot have.
func refOf(image string) string {
	sum := sha256.Sum256([]byte(image))
	return "image/" + hex.EncodeToString(sum[:8])
}
