package ignition

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// tree is a machine's file system as text, one entry for each path, in which equal machines are equal. What is
// normalised, and why, stands in the package's documentation.
type tree map[string]string

// own are the paths that belong to one of the judged, and say nothing about the machine.
var own = []string{
	"/etc/.ignition-result.json",
	"/etc/machine-config-daemon", "/var/lib/machine-config-daemon",
	"/etc/ignition-machine-config-encapsulated.json",
	"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/.pwd.lock",
}

// treeOf reads a directory. Numbers of accounts that the config leaves open are printed as names.
func treeOf(root string) (tree, error) {
	names, err := namesOf(root)
	if err != nil {
		return nil, err
	}
	t := tree{}
	inodes := map[uint64][]string{}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		p := "/" + strings.TrimPrefix(strings.TrimPrefix(at, root), "/")
		switch {
		case err != nil:
			return err
		case slices.Contains(own, p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sys := info.Sys().(*syscall.Stat_t)
		if sys.Nlink > 1 && !d.IsDir() {
			inodes[sys.Ino] = append(inodes[sys.Ino], p)
		}
		t[p], err = names.entry(at, p, info, sys)
		return err
	})
	for _, same := range inodes {
		for _, p := range same {
			t[p] += " one file with " + strings.Join(same, " ")
		}
	}
	t.mask()
	t.prune()
	return t, err
}

// mask forgets what pulls in a masked unit, which nothing starts.
func (t tree) mask() {
	for p, text := range t {
		if path.Dir(p) != "/etc/systemd/system" || !strings.HasSuffix(text, " -> /dev/null") {
			continue
		}
		for _, kind := range []string{"wants", "requires", "upholds"} {
			for link := range t {
				if path.Base(link) == path.Base(p) && path.Ext(path.Dir(link)) == "."+kind {
					delete(t, link)
				}
			}
		}
	}
}

// prune forgets directories with nothing in them that are as everybody makes them.
func (t tree) prune() {
	for {
		empty := maps.Clone(t)
		for p := range t {
			delete(empty, path.Dir(p))
		}
		before := len(t)
		for p, text := range empty {
			if text == emptyDir && p != "/" {
				delete(t, p)
			}
		}
		if len(t) == before {
			return
		}
	}
}

// emptyDir is the entry of a directory that was made on the way to something.
const emptyDir = "dir 0755 root:root"

// names are a machine's accounts.
type names struct{ users, groups map[string]string }

func namesOf(root string) (names, error) {
	n := names{users: map[string]string{"0": "root"}, groups: map[string]string{"0": "root"}}
	for file, of := range map[string]map[string]string{"etc/passwd": n.users, "etc/group": n.groups} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil && !os.IsNotExist(err) {
			return n, err
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Split(line, ":"); len(f) > 2 {
				of[f[2]] = f[0]
			}
		}
	}
	return n, nil
}

func (n names) owner(uid, gid uint32) string {
	user, group := strconv.Itoa(int(uid)), strconv.Itoa(int(gid))
	if name, ok := n.users[user]; ok {
		user = name
	}
	if name, ok := n.groups[group]; ok {
		group = name
	}
	return user + ":" + group
}

// entry prints what is at a path.
func (n names) entry(at, p string, info fs.FileInfo, sys *syscall.Stat_t) (string, error) {
	owner := n.owner(sys.Uid, sys.Gid)
	switch info.Mode().Type() {
	case fs.ModeDir:
		return fmt.Sprintf("dir %04o %s", sys.Mode&0o7777, owner), nil
	case fs.ModeSymlink:
		to, err := os.Readlink(at)
		switch path.Ext(path.Dir(p)) {
		case ".wants", ".requires", ".upholds": // systemd goes by the link's name
			to = path.Base(to)
		}
		return fmt.Sprintf("link %s -> %s", owner, to), err
	case 0:
		text, err := os.ReadFile(at)
		return fmt.Sprintf("file %04o %s %q", sys.Mode&0o7777, owner, n.contents(p, string(text))), err
	}
	return info.Mode().Type().String(), nil
}

// said are the numbers that configs here give to people and their groups; others the machine chooses.
var said = []int{1000, 1700, 1800, 65534}

// contents of a file; of account files, what the order and the day of changes do to them is left out.
func (n names) contents(p, text string) string {
	var fields func(f []string)
	switch p {
	case "/etc/passwd":
		fields = func(f []string) { f[2], f[3] = chosen(f[2]), n.group(f[3]) }
	case "/etc/group":
		fields = func(f []string) { f[2], f[3] = chosen(f[2]), ordered(f[3]) }
	case "/etc/shadow":
		fields = func(f []string) { f[2] = "(day)" }
	case "/etc/gshadow":
		fields = func(f []string) { f[3] = ordered(f[3]) }
	default:
		return text
	}
	var lines []string
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) > 3 {
			fields(f)
		}
		lines = append(lines, strings.Join(f, ":"))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// chosen hides a number that the machine chose.
func chosen(number string) string {
	if n, err := strconv.Atoi(number); err == nil && n > 200 && !slices.Contains(said, n) && n != 701 {
		return "(chosen)"
	}
	return number
}

func (n names) group(gid string) string {
	if name, ok := n.groups[gid]; ok {
		return name
	}
	return gid
}

// ordered sorts a list of names.
func ordered(list string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(list, ",")), ",")
}

// anyOwner hides what a config leaves to the machine of links' owners: Ignition gives a link to whoever has what it
// leads to.
func (t tree) anyOwner(links []ign.Link) tree {
	t = maps.Clone(t)
	for _, l := range links {
		kind, rest, _ := strings.Cut(t[l.Path], " ")
		owner, to, _ := strings.Cut(rest, " ")
		user, group, _ := strings.Cut(owner, ":")
		if kind != "link" {
			continue
		}
		if l.User.ID == nil && l.User.Name == nil {
			user = "(any)"
		}
		if l.Group.ID == nil && l.Group.Name == nil {
			group = "(any)"
		}
		t[l.Path] = kind + " " + user + ":" + group + " " + to
	}
	return t
}

// difference lists the paths in which two trees differ.
func difference(want, got tree) (lines []string) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if want[p] != got[p] {
			lines = append(lines, fmt.Sprintf("%s\n    fresh  %s\n    moved  %s", p, or(want[p]), or(got[p])))
		}
	}
	return lines
}

func or(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
