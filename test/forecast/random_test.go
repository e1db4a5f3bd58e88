package forecast_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// object is a JSON object that is put together at random.
type object = map[string]any

// maker makes random configs of a small world, so that two of them are often about the same things.
type maker struct {
	*rand.Rand
	// hostile configs have what no machine may get, and sources that cannot be read.
	hostile bool
}

// oneOf chooses one of several; nil stands for a field that is left out.
func (m maker) oneOf(choices ...any) any { return choices[m.IntN(len(choices))] }

func (m maker) often(percent int) bool { return m.IntN(100) < percent }

// with sets fields that are not nil.
func with(o object, fields ...any) object {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != nil {
			o[fields[i].(string)] = fields[i+1]
		}
	}
	return o
}

// The paths of the world: below each other, under the rules of the policy, below what a node has, and of the daemon.
var (
	paths = []string{
		"/etc/a", "/etc/a/b", "/etc/a/b/c", "/etc/motd", "/etc/drain/x", "/etc/reload", "/etc/reload/d", "/etc/restart",
		"/etc/both", "/etc/none/x", "/etc/none/reboot",
		"/etc/special", "/etc/list", disruption.RegistriesConf, "/srv/d", "/srv/d/e", "/srv/d/e/f",
		"/etc/kubernetes/kubelet-ca.crt", "/etc/docker/certs.d/r.example/ca.crt",
		"/etc/chrony.conf", "/etc/systemd/system/u.service", "/etc/systemd/system/u.service.d",
		"/etc/systemd/system/restarts.service.d/10-a.conf",
		"/home/core/.ssh/authorized_keys.d/ignition", "/home/ann/.ssh", "/etc/link/x", "/etc/link",
	}
	forbidden = []string{
		"/var/lib/machine-config-daemon/x", "/etc/machine-config-daemon/currentconfig",
		"/etc/machine-config-daemon/orig/x", disruption.ForceFile, "/etc/.x.bunsen-new",
		"/etc/" + strings.Repeat("n", 246), "/" + strings.Repeat(strings.Repeat("d", 200)+"/", 20) + "x",
	}
	houses  = []string{"u.service", "restarts.service", "none.service", "drains.service", "var-data.mount"}
	persons = []string{"ann", "bob", "core", "root"}
	teams   = []string{"team", "ann", "wheel"}
)

// path chooses a path; a few are forbidden.
func (m maker) path() string {
	if m.often(2) {
		return forbidden[m.IntN(len(forbidden))]
	}
	return paths[m.IntN(len(paths))]
}

func (m maker) source() object {
	switch text := fmt.Sprint("text", m.IntN(4)); {
	case m.hostile && m.often(5):
		source, hash := m.oneOf("https://example.org/x", "data:;base64,???", "data:,x").(string),
			"sha256-"+strings.Repeat("0", 64)
		if strings.HasPrefix(source, "https:") {
			hash = "sha256-" + string(host.DigestOf([]byte(downloaded)))
		}
		return object{"source": source, "verification": object{"hash": hash}}
	case m.often(15):
		return zipped(text)
	default:
		return object{"source": "data:," + text}
	}
}

func zipped(text string) object {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes all
	_ = w.Close()
	return object{"source": "data:;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), "compression": "gzip"}
}

// node is the part that files, directories and links have in common.
func (m maker) node(path string) object {
	o := object{"path": path}
	if m.often(15) {
		o["user"] = m.oneOf(object{"name": "ann"}, object{"name": "core"}, object{"name": "root"}, object{"id": 7})
	}
	if m.often(10) {
		o["group"] = m.oneOf(object{"name": "team"}, object{"name": "core"}, object{"name": "wheel"}, object{"id": 7})
	}
	if m.often(2) {
		o["user"] = object{"name": "ghost"}
	}
	return with(o, "overwrite", m.oneOf(nil, nil, nil, nil, true, true, true, false))
}

// storage has each path once, as Ignition wants it.
func (m maker) storage(most int) object {
	taken := map[string]bool{}
	lists := map[string][]any{}
	for range m.IntN(most + 1) {
		p := m.path()
		if taken[p] {
			continue
		}
		taken[p] = true
		switch o := m.node(p); m.IntN(8) {
		case 0:
			lists["directories"] = append(lists["directories"], with(o, "mode", m.oneOf(nil, 0o755, 0o700)))
		case 1:
			lists["links"] = append(lists["links"],
				with(o, "target", m.oneOf("/etc/chrony.conf", "/etc/chrony.conf", "/etc/motd", "/etc/a", "../x",
					"/srv/d"), "hard", m.oneOf(nil, nil, true)))
		case 2:
			delete(o, "overwrite")
			lists["files"] = append(lists["files"],
				with(o, "append", []any{m.source(), object{"source": "data:,more"}}[:1+m.IntN(2)]))
		default:
			mode := m.oneOf(nil, 0o644, 0o600)
			if m.hostile && m.often(5) {
				mode = 0o4755
			}
			lists["files"] = append(lists["files"], with(o, "mode", mode, "contents", m.source()))
		}
	}
	if m.often(10) {
		lists["filesystems"] = []any{object{"device": "/dev/sdb1", "format": "xfs", "path": "/var/data"}}
	}
	return listed(lists)
}

func listed(lists map[string][]any) object {
	o := object{}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		o[name] = lists[name]
	}
	return o
}

func (m maker) units() (units []any) {
	for _, name := range houses {
		if !m.often(20) {
			continue
		}
		o := with(object{"name": name}, "enabled", m.oneOf(nil, true, false), "mask", m.oneOf(nil, nil, nil, nil, true,
			false))
		switch {
		case name == "var-data.mount":
			o["contents"] = "[Mount]\nWhat=/dev/sdb1\nWhere=/var/data\n[Install]\nRequiredBy=local-fs.target\n"
		case m.often(60):
			o["contents"] = fmt.Sprintf("[Service]\nExecStart=/bin/%d\n[Install]\nWantedBy=multi-user.target\n",
				m.IntN(2))
		}
		if m.often(30) {
			o["dropins"] = []any{object{"name": "10-a.conf", "contents": fmt.Sprintf("[Unit]\nDescription=%d\n",
				m.IntN(2))}}
		}
		if m.hostile && m.often(5) {
			o["name"] = "../../cron.d/x.service"
		}
		units = append(units, o)
	}
	return units
}

func (m maker) passwd() object {
	lists := map[string][]any{}
	for _, name := range persons {
		if !m.often(15) {
			continue
		}
		if m.often(3) {
			name += "$"
		}
		o := with(object{"name": name}, "uid", m.oneOf(nil, nil, nil, nil, nil, nil, 1500, 1600), "shell",
			m.oneOf(nil, nil, "/bin/zsh"), "gecos", m.oneOf(nil, nil, "x"),
			"homeDir", m.oneOf(nil, nil, nil, nil, "/srv/home", "rel/home"), "passwordHash",
			m.oneOf(nil, nil, "$6$x", "$6$y"), "primaryGroup", m.oneOf(nil, nil, nil, nil, nil, "wheel", "team"),
			"shouldExist", m.oneOf(nil, nil, nil, nil, nil, nil, false), "noUserGroup",
			m.oneOf(nil, nil, nil, nil, true), "system", m.oneOf(nil, nil, nil, true))
		if m.often(50) {
			o["sshAuthorizedKeys"] = []any{fmt.Sprint("k", m.IntN(3))}
		}
		if m.often(20) {
			o["groups"] = []any{m.oneOf("team", "wheel", "wheel", "wheel")}
		}
		lists["users"] = append(lists["users"], o)
	}
	for _, name := range teams {
		if m.often(10) {
			lists["groups"] = append(lists["groups"], with(object{"name": name}, "gid", m.oneOf(nil, nil, 2000, 2100),
				"shouldExist", m.oneOf(nil, nil, nil, nil, false), "passwordHash", m.oneOf(nil, nil, nil, nil, "x")))
		}
	}
	return listed(lists)
}

// ignition is a config; a part of it may stand in configs that it merges, or that replace it.
func (m maker) ignition(depth int) object {
	head := object{"version": m.oneOf("3.5.0", "3.5.0", "3.4.0")}
	o := object{"ignition": head}
	for section, part := range map[string]object{"storage": m.storage(5), "passwd": m.passwd()} {
		if len(part) > 0 {
			o[section] = part
		}
	}
	if units := m.units(); len(units) > 0 {
		o["systemd"] = object{"units": units}
	}
	if m.often(5) {
		o["kernelArguments"] = object{"shouldExist": []any{"first"}}
	}
	if m.often(5) {
		head["timeouts"] = object{"httpTotal": 1 + m.IntN(3)}
	}
	if depth < 2 && m.often(15) {
		list := []any{m.nested(depth)}
		if m.often(20) {
			list = append(list, m.nested(depth))
		}
		head["config"] = object{"merge": list}
		if m.often(15) {
			head["config"] = object{"replace": list[0]}
		}
	}
	return o
}

// nested is a source that holds a config.
func (m maker) nested(depth int) object {
	text, err := json.Marshal(m.ignition(depth + 1))
	if err != nil {
		panic(err) // maps of plain values can be written
	}
	switch {
	case m.hostile && m.often(5):
		return m.oneOf(object{"source": "https://example.org/c"}, object{"source": "data:,%7B"},
			object{"source": "data:,%7B%22ignition%22:%7B%22version%22:%222.2.0%22%7D%7D"}).(object)
	case m.often(50):
		return zipped(string(text))
	}
	return object{"source": "data:;base64," + base64.StdEncoding.EncodeToString(text)}
}

// spec is a MachineConfig's spec.
func (m maker) spec() object {
	return with(object{"config": m.ignition(0)},
		"kernelArguments", m.oneOf(nil, nil, nil, nil, []any{"quiet"}, []any{"quiet debug"}, []any{`a="x y"`, "b"}),
		"kernelType", m.oneOf(nil, nil, nil, nil, nil, "default", "realtime"), "extensions",
		m.oneOf(nil, nil, nil, nil, nil, []any{"usbguard"}),
		"osImageURL", m.oneOf(nil, nil, nil, nil, nil, "registry.example/os:2"), "fips",
		m.oneOf(nil, nil, nil, nil, nil, nil, nil, true))
}
