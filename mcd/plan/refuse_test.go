package plan_test

import (
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// ignition is a config with an Ignition body, such as `"storage":{…}`; "" for the empty one.
func ignition(t *testing.T, name, body string) plan.Config {
	t.Helper()
	if body == "" {
		return plan.Config{Name: name}
	}
	c, err := machineconfig.Parse(
		mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"},` + body +
			`}`)}})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Config{Name: name, Config: c}
}

// planOn plans between two configs on a machine as it is.
func planOn(t *testing.T, m *hosttest.Machine, from, to plan.Config) (plan.Plan, plan.Transition) {
	t.Helper()
	p, _, way := contentsOn(t, m, from, to)
	return p, way
}

// contentsOn is planOn with what the steps write.
func contentsOn(t *testing.T, m *hosttest.Machine, from,
	to plan.Config,
) (plan.Plan, map[host.Digest][]byte, plan.Transition) {
	t.Helper()
	accounts, err := apply.Accounts(t.Context(), m.Host())
	if err != nil {
		t.Fatal(err)
	}
	way, err := apply.Place(m.Host(), plan.NewTransition(from, to, plan.Rules{Policy: disruption.Default()}, accounts))
	if err != nil {
		t.Fatal(err)
	}
	p, contents := way.Plan(observe(t, m.Host(), way.Scope()), []byte(to.Name))
	return p, contents, way
}

const keysOfCore = `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`

func TestWhatANodeCannotTakeIsRefusedBeforeAnyStep(t *testing.T) {
	long := strings.Repeat("n", 246)
	for sentence, c := range map[string]struct {
		from, to, want string // a part of the refusal, "" for none
		there          []string
	}{
		"the daemon's journal":                   {to: files("/var/lib/machine-config-daemon/journal.json"), want: "belongs to the daemon"},
		"the record":                             {to: files(host.RecordPath), want: "belongs to the daemon"},
		"a kept original":                        {to: files(host.OrigDir + "/etc/a.mcdorig"), want: "belongs to the daemon"},
		"what is beside the daemon's own":        {to: files("/etc/machine-config-daemon/no-reboot/key")},
		"the name of a file that is written":     {to: files("/etc/.a.bunsen-new", "/etc/a"), want: "for files that it is writing"},
		"a name too long to keep what was there": {to: files("/etc/" + long), want: "has 246 bytes"},
		"the keys' file beside keys":             {to: keysOfCore + "," + files("/home/core/.ssh/authorized_keys"), want: "more than one part"},
		"keys' file of another system":           {to: keysOfCore + "," + files("/home/core/.ssh/authorized_keys.d/ignition"), want: "more than one part"},
		"a file in a file":                       {to: files("/etc/a", "/etc/a/b"), want: "/etc/a is a file of the same config"},
		"a directory where a file was":           {to: files("/etc/chrony.conf/sub/a"), want: "/etc/chrony.conf: the config needs a directory at this path, and this node has a file"},
		"a directory itself where a file was":    {to: `"storage":{"directories":[{"path":"/etc/zz.conf"}]}`, want: "/etc/zz.conf: the config needs a directory"},
		"a directory where a config's file was":  {from: files("/etc/mine"), to: files("/etc/mine/a"), there: []string{"/etc/mine"}},
		"a file where files of a config were":    {from: files("/etc/mine/sub/a"), to: files("/etc/mine")},
		"a file where a directory has to stay":   {from: files("/etc/d2/sub/a"), to: keysOfCore + "," + files("/home/core/.ssh"), want: "/home/core/.ssh"},
		"an owner who goes with the config":      {from: `"passwd":{"users":[{"name":"alice"}]}`, to: `"storage":{"files":[{"path":"/etc/a","user":{"name":"alice"}}]}`, want: "/etc/a: user \"alice\" does not exist"},
		"a directory in place of a unit":         {to: `"storage":{"directories":[{"path":"/etc/systemd/system/a.service"}]}`, want: "systemd expects the file of a unit at this path"},
		"a link that leads to itself":            {to: `"storage":{"links":[{"path":"/etc/self","target":"self"}]}`, want: "the link leads to itself"},
		"a directory that may replace a file":    {to: `"storage":{"directories":[{"path":"/etc/zz.conf","overwrite":true}]}`},
		"a link over a file":                     {to: `"storage":{"links":[{"path":"/etc/zz.conf","target":"/x"}]}`, want: "/etc/zz.conf: this node has a file at this path that no config created"},
		"a link that may replace a file":         {to: `"storage":{"links":[{"path":"/etc/zz.conf","target":"/x","overwrite":true}]}`},
		"a link that is there already":           {to: `"storage":{"links":[{"path":"/etc/l","target":"zz.conf"}]}`},
		"a link that leads elsewhere":            {to: `"storage":{"links":[{"path":"/etc/l","target":"motd"}]}`, want: "/etc/l: this node has a link at this path"},
		"a link in force over what was there":    {from: `"storage":{"links":[{"path":"/etc/zz.conf","target":"/x","overwrite":true}]}`, to: `"storage":{"links":[{"path":"/etc/zz.conf","target":"/y","overwrite":true}]}`, there: []string{"/etc/zz.conf"}},
		"a file that may not replace another":    {to: `"storage":{"files":[{"path":"/etc/zz.conf","overwrite":false,"contents":{"source":"data:,x"}}]}`, want: "/etc/zz.conf: this node has a file at this path"},
		"a file that is taken as it is":          {to: `"storage":{"files":[{"path":"/etc/zz.conf","overwrite":false,"mode":384}]}`},
		"a file that is taken and is a link":     {to: `"storage":{"files":[{"path":"/etc/l"}]}`, want: "storage.files /etc/l: this node has a link at this path"},
		"two names for one place":                {to: files("/etc/d/a", "/etc/a"), want: "/etc/d/a: a link on this node makes it the same place as /etc/a"},
		"a path behind links in a circle":        {to: files("/etc/m/a"), want: "/etc/m/a: links above this path lead to each other in a circle"},
		"a hard link to nothing":                 {to: `"storage":{"links":[{"path":"/etc/h","target":"/etc/none","hard":true}]}`, want: "storage.links /etc/h: the target /etc/none of this hard link"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			for _, p := range c.there {
				m.Put(p, "x")
			}
			link(t, m, "/etc/l", "zz.conf")
			link(t, m, "/etc/d", "../etc")
			link(t, m, "/etc/m", "n")
			link(t, m, "/etc/n", "m")
			from := ""
			if c.from != "" {
				from = "rendered-a"
			}
			p, _ := planOn(t, m, ignition(t, from, c.from), ignition(t, "rendered-b", c.to))
			text := p.String()
			if c.want == "" && len(p.Refusals) > 0 || c.want != "" && !strings.Contains(text, c.want) {
				t.Errorf("want %q in\n%s", c.want, text)
			}
		})
	}
}

func link(t *testing.T, m *hosttest.Machine, p, target string) {
	t.Helper()
	if err := m.Host().Files.Link(p, host.Entry{Target: target}); err != nil {
		t.Fatal(err)
	}
}

// files is a body with empty files.
func files(paths ...string) string {
	var items []string
	for _, p := range paths {
		items = append(items, `{"path":"`+p+`","contents":{"source":"data:,x"}}`)
	}
	return `"storage":{"files":[` + strings.Join(items, ",") + `]}`
}

func TestADropInThatAConfigEmptiesHidesThatOfTheVendorAndComesBack(t *testing.T) {
	const at = "/etc/systemd/system/a.service.d/10-x.conf"
	m := hosttest.NewMachine()
	m.Put(at, "[Service]\nNice=1\n")
	empty, emptied := ignition(t, "", ""),
		ignition(t, "rendered-a",
			`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"10-x.conf","contents":""}]}]}`)
	bring(t, m, empty, emptied)
	if is, err := m.Host().Files.Stat(at); err != nil || is.Kind != host.File || is.Digest != host.DigestOf(nil) {
		t.Fatalf("it is %v, %v", is, err)
	}
	bring(t, m, emptied, ignition(t, "rendered-b", files("/etc/b")))
	if text, err := m.Host().Files.Read(at); string(text) != "[Service]\nNice=1\n" {
		t.Errorf("it is %q, %v", text, err)
	}
}

// bring walks the plan between two configs, without its reboot.
func bring(t *testing.T, m *hosttest.Machine, from, to plan.Config) {
	t.Helper()
	p, contents, _ := contentsOn(t, m, from, to)
	p.Steps = slices.DeleteFunc(p.Steps, plan.Step.IsAction)
	if done, err := (apply.Runner{Host: m.Host()}).Run(t.Context(), p, contents); err != nil || done.Why != nil {
		t.Fatal(err, done.Why)
	}
}

func TestAUnitWhoseFileIsAPlainFileIsEnabledAndHasNotDrifted(t *testing.T) {
	const body = `"storage":{"files":[{"path":"/etc/systemd/system/a.service","contents":{"source":"data:,%5BInstall%5D%0AWantedBy%3Dmulti-user.target%0A"}}]},"systemd":{"units":[{"name":"a.service","enabled":true}]}`
	m := hosttest.NewMachine()
	a := ignition(t, "rendered-a", body)
	bring(t, m, ignition(t, "", ""), a)
	if u, err := m.Host().Units.Status(t.Context(), "a.service"); err != nil || !u.Enabled {
		t.Errorf("it is %+v, %v", u, err)
	}
	_, way := planOn(t, m, a, a)
	if items := drift.Items(observe(t, m.Host(), way.Scope()), way.Old, way.New); len(items) > 0 {
		t.Errorf("it has drifted: %v", items)
	}
	bring(t, m, a, ignition(t, "rendered-b", files("/etc/b")))
	if u, err := m.Host().Units.Status(t.Context(), "a.service"); err != nil || u.Enabled {
		t.Errorf("after the config it is %+v, %v", u, err)
	}
}
