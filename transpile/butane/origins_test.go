package butane

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	baseutil "github.com/coreos/butane/base/util"
	cutil "github.com/coreos/butane/config/util"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// sugar are the leaves whose line names neither them nor their value, as something else in the document makes them.
var sugar = []struct{ leaf, line, because string }{
	{`\.compression$`, `inline|local|append|- `, "Butane sets it to nothing wherever it writes contents itself"},
	{`^\$\.storage\.(disks|filesystems|raid)\.`, `/dev/vd[ab]|mirror:|boot_device:`, "boot_device.mirror lays out disks"},
	{`^\$\.storage\.(luks|filesystems)\.`, `luks:|boot_device:`, "boot_device.luks makes a volume and its file system"},
	{`^\$\.storage\.(files|filesystems)\.`, `^  users:`, "grub.users writes /boot/grub2/user.cfg and mounts /boot"},
	{`^\$\.systemd\.units\.`, `with_mount_unit:`, "with_mount_unit writes a unit"},
	{`^\$\.storage\.directories\.`, `- local: tree`, "a tree with owners or modes makes its directories"},
	{`^\$\.storage\.luks\.\d+\.options\.`, `fips:`, "openshift.fips sets the cipher"},
}

func TestEveryLeafIsAtALineThatMentionsIt(t *testing.T) {
	checked := 0
	used := map[int]bool{}
	for _, s := range samples(t) {
		out, found := Translate(s.in)
		if origin.Fatal(found) {
			continue
		}
		lines := strings.Split(string(s.in.Source), "\n")
		for _, l := range leavesOf(t, out) {
			checked++
			at, ok := out.Origin.Find(l.path)
			if !ok || at.Line == 0 {
				t.Errorf("%s: %s is at %q, which has no line", s.name, l.path, at)
				continue
			}
			if at.File != "a.bu" {
				if !inLocal(l, at) {
					t.Errorf("%s: %s = %q is said to be from %s", s.name, l.path, l.value, at)
				}
				continue
			}
			line := lines[at.Line-1]
			if mentions(line, l) {
				continue
			}
			i := slices.IndexFunc(sugar, func(x struct{ leaf, line, because string }) bool {
				return regexp.MustCompile(x.leaf).MatchString(l.path) && regexp.MustCompile(x.line).MatchString(line)
			})
			if i < 0 {
				t.Errorf("%s: %s = %q is said to be at line %d: %q", s.name, l.path, l.value, at.Line, line)
			}
			used[i] = true
		}
	}
	for i, x := range sugar {
		if !used[i] {
			t.Errorf("no leaf needs the exception %q", x.because)
		}
	}
	if checked < 5000 {
		t.Errorf("only %d leaves were checked", checked)
	}
}

// inLocal reports whether a leaf comes from that line of that file.
func inLocal(l leaf, at origin.Pos) bool {
	contents, ok := locals[at.File]
	lines := strings.Split(contents, "\n")
	if !ok || at.Line > len(lines) {
		return false
	}
	if strings.Contains(l.path, "sshAuthorizedKeys") {
		return strings.TrimSuffix(lines[at.Line-1], "\r") == l.value
	}
	switch l.path[strings.LastIndexByte(l.path, '.')+1:] {
	case "source":
		url, _, err := baseutil.MakeDataURL([]byte(contents), nil, false)
		return err == nil && l.value == url
	case "contents":
		return l.value == contents
	case "path":
		return strings.HasSuffix(l.value, strings.TrimPrefix(strings.TrimPrefix(at.File, "tree"), "files"))
	case "mode":
		return l.value == strconv.Itoa(0o755) == strings.HasPrefix(contents, "#!")
	case "compression":
		return l.value == ""
	}
	return false
}

// mentions reports whether a line has a leaf's value or its key in it. Keys of lists' items and of contents are written
// in other words than Ignition's.
func mentions(line string, l leaf) bool {
	parts := strings.Split(l.path, ".")
	key := parts[len(parts)-1]
	if _, err := strconv.Atoi(key); err == nil {
		key = parts[len(parts)-2]
	}
	words := []string{cutil.Snake(key) + ":"}
	switch {
	case key == "source" && strings.HasPrefix(l.value, "data:"):
		words = append(words, "inline:", "local:")
	case key == "version":
		words = append(words, "version:")
	}
	if l.value != "" {
		words = append(words, l.value)
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

type leaf struct{ path, value string }

// leavesOf lists everything that an output says.
func leavesOf(t *testing.T, out Output) []leaf {
	t.Helper()
	raw, err := out.Config.IgnitionJSON()
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var all []leaf
	leavesBelow("$", v, &all)
	for i, a := range out.Config.KernelArguments {
		all = append(all, leaf{"spec.kernelArguments." + strconv.Itoa(i), a})
	}
	for i, e := range out.Config.Extensions {
		all = append(all, leaf{"spec.extensions." + strconv.Itoa(i), e})
	}
	if out.Config.KernelType != "" {
		all = append(all, leaf{"spec.kernelType", out.Config.KernelType})
	}
	if out.Config.FIPS {
		all = append(all, leaf{"spec.fips", "true"})
	}
	return all
}

func leavesBelow(at string, v any, all *[]leaf) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			leavesBelow(at+"."+k, e, all)
		}
	case []any:
		for i, e := range v {
			leavesBelow(at+"."+strconv.Itoa(i), e, all)
		}
	default:
		*all = append(*all, leaf{at, fmt.Sprint(v)})
	}
}

// Attributes of one item stand on lines of their own, and so do their places.
func TestAttributesHavePlacesOfTheirOwn(t *testing.T) {
	all := samples(t)
	for _, c := range []struct{ sample, path, place string }{
		{"files in fcos 1.6.0", "$.storage.files.0.mode", "a.bu:6"},
		{"files in fcos 1.6.0", "$.storage.files.0.overwrite", "a.bu:7"},
		{"files in fcos 1.6.0", "$.storage.files.0.contents.source", "a.bu:9"},
		{"files in fcos 1.6.0", "$.storage.files.1.user.name", "a.bu:14"},
		{"files in fcos 1.6.0", "$.storage.files.1.group.id", "a.bu:16"},
		{"files-rich in fcos 1.6.0", "$.storage.files.0.append.1.source", "a.bu:8"},
		{"local in fcos 1.6.0", "$.storage.files.0.contents.source", "files/motd:1"},
		{"local-append in fcos 1.6.0", "$.storage.files.0.append.0.source", "files/keys:1"},
		{"units in fcos 1.6.0", "$.systemd.units.0.enabled", "a.bu:6"},
		{"units in fcos 1.6.0", "$.systemd.units.0.contents", "a.bu:7"},
		{"units in fcos 1.6.0", "$.systemd.units.1.mask", "a.bu:13"},
		{"units in fcos 1.6.0", "$.systemd.units.2.dropins.0.contents", "a.bu:18"},
		{"units-local in fcos 1.6.0", "$.systemd.units.0.contents", "files/a.service:1"},
		{"units-local in fcos 1.6.0", "$.systemd.units.0.dropins.0.contents", "files/a.service:1"},
		{"users in fcos 1.6.0", "$.passwd.users.0.sshAuthorizedKeys.1", "a.bu:9"},
		{"users in fcos 1.6.0", "$.passwd.users.1.shell", "a.bu:18"},
		{"users-local in fcos 1.6.0", "$.passwd.users.0.sshAuthorizedKeys.0", "a.bu:7"},
		{"users-local in fcos 1.6.0", "$.passwd.users.0.sshAuthorizedKeys.2", "files/keys:3"},
		{"users-local in fcos 1.6.0", "$.passwd.users.0.sshAuthorizedKeys.3", "files/more-keys:1"},
		{"kargs in fcos 1.6.0", "spec.kernelArguments.1", "a.bu:6"},
		{"disks in fcos 1.6.0", "$.storage.disks.0.partitions.0.sizeMiB", "a.bu:10"},
		{"disks in fcos 1.6.0", "$.storage.raid.0.spares", "a.bu:24"},
		{"trees in fcos 1.6.0", "$.storage.files.0.mode", "a.bu:6"},
		{"trees in fcos 1.6.0", "$.storage.files.0.contents.source", "tree/a.conf:1"},
		{"trees in fcos 1.6.0", "$.storage.files.1.path", "tree/sub/b.conf:1"},
		{"trees-owned in fcos 1.7.0", "$.storage.files.0.mode", "a.bu:11"},
		{"trees-owned in fcos 1.7.0", "$.storage.files.0.user.name", "a.bu:8"},
		{"trees-owned in fcos 1.7.0", "$.storage.directories.0.mode", "a.bu:12"},
		{"mount-unit in fcos 1.6.0", "$.systemd.units.1.contents", "a.bu:11"},
		{"mirror in fcos 1.6.0", "$.storage.raid.1.name", "a.bu:5"},
		{"grub in fcos 1.6.0", "$.storage.files.0.append.0.source", "a.bu:4"},
		{"openshift in openshift 4.19.0", "spec.kernelArguments.1", "a.bu:11"},
		{"openshift in openshift 4.19.0", "spec.fips", "a.bu:14"},
		{"openshift in openshift 4.19.0", "$.storage.luks.0.options.0", "a.bu:14"},
		{"everything in fcos 1.6.0", "$.passwd.users.0.sshAuthorizedKeys.1", "a.bu:26"},
	} {
		i := slices.IndexFunc(all, func(s sample) bool { return s.name == c.sample })
		if i < 0 {
			t.Fatal("no sample", c.sample)
		}
		out, found := Translate(all[i].in)
		if origin.Fatal(found) {
			t.Fatal(c.sample, found)
		}
		at, ok := out.Origin.At[c.path]
		if at.Column = 0; !ok || at.String() != c.place {
			t.Errorf("%s: %s is at %s, want %s", c.sample, c.path, at, c.place)
		}
	}
}
