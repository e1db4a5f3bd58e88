package disruption_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// config is a config with an Ignition body, such as `"storage":{…}`.
func config(t *testing.T, body string) machineconfig.Config {
	t.Helper()
	if body != "" {
		body = "," + body
	}
	c, err := machineconfig.Parse(
		mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"}` + body +
			`}`)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// files is a body with files, each given as `path` or `path contents`.
func files(list ...string) string {
	var items []string
	for _, f := range list {
		path, text, _ := strings.Cut(f, " ")
		items = append(items, fmt.Sprintf(`{"path":%q,"contents":{"source":"data:,%s"}}`, path, text))
	}
	return `"storage":{"files":[` + strings.Join(items, ",") + `]}`
}

func summary(d disruption.Decision) string {
	var words []string
	for _, a := range d.Actions {
		words = append(words, a.String())
	}
	line := strings.Join(words, ", ") + "; " + d.Disruption.String()
	if d.Drain {
		line += "; drain"
	}
	return line
}

func TestDecide(t *testing.T) {
	rules := disruption.Policy{
		Files: []disruption.Rule{
			{Name: "/", Actions: []disruption.Action{{Type: disruption.ActionNone}}},
			{Name: "/etc/app", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "app.service"}}},
			{Name: "/etc/app/quiet/", Actions: []disruption.Action{{Type: disruption.ActionNone}}},
			{Name: "/etc/app/quiet", Actions: []disruption.Action{{Type: disruption.ActionReload, Service: "quiet.service"}}},
			{Name: "/etc/dir/", Actions: []disruption.Action{{Type: disruption.ActionNone}}},
			{Name: "/etc/list", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "a.service"}, {Type: disruption.ActionRestart, Service: "b.service"}, {Type: disruption.ActionRestart, Service: "a.service"}}},
			{Name: "/etc/drain", Actions: []disruption.Action{{Type: disruption.ActionDrain}, {Type: disruption.ActionReload, Service: "d.service"}}},
		},
		Units: []disruption.Rule{{Name: "app.service", Actions: []disruption.Action{
			{Type: disruption.ActionDaemonReload},
			{Type: disruption.ActionRestart, Service: "app.service"},
		}}},
	}
	for sentence, c := range map[string]struct{ from, to, want string }{
		"nothing changed":                                                {files("/etc/x a"), files("/etc/x a"), "None; none"},
		"the longest path decides":                                       {"", files("/etc/app/quiet/a"), "None; none"},
		"a directory covers what is below it":                            {"", files("/etc/app/a/b"), "Restart app.service; restart"},
		"but not a name that only begins alike":                          {"", files("/etc/apple"), "Reboot; reboot; drain"},
		"a rule of / covers nothing":                                     {"", files("/opt/x"), "Reboot; reboot; drain"},
		"a trailing slash means a directory: what is below it":           {"", files("/etc/dir/a/b"), "None; none"},
		"and the directory itself":                                       {"", `"storage":{"directories":[{"path":"/etc/dir"}]}`, "None; none"},
		"but no file of that name":                                       {"", files("/etc/dir"), "Reboot; reboot; drain"},
		"of two rules for a directory, the one with the slash is longer": {"", files("/etc/app/quiet/a"), "None; none"},
		"a rule's list keeps its order and repetition":                   {"", files("/etc/list"), "Restart a.service, Restart b.service, Restart a.service; restart"},
		"None goes beside others":                                        {"", files("/etc/app/quiet/a", "/etc/app/b"), "Restart app.service; restart"},
		"nothing is de-duplicated, order is the path's":                  {"", files("/etc/drain/a", "/etc/app/b", "/etc/app/a"), "Restart app.service, Restart app.service, Drain, Reload d.service; drain; drain"},
		"any reboot stands alone":                                        {"", files("/etc/app/a", "/etc/other"), "Reboot; reboot; drain"},
		"a removed file costs what a changed one does":                   {files("/etc/app/a"), "", "Restart app.service; restart"},
		"files come before units":                                        {"", files("/etc/app/z") + `,"systemd":{"units":[{"name":"app.service"}]}`, "Restart app.service, DaemonReload, Restart app.service; restart"},
		"a unit without a rule reboots":                                  {"", `"systemd":{"units":[{"name":"b.service"}]}`, "Reboot; reboot; drain"},
		"keys without a rule reboot":                                     {"", `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`, "Reboot; reboot; drain"},
		"what only new nodes get costs nothing":                          {"", `"storage":{"luks":[{"name":"l","device":"/dev/sda"}]}`, "None; none"},
		"the same bytes written otherwise are no change": {
			`"storage":{"files":[{"path":"/etc/x","contents":{"source":"data:,hello"}}]}`,
			`"storage":{"files":[{"path":"/etc/x","mode":420,"user":{"name":"root"},"overwrite":true,"contents":{"source":"data:;base64,aGVsbG8="}}]}`, "None; none",
		},
		"another spelling of the same place is no change": {files("/lib/x a"), files("/usr/lib/x a"), "None; none"},
		"nor is the way back":                             {files("/usr/bin/x a"), files("/bin/x a"), "None; none"},
		"but with other contents it is":                   {files("/lib/x a"), files("/usr/lib/x b"), "Reboot; reboot; drain"},
		"and elsewhere it is another file":                {files("/lib/x a"), files("/usr/lib64/x a"), "Reboot; reboot; drain"},
		"a second file at one place costs what it costs":  {files("/lib/x a"), files("/lib/x a", "/usr/lib/x a"), "Reboot; reboot; drain"},
		"a respelled directory and link cost nothing": {
			`"storage":{"directories":[{"path":"/lib/d"}],"links":[{"path":"/lib/l","target":"/etc/l"}]}`,
			`"storage":{"directories":[{"path":"/usr/lib/d"}],"links":[{"path":"/usr/lib/l","target":"/etc/l"}]}`,
			"None; none",
		},
		"a link with another target is a change": {
			`"storage":{"links":[{"path":"/lib/l","target":"/etc/l"}]}`,
			`"storage":{"links":[{"path":"/usr/lib/l","target":"/etc/m"}]}`, "Reboot; reboot; drain",
		},
		"an owner is a change": {files("/etc/x"), `"storage":{"files":[{"path":"/etc/x","user":{"id":5},"contents":{"source":"data:,"}}]}`, "Reboot; reboot; drain"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := summary(disruption.Decide(config(t, c.from), config(t, c.to), rules)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAServiceThatLosesItsFileIsStopped: a rule that restarts it cannot, unless the OS of the node has the service too.
func TestAServiceThatLosesItsFileIsStopped(t *testing.T) {
	rules := disruption.Policy{Units: []disruption.Rule{
		{Name: "a.service", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "a.service"}}},
		{Name: "b.service", Actions: []disruption.Action{{Type: disruption.ActionRestart, Service: "other.service"}}},
	}}
	unit := func(name, more string) string {
		return `"systemd":{"units":[{"name":"` + name + `"` + more + `}]}`
	}
	const file = `,"contents":"[Service]\n"`
	const stops = "stops the service, unless the node has another file of it"
	for sentence, c := range map[string]struct{ from, to, want string }{
		"the unit goes":    {unit("a.service", file), "", stops},
		"its file goes":    {unit("a.service", file), unit("a.service", `,"enabled":false`), stops},
		"its file changes": {unit("a.service", file), unit("a.service", `,"contents":"[Unit]\n"`), ""},
		"it never had one": {unit("a.service", `,"enabled":false`), "", ""},
		"it comes":         {"", unit("a.service", file), ""},
		"its rule is about another service alone": {unit("b.service", file), "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := disruption.Decide(config(t, c.from), config(t, c.to), rules)
			if len(d.Items) != 1 || d.Items[0].Effect != c.want {
				t.Errorf("got %+v, want the effect %q", d.Items, c.want)
			}
		})
	}
}

// TestUnitsThatAreTheSameToANode: only what the daemon does differently is a change.
func TestUnitsThatAreTheSameToANode(t *testing.T) {
	const dropins = `,"dropins":[{"name":"a.conf","contents":"[Unit]\n"},{"name":"b.conf","contents":""}]`
	for sentence, c := range map[string]struct {
		from, to string
		changes  bool
	}{
		"the order of drop-ins":                      {dropins, `,"dropins":[{"name":"b.conf","contents":""},{"name":"a.conf","contents":"[Unit]\n"}]`, false},
		"a drop-in without contents":                 {``, `,"dropins":[{"name":"a.conf"}]`, false},
		"an empty drop-in":                           {`,"dropins":[{"name":"a.conf"}]`, `,"dropins":[{"name":"a.conf","contents":""}]`, true},
		"the contents of a drop-in":                  {dropins, strings.Replace(dropins, "Unit", "Service", 1), true},
		"empty contents":                             {`,"enabled":true`, `,"enabled":true,"contents":""`, false},
		"contents":                                   {`,"enabled":true`, `,"enabled":true,"contents":"[Unit]\n"`, true},
		"enabled: false":                             {``, `,"enabled":false`, true},
		"a mask":                                     {``, `,"mask":true`, true},
		"a mask that goes":                           {`,"mask":true`, ``, true},
		"a mask that becomes mask: false":            {`,"mask":true`, `,"mask":false`, true},
		"mask: false, which removes a user's mask":   {``, `,"mask":false`, true},
		"mask: false that goes":                      {`,"mask":false`, ``, false},
		"mask: false of a unit with contents":        {`,"contents":"[Unit]\n"`, `,"contents":"[Unit]\n","mask":false`, false},
		"contents that go, so that mask: false does": {`,"contents":"[Unit]\n","mask":false`, `,"mask":false`, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			of := func(more string) machineconfig.Config {
				return config(t, `"systemd":{"units":[{"name":"a.service"`+more+`}]}`)
			}
			if got := len(disruption.Compare(of(c.from), of(c.to))) > 0; got != c.changes {
				t.Errorf("a change: %t, want %t", got, c.changes)
			}
		})
	}
}

func TestWhatIsReadAtBootReboots(t *testing.T) {
	const digest = "@sha256:abababababababababababababababababababababababababababababababab"
	for sentence, change := range map[string]func(*machineconfig.Config){
		"another OS image":                       func(c *machineconfig.Config) { c.OSImageURL = "quay.io/os@sha256:1" },
		"a kernel argument":                      func(c *machineconfig.Config) { c.KernelArguments = []string{"a"} },
		"another kernel":                         func(c *machineconfig.Config) { c.KernelType = "realtime" },
		"an extension":                           func(c *machineconfig.Config) { c.Extensions = []string{"usbguard"} },
		"FIPS mode, though it is refused before": func(c *machineconfig.Config) { c.FIPS = true },
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := config(t, ""), config(t, "")
			change(&to)
			if got := summary(disruption.Decide(from, to, disruption.Default())); got != "Reboot; reboot; drain" {
				t.Error(got)
			}
		})
	}
	for sentence, change := range map[string]func(*machineconfig.Config){
		"the default kernel by its name":               func(c *machineconfig.Config) { c.KernelType = "default" },
		"arguments of one entry in two":                func(c *machineconfig.Config) { c.KernelArguments = []string{"a", "b"} },
		"another tag beside the digest of the image":   func(c *machineconfig.Config) { c.OSImageURL = "quay.io/os:2" + digest },
		"the image of extensions that nobody asks for": func(c *machineconfig.Config) { c.ExtensionsImage = "x" },
		"extensions in another order, and twice": func(c *machineconfig.Config) {
			c.Extensions = []string{"usbguard", "kerberos", "usbguard"}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := config(t, ""), config(t, "")
			from.KernelArguments, to.KernelArguments = []string{"a b"}, []string{"a b"}
			from.OSImageURL, to.OSImageURL = "quay.io/os:1"+digest, "quay.io/os:1"+digest
			from.Extensions, to.Extensions = []string{"kerberos", "usbguard"}, []string{"kerberos", "usbguard"}
			change(&to)
			if got := disruption.Compare(from, to); len(got) > 0 {
				t.Errorf("it counts as a change: %v", got)
			}
		})
	}
}

// TestWhatAConfigLeavesToTheMachine: contents, a mode or an owner that a config does not set are those of the machine.
// So to set them is a change, even to the value that a new machine would have.
func TestWhatAConfigLeavesToTheMachine(t *testing.T) {
	file := func(more string) string { return `"storage":{"files":[{"path":"/etc/x"` + more + `}]}` }
	dir := func(more string) string { return `"storage":{"directories":[{"path":"/etc/x"` + more + `}]}` }
	link := func(more string) string { return `"storage":{"links":[{"path":"/etc/x","target":"y"` + more + `}]}` }
	const appended, empty, root = `,"append":[{"source":"data:,a"}]`, `,"contents":{"source":"data:,"}`,
		`,"user":{"id":0},"group":{"name":"root"}`
	for sentence, c := range map[string]struct {
		from, to string
		changes  bool
	}{
		"empty contents replace those to which a part was appended": {file(appended), file(appended + empty), true},
		"empty contents replace those of which only the mode was set": {
			file(`,"mode":420`), file(`,"mode":420` + empty), true,
		},
		"a mode of a file to which a part is appended":       {file(appended), file(appended + `,"mode":420`), true},
		"an owner of a file to which a part is appended":     {file(appended), file(appended + root), true},
		"the default mode and owner of a file with contents": {file(empty), file(empty + `,"mode":420` + root), false},
		"a mode of a directory":                              {dir(""), dir(`,"mode":493`), true},
		"an owner of a directory":                            {dir(""), dir(root), true},
		"a directory that is made anew":                      {dir(""), dir(`,"overwrite":true`), true},
		"the default mode and owner of one made anew": {
			dir(`,"overwrite":true`), dir(`,"overwrite":true,"mode":493` + root), false,
		},
		"a directory that is made anew with what it was": {dir(`,"mode":493` + root), dir(`,"overwrite":true`), false},
		"an owner of a link":                             {link(""), link(root), true},
		"a hard link has no owner":                       {link(`,"hard":true`), link(`,"hard":true` + root), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, way := range [][2]string{{c.from, c.to}, {c.to, c.from}} {
				got := disruption.Compare(config(t, way[0]), config(t, way[1]))
				if (len(got) > 0) != c.changes {
					t.Errorf("from %s to %s: %v", way[0], way[1], got)
				}
			}
		})
	}
}

func TestItemsSayWhy(t *testing.T) {
	d := disruption.Decide(config(t, files("/etc/containers/policy.json 1")),
		config(t, files("/etc/containers/policy.json 2", "/etc/motd")+`,"systemd":{"units":[{"name":"a.service"}]}`),
		disruption.Default())
	var got []string
	for _, i := range d.Items {
		got = append(got, fmt.Sprintf("%s %s %s: %v, %s", i.Kind, i.Name, i.Verb, i.Actions, i.Why))
	}
	want := []string{
		"file /etc/containers/policy.json changed: [Reload crio.service], rule /etc/containers/policy.json",
		"file /etc/motd added: [Reboot], no rule covers it",
		"unit a.service added: [Reboot], no rule covers it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRegistriesConf(t *testing.T) {
	const mirrored = "[[registry]]\nlocation=\"r\"\n[[registry.mirror]]\nlocation=\"m\"\n" +
		"pull-from-mirror=\"digest-only\"\n"
	for sentence, c := range map[string]struct {
		from, to string // "-" is no file
		drains   string // why, or "" for safe
	}{
		"search registries appended":                {`unqualified-search-registries=["a"]`, `unqualified-search-registries=["a","b"]`, ""},
		"search registries reordered":               {`unqualified-search-registries=["a","b"]`, `unqualified-search-registries=["b","a"]`, "other than by appending"},
		"the file made, with search registries":     {"-", `unqualified-search-registries=["a"]`, ""},
		"the file removed":                          {`unqualified-search-registries=["a"]`, "-", "the file is removed"},
		"a new registry with a mirror for digests":  {``, mirrored, ""},
		"a new registry without mirrors":            {``, "[[registry]]\nlocation=\"r\"\n", "without mirrors"},
		"a new mirror for tags":                     {mirrored, mirrored + "[[registry.mirror]]\nlocation=\"n\"\n", "gets mirror n for tags"},
		"a new mirror of a registry for digests":    {"[[registry]]\nlocation=\"r\"\nmirror-by-digest-only=true\n", "[[registry]]\nlocation=\"r\"\nmirror-by-digest-only=true\n[[registry.mirror]]\nlocation=\"n\"\n", ""},
		"a mirror that is lost":                     {mirrored, "[[registry]]\nlocation=\"r\"\n", "loses or changes mirror m"},
		"a registry that is lost":                   {mirrored, "", "registry r is removed"},
		"a registry that is blocked":                {"[[registry]]\nlocation=\"r\"\n", "[[registry]]\nlocation=\"r\"\nblocked=true\n", "changes other than by a new mirror"},
		"a registry that is moved under its prefix": {"[[registry]]\nprefix=\"p\"\nlocation=\"r\"\n", "[[registry]]\nprefix=\"p\"\nlocation=\"s\"\n", "changes other than by a new mirror"},
		"a file that is not TOML":                   {``, `[[[`, "the new file cannot be read"},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := disruption.Decide(config(t, registries(c.from)), config(t, registries(c.to)), disruption.Default())
			want := "Reload crio.service; reload"
			if c.drains != "" {
				want = "Reload crio.service; drain; drain"
			}
			if got := summary(d); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if why := d.Items[0].Why; !strings.Contains(why, c.drains) {
				t.Errorf("%q lacks %q", why, c.drains)
			}
		})
	}
}

// A drop-in is judged by what all files say together.
func TestDropInsOfRegistriesConf(t *testing.T) {
	const dir = "/etc/containers/registries.conf.d/"
	const quay = "[[registry]]\nlocation=\"quay.io\"\n"
	const digests = quay + "[[registry.mirror]]\nlocation=\"m\"\npull-from-mirror=\"digest-only\"\n"
	const tags = quay + "[[registry.mirror]]\nlocation=\"m\"\npull-from-mirror=\"tag-only\"\n"
	type texts map[string]string
	for sentence, c := range map[string]struct {
		from, to texts
		drains   string // why, or "" for safe
	}{
		"a new file with a mirror for digests":                  {nil, texts{"a.conf": digests}, ""},
		"a new file with a mirror for tags":                     {nil, texts{"a.conf": tags}, "new with mirror m for tags"},
		"a file that is removed":                                {texts{"a.conf": digests}, nil, "registry quay.io is removed"},
		"a registry that moves to another file":                 {texts{"a.conf": digests}, texts{"b.conf": digests}, ""},
		"a later file that replaces a mirror of an earlier one": {texts{"a.conf": tags}, texts{"a.conf": tags, "b.conf": digests}, "loses or changes mirror m"},
		"an earlier file that a later one replaces":             {texts{"b.conf": digests}, texts{"a.conf": tags, "b.conf": digests}, ""},
		"search registries":                                     {nil, texts{"a.conf": "unqualified-search-registries=[\"a\"]"}, "a drop-in replaces unqualified-search-registries"},
		"short names":                                           {nil, texts{"a.conf": "[aliases]\nnginx=\"evil.example/nginx\"\n"}, "changes more than registries"},
		"a file that no runtime reads":                          {nil, texts{"a.conf.bak": digests}, "it is not the file"},
		"a blocked registry":                                    {texts{"a.conf": digests}, texts{"a.conf": "[[registry]]\nlocation=\"quay.io\"\nblocked=true\n"}, "changes other than by a new mirror"},
	} {
		t.Run(sentence, func(t *testing.T) {
			all := func(m texts) string {
				var list []string
				for _, name := range slices.Sorted(maps.Keys(m)) {
					list = append(list, dir+name+" "+escaped(m[name]))
				}
				return files(list...)
			}
			d := disruption.Decide(config(t, all(c.from)), config(t, all(c.to)), disruption.Default())
			if got := summary(d); d.Drain != (c.drains != "") || !strings.Contains(got, "Reload crio.service") {
				t.Errorf("got %s: %+v", got, d.Items)
			}
			if c.drains != "" && !strings.Contains(d.Items[0].Why, c.drains) {
				t.Errorf("%q lacks %q", d.Items[0].Why, c.drains)
			}
		})
	}
}

// TestAppendedRegistries: what a config appends counts like contents, and a file of the node is unknown.
func TestAppendedRegistries(t *testing.T) {
	const dropIn = "/etc/containers/registries.conf.d/a.conf"
	const mirrored = "[[registry]]\nlocation=\"r\"\n[[registry.mirror]]\nlocation=\"m\"\n" +
		"pull-from-mirror=\"digest-only\"\n"
	const blocked = "[[registry]]\nlocation=\"evil\"\nblocked=true\n"
	file := func(path, contents string, appended ...string) string {
		var parts []string
		for _, text := range appended {
			parts = append(parts, `{"source":"data:,`+escaped(text)+`"}`)
		}
		if contents != "-" {
			contents = `,"contents":{"source":"data:,` + escaped(contents) + `"}`
		} else {
			contents = ""
		}
		return `"storage":{"files":[{"path":"` + path + `"` + contents + `,"append":[` + strings.Join(parts, ",") + `]}]}`
	}
	for sentence, c := range map[string]struct {
		from, to string
		drains   string // why, or "" for safe
	}{
		"a blocked registry":            {file(disruption.RegistriesConf, ""), file(disruption.RegistriesConf, "", blocked), "registry evil is new, and blocked"},
		"a blocked registry, of a file": {file(dropIn, mirrored), file(dropIn, mirrored, blocked), "registry evil is new, and blocked"},
		"a mirror for digests":          {file(disruption.RegistriesConf, ""), file(disruption.RegistriesConf, "", mirrored), ""},
		"a registry in two parts":       {file(dropIn, mirrored), file(dropIn, mirrored[:20], mirrored[20:]), ""},
		"short names":                   {file(dropIn, ""), file(dropIn, "", "[aliases]\nnginx=\"evil\"\n"), "changes more than registries"},
		"something to a file of a node": {"", file(disruption.RegistriesConf, "-", mirrored), "appends to the file of the node"},
		"no longer to a file of a node": {file(dropIn, "-", blocked), file(dropIn, mirrored), "appends to the file of the node"},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := disruption.Decide(config(t, c.from), config(t, c.to), disruption.Default())
			if d.Drain != (c.drains != "") || len(d.Items) != 1 || !strings.Contains(d.Items[0].Why, c.drains) {
				t.Errorf("drain %t: %+v", d.Drain, d.Items)
			}
		})
	}
}

func escaped(text string) string {
	return strings.NewReplacer("%", "%25", "\n", "%0A", `"`, "%22", " ", "%20", "[", "%5B", "]", "%5D").Replace(text)
}

func registries(text string) string {
	if text == "-" {
		return ""
	}
	return files(disruption.RegistriesConf + " " + escaped(text))
}
