package disruption_test

import (
	"fmt"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

func TestWhatAChangeOfOneItemCosts(t *testing.T) {
	text := "data:,a"
	c := machineconfig.Config{HasIgnition: true}
	c.Ignition.Storage.Files = []ign.File{
		{Node: ign.Node{Path: "/etc/a"}, FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &text}}},
		{Node: ign.Node{Path: "/etc/b"}, FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &text}}},
	}
	c.Ignition.Storage.Directories = []ign.Directory{{Node: ign.Node{Path: "/etc/d"}}}
	c.Ignition.Storage.Links = []ign.Link{{Node: ign.Node{Path: "/etc/l"}}}
	c.Ignition.Systemd.Units = []ign.Unit{{Name: "a.service", Contents: &text}}
	c.Ignition.Passwd.Users = []ign.PasswdUser{{Name: "core"}}
	c.Ignition.Passwd.Groups = []ign.PasswdGroup{{Name: "g"}}
	p := disruption.Default()
	p.Files = append(p.Files, disruption.Rule{Name: "/etc/a", Actions: []disruption.Action{
		{Type: disruption.ActionRestart, Service: "a.service"},
	}})
	for _, want := range []struct {
		kind  disruption.ChangeKind
		name  string
		costs string
	}{
		{disruption.KindFile, "/etc/a", "[Restart a.service] restart"},
		{disruption.KindFile, "/etc/b", "[Reboot] reboot"},
		{disruption.KindFile, "/etc/c", "[] none"},
		{disruption.KindDirectory, "/etc/d", "[Reboot] reboot"},
		{disruption.KindLink, "/etc/l", "[Reboot] reboot"},
		{disruption.KindUnit, "a.service", "[Reboot] reboot"},
		{disruption.KindUser, "core", "[None] none"},
		{disruption.KindGroup, "g", "[None] none"},
		{disruption.KindKargs, "", "[Reboot] reboot"},
		{disruption.KindOSImage, "", "[Reboot] reboot"},
	} {
		d, ok := disruption.IfChanged(c, want.kind, want.name, p)
		if got := fmt.Sprint(d.Actions) + " " + d.Disruption.String(); got != want.costs {
			t.Errorf("%s %s costs %s (%v), want %s", want.kind, want.name, got, ok, want.costs)
		}
		if c.Ignition.Storage.Files[0].Contents.Source != &text ||
			len(c.Ignition.Passwd.Users[0].SSHAuthorizedKeys) > 0 {
			t.Fatal("the config itself changed")
		}
	}
}

// TestAPartCostsWhatTheWholeCosts compares the answer with that for the whole config.
func TestAPartCostsWhatTheWholeCosts(t *testing.T) {
	source := func(text string) ign.Resource {
		text = "data:," + text
		return ign.Resource{Source: &text}
	}
	unit, path := "[Mount]\n", "/var/lib/x"
	c := machineconfig.Config{HasIgnition: true, KernelArguments: []string{"a"}, OSImageURL: "a"}
	for _, name := range []string{
		"/etc/a", disruption.RegistriesConf, disruption.RegistriesDropIns + "/a.conf", "/etc/containers/policy.json",
	} {
		c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, ign.File{
			Node: ign.Node{Path: name}, FileEmbedded1: ign.FileEmbedded1{Contents: source("")},
		})
	}
	c.Ignition.Storage.Filesystems = []ign.Filesystem{{Device: "/dev/x", Path: &path}}
	c.Ignition.Systemd.Units = []ign.Unit{
		{Name: "var-lib-x.mount", Contents: &unit}, {Name: "a.service", Contents: &unit},
	}
	for _, it := range []struct {
		kind disruption.ChangeKind
		name string
	}{
		{disruption.KindFile, "/etc/a"},
		{disruption.KindFile, disruption.RegistriesConf},
		{disruption.KindFile, disruption.RegistriesDropIns + "/a.conf"},
		{disruption.KindFile, "/etc/containers/policy.json"},
		{disruption.KindUnit, "var-lib-x.mount"},
		{disruption.KindUnit, "a.service"},
		{disruption.KindKargs, ""},
		{disruption.KindOSImage, ""},
	} {
		to := disruption.WithChange(c, it.kind, it.name)
		want := fmt.Sprint(disruption.Decide(c, to, disruption.Default()))
		d, ok := disruption.IfChanged(c, it.kind, it.name, disruption.Default())
		if got := fmt.Sprint(d); !ok || got != want {
			t.Errorf("%s %s costs %s, want %s", it.kind, it.name, got, want)
		}
	}
}
