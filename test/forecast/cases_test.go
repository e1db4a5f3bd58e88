package forecast_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// change is one that somebody could propose.
type change struct {
	says      string
	from, to  machineconfig.Config
	policy    disruption.Policy
	overrides disruption.Overrides
	// whole: its items make sense together only.
	whole bool
	// plain: the OS of the machine cannot change its image, kernel or packages.
	plain bool
}

// house is a policy with a rule of every kind.
var house = disruption.Policy{
	Files: []disruption.Rule{
		{Name: "/etc/drain", Actions: []disruption.Action{{Type: disruption.ActionDrain}, {Type: disruption.ActionReload, Service: "a.service"}}},
		{Name: "/etc/reload", Actions: []disruption.Action{{Type: disruption.ActionReload, Service: "a.service"}}},
		{Name: "/etc/restart", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "a.service"}}},
		{Name: "/etc/both", Actions: []disruption.Action{{Type: disruption.ActionDaemonReload}, {Type: disruption.ActionReload, Service: "b.service"}, {Type: disruption.ActionRestart, Service: "c.service"}}},
		{Name: "/etc/none", Actions: []disruption.Action{{Type: disruption.ActionNone}}},
		{Name: "/etc/list", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "a.service"}, {Type: disruption.ActionRestart, Service: "b.service"}, {Type: disruption.ActionRestart, Service: "a.service"}}},
		{Name: "/etc/special", Actions: []disruption.Action{{Type: disruption.ActionSpecial}}},
		{Name: disruption.RegistriesConf, Actions: []disruption.Action{{Type: disruption.ActionSpecial}}},
		{Name: "/etc/none/reboot", Actions: []disruption.Action{{Type: disruption.ActionReboot}}},
	},
	Units: []disruption.Rule{
		{Name: "none.service", Actions: []disruption.Action{{Type: disruption.ActionNone}}},
		{Name: "restarts.service", Actions: []disruption.Action{{Type: disruption.ActionDaemonReload}, {Type: disruption.ActionRestart, Service: "restarts.service"}}},
		{Name: "drains.service", Actions: []disruption.Action{{Type: disruption.ActionDrain}, {Type: disruption.ActionDaemonReload}}},
	},
	SSHKey: []disruption.Action{{Type: disruption.ActionRestart, Service: "sshd.service"}},
}

const (
	unitText  = "[Service]\\nExecStart=/bin/a\\n[Install]\\nWantedBy=multi-user.target\\n"
	onlyMount = `"systemd":{"units":[{"name":"var-data.mount","enabled":true,"contents":"[Mount]\nWhat=/dev/sdb1\nWhere=/var/data\n[Install]\nRequiredBy=local-fs.target\n"}]}`
	mounted   = onlyMount + `,"storage":{"filesystems":[{"device":"/dev/sdb1","format":"xfs","path":"/var/data"}]}`
	search    = `unqualified-search-registries = [\"a.example\"]`
	more      = `unqualified-search-registries = [\"a.example\", \"b.example\"]`
	other     = `unqualified-search-registries = [\"b.example\"]`
)

func file(path, text string) string {
	return `{"path":"` + path + `","contents":{"source":"data:,` + strings.NewReplacer(" ", "%20", "[", "%5B", "]",
		"%5D", `\"`, "%22", "=", "%3D").Replace(text) + `"}}`
}

func files(list ...string) string { return `"storage":{"files":[` + strings.Join(list, ",") + `]}` }

func unit(name, more string) string {
	return `"systemd":{"units":[{"name":"` + name + `","contents":"` + unitText + `"` + more + `}]}`
}

// written are changes as their Ignition bodies; what follows a | are fields of the MachineConfig itself, and what
// follows another are those of the section `ignition`.
var written = []struct {
	says, from, to string
	house, whole   bool
}{
	{says: "a file that no rule covers", to: files(file("/etc/motd", "x"))},
	{says: "the CA of the kubelet", to: files(file("/etc/kubernetes/kubelet-ca.crt", "x"))},
	{says: "the CA of a registry", to: files(file("/etc/docker/certs.d/r.example/ca.crt", "x"))},
	{says: "the CA of the users", to: files(file("/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt", "x"))},
	{says: "the CA of the cloud", to: files(file("/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem", "x"))},
	{says: "a file below a file is refused", to: files(file("/etc/a", "x"), file("/etc/a/b", "x"))},
	{says: "the daemon's own path is refused", to: files(file("/var/lib/machine-config-daemon/x", "x"))},
	{says: "a unit that mounts a file system of the first boot", to: mounted, house: true, whole: true},
	{says: "its file system goes and the unit stays, so that nodes get it", from: mounted, to: onlyMount, house: true, whole: true},
	{says: "a unit in force whose file system is added stays as it is", from: onlyMount, to: mounted, house: true, whole: true},
	{says: "a config that it merges", to: `||"config":{"merge":[{"source":"data:,%7B%22ignition%22:%7B%22version%22:%223.5.0%22%7D,%22storage%22:%7B%22files%22:%5B%7B%22path%22:%22/etc/motd%22%7D%5D%7D%7D"}]}`},
	{says: "a config that it merges in place of another", from: `||"config":{"merge":[{"source":"data:,%7B%22ignition%22:%7B%22version%22:%223.5.0%22%7D,%22storage%22:%7B%22files%22:%5B%7B%22path%22:%22/etc/motd%22%7D%5D%7D%7D"}]}`, to: `||"config":{"replace":{"source":"data:,%7B%22ignition%22:%7B%22version%22:%223.5.0%22%7D%7D"}}`},
	{says: "a mode alone", from: files(`{"path":"/etc/motd","mode":420}`), to: files(`{"path":"/etc/motd","mode":384}`)},
	{says: "an owner alone", from: files(`{"path":"/etc/motd"}`), to: files(`{"path":"/etc/motd","user":{"id":1000}}`)},
	{says: "the same bytes in another encoding", from: files(file("/etc/motd", "x")), to: files(`{"path":"/etc/motd","contents":{"source":"data:;base64,eA=="}}`)},
	{says: "files in another order", from: files(file("/etc/a", "x"), file("/etc/b", "x")), to: files(file("/etc/b", "x"), file("/etc/a", "x"))},
	{says: "a file that drains", to: files(file("/etc/drain/x", "x")), house: true},
	{says: "a file that reloads", from: files(file("/etc/reload", "x")), to: files(file("/etc/reload", "y")), house: true},
	{says: "a file that restarts, removed", from: files(file("/etc/restart", "x")), house: true},
	{says: "files with all actions", to: files(file("/etc/both", "x"), file("/etc/none/x", "x"), file("/etc/reload", "x"), file("/etc/restart", "x")), house: true},
	{says: "a reload and a restart of one service", to: files(file("/etc/reload", "x"), file("/etc/restart", "x")), house: true},
	{says: "a file that reboots below one that does nothing", to: files(file("/etc/none/reboot", "x"), file("/etc/none/x", "x")), house: true},
	{says: "a path that only begins like a rule's", to: files(file("/etc/reloaded", "x")), house: true},
	{says: "Special on a path that is not the container registries'", to: files(file("/etc/special", "x")), house: true},
	{says: "registries that are only appended", from: files(file(disruption.RegistriesConf, search)), to: files(file(disruption.RegistriesConf, more))},
	{says: "registries that change places", from: files(file(disruption.RegistriesConf, more)), to: files(file(disruption.RegistriesConf, other))},
	{says: "registries that are removed", from: files(file(disruption.RegistriesConf, search))},
	{says: "registries beside a reload and a drain", from: files(file(disruption.RegistriesConf, search)), to: files(file(disruption.RegistriesConf, more), file("/etc/drain/a", "x"), file("/etc/reload", "x")), house: true},
	{says: "a unit that no rule covers", to: unit("new.service", `,"enabled":true`)},
	{says: "a unit with the rule None", to: unit("none.service", `,"enabled":true`), house: true},
	{says: "a unit that restarts itself", from: unit("restarts.service", ""), to: unit("restarts.service", `,"enabled":true`), house: true},
	{says: "a drop-in of a unit that drains", from: unit("drains.service", ""), to: unit("drains.service", `,"dropins":[{"name":"10-a.conf","contents":"[Unit]\n"}]`), house: true},
	{says: "a mask", from: unit("none.service", `,"enabled":true`), to: `"systemd":{"units":[{"name":"none.service","mask":true}]}`, house: true},
	{says: "a unit and a file together", to: files(file("/etc/restart", "x")) + "," + unit("restarts.service", ""), house: true},
	{says: "a unit and a file of which one reboots", to: files(file("/etc/motd", "x")) + "," + unit("none.service", ""), house: true},
	{says: "an SSH key", to: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`},
	{says: "an SSH key where keys restart a service", from: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`, to: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k","l"]}]}`, house: true},
	{says: "a password", to: `"passwd":{"users":[{"name":"core","passwordHash":"$6$x"}]}`},
	{says: "a new user in a new group", to: `"passwd":{"groups":[{"name":"team"}],"users":[{"name":"alice","groups":["team","wheel"],"shell":"/bin/zsh"}]}`, house: true, whole: true},
	{says: "a user who leaves", from: `"passwd":{"users":[{"name":"alice"}]}`, house: true},
	{says: "a user who shall not be", to: `"passwd":{"users":[{"name":"guest","shouldExist":false}]}`},
	{says: "a group that comes", to: `"passwd":{"groups":[{"name":"team","gid":2000}]}`},
	{says: "a group that goes", from: `"passwd":{"groups":[{"name":"team","gid":2000}]}`, house: true},
	{says: "a file beside a group whose password was there at first", from: `"passwd":{"groups":[{"name":"team","gid":2000,"passwordHash":"x"}]}`, to: files(file("/etc/reload", "x")) + `,"passwd":{"groups":[{"name":"team","gid":2000,"passwordHash":"x"}]}`, house: true},
	{says: "another password of a group is refused", from: `"passwd":{"groups":[{"name":"team","passwordHash":"x"}]}`, to: `"passwd":{"groups":[{"name":"team","passwordHash":"y"}]}`},
	{says: "a user who would be locked out is refused", from: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`, to: `"passwd":{"users":[{"name":"core","gecos":"x"}]}`},
	{says: "a user's number is refused", from: `"passwd":{"users":[{"name":"alice","uid":1500}]}`, to: `"passwd":{"users":[{"name":"alice","uid":1501}]}`},
	{says: "how a user is made counts for new nodes only", from: `"passwd":{"users":[{"name":"alice"}]}`, to: `"passwd":{"users":[{"name":"alice","noCreateHome":true}]}`, house: true},
	{says: "a directory that no rule covers", to: `"storage":{"directories":[{"path":"/srv/x","mode":448}]}`},
	{says: "a directory below a rule", to: `"storage":{"directories":[{"path":"/etc/reload/d"}]}`, house: true},
	{says: "a directory's mode", from: `"storage":{"directories":[{"path":"/etc/none/d","mode":448}]}`, to: `"storage":{"directories":[{"path":"/etc/none/d","mode":493}]}`, house: true},
	{says: "a directory that goes", from: `"storage":{"directories":[{"path":"/etc/drain/d"}]}`, house: true},
	{says: "a link that comes", to: `"storage":{"links":[{"path":"/etc/restart/l","target":"../x"}]}`, house: true},
	{says: "a link that leads elsewhere", from: `"storage":{"links":[{"path":"/etc/l","target":"a"}]}`, to: `"storage":{"links":[{"path":"/etc/l","target":"b"}]}`},
	{says: "a link that goes, one of two", from: `"storage":{"links":[{"path":"/etc/none/l","target":"a"},{"path":"/etc/none/m","target":"a"}]}`, to: `"storage":{"links":[{"path":"/etc/none/m","target":"a"}]}`, house: true},
	{says: "a hard link is made", to: `"storage":{"links":[{"path":"/etc/l","target":"/etc/chrony.conf","hard":true}]}`},
	{says: "appended bytes", to: files(`{"path":"/etc/chrony.conf","append":[{"source":"data:,x"}]}`)},
	{says: "more appended bytes below a rule", from: files(`{"path":"/etc/reload","append":[{"source":"data:,x"}]}`), to: files(`{"path":"/etc/reload","append":[{"source":"data:,x"},{"source":"data:,y"}]}`), house: true},
	{says: "a disk", to: `"storage":{"disks":[{"device":"/dev/sdb","wipeTable":true}]}`},
	{says: "a disk beside a file", to: `"storage":{"disks":[{"device":"/dev/sdb"}],"files":[` + file("/etc/reload", "x") + `]}`, house: true},
	{says: "a filesystem, an array and an encrypted volume", to: `"storage":{"filesystems":[{"device":"/dev/sdb1","format":"xfs","path":"/var/x"}],"raid":[{"name":"r","level":"raid1","devices":["/dev/sdb","/dev/sdc"]}],"luks":[{"name":"l","device":"/dev/sdd"}]}`},
	{says: "arguments of the first boot", to: `"kernelArguments":{"shouldExist":["quiet"]}`},
	{says: "another proxy and a timeout beside a file", from: `||"proxy":{"httpProxy":"http://a"}`, to: files(file("/etc/reload", "x")) + `||"proxy":{"httpProxy":"http://b"},"timeouts":{"httpTotal":9}`, house: true},
	{says: "an argument of the kernel", to: `|"kernelArguments":["quiet"]`},
	{says: "arguments of the kernel that are written another way", from: `|"kernelArguments":["quiet debug"]`, to: `|"kernelArguments":["quiet","debug"]`},
	{says: "an argument of the kernel and a file", from: `|"kernelArguments":["quiet"]`, to: files(file("/etc/reload", "x")) + `|"kernelArguments":["debug"]`, house: true},
	{says: "an image of the OS", to: `|"osImageURL":"registry.example/os:2"`},
	{says: "an extension", to: `|"extensions":["usbguard"]`},
	{says: "an extension that goes", from: `|"extensions":["usbguard","sysstat"]`, to: `|"extensions":["usbguard"]`},
	{says: "a type of kernel", to: `|"kernelType":"realtime"`},
	{says: "the default type of kernel by its name", to: `|"kernelType":"default"`},
	{says: "FIPS mode is refused", to: `|"fips":true`},
	{says: "everything at once", to: files(file("/etc/both", "x")) + `,"passwd":{"groups":[{"name":"team"}],"users":[{"name":"core","sshAuthorizedKeys":["k"]}]},` + unit("drains.service", "") + `|"kernelArguments":["quiet"],"kernelType":"realtime","extensions":["usbguard"],"osImageURL":"registry.example/os:2"`, house: true},
}

func specOf(t *testing.T, body string) machineconfig.Config {
	t.Helper()
	body, fields, _ := strings.Cut(body, "|")
	fields, head, _ := strings.Cut(fields, "|")
	if body != "" {
		body = "," + body
	}
	if fields != "" {
		fields = "," + fields
	}
	if head != "" {
		head = "," + head
	}
	var spec mcfgv1.MachineConfigSpec
	if err := json.Unmarshal([]byte(`{"config":{"ignition":{"version":"3.5.0"`+head+`}`+body+`}`+fields+`}`),
		&spec); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return configOf(t, spec)
}

func configOf(t *testing.T, spec mcfgv1.MachineConfigSpec) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// changes are those that are written, each row of the default policy in three ways, and the vectors'.
func changes(t *testing.T) (all []change) {
	t.Helper()
	for _, w := range written {
		c := change{
			says: w.says, from: specOf(t, w.from), to: specOf(t, w.to), policy: disruption.Default(),
			whole: w.whole,
		}
		if w.house {
			c.policy = house
		}
		all = append(all, c)
		if w.from == "" && w.to != "" && !strings.Contains(w.says, "refused") {
			c.says, c.from, c.to = "back: "+c.says, c.to, c.from
			all = append(all, c)
		}
	}
	for _, limits := range []string{
		`"storage":{"directories":[{"path":"/srv/x"}]}`,
		`"storage":{"disks":[{"device":"/dev/sdb"}]}`, files(`{"path":"/etc/a","append":[{"source":"data:,x"}]}`),
	} {
		all = append(all, change{
			says: "within the original's limits: " + limits, from: specOf(t, ""),
			to: specOf(t, limits), policy: disruption.Default(), overrides: disruption.Overrides{OpenShift: true},
		})
	}
	for _, r := range disruption.Default().Files {
		x, y := files(file(r.Name, "x")), files(file(r.Name, "y"))
		for says, pair := range map[string][2]string{
			"added": {"", x}, "changed": {x, y}, "removed": {x, ""},
			"below": {"", files(file(r.Name+"/below", "x"))},
		} {
			all = append(all, change{
				says: "default rule " + r.Name + " " + says, from: specOf(t, pair[0]),
				to: specOf(t, pair[1]), policy: disruption.Default(),
			})
		}
	}
	for _, r := range disruption.Default().Units {
		all = append(all, change{
			says: "default rule " + r.Name, from: specOf(t, ""),
			to: specOf(t, unit(r.Name, `,"enabled":true`)), policy: disruption.Default(),
		})
	}
	return append(all, recorded(t)...)
}

// recorded are the cases of the vectors.
func recorded(t *testing.T) (all []change) {
	t.Helper()
	text, err := os.ReadFile("../vectors/testdata/daemon.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Actions []struct {
			Case     string
			Old, New mcfgv1.MachineConfigSpec
			Policy   *operatorv1.NodeDisruptionPolicyClusterStatus
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors.Actions {
		c := change{
			says: "vector " + v.Case, from: configOf(t, v.Old), to: configOf(t, v.New),
			policy: disruption.Default(),
		}
		if v.Policy != nil {
			if c.policy,
				err = disruption.FromStatus(operatorv1.NodeDisruptionPolicyStatus{
				ClusterPolicies: *v.Policy,
			}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, c)
	}
	return all
}
