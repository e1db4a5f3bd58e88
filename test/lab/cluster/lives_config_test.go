package cluster_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

// cost is what a change of an item costs a node.
type cost int

const (
	free cost = iota
	drains
	reboots
)

// policies give the items of lives their costs. What has no rule reboots.
const policies = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  name: cluster
  annotations: {review.bunsen.dev/secret-paths: /etc/app.env}
spec:
  managementState: Managed
  nodeDisruptionPolicy:
    files:
      - {path: /etc/lives/free, actions: [{type: None}]}
      - {path: /etc/lives/drain, actions: [{type: Drain}]}
      - {path: /etc/lives-pool/free, actions: [{type: None}]}
      - {path: /usr/lib/lives, actions: [{type: None}]}
      - {path: /lib/lives, actions: [{type: None}]}
      - {path: /usr/bin/lives, actions: [{type: None}]}
      - {path: /bin/lives, actions: [{type: None}]}
      - {path: /etc/lives-real/a, actions: [{type: None}]}
      - {path: /etc/lives-real/b, actions: [{type: Drain}]}
      - {path: /etc/lives-alias/a, actions: [{type: None}]}
      - {path: /etc/lives-alias/b, actions: [{type: Drain}]}
      - {path: /srv/small/a, actions: [{type: None}]}
      - {path: /srv/small/b, actions: [{type: Drain}]}
      - {path: /etc/issue, actions: [{type: None}]}
      - {path: /etc/deluser.conf, actions: [{type: Drain}]}
      - {path: /etc/lives-linked, actions: [{type: None}]}
      - {path: /etc/sysctl.d, actions: [{type: Drain}]}
      - {path: /etc/modules-load.d, actions: [{type: None}]}
    units:
      - {name: lives-quick.service, actions: [{type: DaemonReload}]}
      - {name: fstrim.timer, actions: [{type: DaemonReload}]}
      - {name: ssh.service, actions: [{type: DaemonReload}]}
`

// space is a path that configs may have.
type space struct {
	path string
	// kinds that the path may be: file, directory, link, hard.
	kinds string
	cost  cost
	// spellings are other names of the path, through links of the system.
	spellings []string
}

// linked is a file of each host before its first life, with a second name.
const (
	linked = "/etc/lives-linked/one"
	second = "/etc/lives-linked/two"
	// alias is a link of each host to /etc/lives-real.
	alias = "/etc/lives-alias"
	// kept is a directory that configs may have, or have files in.
	kept = "/etc/lives/free/d"
)

var spaces = []space{
	{path: "/etc/lives/free/a", kinds: "file", cost: free},
	{path: "/etc/lives/free/b", kinds: "file link directory", cost: free},
	{path: "/etc/lives/free/c", kinds: "link hard file", cost: free},
	{path: kept, kinds: "directory", cost: free},
	{path: kept + "/e", kinds: "file", cost: free},
	{path: "/etc/lives/drain/a", kinds: "file", cost: drains},
	{path: "/etc/lives/drain/b", kinds: "link", cost: drains},
	{path: "/etc/lives/boot/a", kinds: "file", cost: reboots},
	{path: "/etc/lives/boot/b", kinds: "directory file link", cost: reboots},
	{path: "/usr/lib/lives/a", kinds: "file", cost: free, spellings: []string{"/lib/lives/a"}},
	{path: "/usr/lib/lives/b", kinds: "file link", cost: free, spellings: []string{"/lib/lives/b"}},
	{path: "/usr/lib/lives-boot", kinds: "file", cost: reboots, spellings: []string{"/lib/lives-boot"}},
	{path: "/etc/issue", kinds: "file", cost: free},
	{path: "/etc/deluser.conf", kinds: "file", cost: drains},
	{path: "/etc/adduser.conf", kinds: "file", cost: reboots},
	{path: "/usr/bin/lives", kinds: "file link", cost: free, spellings: []string{"/bin/lives"}},
	{path: "/etc/lives-real/a", kinds: "file", cost: free, spellings: []string{alias + "/a"}},
	{path: "/etc/lives-real/b", kinds: "file link directory", cost: drains, spellings: []string{alias + "/b"}},
	{path: cluster.SmallDisk + "/a", kinds: "file", cost: free},
	{path: cluster.SmallDisk + "/b", kinds: "file", cost: drains},
	{path: linked, kinds: "file", cost: free},
	{path: "/etc/sysctl.d/90-lives.conf", kinds: "file", cost: drains},
	{path: "/etc/modules-load.d/lives.conf", kinds: "file", cost: free},
}

// poolSpaces are the paths of the whole pool.
var poolSpaces = []space{
	{path: "/etc/lives-pool/free/a", kinds: "file", cost: free},
	{path: "/etc/lives-pool/boot/a", kinds: "file", cost: reboots},
}

// watchedPaths belong to no config, and stay as they are.
var watchedPaths = []string{second, "/lib", "/etc/machine-id", alias}

// entry is what a config has at a path.
type entry struct {
	kind, spelling, text, target string
	mode                         int
}

// unit is what a config has for a unit. A nil setting is none.
type unit struct {
	text, dropin  string
	enabled, mask *bool
}

func (u unit) same(v unit) bool {
	is := func(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
	return u.text == v.text && u.dropin == v.dropin && is(u.enabled, v.enabled) && is(u.mask, v.mask)
}

// ownUnits come with configs, and packageUnits with the host. The costs are those of a change.
var (
	ownUnits     = map[string]cost{"lives-quick.service": free, "lives-slow.service": reboots}
	packageUnits = map[string]cost{"fstrim.timer": free, "ssh.service": free}
)

// config is what one document says. The zero value is a config of a node with nothing.
type config struct {
	id    int
	pool  bool
	paths map[string]entry
	units map[string]unit
	keys  []string
}

const (
	nodeMark = "/etc/lives/free/id"
	poolMark = "/etc/lives-pool/free/id"
)

// next returns a config that differs in one to four items.
func (c config) next(r *rand.Rand, id int) config {
	n := config{id: id, pool: c.pool, paths: maps.Clone(c.paths), units: maps.Clone(c.units), keys: c.keys}
	if n.paths == nil {
		n.paths, n.units = map[string]entry{}, map[string]unit{}
	}
	from, mark := spaces, nodeMark
	if c.pool {
		from, mark = poolSpaces, poolMark
	}
	// Half of the updates need neither a drain nor a reboot, or there would be few of them.
	highest := []cost{free, free, drains, reboots, reboots}[r.IntN(5)]
	for range 1 + r.IntN(4) {
		switch what := r.IntN(10); {
		case what < 6 || c.pool:
			s := from[r.IntN(len(from))]
			if !c.pool && r.IntN(8) == 0 { // Or nobody could fill the disk on which it is.
				s = spaces[slices.IndexFunc(spaces, func(s space) bool { return s.path == cluster.SmallDisk+"/a" })]
			}
			if s.cost <= highest {
				n.changePath(r, s)
			}
		case what < 9:
			all := slices.Sorted(maps.Keys(ownUnits))
			all = append(all, slices.Sorted(maps.Keys(packageUnits))...)
			if name := all[r.IntN(len(all))]; ownUnits[name]+packageUnits[name] <= highest {
				n.changeUnit(r, name)
			}
		default:
			n.keys = nil
			for range r.IntN(3) {
				n.keys = append(n.keys, fmt.Sprintf("ssh-ed25519 %s lives-%d", exampleKey, r.IntN(1000)))
			}
		}
	}
	n.paths[mark] = entry{kind: "file", spelling: mark, mode: 0o644, text: fmt.Sprint(id)}
	return n
}

const exampleKey = "AAAAC3NzaC1lZDI1NTE5AAAAIJ5S5bcGbEzWXQ6b5J1dcR2qZJf3eVh1c0yQ8m0uC1aV"

func (c config) changePath(r *rand.Rand, s space) {
	if _, has := c.paths[s.path]; has && r.IntN(3) == 0 {
		delete(c.paths, s.path)
		return
	}
	kinds := strings.Fields(s.kinds)
	e := entry{kind: kinds[r.IntN(len(kinds))], spelling: s.path}
	if all := append([]string{s.path}, s.spellings...); len(all) > 1 {
		e.spelling = all[r.IntN(len(all))]
	}
	switch e.kind {
	case "file":
		e.text, e.mode = fmt.Sprintf("# text %d\n", r.IntN(100)), []int{0o644, 0o600, 0o755}[r.IntN(3)]
	case "directory":
		e.mode = []int{0o755, 0o700, 0o750}[r.IntN(3)]
	case "link":
		e.target = []string{"/etc/hostname", "../nowhere", "a"}[r.IntN(3)]
	case "hard":
		e.target = second
	}
	c.paths[s.path] = e
}

func (c config) changeUnit(r *rand.Rand, name string) {
	if _, has := c.units[name]; has && r.IntN(3) == 0 {
		delete(c.units, name)
		return
	}
	yes, no := true, false
	settings := []*bool{nil, &yes, &no}
	u := unit{enabled: settings[r.IntN(3)]}
	if r.IntN(2) == 0 {
		u.dropin = fmt.Sprintf("[Unit]\nDescription=lives %d\n", r.IntN(100))
	}
	if _, own := ownUnits[name]; own {
		u.text = fmt.Sprintf("[Unit]\nDescription=unit %d\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
			"ExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n", r.IntN(100))
	} else if name == "fstrim.timer" && r.IntN(3) == 0 {
		u = unit{mask: &yes}
	} else if name == "ssh.service" {
		u.enabled = nil
		u.dropin = fmt.Sprintf("[Unit]\nDescription=lives %d\n", r.IntN(100))
	} else if u.enabled == nil && u.dropin == "" {
		u.enabled = &yes
	}
	c.units[name] = u
}

// costFrom is what a node pays for the change from an earlier config. what names the items that differ.
func (c config) costFrom(old config) (most cost, what []string) {
	from := spaces
	if c.pool {
		from = poolSpaces
	}
	for _, s := range from {
		was, is := old.paths[s.path], c.paths[s.path]
		if was == is {
			continue
		}
		// Every system has /lib at /usr/lib, so that the node keeps the file; a link of a user costs its rule.
		if was.spelling = is.spelling; was != is || strings.HasPrefix(is.spelling, "/etc/") {
			most = max(most, s.cost)
		}
		what = append(what, s.path)
	}
	for _, all := range []map[string]cost{ownUnits, packageUnits} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !c.units[name].same(old.units[name]) {
				most, what = max(most, all[name]), append(what, name)
			}
		}
	}
	if !slices.Equal(c.keys, old.keys) {
		what = append(what, "keys")
	}
	return most, what
}

// ignition is the document of the config.
func (c config) ignition() string {
	var files, directories, links, units []any
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		e := c.paths[path]
		switch e.kind {
		case "file":
			files = append(files, map[string]any{
				"path": e.spelling, "mode": e.mode, "overwrite": true,
				"contents": map[string]any{"source": "data:," + url.PathEscape(e.text)},
			})
		case "directory":
			directories = append(directories, map[string]any{"path": e.spelling, "mode": e.mode, "overwrite": true})
		default:
			links = append(links, map[string]any{
				"path": e.spelling, "target": e.target, "hard": e.kind == "hard", "overwrite": true,
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.units)) {
		u := map[string]any{"name": name}
		if is := c.units[name]; true {
			if is.text != "" {
				u["contents"] = is.text
			}
			if is.dropin != "" {
				u["dropins"] = []any{map[string]any{"name": "lives.conf", "contents": is.dropin}}
			}
			if is.enabled != nil {
				u["enabled"] = *is.enabled
			}
			if is.mask != nil {
				u["mask"] = *is.mask
			}
		}
		units = append(units, u)
	}
	document := map[string]any{
		"ignition": map[string]any{"version": "3.5.0"},
		"storage":  map[string]any{"files": files, "directories": directories, "links": links},
		"systemd":  map[string]any{"units": units},
	}
	if len(c.keys) > 0 {
		document["passwd"] = map[string]any{"users": []any{
			map[string]any{"name": "core", "sshAuthorizedKeys": c.keys},
		}}
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// paths that the host has are told as texts, so that a difference can be read.
func (e entry) want() string {
	switch e.kind {
	case "file":
		return fmt.Sprintf("file %o 0:0 %.12x", e.mode, sha256.Sum256([]byte(e.text)))
	case "directory":
		return fmt.Sprintf("directory %o 0:0", e.mode)
	case "link":
		return "link to " + e.target
	}
	return "the same file as " + e.target
}

// hostState is what a host has, by path or "unit NAME" or "keys".
type hostState map[string]string

// allPaths are those that any config may have.
func allPaths() (all []string) {
	for _, s := range append(slices.Clone(spaces), poolSpaces...) {
		all = append(all, s.path)
	}
	for _, units := range []map[string]cost{ownUnits, packageUnits} {
		for _, name := range slices.Sorted(maps.Keys(units)) {
			all = append(all, "/etc/systemd/system/"+name, "/etc/systemd/system/"+name+".d/lives.conf")
		}
	}
	return append(append(all, watchedPaths...), nodeMark, poolMark)
}

// lookScript prints what is at each path, then what systemd says about each unit, then the keys.
const lookScript = `for p in $1; do
if [ -L "$p" ]; then echo "$p=link to $(readlink "$p")"
elif [ -d "$p" ]; then echo "$p=directory $(stat -c '%a %u:%g' "$p")"
elif [ -f "$p" ]; then echo "$p=file $(stat -c '%a %u:%g' "$p") $(sha256sum <"$p" | cut -c1-24)"
elif [ -e "$p" ]; then echo "$p=something else"
else echo "$p="; fi
done
two=/etc/lives-linked/two
# A file that had a second name before its first config comes back as a file of its own.
for p in $1; do [ ! -L "$p" ] && [ $p != $two ] && [ $p != /etc/lives-linked/one ] && [ "$p" -ef $two ] && echo "$p=the same file as $two"; done
for u in $2; do echo "unit $u=$(systemctl is-enabled $u 2>/dev/null) $(systemctl show -P NeedDaemonReload $u)"; done
echo "keys=$(grep -s lives- /home/core/.ssh/authorized_keys | sort | tr '\n' ';')"
`

// look reads a host from outside of the daemon.
func look(h *lab.Host, run func(...string) (string, error)) (hostState, error) {
	units := append(slices.Sorted(maps.Keys(ownUnits)), slices.Sorted(maps.Keys(packageUnits))...)
	out, err := run("sh", "-c", lookScript, "sh", strings.Join(allPaths(), " "), strings.Join(units, " "))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w\n%s", h.Name, err, out)
	}
	is := hostState{}
	for line := range strings.Lines(out) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			is[key] = value
		}
	}
	for _, name := range units {
		if value := is["unit "+name]; !strings.HasSuffix(value, "no") && !strings.HasSuffix(value, "yes") {
			return nil, fmt.Errorf("reading %s: its systemd does not answer", h.Name)
		}
	}
	return is, nil
}

// wanted is what a host has with configs of its node and its pool, where it had before what no config had changed.
func wanted(before hostState, configs ...config) hostState {
	want := maps.Clone(before)
	delete(want, kept) // It stays when a file in it goes.
	var keys []string
	for _, c := range configs {
		for path, e := range c.paths {
			want[path] = e.want()
		}
		for name, u := range c.units {
			at, state := "/etc/systemd/system/"+name, ""
			_, own := ownUnits[name]
			switch {
			case u.mask != nil && *u.mask:
				want[at], state = "link to /dev/null", "masked"
			case u.enabled != nil && *u.enabled:
				state = "enabled"
			case u.enabled != nil || own:
				state = "disabled"
			}
			if u.text != "" {
				want[at] = entry{kind: "file", mode: 0o644, text: u.text}.want()
			}
			if u.dropin != "" {
				want[at+".d/lives.conf"] = entry{kind: "file", mode: 0o644, text: u.dropin}.want()
			}
			if state != "" {
				want["unit "+name] = state + " no"
			}
		}
		keys = append(keys, c.keys...)
	}
	slices.Sort(keys)
	want["keys"] = ""
	for _, key := range slices.Compact(keys) {
		want["keys"] += key + ";"
	}
	return want
}

// differences of a host from what it should have, as lines.
func differences(want, is hostState) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if want[key] != is[key] {
			lines = append(lines, fmt.Sprintf("%s is %q, and the config wants %q", key, is[key], want[key]))
		}
	}
	return lines
}
