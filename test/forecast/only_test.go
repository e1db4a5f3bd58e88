package forecast_test

import (
	"slices"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// only is the first config with one item of the second.
func only(t *testing.T, c change, kind disruption.ChangeKind, name string) machineconfig.Config {
	t.Helper()
	out := c.from
	a, b, o := c.from.Ignition, c.to.Ignition, &out.Ignition
	switch kind {
	case disruption.KindFile:
		o.Storage.Files = swap(a.Storage.Files, b.Storage.Files, name)
	case disruption.KindDirectory:
		o.Storage.Directories = swap(a.Storage.Directories, b.Storage.Directories, name)
	case disruption.KindLink:
		o.Storage.Links = swap(a.Storage.Links, b.Storage.Links, name)
	case disruption.KindUnit:
		o.Systemd.Units = swap(a.Systemd.Units, b.Systemd.Units, name)
	case disruption.KindUser:
		o.Passwd.Users = swap(a.Passwd.Users, b.Passwd.Users, name)
	case disruption.KindGroup:
		o.Passwd.Groups = swap(a.Passwd.Groups, b.Passwd.Groups, name)
	case disruption.KindStorage:
		o.Storage.Disks = swap(a.Storage.Disks, b.Storage.Disks, name)
		o.Storage.Filesystems = swap(a.Storage.Filesystems, b.Storage.Filesystems, name)
		o.Storage.Raid = swap(a.Storage.Raid, b.Storage.Raid, name)
		o.Storage.Luks = swap(a.Storage.Luks, b.Storage.Luks, name)
	case disruption.KindIgnition:
		onlyTold(&o.Ignition, b.Ignition, name)
	case disruption.KindKargs:
		out.KernelArguments = c.to.KernelArguments
	case disruption.KindKernelType:
		out.KernelType = c.to.KernelType
	case disruption.KindExtensions:
		out.Extensions = c.to.Extensions
	case disruption.KindOSImage:
		out.OSImageURL = c.to.OSImageURL
	default:
		t.Fatalf("no item of kind %s can be had alone", kind)
	}
	return out
}

// swap is the first list with the item of one name as in the second.
func swap[T interface{ Key() string }](from, to []T, name string) []T {
	is := func(x T) bool { return x.Key() == name }
	out := slices.DeleteFunc(slices.Clone(from), is)
	if i := slices.IndexFunc(to, is); i >= 0 {
		out = append(out, to[i])
	}
	return out
}

// onlyTold takes over one part of what a config tells Ignition.
func onlyTold(out *ign.Ignition, b ign.Ignition, name string) {
	switch name {
	case "config.merge":
		out.Config.Merge = b.Config.Merge
	case "config.replace":
		out.Config.Replace = b.Config.Replace
	case "proxy":
		out.Proxy = b.Proxy
	case "security.tls":
		out.Security.TLS = b.Security.TLS
	case "timeouts":
		out.Timeouts = b.Timeouts
	}
}
