package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// entry is what a boot loader reads of a boot entry.
type entry struct {
	version               int
	title, options        string
	linux, initrd         string
	entries               int
	firstBoot, afterCrash bool
}

var (
	loaderLink = regexp.MustCompile(`Fast link dest: "([^"]+)"`)
	listedName = regexp.MustCompile(`/([^/\n]+\.conf)/`)
)

// load plays the boot loader of a machine that is off: it replays the file system's journal as a kernel would, takes
// the newest entry, and copies its kernel and initramfs to dir.
func load(disk, dir string) (entry, error) {
	out, err := exec.Command("e2fsck", "-p", disk).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 1 || err != nil && exit == nil {
		return entry{}, fmt.Errorf("checking the disk: %w\n%s", err, out)
	}
	crashed := strings.Contains(string(out), "recovering journal")
	found := loaderLink.FindStringSubmatch(debugfs(disk, "stat /boot/loader"))
	if found == nil {
		return entry{}, errors.New("reading the boot entries: /boot/loader is no link")
	}
	at := "/boot/" + found[1] + "/entries"
	var all []entry
	for _, name := range listedName.FindAllStringSubmatch(debugfs(disk, "ls -p "+at), -1) {
		all = append(all, parseEntry(debugfs(disk, "cat "+at+"/"+name[1])))
	}
	if len(all) == 0 {
		return entry{}, fmt.Errorf("reading the boot entries: none in %s", at)
	}
	e := slices.MaxFunc(all, func(a, b entry) int { return a.version - b.version })
	e.entries, e.afterCrash = len(all), crashed
	e.firstBoot = strings.Contains(debugfs(disk, "ls -p /boot"), "/ignition.firstboot/")
	for from, to := range map[string]string{e.linux: "linux", e.initrd: "initrd"} {
		to = filepath.Join(dir, to)
		if err := os.RemoveAll(to); err != nil {
			return e, err
		}
		debugfs(disk, "dump /boot"+from+" "+to)
		if info, err := os.Stat(to); err != nil || info.Size() == 0 {
			return e, fmt.Errorf("reading %s from the disk: it is not there", from)
		}
	}
	return e, nil
}

func parseEntry(text string) (e entry) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "version":
			e.version, _ = strconv.Atoi(value) // none counts least
		case "title":
			e.title = value
		case "options":
			e.options = value
		case "linux":
			e.linux = value
		case "initrd":
			e.initrd = value
		}
	}
	return e
}

// debugfs reads of a disk that nobody has mounted; what is not there is "".
func debugfs(disk, ask string) string {
	out, err := exec.Command("debugfs", "-R", ask, disk).Output()
	if err != nil {
		return ""
	}
	return string(out)
}
