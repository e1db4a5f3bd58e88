package render

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/google/go-cmp/cmp"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// TestFoldIsTheSequentialMerge holds the fold against what it replaces: Ignition's Merge of each config with the whole
// result so far.
func TestFoldIsTheSequentialMerge(t *testing.T) {
	r := rand.New(rand.NewSource(20))
	for n := range 3000 {
		list := make([]ign.Config, 2+r.Intn(4))
		for i := range list {
			list[i] = randomConfig(r)
		}
		var f fold
		for _, c := range list {
			f.add(c)
		}
		want, got := canonical(t, sequential(list)), canonical(t, f.lists().into(f.rest))
		if want != got {
			t.Fatalf("list %d (-sequential +fold):\n%s", n, cmp.Diff(want, got))
		}
	}
}

// canonical is a config's canonical form, in which an empty list and none are the same.
func canonical(t *testing.T, c ign.Config) string {
	t.Helper()
	raw, err := machineconfig.Config{Ignition: c}.IgnitionJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// sequential is the slow way, with the same preparation.
func sequential(list []ign.Config) ign.Config {
	var all ign.Config
	for _, c := range list {
		all = ign.Merge(all, detach(c))
	}
	all.Storage.Files = attach(all.Storage.Files)
	return all
}

// randomConfig draws from few names, so that most of a list's configs meet in some.
func randomConfig(r *rand.Rand) ign.Config {
	c := ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}
	for _, p := range r.Perm(5) {
		switch node := (ign.Node{
			Path: fmt.Sprintf("/p%d", p),
			User: ign.NodeUser{Name: some(r, "alice", "bob")},
		}); r.Intn(6) {
		case 0, 1, 2:
			c.Storage.Files = append(c.Storage.Files, randomFile(r, node))
		case 3:
			d := ign.Directory{Node: node}
			if r.Intn(2) == 0 {
				d.Mode = util.IntToPtr(r.Intn(0o777))
			}
			c.Storage.Directories = append(c.Storage.Directories, d)
		case 4:
			c.Storage.Links = append(c.Storage.Links,
				ign.Link{Node: node, LinkEmbedded1: ign.LinkEmbedded1{Target: some(r, "/t1", "/t2")}})
		}
	}
	for _, n := range r.Perm(3)[:r.Intn(3)] {
		u := ign.Unit{Name: fmt.Sprintf("u%d.service", n), Contents: some(r, "a", "b")}
		if r.Intn(2) == 0 {
			u.Enabled = util.BoolToPtr(r.Intn(2) == 0)
		}
		for _, d := range r.Perm(3)[:r.Intn(3)] {
			u.Dropins = append(u.Dropins, ign.Dropin{Name: fmt.Sprintf("%d.conf", d), Contents: some(r, "x", "y")})
		}
		c.Systemd.Units = append(c.Systemd.Units, u)
	}
	randomRest(r, &c)
	return c
}

func randomFile(r *rand.Rand, node ign.Node) ign.File {
	f := ign.File{Node: node}
	f.Contents.Source = some(r, "data:,1", "data:,2")
	f.Contents.Compression = some(r, "gzip", "")
	f.Contents.Verification.Hash = some(r, "sha256-1", "sha256-2")
	if r.Intn(3) == 0 {
		f.Overwrite = util.BoolToPtr(r.Intn(2) == 0)
	}
	if r.Intn(3) == 0 {
		f.Append = []ign.Resource{{Source: some(r, "data:,3", "data:,4")}}
	}
	if r.Intn(2) == 0 {
		f.Mode = util.IntToPtr(r.Intn(0o777))
	}
	return f
}

func randomRest(r *rand.Rand, c *ign.Config) {
	for _, n := range r.Perm(2)[:r.Intn(3)] {
		u := ign.PasswdUser{Name: fmt.Sprintf("user%d", n), PasswordHash: some(r, "h1", "h2")}
		for _, k := range r.Perm(3)[:r.Intn(3)] {
			u.SSHAuthorizedKeys = append(u.SSHAuthorizedKeys, ign.SSHAuthorizedKey(fmt.Sprintf("key%d", k)))
		}
		c.Passwd.Users = append(c.Passwd.Users, u)
	}
	for _, n := range r.Perm(3)[:r.Intn(2)] {
		c.Passwd.Groups = append(c.Passwd.Groups, ign.PasswdGroup{
			Name: fmt.Sprintf("group%d", n),
			Gid:  util.IntToPtr(r.Intn(9)),
		})
	}
	for _, n := range r.Perm(4)[:r.Intn(3)] {
		arg := ign.KernelArgument(fmt.Sprintf("k%d", n))
		if r.Intn(2) == 0 {
			c.KernelArguments.ShouldExist = append(c.KernelArguments.ShouldExist, arg)
		} else {
			c.KernelArguments.ShouldNotExist = append(c.KernelArguments.ShouldNotExist, arg)
		}
	}
	if r.Intn(4) == 0 {
		c.Storage.Filesystems = append(c.Storage.Filesystems,
			ign.Filesystem{Device: "/dev/sd" + string(rune('a'+r.Intn(2))), Format: some(r, "xfs", "ext4")})
	}
}

// some is one of the values, or nil.
func some(r *rand.Rand, values ...string) *string {
	if i := r.Intn(len(values) + 1); i < len(values) {
		return &values[i]
	}
	return nil
}
