package disruption_test

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// refusals are the fields of refusals, joined; every one must have a reason.
func refusals(t *testing.T, list []disruption.Refusal) string {
	t.Helper()
	var fields []string
	for _, r := range list {
		fields = append(fields, r.Field)
		if r.Why == "" {
			t.Errorf("no reason is given for %s", r.Field)
		}
	}
	return strings.Join(fields, ", ")
}

const appending = `"storage":{"files":[{"path":"/etc/motd","append":[{"source":"data:,x"}]}]}`

func links(more string) string {
	return `"storage":{"links":[{"path":"/l","target":"/t"}` + more + `]}`
}

func user(fields string) string { return `"passwd":{"users":[{` + fields + `}]}` }

func group(fields string) string { return `"passwd":{"groups":[{` + fields + `}]}` }

// TestRefuseAsTheOriginal covers the rules beyond the recorded answers; test/vectors has those.
func TestRefuseAsTheOriginal(t *testing.T) {
	as := disruption.Overrides{OpenShift: true}
	for sentence, c := range map[string]struct {
		from, to string
		o        disruption.Overrides
		want     string // the fields, or "" for nothing
	}{
		"a link more":                          {links(""), links(`,{"path":"/m","target":"/t"}`), as, "storage.links"},
		"one link of two less":                 {links(`,{"path":"/m","target":"/t"}`), links(""), as, "storage.links"},
		"disks without the override":           {"", `"storage":{"disks":[{"device":"/dev/sdb"}]}`, disruption.Overrides{OpenShift: true, FileSystems: true, Raid: true}, "storage.disks"},
		"disks with the override":              {"", `"storage":{"disks":[{"device":"/dev/sdb"}]}`, disruption.Overrides{OpenShift: true, Disks: true}, ""},
		"encrypted volumes are let through":    {"", `"storage":{"luks":[{"name":"l","device":"/dev/sda"}]}`, as, ""},
		"Ignition's kernel arguments":          {"", `"kernelArguments":{"shouldExist":["a"]}`, as, "kernelArguments (of Ignition)"},
		"appending, though nothing changes":    {appending, appending, as, "storage.files /etc/motd append"},
		"a shell for core":                     {"", user(`"name":"core","shell":"/bin/sh","passwordHash":"x"`), as, "passwd.users core"},
		"a password for core":                  {"", user(`"name":"core","passwordHash":"x"`), as, ""},
		"another user who was there at first":  {user(`"name":"bob"`), user(`"name":"bob"`) + "," + files("/a"), as, ""},
		"an empty list of directories is none": {`"storage":{"directories":[]}`, "", as, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := refusals(t, disruption.Refuse(config(t, c.from), config(t, c.to), c.o)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestWhatARunningNodeTakes is the rule where OpenShift's limits are not asked for: what is refused, and what only new
// nodes get. What is in neither, a node takes in place.
func TestWhatARunningNodeTakes(t *testing.T) {
	const dir, hard = `"storage":{"directories":[{"path":"/d"}]}`,
		`"storage":{"links":[{"path":"/h","target":"/t","hard":true}]}`
	for sentence, c := range map[string]struct {
		from, to          string
		refused, newNodes string
	}{
		"a directory more":                                {"", dir, "", ""},
		"a directory less":                                {dir, "", "", ""},
		"a directory of another mode":                     {dir, `"storage":{"directories":[{"path":"/d","mode":448}]}`, "", ""},
		"a link more, one less":                           {links(""), `"storage":{"links":[{"path":"/m","target":"/t"}]}`, "", ""},
		"appended contents":                               {"", appending, "", ""},
		"a hard link more":                                {"", hard, "", ""},
		"a hard link that leads elsewhere":                {hard, `"storage":{"links":[{"path":"/h","target":"/u","hard":true}]}`, "", ""},
		"a symbolic link becomes a hard one":              {links(""), `"storage":{"links":[{"path":"/l","target":"/t","hard":true}]}`, "", ""},
		"a hard link that stays":                          {hard, hard + "," + group(`"name":"g"`), "", ""},
		"a hard link that goes":                           {hard, "", "", ""},
		"a hard link becomes a symbolic one":              {`"storage":{"links":[{"path":"/l","target":"/t","hard":true}]}`, links(""), "", ""},
		"a user more, without key or password":            {"", user(`"name":"app","system":true`), "", ""},
		"a user less":                                     {user(`"name":"bob","passwordHash":"x"`), "", "", ""},
		"another shell, other groups, another name":       {user(`"name":"core","passwordHash":"x"`), user(`"name":"core","passwordHash":"x","shell":"/bin/sh","gecos":"C","groups":["wheel"]`), "", ""},
		"the last key of a user":                          {user(`"name":"bob","sshAuthorizedKeys":["k"]`), user(`"name":"bob"`), "passwd.users bob", ""},
		"a password in place of the last key":             {user(`"name":"bob","sshAuthorizedKeys":["k"]`), user(`"name":"bob","passwordHash":"x"`), "", ""},
		"a user who never had either":                     {user(`"name":"bob"`), user(`"name":"bob","shell":"/bin/sh"`), "", ""},
		"a user who shall not be":                         {user(`"name":"bob","passwordHash":"x"`), user(`"name":"bob","shouldExist":false`), "", ""},
		"root who shall not be":                           {"", user(`"name":"root","shouldExist":false`), "passwd.users root", ""},
		"another uid":                                     {user(`"name":"bob","uid":2000`), user(`"name":"bob","uid":2001`), "passwd.users bob", ""},
		"a uid for a user that nodes numbered":            {user(`"name":"bob"`), user(`"name":"bob","uid":2001`), "", ""},
		"a uid that is said no more":                      {user(`"name":"bob","uid":2001`), user(`"name":"bob"`), "", ""},
		"a uid of a user who is new":                      {"", user(`"name":"bob","uid":2001`), "", ""},
		"another home":                                    {user(`"name":"bob"`), user(`"name":"bob","homeDir":"/srv/bob"`), "passwd.users bob", ""},
		"a system account that was made as an ordinary":   {user(`"name":"bob"`), user(`"name":"bob","system":true`), "", "passwd.users bob"},
		"a group more":                                    {"", group(`"name":"g","gid":3000`), "", ""},
		"a group with a password":                         {"", group(`"name":"g","passwordHash":"x"`), "passwd.groups g passwordHash", ""},
		"another gid":                                     {group(`"name":"g","gid":3000`), group(`"name":"g","gid":3001`), "passwd.groups g", ""},
		"the group root that shall not be":                {"", group(`"name":"root","shouldExist":false`), "passwd.groups root", ""},
		"a system group that was made as an ordinary one": {group(`"name":"g"`), group(`"name":"g","system":true`), "", "passwd.groups g"},
		"a disk": {"", `"storage":{"disks":[{"device":"/dev/sdb"}]}`, "", "storage.disks /dev/sdb"},
		"a filesystem that goes, a volume and an array": {
			`"storage":{"filesystems":[{"device":"/dev/sdb","format":"xfs"}]}`,
			`"storage":{"luks":[{"name":"l","device":"/dev/sda"}],"raid":[{"name":"r","level":"raid1","devices":["/dev/sdc","/dev/sdd"]}]}`,
			"", "storage.filesystems /dev/sdb, storage.raid r, storage.luks l",
		},
		"Ignition's kernel arguments": {"", `"kernelArguments":{"shouldExist":["a"]}`, "", "kernelArguments (of Ignition)"},
		"a link that enables a unit which the config disables": {
			"", `"storage":{"links":[{"path":"/etc/systemd/system/x.target.wants/a.service","target":"../a.service"}]},` +
				`"systemd":{"units":[{"name":"a.service","enabled":false}]}`,
			"storage.links /etc/systemd/system/x.target.wants/a.service", "",
		},
		"the force file": {"", files(disruption.ForceFile), "storage.files " + disruption.ForceFile, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := config(t, c.from), config(t, c.to)
			if got := refusals(t, disruption.Refuse(from, to, disruption.Overrides{})); got != c.refused {
				t.Errorf("refused: %q, want %q", got, c.refused)
			}
			only := disruption.NewNodesOnly(from, to)
			if got := refusals(t, only); got != c.newNodes {
				t.Errorf("for new nodes only: %q, want %q", got, c.newNodes)
			}
			for _, r := range only {
				if !strings.HasPrefix(r.Why, "existing nodes will not get this: ") {
					t.Errorf("the words about %s differ: %s", r.Field, r.Why)
				}
			}
		})
	}
}

func TestFIPSIsRefusedAlways(t *testing.T) {
	from, to := config(t, ""), config(t, "")
	to.FIPS = true
	for _, o := range []disruption.Overrides{{}, {OpenShift: true}} {
		if got := refusals(t, disruption.Refuse(from, to, o)); got != "fips" {
			t.Errorf("got %q with %+v", got, o)
		}
	}
}

func TestOverridesOf(t *testing.T) {
	storage := operatorv1.IrreconcilableValidationOverrides{
		Storage: []operatorv1.IrreconcilableValidationOverridesStorage{"Disks", "Raid", "Else"},
	}
	cluster := func(value string) *operatorv1.MachineConfiguration {
		return &operatorv1.MachineConfiguration{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{disruption.InPlaceAnnotation: value}},
			Spec:       operatorv1.MachineConfigurationSpec{IrreconcilableValidationOverrides: storage},
		}
	}
	for sentence, c := range map[string]struct {
		mc   *operatorv1.MachineConfiguration
		want disruption.Overrides
	}{
		"no MachineConfiguration":              {nil, disruption.Overrides{}},
		"one that says nothing":                {&operatorv1.MachineConfiguration{}, disruption.Overrides{}},
		"OpenShift's limits, with overrides":   {cluster("openshift"), disruption.Overrides{OpenShift: true, Disks: true, Raid: true}},
		"a word that it does not know is none": {cluster("OpenShift 4"), disruption.Overrides{Disks: true, Raid: true}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := disruption.OverridesOf(c.mc); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestNestedOwners: a directory of one user below a directory of another user, as far as the config alone says so.
func TestNestedOwners(t *testing.T) {
	dirs := func(outer, inner string) string {
		return `"storage":{"directories":[{"path":"/srv/a"` + outer + `},{"path":"/srv/a/b/c"` + inner + `}]}`
	}
	const one, two, app, core = `,"user":{"id":1000}`, `,"user":{"id":1001}`, `,"user":{"name":"app"}`,
		`,"user":{"name":"core"}`
	numbered := `,"passwd":{"users":[{"name":"app","uid":1000}]}`
	for sentence, c := range map[string]struct{ config, want string }{
		"of two users by number":                       {dirs(one, two), "/srv/a/b/c"},
		"of two users by name":                         {dirs(app, core), "/srv/a/b/c"},
		"by name and by number, which the config says": {dirs(app, two) + numbered, "/srv/a/b/c"},
		"of one user, by name and by number":           {dirs(app, one) + numbered, ""},
		"by name and by number, which a node knows":    {dirs(app, two), ""},
		"of one user":                                  {dirs(one, one), ""},
		"of root below a user":                         {dirs(one, `,"user":{"id":0}`), ""},
		"of a user below root":                         {dirs(`,"user":{"name":"root"}`, two), ""},
		"without an owner":                             {dirs(one, ""), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := refusals(t, disruption.Invalid(config(t, c.config))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
