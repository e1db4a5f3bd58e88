package adopt_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/adopt"
)

// Whatever a MachineConfig says that Bunsen takes, it comes back.
func TestRandomMachineConfigsComeBack(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		g := gen{rand.New(rand.NewPCG(uint64(seed), 7))}
		var mcs []*mcfgv1.MachineConfig
		names := map[string]bool{}
		for range 1 + g.IntN(6) {
			mc := g.machineConfig()
			if names[mc.Name] {
				continue
			}
			names[mc.Name] = true
			cfg, err := machineconfig.Parse(mc.Spec)
			if err != nil {
				t.Fatalf("seed %d: the generator made what Ignition refuses: %v", seed, err)
			}
			for _, err := range machineconfig.Check(cfg) {
				t.Fatalf("seed %d: the generator made what Bunsen refuses: %v", seed, err)
			}
			mcs = append(mcs, mc)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			in := dump(t, mcs, nil)
			for _, opts := range []adopt.Options{{Exact: g.yes()}, {MaxInline: g.IntN(40)}} {
				repo, findings := imported(t, opts, in)
				rendersEqual(t, repo, findings)
				if len(repo.Kept) != len(mcs) {
					t.Errorf("%d of %d objects are kept: %v", len(repo.Kept), len(mcs), findings)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// gen makes random MachineConfigs.
type gen struct{ *rand.Rand }

func (g gen) yes() bool { return g.IntN(2) == 0 }

func oneOf[T any](g gen, items ...T) T { return items[g.IntN(len(items))] }

// maybe returns one of the items, or nothing.
func maybe[T any](g gen, items ...T) *T {
	if g.IntN(3) == 0 {
		return nil
	}
	v := oneOf(g, items...)
	return &v
}

func (g gen) machineConfig() *mcfgv1.MachineConfig {
	role := oneOf(g, "worker", "worker", "master", "infra")
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name: oneOf(g,
			fmt.Sprintf("%02d-%s-%s", g.IntN(4), role, oneOf(g, "a", "a.conf", "a-b", "a-host", "x.bu")),
			fmt.Sprintf("%02d-%s", g.IntN(4), oneOf(g, "a", "a-named", "x.bu", role)), "zz-"+role, "kustomization"),
		Labels: map[string]string{v1alpha1.RoleLabel: role},
	}}
	mc.Spec = mcfgv1.MachineConfigSpec{FIPS: g.IntN(8) == 0, KernelType: oneOf(g, "", "", "default", "realtime",
		"64k-pages")}
	mc.Spec.KernelArguments = oneOf(g, nil, []string{}, []string{"a"}, []string{"a", "b c", `d="e f"`},
		[]string{"a", "a"}, []string{"0644", "yes"})
	mc.Spec.Extensions = oneOf(g, nil, nil, []string{"usbguard"})
	digest := "@sha256:" + strings.Repeat("0123", 16)
	mc.Spec.OSImageURL = oneOf(g, "", "", "", "quay.io/example/os"+digest)
	mc.Spec.BaseOSExtensionsContainerImage = oneOf(g, "", "", "", "quay.io/example/ext"+digest)
	if g.IntN(8) == 0 {
		return mc
	}
	raw, err := json.Marshal(g.ignition())
	if err != nil {
		panic(err)
	}
	mc.Spec.Config = runtime.RawExtension{Raw: raw}
	return mc
}

func (g gen) ignition() ign.Config {
	var c ign.Config
	c.Ignition.Version = "3.5.0"
	for i, n := 0, g.IntN(5); i < n; i++ {
		c.Storage.Files = append(c.Storage.Files,
			g.file(fmt.Sprintf("%s%d", oneOf(g, "/etc/a", "/etc/ä", "/etc/a b", "/etc/50%", "/etc/#a: ", "/etc/'a\"",
				"/etc/*&!", "/etc/😀", "/etc/.x/a", "/opt/passwd"), i)))
	}
	for i, n := 0, g.IntN(2); i < n; i++ {
		c.Storage.Directories = append(c.Storage.Directories,
			ign.Directory{
				Node:               ign.Node{Path: fmt.Sprint("/var/d", i), User: g.owner()},
				DirectoryEmbedded1: ign.DirectoryEmbedded1{Mode: maybe(g, 0o755, 0o700, 0)},
			})
		c.Storage.Links = append(c.Storage.Links, ign.Link{
			Node: ign.Node{Path: fmt.Sprint("/var/l", i)},
			LinkEmbedded1: ign.LinkEmbedded1{
				Target: util.StrToPtr(oneOf(g, "/etc/a", "../x y")),
				Hard:   maybe(g, false),
			},
		})
	}
	for i, n := 0, g.IntN(3); i < n; i++ {
		u := ign.Unit{
			Name:    fmt.Sprintf("%s%d.service", oneOf(g, "a", `dev-x\x2dy`, "t@"), i),
			Enabled: maybe(g, true, false), Mask: maybe(g, true, false), Contents: maybe(g, g.unit(), ""),
		}
		for j, n := 0, g.IntN(3); j < n; j++ {
			u.Dropins = append(u.Dropins, ign.Dropin{
				Name:     fmt.Sprintf("%d a.conf", j),
				Contents: maybe(g, g.unit(), ""),
			})
		}
		c.Systemd.Units = append(c.Systemd.Units, u)
	}
	if g.yes() {
		u := ign.PasswdUser{
			Name: "core", PasswordHash: maybe(g, "$6$a$b", ""),
			SSHAuthorizedKeys: oneOf(g, nil, []ign.SSHAuthorizedKey{"ssh-ed25519 AAAA me@host\n", "# comment"}),
		}
		if g.yes() {
			u.Shell, u.UID, u.Groups, u.System = maybe(g, "/bin/bash"), maybe(g, 1000),
				oneOf(g, nil, []ign.Group{"wheel", "yes"}), maybe(g, true, false)
		}
		c.Passwd.Users = append(c.Passwd.Users, u)
	}
	if g.IntN(4) == 0 {
		c.Passwd.Groups = append(c.Passwd.Groups, ign.PasswdGroup{
			Name: "docker", Gid: maybe(g, 0, 999),
			System: maybe(g, true),
		})
	}
	g.rare(&c)
	return c
}

// rare are the parts that only new machines get.
func (g gen) rare(c *ign.Config) {
	if g.IntN(6) == 0 {
		c.KernelArguments = ign.KernelArguments{
			ShouldExist:    []ign.KernelArgument{"first"},
			ShouldNotExist: []ign.KernelArgument{"not"},
		}
	}
	if g.IntN(4) == 0 {
		c.Storage.Disks = []ign.Disk{{
			Device: "/dev/vdb", WipeTable: maybe(g, true, false),
			Partitions: []ign.Partition{{
				Label: util.StrToPtr("0644"), Number: 1, SizeMiB: util.IntToPtr(0),
				StartMiB: util.IntToPtr(8), TypeGUID: util.StrToPtr("CA7D7CCB-63ED-4C53-861C-1742536059CC"),
				WipePartitionEntry: util.BoolToPtr(true),
			}},
		}}
		c.Storage.Filesystems = []ign.Filesystem{{
			Device: "/dev/disk/by-partlabel/0644", Format: util.StrToPtr("xfs"),
			Path: util.StrToPtr("/var/x"), MountOptions: []ign.MountOption{"noatime", "0"},
			Label: util.StrToPtr("yes"),
		}}
		c.Storage.Luks = []ign.Luks{{
			Name: "l", Device: util.StrToPtr("/dev/vdc"), KeyFile: g.resource(),
			OpenOptions: []ign.OpenOption{"--x"}, Clevis: ign.Clevis{
				Tpm2:      util.BoolToPtr(true),
				Threshold: util.IntToPtr(1),
			},
		}}
		c.Storage.Raid = []ign.Raid{{
			Name: "md0", Level: util.StrToPtr("raid1"),
			Devices: []ign.Device{"/dev/a", "/dev/b"}, Spares: maybe(g, 0),
		}}
	}
	if g.IntN(6) == 0 {
		c.Ignition.Timeouts = ign.Timeouts{HTTPTotal: util.IntToPtr(5), HTTPResponseHeaders: maybe(g, 0, 9)}
		c.Ignition.Proxy = ign.Proxy{HTTPProxy: util.StrToPtr("http://p"), NoProxy: []ign.NoProxyItem{"localhost"}}
		c.Ignition.Security.TLS.CertificateAuthorities = []ign.Resource{{Source: util.StrToPtr("data:;base64,YQ==")}}
	}
}

func (g gen) owner() ign.NodeUser {
	return oneOf(g, ign.NodeUser{}, ign.NodeUser{ID: util.IntToPtr(0)}, ign.NodeUser{ID: util.IntToPtr(1000)},
		ign.NodeUser{Name: util.StrToPtr("core")})
}

func (g gen) file(path string) ign.File {
	f := ign.File{Node: ign.Node{Path: path, User: g.owner(), Overwrite: maybe(g, true, false)}}
	f.Group.ID = maybe(g, 0, 5)
	f.Mode = maybe(g, 0, 0o644, 0o7, 0o777, 0o400)
	if g.IntN(5) == 0 {
		f.Overwrite = nil
		f.Append = []ign.Resource{g.resource(), g.resource()}
		return f
	}
	if f.Contents = g.resource(); f.Contents.Source == nil {
		f.Overwrite = nil
	}
	return f
}

// unit is text of a unit that systemd would take.
func (g gen) unit() string {
	return oneOf(g, "[Unit]\nDescription=a\n", "[Unit]\nDescription=a", "[Service]\nExecStart=/bin/sh -c 'a \\\n"+
		"  b'\n\n", "# only a comment\n", "[Unit]\nDescription=ä 😀\n", "\n[Unit]\n", "[Unit]\r\n", "[Unit]\nA=b \n")
}

func (g gen) resource() ign.Resource {
	if g.IntN(10) == 0 {
		return ign.Resource{}
	}
	contents := g.contents()
	r := ign.Resource{Compression: oneOf(g, nil, util.StrToPtr(""))}
	if g.IntN(3) == 0 {
		sum := sha512.Sum512(contents)
		r.Verification.Hash = util.StrToPtr("sha512-" + hex.EncodeToString(sum[:]))
	}
	if g.IntN(4) == 0 {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(contents); err != nil {
			panic(err)
		}
		if err := w.Close(); err != nil {
			panic(err)
		}
		contents, r.Compression = b.Bytes(), util.StrToPtr("gzip")
	}
	r.Source = util.StrToPtr(oneOf(g,
		"data:,"+dataurl.Escape(contents), "data:;base64,"+base64.StdEncoding.EncodeToString(contents),
		"data:text/plain;charset=utf-8;base64,"+base64.StdEncoding.EncodeToString(contents)))
	return r
}

func (g gen) contents() []byte {
	if g.IntN(3) == 0 {
		b := make([]byte, g.IntN(200))
		for i := range b {
			b[i] = byte(g.UintN(256))
		}
		return b
	}
	if g.IntN(3) == 0 {
		text := ""
		for range g.IntN(12) {
			text += oneOf(g, "a", " ", "\n", "\t", "\r\n", "#", ": ", "- ", "'", `"`, "ä", "\u2028", "\u00a0", "😀",
				"\ufeff", "%", "---\n", "...\n", "\\", "{", "[", "*", "&", "|", ">", "\x7f", "\x00", "?", "!", "@", "`")
		}
		return []byte(text)
	}
	return []byte(oneOf(g, "", "a", "a\n", "a\nb\n", "a\nb", "a\n\n", "  a\nb\n", "\ta\n", "a\n\tb\n", "\n", " ",
		"true", "null", "~", "0644", "1e3", "2001-01-01", "yes", "<<", "-----BEGIN PRIVATE KEY-----\n", "# a\nb: c\n"))
}
