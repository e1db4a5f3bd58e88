package policy_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/policy"
)

// TestRefuse covers the rules beyond the recorded answers; test/vectors has those.
func TestRefuse(t *testing.T) {
	links := func(more string) string {
		return `"storage":{"links":[{"path":"/l","target":"/t"}` + more + `]}`
	}
	for sentence, c := range map[string]struct {
		from, to string
		o        policy.Overrides
		want     string // the field, or "" for nothing
	}{
		"a link more":                          {links(""), links(`,{"path":"/m","target":"/t"}`), policy.Overrides{}, "storage.links"},
		"one link of two less":                 {links(`,{"path":"/m","target":"/t"}`), links(""), policy.Overrides{}, "storage.links"},
		"disks without the override":           {"", `"storage":{"disks":[{"device":"/dev/sdb"}]}`, policy.Overrides{FileSystems: true, Raid: true}, "storage.disks"},
		"encrypted volumes are let through":    {"", `"storage":{"luks":[{"name":"l","device":"/dev/sda"}]}`, policy.Overrides{}, ""},
		"Ignition's kernel arguments":          {"", `"kernelArguments":{"shouldExist":["a"]}`, policy.Overrides{}, "kernelArguments (of Ignition)"},
		"appending, though nothing changes":    {appending, appending, policy.Overrides{}, "storage.files /etc/motd append"},
		"a shell for core":                     {"", `"passwd":{"users":[{"name":"core","shell":"/bin/sh","passwordHash":"x"}]}`, policy.Overrides{}, "passwd.users core"},
		"a password for core":                  {"", `"passwd":{"users":[{"name":"core","passwordHash":"x"}]}`, policy.Overrides{}, ""},
		"another user who was there at first":  {`"passwd":{"users":[{"name":"bob"}]}`, `"passwd":{"users":[{"name":"bob"}]}` + "," + files("/a"), policy.Overrides{}, ""},
		"an empty list of directories is none": {`"storage":{"directories":[]}`, "", policy.Overrides{}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := policy.Refuse(config(t, c.from), config(t, c.to), c.o)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Field != c.want) {
				t.Errorf("got %v, want %q", got, c.want)
			}
			for _, r := range got {
				if r.Why == "" {
					t.Error("no reason is given")
				}
			}
		})
	}
}

const appending = `"storage":{"files":[{"path":"/etc/motd","append":[{"source":"data:,x"}]}]}`
