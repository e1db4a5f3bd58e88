package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

func TestCheckRefusesWhatIgnitionLetsThrough(t *testing.T) {
	const head = `{"ignition":{"version":"3.5.0"},`
	hash := "sha256-" + strings.Repeat("0", 64)
	for name, c := range map[string]struct{ config, want string }{
		"a unit that climbs out of its directory": {`"systemd":{"units":[{"name":"../../../etc/evil.service"}]}}`, `"../../../etc/evil.service" is not the name of a unit`},
		"a unit that forges a preset line":        {`"systemd":{"units":[{"name":"a.service\nenable b.service"}]}}`, `is not the name of a unit`},
		"a drop-in that climbs":                   {`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"../b.conf"}]}]}}`, `units[0] a.service dropins[0]: "../b.conf" is not the name of a drop-in`},
		"a path with a NUL":                       {`"storage":{"files":[{"path":"/etc/a\u0000b"}]}}`, `contains a hidden character`},
		"a path that turns its text around":       {`"storage":{"files":[{"path":"/etc/\u202ex"}]}}`, `contains a hidden character`},
		"a path with a zero-width character":      {`"storage":{"files":[{"path":"/etc/\u200bx"}]}}`, `"/etc/\u200bx" contains a hidden character`},
		"a path with a letter without a shape":    {`"storage":{"files":[{"path":"/etc/\u3164x"}]}}`, `"/etc/\u3164x" contains a hidden character`},
		"a path with a line separator":            {`"storage":{"files":[{"path":"/etc/\u2028x"}]}}`, `contains a hidden character`},
		"a file in place of the root directory":   {`"storage":{"files":[{"path":"/"}]}}`, `it is the root directory: write a path below it`},
		"a link in place of the root directory":   {`"storage":{"links":[{"path":"/","target":"/a"}]}}`, `it is the root directory: write a path below it`},
		"a path with a name too long":             {`"storage":{"files":[{"path":"/etc/` + strings.Repeat("x", 256) + `"}]}}`, `"… has 256 bytes, and a name`},
		"a path too long":                         {`"storage":{"files":[{"path":"` + strings.Repeat("/x", 2048) + `"}]}}`, `it has 4096 bytes, and a path`},
		"a unit with a name too long":             {`"systemd":{"units":[{"name":"` + strings.Repeat("x", 248) + `.service"}]}}`, `has 256 bytes, and a name`},
		"a drop-in with a name too long":          {`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"` + strings.Repeat("x", 251) + `.conf"}]}]}}`, `dropins[0]: "xxxxxxxxxxxxxxxxxxxx"… has 256 bytes`},
		"a path with a newline":                   {`"storage":{"directories":[{"path":"/etc/a\nb"}]}}`, `directories[0] "/etc/a\nb" path`},
		"a link to a target with a newline":       {`"storage":{"links":[{"path":"/l","target":"/a\nb"}]}}`, `links[0] /l target`},
		"a mode without its leading zero":         {`"storage":{"files":[{"path":"/etc/a","mode":644}]}}`, `files[0] /etc/a: mode 644 is read as a decimal number: write 0644 (in JSON: 420)`},
		"a setuid file":                           {`"storage":{"files":[{"path":"/etc/50%a","mode":2541}]}}`, `files[0] /etc/50%a: mode 04755 has setuid, setgid, sticky or unknown bits`},
		"a sticky directory":                      {`"storage":{"directories":[{"path":"/d","mode":1023}]}}`, `directories[0] /d: mode 01777`},
		"contents that are fetched":               {`"storage":{"files":[{"path":"/a","contents":{"source":"https://example.com/a"}}]}}`, `files[0] /a contents: its source has no hash`},
		"an address with a password":              {`"storage":{"files":[{"path":"/a","contents":{"source":"https://u:p@example.com/a","verification":{"hash":"` + hash + `"}}}]}}`, `contains a user name or a password`},
		"an address with headers":                 {`"storage":{"files":[{"path":"/a","contents":{"source":"https://example.com/a","httpHeaders":[{"name":"Authorization","value":"x"}],"verification":{"hash":"` + hash + `"}}}]}}`, `its source has httpHeaders`},
		"an address of no server":                 {`"storage":{"files":[{"path":"/a","contents":{"source":"https:///a","verification":{"hash":"` + hash + `"}}}]}}`, `names no server`},
		"an address of another kind":              {`"storage":{"files":[{"path":"/a","contents":{"source":"s3://bucket/a","verification":{"hash":"` + hash + `"}}}]}}`, `has the scheme "s3"`},
		"an address with a hidden character":      {`"storage":{"files":[{"path":"/a","contents":{"source":"https://example.com/a` + "\u200b" + `","verification":{"hash":"` + hash + `"}}}]}}`, `contains a hidden character`},
		"a remote file that also appends":         {`"storage":{"files":[{"path":"/a","contents":{"source":"https://example.com/a","verification":{"hash":"` + hash + `"}},"append":[{"source":"data:,x"}]}]}}`, `a file with remote contents cannot append`},
		"a unit from the network":                 {`"storage":{"files":[{"path":"/etc/systemd/system/a.service","contents":{"source":"https://example.com/a","verification":{"hash":"` + hash + `"}}}]}}`, `units and presets are not downloaded`},
		"a preset from the network":               {`"storage":{"files":[{"path":"/etc/systemd/system-preset/a.preset","contents":{"source":"https://example.com/a","verification":{"hash":"` + hash + `"}}}]}}`, `units and presets are not downloaded`},
		"an appended part with a hash":            {`"storage":{"files":[{"path":"/a","append":[{"source":"https://h/a","verification":{"hash":"` + hash + `"}}]}]}}`, `files[0] /a append[0]: its contents are not in the config`},
		"a CA from the network":                   {`"x":1,"ignition":{"version":"3.5.0","security":{"tls":{"certificateAuthorities":[{"source":"https://h/ca","verification":{"hash":"` + hash + `"}}]}}}}`, `certificateAuthorities[0]: its contents are not in the config`},
		"appended contents that are fetched":      {`"storage":{"files":[{"path":"/a","append":[{"source":"tftp://h/a"}]}]}}`, `files[0] /a append[0]: its contents`},
		"a config that is fetched":                {`"x":1,"ignition":{"version":"3.5.0","config":{"merge":[{"source":"https://h/c.ign"}]}}}`, `ignition.config.merge[0]: its contents`},
		"a hash of other contents":                {`"storage":{"files":[{"path":"/a","contents":{"source":"data:,hello","verification":{"hash":"sha256-0000000000000000000000000000000000000000000000000000000000000000"}}}]}}`, `write sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824`},
		"gzip that is no gzip":                    {`"storage":{"files":[{"path":"/a","contents":{"source":"data:,hello","compression":"gzip"}}]}}`, `files[0] /a contents: unpacking gzip`},
		"a user with a colon":                     {`"passwd":{"users":[{"name":"a:b"}]}}`, `"a:b" is not a valid name of a user`},
		"a user with a newline":                   {`"passwd":{"users":[{"name":"a\nroot"}]}}`, `users[0] "a\nroot"`},
		"a comment that forges a line":            {`"passwd":{"users":[{"name":"core","gecos":"x\nroot2:x:0:0"}]}}`, `users[0] core gecos`},
		"an owner with a colon":                   {`"storage":{"files":[{"path":"/a","user":{"name":"a:b"}}]}}`, `files[0] /a user`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := machineconfig.Parse(spec(head + c.config))
			if err != nil {
				t.Fatalf("Ignition itself refuses it now: %v", err)
			}
			got := machineconfig.Check(cfg).Err()
			if got == nil || !strings.Contains(got.Error(), c.want) {
				t.Errorf("got %v\nwant %q in it", got, c.want)
			}
		})
	}
}

// TestAProblemHasThePathOfItsValue: users of this package find the line of a problem by its path.
func TestAProblemHasThePathOfItsValue(t *testing.T) {
	const remote = `{"path":"/a","contents":{"source":"https://example.com/a"`
	for path, config := range map[string]string{
		"$.storage.files.0.path":            `{"storage":{"files":[{"path":"/"}]}`,
		"$.storage.files.1.mode":            `{"storage":{"files":[{"path":"/a"},{"path":"/b","mode":644}]}`,
		"$.storage.files.0.user.name":       `{"storage":{"files":[{"path":"/a","user":{"name":"a:b"}}]}`,
		"$.storage.files.0.contents.source": `{"storage":{"files":[` + remote + `}}]}`,
		"$.storage.files.0.append.0.source": `{"storage":{"files":[{"path":"/a","append":[{"source":"tftp://h/a"}]}]}`,
		"$.systemd.units.0.dropins.0.name":  `{"systemd":{"units":[{"name":"a.service","dropins":[{"name":"../b.conf"}]}]}`,
		"$.passwd.users.0.gecos":            `{"passwd":{"users":[{"name":"core","gecos":":"}]}`,
		"$.ignition.config.merge.0.source":  `{"merge":"https://example.com/a"`,
		"$.storage.files.0.contents.verification.hash": `{"storage":{"files":[` + strings.Replace(remote,
			"https://example.com/a", "data:,a", 1) + `,"verification":{"hash":"sha256-` + strings.Repeat("0", 64) + `"}}}]}`,
	} {
		head := `,"ignition":{"version":"3.5.0"}}`
		if rest, ok := strings.CutPrefix(config, `{"merge":`); ok {
			config, head = "{", `"ignition":{"version":"3.5.0","config":{"merge":[{"source":`+rest+`}]}}}`
		}
		c, err := machineconfig.Parse(spec(config + head))
		if err != nil {
			t.Fatal(err)
		}
		got := machineconfig.Check(c)
		if len(got) != 1 || got[0].Path != path {
			t.Errorf("%+v, want the path %s", got, path)
		}
		if nested := strings.Contains(path, "merge"); nested != got[0].Nested {
			t.Errorf("%s: nested is %v", path, got[0].Nested)
		}
	}
	_, err := machineconfig.Parse(spec(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"a"},{"path":"/b"}],` +
		`"links":[{"path":"/l"}]}}`))
	got := machineconfig.ProblemsOf(err) // In the order of Ignition's report.
	if len(got) != 2 || got[0].Path != "$.storage.links.0.target" || got[1].Path != "$.storage.files.0.path" {
		t.Errorf("Parse: %+v", got)
	}
	got = machineconfig.CheckSystem("fast", []string{"usbguard", "x"})
	if len(got) != 2 || got[0].Path != "spec.kernelType" || got[1].Path != "spec.extensions.1" {
		t.Errorf("CheckSystem: %+v", got)
	}
}

func TestCheckTakesWhatPeopleWrite(t *testing.T) {
	cfg, err := machineconfig.Parse(spec(`{"ignition":{"version":"3.5.0"},
	 "storage":{"files":[{"path":"/etc/a b","mode":511,"user":{"name":"core"},"group":{"id":0},
	  "contents":{"source":"data:text/plain;charset=utf-8;base64,aGVsbG8=","verification":{"hash":"sha256-2CF24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}},
	  {"path":"/etc/z","contents":{"source":"data:;base64,H4sIAAAAAAACA6vKLAAARpUdQgMAAAA=","compression":"gzip"}}],
	  "links":[{"path":"/etc/l","target":"../x"}]},
	 "systemd":{"units":[{"name":"a@.service"},{"name":"dev-disk-by\\x2dlabel-x.swap","dropins":[{"name":"10-a.conf"}]}]},
	 "passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA me@host\n"],"groups":["wheel"]}],"groups":[{"name":"docker"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range machineconfig.Check(cfg) {
		t.Error(bad)
	}
}

func TestAnImageIsOneWord(t *testing.T) {
	for _, ref := range []string{"a b", "a\nb", "-rf", "--option", "a\u00a0b"} {
		for _, cfg := range []machineconfig.Config{{OSImageURL: ref}, {ExtensionsImage: ref}} {
			if got := machineconfig.Check(cfg).Err(); got == nil ||
				!strings.Contains(got.Error(), "is not a reference of an image") {
				t.Errorf("%q: %v", ref, got)
			}
		}
	}
	for _, ref := range []string{
		"", "quay.io/org/image:tag", "registry.local:5000/os@sha256:0123",
		"ostree-unverified-registry:quay.io/a/b",
	} {
		for _, bad := range machineconfig.Check(machineconfig.Config{OSImageURL: ref}) {
			t.Error(bad)
		}
	}
}
