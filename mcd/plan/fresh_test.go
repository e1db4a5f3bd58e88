package plan_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// What real Ignition has shown as a judge (test/ignition): each test is one finding, small enough to read.

func has(t *testing.T, m *hosttest.Machine, p, want string) {
	t.Helper()
	is, err := m.Host().Files.Stat(p)
	text := is.String()
	if is.Kind == host.File {
		contents, _ := m.Host().Files.Read(p)
		text = strings.TrimSuffix(text, is.Digest.Short()) + string(contents)
		if is.Owner != (host.Owner{}) {
			text = is.String()
		}
	}
	if err != nil || text != want {
		t.Errorf("%s is %q, %v; want %q", p, text, err, want)
	}
}

func TestWhatAnImageKeepsComesBackOnAMachineThatWasBornWithout(t *testing.T) {
	const body = `"storage":{"directories":[{"path":"/etc/app","mode":448}],"files":[{"path":"/etc/chrony.conf","overwrite":true,"contents":{"source":"data:,mine"}},{"path":"/etc/zz.conf","mode":384},{"path":"/etc/app/new","contents":{"source":"data:,new"}}]}`
	for sentence, c := range map[string]struct {
		ostree        bool
		chrony, zz, d string
	}{
		"an image that keeps copies of /etc": {true, "file 0644 pool example.org", "file 0644 came with the machine\n", "dir 0755"},
		"another machine":                    {false, "absent", "file 0600 came with the machine\n", "dir 0700"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			if c.ostree {
				m.Put("/ostree/repo/config", "")
				m.Put("/usr/etc/chrony.conf", "pool example.org")
				m.Put("/usr/etc/zz.conf", "came with the machine\n")
			}
			a, b := ignition(t, "rendered-a", body), ignition(t, "rendered-b", files("/etc/app/new"))
			bring(t, m, ignition(t, "", ""), a)
			for _, p := range []string{"/etc/chrony.conf.mcdorig", "/etc/zz.conf.mcdorig"} {
				if err := m.Host().Files.Remove(host.OrigDir + p); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Host().Files.Remove(host.NoOrigDir + "/etc/app.mcdnoorig"); err != nil {
				t.Fatal(err)
			}
			bring(t, m, a, b)
			has(t, m, "/etc/chrony.conf", c.chrony)
			has(t, m, "/etc/zz.conf", c.zz)
			has(t, m, "/etc/app", c.d)
		})
	}
}

func TestAFileOfTheImageComesBackAsTheImageHasItNow(t *testing.T) {
	const body = `"storage":{"files":[{"path":"/etc/chrony.conf","overwrite":true,"contents":{"source":"data:,mine"}}]}`
	const appends = `"storage":{"files":[{"path":"/etc/chrony.conf","append":[{"source":"data:,mine"}]}]}`
	for sentence, c := range map[string]struct {
		body, before, image, want string
	}{
		"the default of a newer image":            {body, "default 1", "default 2", "file 0644 default 2"},
		"the default of the same image":           {body, "default 1", "default 1", "file 0644 default 1"},
		"a file that an administrator had edited": {body, "edited", "default 2", "file 0644 edited"},
		"a default that a config appends to":      {appends, "default 1", "default 1", "file 0644 default 1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.Put("/ostree/repo/config", "")
			m.Put("/usr/etc/chrony.conf", "default 1")
			m.Put("/etc/chrony.conf", c.before)
			a, b := ignition(t, "rendered-a", c.body), ignition(t, "rendered-b", files("/etc/app"))
			bring(t, m, ignition(t, "", ""), a)
			m.Put("/usr/etc/chrony.conf", c.image)
			bring(t, m, a, b)
			has(t, m, "/etc/chrony.conf", c.want)
			has(t, m, host.OrigDir+"/etc/chrony.conf.mcdorig", "absent")
		})
	}
}

func TestANumberThatAUserHadIsNobodyElses(t *testing.T) {
	m := hosttest.NewMachine()
	nothing := ignition(t, "", "")
	alice := ignition(t, "rendered-a", `"passwd":{"users":[{"name":"alice","passwordHash":"x"}]}`)
	dave := ignition(t, "rendered-b", `"passwd":{"users":[{"name":"dave","passwordHash":"x"}]}`)
	number := func(name string) int {
		u, _, err := m.Host().Passwd.User(t.Context(), name)
		if err != nil || !u.There {
			t.Fatalf("%s is %v, %v", name, u, err)
		}
		return u.UID
	}
	bring(t, m, nothing, alice)
	was := number("alice")
	bring(t, m, alice, dave)
	if number("dave") == was {
		t.Errorf("dave owns what alice left at home: both have %d", was)
	}
	bring(t, m, dave, alice)
	if number("alice") != was {
		t.Errorf("alice had %d and has %d: what she left at home is not hers", was, number("alice"))
	}
}

func TestAUsersOwnGroupGoesWhereTheConfigLetsTheUserGo(t *testing.T) {
	m := hosttest.NewMachine()
	nothing, gone := ignition(t, "", ""),
		ignition(t, "rendered-a", `"passwd":{"users":[{"name":"guest","shouldExist":false}]}`)
	group := func() bool {
		g, err := m.Host().Passwd.Group(t.Context(), "guest")
		if err != nil {
			t.Fatal(err)
		}
		return g.There
	}
	bring(t, m, nothing, gone)
	if group() {
		t.Error("the group is still there")
	}
	bring(t, m, gone, ignition(t, "rendered-b", files("/etc/b")))
	if !group() {
		t.Error("the group has not come back with the user")
	}
}

func TestAUserWhoStaysLeavesAGroupBeforeItGoes(t *testing.T) {
	m := hosttest.NewMachine()
	a := ignition(t, "rendered-a",
		`"passwd":{"groups":[{"name":"team"}],"users":[{"name":"core","groups":["team"],"passwordHash":"x"}]}`)
	b := ignition(t, "rendered-b", `"passwd":{"users":[{"name":"core","passwordHash":"y"}]}`)
	bring(t, m, ignition(t, "", ""), a)
	p, _ := planOn(t, m, a, b)
	text := p.String()
	if left, gone := strings.Index(text, "user core"), strings.Index(text, "drop-group team"); left < 0 || gone < left {
		t.Errorf("want core out of the group, then the group gone, so that the way back has the group first:\n%s", text)
	}
	bring(t, m, a, b)
	if u, _, err := m.Host().Passwd.User(t.Context(), "core"); err != nil || strings.Contains(u.Groups, "team") {
		t.Errorf("core is %v, %v", u, err)
	}
}

func TestAHardLinkIsMadeAgainWhenItsFileChanges(t *testing.T) {
	body := func(text string) string {
		return `"storage":{"files":[{"path":"/etc/z","contents":{"source":"data:,` + text +
			`"}}],"links":[{"path":"/etc/a","target":"/etc/z","hard":true}]}`
	}
	m := hosttest.NewMachine()
	one, two := ignition(t, "rendered-a", body("one")), ignition(t, "rendered-b", body("two"))
	bring(t, m, ignition(t, "", ""), one)
	has(t, m, "/etc/a", "file 0644 one")
	if same, _ := planOn(t, m, one, one); strings.Contains(same.String(), "/etc/a") {
		t.Errorf("it is as it shall be:\n%s", same)
	}
	p, _ := planOn(t, m, one, two)
	for name, text := range map[string]string{"there": p.String(), "back": p.Inverse().String()} {
		if file, link := strings.Index(text, "write /etc/z"), strings.Index(text, "link /etc/a = /etc/z"); file < 0 ||
			link < file {
			t.Errorf("on the way %s, want the file first, then its second name:\n%s", name, text)
		}
	}
	bring(t, m, one, two)
	has(t, m, "/etc/a", "file 0644 two")
	_, way := planOn(t, m, two, two)
	if items := drift.Items(observe(t, m.Host(), way.Scope()), way.Old, way.New); len(items) > 0 {
		t.Errorf("it has drifted: %v", items)
	}
}

func TestUnitsAreEnabledAsOnANewMachine(t *testing.T) {
	const static, wanted = `"contents":"[Service]\nExecStart=/bin/a\n"`,
		`"contents":"[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\n"`
	for sentence, c := range map[string]struct {
		unit, from, to string
		enabled        bool
	}{
		"by preset, where it can be enabled for the first time": {"preset.service", `{"name":"preset.service",` + static + `}`, `{"name":"preset.service",` + wanted + `}`, true},
		"not a template that has no instance":                   {"preset@.service", "", `{"name":"preset@.service",` + wanted + `}`, false},
		"along with one that names it": {
			"vendor.service",
			`{"name":"x.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlso=vendor.service\n"}`,
			`{"name":"x.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlso=vendor.service\n"},{"name":"vendor.service"}`, true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.Put("/usr/lib/systemd/system-preset/40-more.preset", "enable preset@.service\n")
			from, to := ignition(t, "rendered-a", `"systemd":{"units":[`+c.from+`]}`),
				ignition(t, "rendered-b", `"systemd":{"units":[`+c.to+`]}`)
			bring(t, m, ignition(t, "", ""), from)
			bring(t, m, from, to)
			if u, err := m.Host().Units.Status(t.Context(), c.unit); err != nil || u.Enabled != c.enabled {
				t.Errorf("it is %+v, %v", u, err)
			}
		})
	}
}
