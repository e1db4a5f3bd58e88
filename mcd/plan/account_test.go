package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

func users(list string) string  { return `"passwd":{"users":[` + list + `]}` }
func groups(list string) string { return `"passwd":{"groups":[` + list + `]}` }

func TestWhatANodeCannotTakeOfAccountsIsRefused(t *testing.T) {
	for sentence, c := range map[string]struct{ from, to, want string }{
		"a number other than the node's":              {to: users(`{"name":"guest","uid":1201}`), want: "passwd.users guest: it has the uid 1200 on this node"},
		"the number that the node has":                {to: users(`{"name":"guest","uid":1200}`)},
		"a group's number other than the node's":      {to: groups(`{"name":"wheel","gid":11}`), want: "passwd.groups wheel: it has the gid 10 on this node"},
		"a group that nobody has":                     {to: users(`{"name":"alice","groups":["none"]}`), want: `group "none" does not exist`},
		"a group of the config":                       {to: `"passwd":{"groups":[{"name":"none"}],"users":[{"name":"alice","groups":["none"],"primaryGroup":"none"}]}`},
		"a primary group by a number that nobody has": {to: users(`{"name":"alice","primaryGroup":"4711"}`), want: `group "4711" does not exist`},
		"a new user whose group's name is taken":      {to: users(`{"name":"wheel"}`), want: "say primaryGroup: wheel"},
		"a user who came with the image":              {to: users(`{"name":"chrony"}`), want: "comes with the node's image"},
		"a group that came with the image":            {to: groups(`{"name":"chrony"}`), want: "comes with the node's image"},
		"a group's password":                          {to: groups(`{"name":"team","passwordHash":"x"}`), want: "passwords of groups"},
		"a group's password that was there at first":  {from: groups(`{"name":"team","passwordHash":"x"}`), to: groups(`{"name":"team","passwordHash":"x"}`) + `,"storage":{"files":[{"path":"/etc/a"}]}`},
		"another password of a group":                 {from: groups(`{"name":"team","passwordHash":"x"}`), to: groups(`{"name":"team","passwordHash":"y"}`), want: "passwords of groups"},
		"a name that is an option":                    {to: users(`{"name":"-o"}`), want: "-o"},
		"a home that is relative":                     {to: users(`{"name":"alice","homeDir":"alice"}`), want: "alice"},
		"a file of a user of the config":              {to: users(`{"name":"alice"}`) + `,"storage":{"files":[{"path":"/etc/a","user":{"name":"alice"},"group":{"name":"alice"}}]}`},
		"a file of a user that the config removes":    {to: users(`{"name":"guest","shouldExist":false}`) + `,"storage":{"files":[{"path":"/etc/a","user":{"name":"guest"}}]}`, want: `the config removes user "guest"`},
		"an append to a directory":                    {to: `"storage":{"files":[{"path":"/etc/systemd","append":[{"source":"data:,x"}]}]}`, want: "this node has a dir at this path"},
		"an append that cannot be decoded":            {to: `"storage":{"files":[{"path":"/etc/a","append":[{"source":"http://example.org/x"}]}]}`, want: "append 1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.Put("/usr/lib/passwd", "chrony:x:994:992::/var/lib/chrony:/sbin/nologin\n")
			m.Put("/usr/lib/group", "chrony:x:992:\n")
			p, _ := planOn(t, m, ignition(t, "rendered-a", c.from), ignition(t, "rendered-b", c.to))
			if text := p.String(); c.want == "" && len(p.Refusals) > 0 || !strings.Contains(text, c.want) ||
				c.want != "" && len(p.Refusals) == 0 {
				t.Errorf("want %q in\n%s", c.want, text)
			}
		})
	}
}

// TestAccountsGoThrough walks a machine through configs and looks at one user.
func TestAccountsGoThrough(t *testing.T) {
	const guest = "1200:1200 home /home/guest shell /bin/sh groups wheel comment \"A guest\""
	for sentence, c := range map[string]struct {
		user    string
		configs []string
		want    string // the user at the end
		hash    string
	}{
		"a user who was made goes with its config":              {"alice", []string{users(`{"name":"alice"}`), files("/etc/a")}, "absent", ""},
		"a user who was there is as before":                     {"guest", []string{users(`{"name":"guest","shell":"/bin/zsh","groups":["core"],"gecos":"x","passwordHash":"$6$x"}`), files("/etc/a")}, guest, "$6$guest"},
		"a user who was removed comes back":                     {"guest", []string{users(`{"name":"guest","shouldExist":false}`), files("/etc/a")}, guest, "$6$guest"},
		"a user who was removed comes back with what is said":   {"guest", []string{users(`{"name":"guest","shouldExist":false}`), users(`{"name":"guest","shell":"/bin/zsh"}`)}, strings.Replace(guest, "/bin/sh", "/bin/zsh", 1), "$6$guest"},
		"a user who shall not be, and is not, is no change":     {"alice", []string{users(`{"name":"alice","shouldExist":false}`)}, "absent", ""},
		"what is no longer said is as it was":                   {"guest", []string{users(`{"name":"guest","shell":"/bin/zsh"}`), users(`{"name":"guest","gecos":"y"}`)}, strings.Replace(guest, "A guest", "y", 1), "$6$guest"},
		"a new user without a password cannot log in with one":  {"alice", []string{users(`{"name":"alice","uid":1500}`)}, "1500:1500 home /home/alice shell /bin/bash", "*"},
		"an empty hash is no password":                          {"guest", []string{users(`{"name":"guest","passwordHash":""}`)}, guest, "*"},
		"a password that is taken out is gone":                  {"alice", []string{users(`{"name":"alice","uid":1500,"passwordHash":"$6$x"}`), users(`{"name":"alice","uid":1500,"passwordHash":""}`)}, "1500:1500 home /home/alice shell /bin/bash", "*"},
		"the next free numbers are taken":                       {"alice", []string{users(`{"name":"alice"}`)}, "1201:1201 home /home/alice shell /bin/bash", "*"},
		"a system's user is numbered from above":                {"alice", []string{users(`{"name":"alice","system":true}`)}, "999:999 home /home/alice shell /bin/bash", "*"},
		"a user without a group of its own is in the machine's": {"alice", []string{users(`{"name":"alice","noUserGroup":true}`)}, "1201:100 home /home/alice shell /bin/bash", "*"},
		"a user's number stays though others come":              {"alice", []string{users(`{"name":"alice"}`), users(`{"name":"bob","uid":1300},{"name":"alice"}`)}, "1201:1201 home /home/alice shell /bin/bash", "*"},
		"a number changes hands":                                {"bob", []string{users(`{"name":"alice","uid":1500}`), users(`{"name":"bob","uid":1500}`)}, "1500:1501 home /home/bob shell /bin/bash", "*"},
		"core keeps what its keys' config does not say":         {"core", []string{keysOfCore, files("/etc/a")}, "1000:1000 home /home/core shell /bin/bash", "*"},
		"core is as before its password":                        {"core", []string{users(`{"name":"core","passwordHash":"$6$x","shell":"/bin/zsh"}`), keysOfCore, files("/etc/a")}, "1000:1000 home /home/core shell /bin/bash", "*"},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := hosttest.NewMachine()
			from := ignition(t, "", "")
			for i, body := range c.configs {
				to := ignition(t, "rendered-"+string(rune('a'+i)), body)
				bring(t, m, from, to)
				p, way := planOn(t, m, to, to)
				if len(p.Steps) > 0 {
					t.Errorf("after %s this is left:\n%s", to.Name, p)
				}
				if items := drift.Items(observe(t, m.Host(), way.Scope()), way.Old, way.New); len(items) > 0 {
					t.Errorf("after %s: %v", to.Name, items)
				}
				from = to
			}
			u, hash, err := m.Host().Passwd.User(t.Context(), c.user)
			if err != nil || u.String() != c.want || string(hash) != c.hash {
				t.Errorf("%s is %s with %q, %v; want %s with %q", c.user, u, hash, err, c.want, c.hash)
			}
		})
	}
}

// TestCoreComesAndGoesWhereTheImageHasNone: its group does as it does, also one that an earlier daemon left behind.
func TestCoreComesAndGoesWhereTheImageHasNone(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put(host.PasswdPath, "root:x:0:0:root:/root:/bin/bash\n")
	m.Put(host.GroupPath, "root:x:0:\n")
	m.Put(host.ShadowPath, "root:*:1::::::\n")
	none, core := ignition(t, "rendered-a", files("/etc/a")), ignition(t, "rendered-b", keysOfCore)
	bring(t, m, ignition(t, "", ""), none)
	has := func(want bool) {
		t.Helper()
		group, errGroup := m.Host().Passwd.Group(t.Context(), "core")
		user, _, errUser := m.Host().Passwd.User(t.Context(), "core")
		if errGroup != nil || errUser != nil || group.There != want || user.There != want {
			t.Fatalf("the user is %v, %v, and the group %v, %v; want both %t", user, errUser, group, errGroup, want)
		}
	}
	for range 2 {
		bring(t, m, none, core)
		has(true)
		bring(t, m, core, none)
		has(false)
	}
	m.Put(host.GroupPath, "root:x:0:\ncore:x:1000:\n")
	m.Put(host.AccountsPath, `{"Groups":{"core":{}},"Former":{"core":{"UID":1000,"GID":0}}}`)
	bring(t, m, none, core)
	has(true)
	bring(t, m, core, none)
	has(false)
}

func TestHowNewAccountsAreMadeIsTheMachines(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put("/etc/login.defs", "# comment\nUID_MIN 5000\nUID_MAX\t5001\nSYS_UID_MAX 499\nUMASK 077\nHOME_MODE 0750\n")
	m.Put("/etc/default/useradd", "GROUP=10\nHOME=/srv/home\nSHELL=/bin/sh\n")
	bring(t, m, ignition(t, "", ""),
		ignition(t, "rendered-a", users(`{"name":"a","noUserGroup":true},{"name":"b"},{"name":"s","system":true}`)))
	for name, want := range map[string]string{
		"a": "5000:10 home /srv/home/a shell /bin/sh", "b": "5001:5001 home /srv/home/b shell /bin/sh",
		"s": "499:499 home /srv/home/s shell /bin/sh",
	} {
		if u, _, err := m.Host().Passwd.User(t.Context(), name); err != nil || u.String() != want {
			t.Errorf("%s is %s, %v; want %s", name, u, err, want)
		}
	}
	home, err := m.Host().Files.Stat("/srv/home/b")
	if err != nil || home != (host.Entry{Kind: host.Dir, Mode: 0o750, Owner: host.Owner{UID: 5001, GID: 5001}}) {
		t.Errorf("the home is %s, %v", home, err)
	}
}

func TestAHomeThatIsThereStaysAsItIsAndOneThatWasMadeIsLeftBehind(t *testing.T) {
	m := hosttest.NewMachine()
	m.Put("/home/bob/mine", "x")
	first := ignition(t, "rendered-a", users(`{"name":"alice"},{"name":"bob"},{"name":"carol","noCreateHome":true}`))
	bring(t, m, ignition(t, "", ""), first)
	bring(t, m, first, ignition(t, "rendered-b", files("/etc/b")))
	for at, want := range map[string]host.Kind{
		"/home/alice/.bashrc": host.File, "/home/bob/mine": host.File, "/home/bob/.bashrc": host.Absent,
		"/home/carol": host.Absent,
	} {
		if is, err := m.Host().Files.Stat(at); err != nil || is.Kind != want {
			t.Errorf("%s is %s, %v; want %q", at, is, err, want)
		}
	}
}

func TestAnAccountThatSomebodyChangedHasDriftedAndNoHashIsTold(t *testing.T) {
	m := hosttest.NewMachine()
	a := ignition(t, "rendered-a",
		`"passwd":{"groups":[{"name":"team"}],"users":[{"name":"guest","shell":"/bin/zsh","passwordHash":"$6$x"},{"name":"alice"}]}`)
	bring(t, m, ignition(t, "", ""), a)
	h := m.Host()
	u, _, err := h.Passwd.User(t.Context(), "guest")
	if err != nil {
		t.Fatal(err)
	}
	u.Shell, u.Gecos, u.Password = "/bin/fish", "not said, so anybody's", host.DigestOf([]byte("$6$other"))
	for _, err := range []error{
		h.Passwd.SetUser(t.Context(), "guest", u, []byte("$6$other")), h.Passwd.SetUser(t.Context(), "alice",
			host.User{}, nil), h.Passwd.SetGroup(t.Context(), "team", host.Group{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	accounts, err := apply.Accounts(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	way := plan.NewTransition(a, a, plan.Rules{}, accounts)
	got := fmt.Sprint(drift.Items(observe(t, h, way.Scope()), way.Old, way.New))
	for _, want := range []string{
		`user "guest": shell was /bin/zsh, password changed`,
		`user "alice": expected present; received absent`, `group "team": expected`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "$6$") || strings.Contains(got, "anybody") {
		t.Error(got)
	}
}

func TestADirectoryThatSomebodyUsesStays(t *testing.T) {
	m := hosttest.NewMachine()
	first := ignition(t, "rendered-a",
		`"storage":{"directories":[{"path":"/etc/empty"},{"path":"/etc/used","mode":448}]}`)
	bring(t, m, ignition(t, "", ""), first)
	m.Put("/etc/used/mine", "x")
	bring(t, m, first, ignition(t, "rendered-b", files("/etc/b")))
	for at, want := range map[string]host.Kind{
		"/etc/empty": host.Absent, "/etc/used": host.Dir,
		"/etc/used/mine": host.File,
	} {
		if is, err := m.Host().Files.Stat(at); err != nil || is.Kind != want {
			t.Errorf("%s is %s, %v; want %q", at, is, err, want)
		}
	}
}

func TestAppendingNeverGrowsAFile(t *testing.T) {
	const at = "/etc/chrony.conf"
	appended := func(name, text string) plan.Config {
		return ignition(t, name, `"storage":{"files":[{"path":"`+at+`","append":[{"source":"data:,`+text+`%0A"}]}]}`)
	}
	m := hosttest.NewMachine()
	from := ignition(t, "", "")
	for _, step := range []struct {
		to   plan.Config
		want string
	}{
		{appended("rendered-a", "one"), "pool example.org\none\n"},
		{appended("rendered-b", "two"), "pool example.org\ntwo\n"},
		{ignition(t, "rendered-c", files(at)), "x"},
		{appended("rendered-d", "one"), "pool example.org\none\n"},
		{ignition(t, "rendered-e", files("/etc/b")), "pool example.org\n"},
	} {
		bring(t, m, from, step.to)
		if text, err := m.Host().Files.Read(at); err != nil || string(text) != step.want {
			t.Errorf("in %s it is %q, %v; want %q", step.to.Name, text, err, step.want)
		}
		from = step.to
	}
}
