package machine

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// Release returns the fields of os-release(5) by name. Without the file, Release returns no fields.
func Release(root *files.Root) map[string]string {
	for _, at := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if is, err := root.Stat(at); err == nil && is.Kind == host.Link {
			at = host.LinkTarget(at, is.Target)
		}
		if text, err := root.Read(at); err == nil {
			return ParseRelease(string(text))
		}
	}
	return nil
}

// ParseRelease reads the text of os-release(5).
func ParseRelease(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"'`)
	}
	return fields
}

// RunningKargs returns the arguments of the kernel that runs, without those of the boot loader.
func RunningKargs() (string, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", fmt.Errorf("reading the kernel's arguments: %w", err)
	}
	return OwnKargs(string(text)), nil
}

// OwnKargs removes the arguments of the boot loader from a kernel's command line, because they differ between boots.
func OwnKargs(line string) string {
	return host.JoinArgs(slices.DeleteFunc(host.SplitArgs(line), func(a string) bool {
		return strings.HasPrefix(a, "ostree=") || strings.HasPrefix(a, "BOOT_IMAGE=") || strings.HasPrefix(a, "initrd=")
	}))
}
