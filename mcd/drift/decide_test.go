package drift_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// node is a machine as a State, in a config.
type node struct {
	t *testing.T
	drift.Facts
	contents map[string]string
}

const usual = `"storage":{
  "files":[
    {"path":"/etc/containers/policy.json","contents":{"source":"data:,policy"}},
    {"path":"/etc/motd","mode":416,"contents":{"source":"data:,hello%0Aworld%0A"}},
    {"path":"/etc/app/secret.key","mode":384,"contents":{"source":"data:,hunter2"}},
    {"path":"/etc/hosts","append":[{"source":"data:,10.0.0.1%20a%0A"}]},
    {"path":"/etc/app/conf.d/a.conf","contents":{"source":"data:,a"}}],
  "directories":[{"path":"/var/app","mode":448}],
  "links":[{"path":"/etc/localtime","target":"/usr/share/zoneinfo/UTC"}]},
 "systemd":{"units":[
    {"name":"app.service","enabled":true,"contents":"[Service]\nExecStart=/bin/app\n[Install]\nWantedBy=multi-user.target\n","dropins":[{"name":"10-a.conf","contents":"[Service]\nNice=1\n"}]},
    {"name":"vendor.service","enabled":false},
    {"name":"bad.service","mask":true}]},
 "passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA a"],"passwordHash":"$6$x$y"},{"name":"app","uid":1500}],"groups":[{"name":"ops","gid":1600}]}`

// newNode is a machine that is as its config has it.
func newNode(t *testing.T, ignition string) *node {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal([]byte("{"+ignition+"}"), &raw); err != nil {
		t.Fatal(err)
	}
	settings, _ := raw["ignition"].(map[string]any)
	raw["ignition"] = map[string]any{"version": "3.5.0", "config": settings["config"]}
	text, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	c, err := machineconfig.Parse(mcfgv1.MachineConfigSpec{
		Config:          runtime.RawExtension{Raw: text},
		KernelArguments: []string{"quiet"},
	})
	if err != nil {
		t.Fatal(err)
	}
	accounts := host.Accounts{
		Users: map[string]host.Owner{"root": {}, "core": {UID: 1000, GID: 1000}},
		Homes: map[string]string{"core": "/home/core"}, Groups: map[string]int{"root": 0, "core": 1000},
	}
	n := &node{t: t, contents: map[string]string{}}
	n.Config = plan.Config{Name: "rendered-worker-1", Config: c}
	n.Wanted = plan.DesiredOf(c, accounts)
	n.Rules = disruption.Default()
	if len(n.Wanted.Problems) > 0 {
		t.Fatal(n.Wanted.Problems)
	}
	n.Observed = n.born(accounts)
	if items := n.look(); len(items) > 0 {
		t.Fatalf("a machine that is as it should be differs: %v", items)
	}
	return n
}

// born is a machine that began with the config.
func (n *node) born(accounts host.Accounts) host.State {
	s := host.State{Accounts: accounts}.Clone()
	for _, p := range plan.ScopeOf(n.Wanted).Paths {
		s.Paths[p] = host.Entry{}
	}
	for _, dir := range []string{"/etc", "/var", "/home", "/home/core", "/etc/systemd", "/etc/systemd/system"} {
		s.Paths[dir] = host.Entry{Kind: host.Dir, Mode: 0o755}
	}
	for u := range n.Wanted.Units {
		s.Units[u] = host.Unit{}
	}
	s.Units["vendor.service"] = host.Unit{Install: "WantedBy=multi-user.target", Vendor: "WantedBy=multi-user.target"}
	s.Users["core"] = host.User{
		There: true, UID: 1000, GID: 1000, Home: "/home/core", Shell: "/bin/bash",
		Password: "old",
	}
	s.OS = host.OS{Kargs: "", KernelType: "default"}
	s.Support = host.Support{Kargs: true, Image: true, KernelType: true, Extensions: true}
	empty := plan.DesiredOf(machineconfig.Config{}, accounts)
	p := plan.Diff(s, plan.Target(s, empty, n.Wanted), plan.DiffOptions{})
	if len(p.Refusals) > 0 {
		n.t.Fatal(p.Refusals)
	}
	return walked(s, p)
}

// walked is a state after a plan, without a machine.
func walked(s host.State, p plan.Plan) host.State {
	s = s.Clone()
	for _, step := range p.Steps {
		switch {
		case step.IsPath():
			s.Paths[step.Target] = step.After.Entry
		case step.Verb == host.Enable || step.Verb == host.Disable:
			u := s.Units[step.Target]
			u.Enabled = step.Verb == host.Enable
			s.Units[step.Target] = u
		case step.Verb == host.SetUser || step.Verb == host.DropUser:
			s.Users[step.Target] = step.After.User
		case step.Verb == host.SetGroup || step.Verb == host.DropGroup:
			s.Groups[step.Target] = step.After.Group
		case step.Verb == host.SetKargs:
			s.OS.Kargs = step.After.Word
		}
	}
	for name, u := range s.Units { // systemd reads the files that are there now
		if e := s.Paths[plan.UnitPath(name)]; e.Kind == host.File {
			u.Install = installs[e.Digest]
			s.Units[name] = u
		}
	}
	return s
}

// installs are the [Install] sections of the unit files in these tests.
var installs = map[host.Digest]string{
	host.DigestOf([]byte("[Service]\nExecStart=/bin/app\n[Install]\nWantedBy=multi-user.target\n")): "WantedBy=multi-user.target",
}

// edit changes what is at a path.
func (n *node) edit(p string, change func(*host.Entry)) {
	e := n.Observed.Paths[p]
	change(&e)
	n.Observed.Paths[p] = e
}

// write gives a file other contents.
func (n *node) write(p, text string) {
	n.contents[p] = text
	n.edit(p, func(e *host.Entry) { e.Digest = host.DigestOf([]byte(text)) })
}

func (n *node) rules(pairs ...string) {
	n.Policy = drift.Policy{}
	for i := 0; i < len(pairs); i += 2 {
		n.Policy.Rules = append(n.Policy.Rules, drift.Rule{
			Policy: "p", Pattern: pairs[i],
			Action: v1alpha1.DriftAction(pairs[i+1]),
		})
	}
}

func (n *node) look() []drift.Item {
	n.Items = drift.Items(n.Observed, n.Wanted, n.Wanted)
	n.Files = map[string]drift.Observed{}
	for p, text := range n.contents {
		n.Files[p] = drift.Observed{Modified: noon.Add(-time.Hour), Contents: []byte(text)}
	}
	return n.Items
}

// decide looks and decides; what is to be remembered is.
func (n *node) decide(at time.Time) drift.Decision {
	n.look()
	d := drift.Decide(n.Facts, at)
	text, err := json.Marshal(d.Memory)
	if err != nil {
		n.t.Fatal(err)
	}
	n.Memory = drift.Memory{}
	if err := json.Unmarshal(text, &n.Memory); err != nil {
		n.t.Fatal(err)
	}
	return d
}

// words are the verdicts, one line each.
func words(d drift.Decision) string {
	var lines []string
	for _, v := range d.Results {
		lines = append(lines, fmt.Sprintf("%s %s: %s", v.Action, v.Name, v))
	}
	return strings.Join(lines, "\n")
}

func TestDecide(t *testing.T) {
	for _, c := range decisions {
		t.Run(c.says, func(t *testing.T) {
			n := newNode(t, usual)
			c.do(n)
			d := n.decide(noon)
			got := words(d)
			for _, s := range d.Repair.Steps {
				got += "\nstep " + s.String()
			}
			if got = strings.TrimSpace(got); got != strings.Join(c.want, "\n") {
				t.Errorf("it says\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}

// decisions are what drift leads to, sentence by sentence.
var decisions = []struct {
	says string
	do   func(n *node)
	want []string
}{
	{"nothing differs, nothing is said", func(*node) {}, nil},
	{"what no rule covers degrades", func(n *node) { n.write("/etc/motd", "mine\n") }, []string{
		`Degrade /etc/motd: content mismatch for file "/etc/motd"; expected sha256 4a1e67f2; received fcbc800d, mode 0640, owner 0:0, modified 2026-01-02T11:00:00Z`,
	}},
	{"mode alone is drift", func(n *node) { n.edit("/etc/motd", func(e *host.Entry) { e.Mode = 0o644 }) }, []string{
		`Degrade /etc/motd: mode mismatch for file: "/etc/motd"; expected 0640; received 0644`,
	}},
	{
		"owner alone is drift", func(n *node) { n.edit("/etc/motd", func(e *host.Entry) { e.Owner.UID = 1000 }) },
		[]string{
			`Degrade /etc/motd: owner mismatch for file: "/etc/motd"; expected 0:0; received 1000:0`,
		},
	},
	{
		"a file that is gone, a link that leads elsewhere, a directory that is open, a mask that was taken away",
		func(n *node) {
			n.Observed.Paths["/etc/motd"] = host.Entry{}
			n.edit("/etc/localtime", func(e *host.Entry) { e.Target = "/etc/passwd" })
			n.edit("/var/app", func(e *host.Entry) { e.Mode = 0o777 })
			n.Observed.Paths["/etc/systemd/system/bad.service"] = host.Entry{}
		},
		[]string{
			`Degrade /etc/localtime: target mismatch for link "/etc/localtime"; expected "/usr/share/zoneinfo/UTC"; received "/etc/passwd"`,
			`Degrade /etc/motd: kind mismatch for "/etc/motd": expected file; received nothing`,
			`Degrade /etc/systemd/system/bad.service: kind mismatch for "/etc/systemd/system/bad.service": expected link; received nothing`,
			`Degrade /var/app: mode mismatch for dir: "/var/app"; expected 0700; received 0777`,
		},
	},
	{"units by enablement, kernel arguments, users and groups differ too", func(n *node) {
		n.Observed.Units["app.service"] = host.Unit{Install: "WantedBy=multi-user.target"}
		n.Observed.Units["vendor.service"] = host.Unit{
			Enabled: true, Install: "WantedBy=multi-user.target",
			Vendor: "WantedBy=multi-user.target",
		}
		n.Observed.OS.Kargs = ""
		delete(n.Observed.Users, "app")
		n.Observed.Groups["ops"] = host.Group{}
		core := n.Observed.Users["core"]
		core.Password = "another"
		n.Observed.Users["core"] = core
	}, []string{
		`Degrade app.service: unit "app.service": expected enabled; received disabled`,
		`Degrade group/ops: group "ops": expected 1600; received absent`,
		`Degrade os/kernelArguments: kernelArguments: expected "quiet"; received ""`,
		`Degrade user/app: user "app": expected present; received absent`,
		`Degrade user/core: user "core": password changed`,
		`Degrade vendor.service: unit "vendor.service": expected disabled; received enabled`,
	}},
	{"a unit that is masked by hand is told with the command that heals it, and no rule repairs it", func(n *node) {
		*n = *newNode(n.t, `"systemd":{"units":[{"name":"vendor.service","enabled":true}]}`)
		n.rules("**", "Repair")
		n.Observed.Units["vendor.service"] = host.Unit{Enabled: true}.WithSections("vendor.service", host.Sections{
			"/etc/systemd/system/vendor.service": host.Masked,
		})
		n.Observed.Paths["/etc/systemd/system/vendor.service"] = host.Entry{Kind: host.Link, Target: "/dev/null"}
	}, []string{
		`Degrade vendor.service: unit "vendor.service": expected enabled; received masked: it is masked by hand with ` +
			`/etc/systemd/system/vendor.service: systemctl unmask vendor.service on the node, or set mask: false`,
	}},
	{"the digest of what is secret is not told", func(n *node) { n.write("/etc/app/secret.key", "hunter3") }, []string{
		`Degrade /etc/app/secret.key: content mismatch for file "/etc/app/secret.key", mode 0600, owner 0:0, modified 2026-01-02T11:00:00Z`,
	}},
	{"what users mark is not told, by its path or by the name of its unit", func(n *node) {
		n.Config.Secrets = secretmask.Paths{"/etc/app/conf.d/", "app.service"}
		n.write("/etc/app/conf.d/a.conf", "moon")
		n.write("/etc/systemd/system/app.service", "[Service]\nExecStart=/bin/other\n")
		n.write("/etc/systemd/system/app.service.d/10-a.conf", "[Service]\nNice=2\n")
		n.write("/etc/motd", "x")
	}, []string{
		`Degrade /etc/app/conf.d/a.conf: content mismatch for file "/etc/app/conf.d/a.conf", mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Degrade /etc/motd: content mismatch for file "/etc/motd"; expected sha256 4a1e67f2; received 2d711642, mode 0640, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Degrade /etc/systemd/system/app.service: content mismatch for file "/etc/systemd/system/app.service", mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Degrade /etc/systemd/system/app.service.d/10-a.conf: content mismatch for file "/etc/systemd/system/app.service.d/10-a.conf", mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
	}},
	{"the first rule that matches decides", func(n *node) {
		n.rules("/etc/motd", "Report", "/etc/**", "Ignore", "**", "Degrade")
		n.write("/etc/motd", "x")
		n.write("/etc/app/conf.d/a.conf", "x")
		n.edit("/var/app", func(e *host.Entry) { e.Mode = 0o777 })
	}, []string{
		`Ignore /etc/app/conf.d/a.conf: content mismatch for file "/etc/app/conf.d/a.conf"; expected sha256 ca978112; received 2d711642, mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Report /etc/motd: content mismatch for file "/etc/motd"; expected sha256 4a1e67f2; received 2d711642, mode 0640, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Degrade /var/app: mode mismatch for dir: "/var/app"; expected 0700; received 0777`,
	}},
	{"a rule for a unit is for its file, its drop-ins, its mask and its enablement", func(n *node) {
		n.rules("app.service", "Report", "bad.*", "Ignore")
		n.write("/etc/systemd/system/app.service.d/10-a.conf", "x")
		n.Observed.Units["app.service"] = host.Unit{Install: "WantedBy=multi-user.target"}
		n.Observed.Paths["/etc/systemd/system/bad.service"] = host.Entry{}
	}, []string{
		`Report /etc/systemd/system/app.service.d/10-a.conf: content mismatch for file "/etc/systemd/system/app.service.d/10-a.conf"; expected sha256 768df525; received 2d711642, mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Ignore /etc/systemd/system/bad.service: kind mismatch for "/etc/systemd/system/bad.service": expected link; received nothing`,
		`Report app.service: unit "app.service": expected enabled; received disabled`,
	}},
	{"a repair writes the file and does what the disruption policy names for it", func(n *node) {
		n.rules("/etc/**", "Repair")
		n.write("/etc/containers/policy.json", "x")
	}, []string{
		`Repair /etc/containers/policy.json: content mismatch for file "/etc/containers/policy.json"; expected sha256 823412d1; received 2d711642, mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`step write /etc/containers/policy.json 0644 (contents changed)`,
		`step reload crio.service`,
	}},
	{"a repair that would take a reboot degrades, and says by which rule", func(n *node) {
		n.rules("**", "Repair")
		n.write("/etc/motd", "x")
		n.Observed.OS.Kargs = ""
	}, []string{
		`Degrade /etc/motd: content mismatch for file "/etc/motd"; expected sha256 4a1e67f2; received 2d711642, mode 0640, owner 0:0, modified 2026-01-02T11:00:00Z (not repaired: the repair takes a reboot (no rule covers it))`,
		`Degrade os/kernelArguments: kernelArguments: expected "quiet"; received "" (not repaired: only a reboot repairs it)`,
	}},
	{"a repair makes missing directories again, and leaves all else alone", func(n *node) {
		n.free("/etc/app")
		n.rules("/etc/app/**", "Repair", "/etc/motd", "Report")
		n.Observed.Paths["/etc/app/conf.d/a.conf"] = host.Entry{}
		n.Observed.Paths["/etc/app/conf.d"] = host.Entry{}
		n.write("/etc/motd", "x")
	}, []string{
		`Repair /etc/app/conf.d/a.conf: kind mismatch for "/etc/app/conf.d/a.conf": expected file; received nothing`,
		`Report /etc/motd: content mismatch for file "/etc/motd"; expected sha256 4a1e67f2; received 2d711642, mode 0640, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`step mkdir /etc/app/conf.d 0755 (new)`,
		`step write /etc/app/conf.d/a.conf 0644 (new)`,
	}},
	{"a unit is written, enabled again and its service restarted", func(n *node) {
		n.Rules.Units = append(n.Rules.Units,
			disruption.Rule{Name: "app.service", Actions: []disruption.Action{
				{Type: disruption.ActionDaemonReload},
				{Type: disruption.ActionRestart, Service: "app.service"},
			}})
		n.rules("app.service", "Repair")
		n.write("/etc/systemd/system/app.service", "x")
		n.Observed.Units["app.service"] = host.Unit{}
	}, []string{
		`Repair /etc/systemd/system/app.service: content mismatch for file "/etc/systemd/system/app.service"; expected sha256 da8658a1; received 2d711642, mode 0644, owner 0:0, modified 2026-01-02T11:00:00Z`,
		`Repair app.service: unit "app.service": expected enabled; received disabled`,
		`step write /etc/systemd/system/app.service 0644 (contents changed)`,
		`step enable app.service`,
		`step daemon-reload`,
		`step restart app.service`,
	}},
	{"keys and accounts are repaired without anything else", func(n *node) {
		n.rules("**", "Repair")
		n.write("/home/core/.ssh/authorized_keys", "ssh-ed25519 EVIL b")
		core := n.Observed.Users["core"]
		core.Password = "another"
		n.Observed.Users["core"] = core
	}, []string{
		`Repair /home/core/.ssh/authorized_keys: content mismatch for file "/home/core/.ssh/authorized_keys", mode 0600, owner 1000:1000, modified 2026-01-02T11:00:00Z`,
		`Repair user/core: user "core": password changed`,
		`step user core 1000:1000 home /home/core shell /bin/bash (password changed)`,
		`step write /home/core/.ssh/authorized_keys 0600 1000:1000 (contents changed)`,
	}},
}

// free lets changes below a directory cost nothing.
func (n *node) free(dir string) {
	n.Rules.Files = append(slices.Clone(n.Rules.Files),
		disruption.Rule{Name: dir, Actions: []disruption.Action{{Type: disruption.ActionNone}}})
}
