package vm

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	transcriptPath = flag.String("transcript", "", "write what was seen to this file, as Markdown")
	keepRun        = flag.Bool("keep", false, "keep the folder of the run, with every log")
)

// TestMain is also what QEMU starts for each connection of the machine to the test.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "forward" {
		if err := forward(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "forward:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// needs are programs with the Debian packages that have them; test/vm/setup installs them.
var needs = []struct{ program, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"mmdebstrap", "mmdebstrap"},
	{"ostree", "ostree"},
	{"mke2fs", "e2fsprogs"},
	{"debugfs", "e2fsprogs"},
	{"ssh", "openssh-client"},
	{"git", "git"},
	{"lz4", "lz4"},
	{"zstd", "zstd"},
	{"xz", "xz-utils"},
	{"chattr", "e2fsprogs"},
	{"gcc", "gcc"},
}

// binaries of the project that the life is lived with.
var binaries = []string{"bunsen", "bunsen-standalone", "machine-config-controller", "machine-config-server"}

// findParts skips where nobody asked for a virtual machine, and fails with all that is missing where somebody did.
func findParts(t *testing.T) (root, bin string) {
	t.Helper()
	if os.Getenv("BUNSEN_VM") != "1" {
		t.Skip("runs a virtual machine for a quarter of an hour, as root: make test-vm")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if bin = os.Getenv("BUNSEN_BIN"); bin == "" {
		bin = filepath.Join(root, "bin")
	}
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root: images are made with their files' owners")
	}
	for _, n := range needs {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, fmt.Sprintf("%s: apt-get install %s, or test/vm/setup", n.program, n.pkg))
		}
	}
	for _, b := range binaries {
		if _, err := os.Stat(filepath.Join(bin, b)); err != nil {
			missing = append(missing, b+" in "+bin+": make build standalone")
		}
	}
	if _, err := os.Stat("/usr/include/blkid/blkid.h"); err != nil {
		missing = append(missing, "blkid.h, for Ignition: apt-get install libblkid-dev, or test/vm/setup")
	}
	if len(missing) > 0 {
		t.Fatalf("a virtual machine needs\n  %s", strings.Join(missing, "\n  "))
	}
	return root, bin
}
