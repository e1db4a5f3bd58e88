package render_test

import (
	"encoding/base64"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// mc is a MachineConfig of a role with an Ignition body, such as `"storage":{…}`.
func mc(name, role, body string) *mcfgv1.MachineConfig {
	if body != "" {
		body = "," + body
	}
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{render.RoleLabel: role}},
		Spec: mcfgv1.MachineConfigSpec{
			Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"}` + body + `}`)},
		},
	}
}

func merged(t *testing.T, mcs ...*mcfgv1.MachineConfig) render.Rendered {
	t.Helper()
	r, err := render.Merge("worker", mcs, render.Defaults{LargeFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOrder(t *testing.T) {
	for sentence, c := range map[string]struct {
		in, want []string // name/role
	}{
		"worker comes first, whatever the names":              {[]string{"00-i/infra", "99-w/worker"}, []string{"99-w", "00-i"}},
		"within a layer names decide, byte by byte":           {[]string{"9/worker", "10/worker", "B/worker", "a/worker"}, []string{"10", "9", "B", "a"}},
		"all other roles are one layer":                       {[]string{"30/infra", "20/master", "10/gpu"}, []string{"10", "20", "30"}},
		"one without a role counts to the others, not worker": {[]string{"50/worker", "10/"}, []string{"50", "10"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var mcs []*mcfgv1.MachineConfig
			for _, in := range c.in {
				name, role, _ := strings.Cut(in, "/")
				mcs = append(mcs, mc(name, role, ""))
			}
			var got []string
			for _, m := range render.Order(mcs) {
				got = append(got, m.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMerging(t *testing.T) {
	for sentence, c := range map[string]struct {
		first, second string
		want          string // in the rendered config's JSON
	}{
		"a file's mode alone can be changed":                        {file("/a", `,"mode":420,"contents":{"source":"data:,x"}`), file("/a", `,"mode":384`), `{"overwrite":true,"path":"/a","contents":{"source":"data:,x"},"mode":384}`},
		"new contents are not paired with the old compression":      {file("/a", `,"contents":{"source":"data:;base64,H4sIAAAAAAACA6vKLAAARpUdQgMAAAA=","compression":"gzip"}`), plain("/a", "x"), `"contents":{"source":"data:,x"}`},
		"nor with the old hash":                                     {file("/a", `,"contents":{"source":"data:,hello","verification":{"hash":"sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}`), plain("/a", "x"), `"contents":{"source":"data:,x"}`},
		"a changed mode leaves compressed contents compressed":      {file("/a", `,"contents":{"source":"data:;base64,H4sIAAAAAAACA6vKLAAARpUdQgMAAAA=","compression":"gzip"}`), file("/a", `,"mode":384`), `"contents":{"compression":"gzip"`},
		"an owner by number replaces one by name":                   {file("/a", `,"user":{"name":"core"},"group":{"id":5}`), file("/a", `,"user":{"id":7},"group":{"name":"wheel"}`), `{"group":{"name":"wheel"},"path":"/a","user":{"id":7}`},
		"a file without contents replaces nothing":                  {file("/a", ``), file("/b", ``), `"files":[{"path":"/a"},{"path":"/b"}]`},
		"overwrite false is kept":                                   {file("/a", `,"overwrite":false`), file("/a", `,"mode":384`), `"overwrite":false`},
		"a link takes the place of a file, and the other way round": {`"storage":{"links":[{"path":"/a","target":"/b"}]}`, plain("/a", "x"), `"storage":{"files":[{"overwrite":true,"path":"/a","contents":{"source":"data:,x"}}]}}`},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := string(merged(t, mc("10", "worker", c.first), mc("20", "worker", c.second)).Spec.Config.Raw)
			if !strings.Contains(got, c.want) {
				t.Errorf("%s\nlacks %s", got, c.want)
			}
		})
	}
}

func TestImagesComeFromPeopleThenFromTheCluster(t *testing.T) {
	generated := mc("99-generated", "worker", "")
	generated.Annotations = map[string]string{"machineconfiguration.openshift.io/generated-by-controller-version": "x"}
	generated.Spec.OSImageURL = "old"
	ours := mc("10", "worker", "")
	d := render.Defaults{OSImageURL: "cluster", ExtensionsImage: "ext"}
	r, err := render.Merge("worker", []*mcfgv1.MachineConfig{generated, ours}, d)
	if err != nil || r.Spec.OSImageURL != "cluster" || r.Spec.BaseOSExtensionsContainerImage != "ext" {
		t.Errorf("got %q, %q, %v: a generated config's image counts, or the default does not", r.Spec.OSImageURL,
			r.Spec.BaseOSExtensionsContainerImage, err)
	}
	ours.Spec.OSImageURL = "mine"
	r, err = render.Merge("worker", []*mcfgv1.MachineConfig{generated, ours}, d)
	if err != nil || r.Spec.OSImageURL != "mine" || r.Winner(disruption.KindOSImage, "") != "10" {
		t.Errorf("got %q from %q, %v", r.Spec.OSImageURL, r.Winner(disruption.KindOSImage, ""), err)
	}
}

// TestAnImageOfTheAPIWithoutADigestIsRendered, and named.
func TestAnImageOfTheAPIWithoutADigestIsRendered(t *testing.T) {
	os, extensions, generated := mc("10-os", "worker", ""), mc("20-ext", "worker", ""), mc("99-generated", "worker", "")
	os.Spec.OSImageURL, extensions.Spec.BaseOSExtensionsContainerImage = "quay.io/os:1", "quay.io/ext:1"
	generated.Annotations = map[string]string{"machineconfiguration.openshift.io/generated-by-controller-version": "x"}
	generated.Spec.OSImageURL = "quay.io/old:1"
	got := merged(t, os, extensions, generated).ImagesWithoutDigest()
	if len(got) != 2 || !strings.HasPrefix(got[0], `MachineConfig 10-os: osImageURL: "quay.io/os:1" names no digest`) ||
		!strings.HasPrefix(got[1], `MachineConfig 20-ext: baseOSExtensionsContainerImage: "quay.io/ext:1" names`) {
		t.Errorf("without a digest: %q", got)
	}
	os.Spec.OSImageURL += "@sha256:" + strings.Repeat("0", 64)
	if got := merged(t, os, generated).ImagesWithoutDigest(); len(got) > 0 {
		t.Errorf("with a digest: %q", got)
	}
}

func TestEveryProblemOfEveryMachineConfigAtOnce(t *testing.T) {
	zen := mc("30", "worker", "")
	zen.Spec.KernelType = "zen"
	zen.Spec.Extensions = []string{"nope"}
	unlabelled := mc("40", "worker", "")
	unlabelled.Labels = nil
	_, err := render.Merge("worker", []*mcfgv1.MachineConfig{
		mc("10", "worker", file("etc/a", "")), mc("20", "worker", file("/b", `,"mode":2541`)), zen, unlabelled,
		mc("10", "infra", ""),
	}, render.Defaults{})
	if err == nil {
		t.Fatal("all of it was taken")
	}
	for _, want := range []string{
		"MachineConfig 10: files[0] etc/a path: path not absolute",
		"MachineConfig 20: files[0] /b: mode 04755",
		`MachineConfig 30: kernelType "zen" is invalid`,
		`MachineConfig 30: extensions[0]: "nope" is an invalid extension`,
		"MachineConfig 40: it has no labels",
		"MachineConfig 10: there are two of this name",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
}

// merging is a MachineConfig that merges another config.
func merging(name, config string) *mcfgv1.MachineConfig {
	out := mc(name, "worker", "")
	out.Spec.Config.Raw = fmt.Appendf(nil,
		`{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"data:;base64,%s"}]}}}`,
		base64.StdEncoding.EncodeToString([]byte(config)))
	return out
}

func TestMergingCanBreakWhatWasGoodAlone(t *testing.T) {
	realtime := mc("20", "worker", "")
	realtime.Spec.KernelType = "realtime"
	devel := mc("10", "worker", "")
	devel.Spec.Extensions = []string{"kernel-devel"}
	for sentence, c := range map[string]struct {
		mcs  []*mcfgv1.MachineConfig
		want string
	}{
		"a file below another's link":                         {[]*mcfgv1.MachineConfig{mc("10", "worker", `"storage":{"links":[{"path":"/a","target":"/b"}]}`), mc("20", "worker", file("/a/c", ""))}, "files /a/c: the config makes a link of a directory above this file, so Ignition fails: write the path without the link, or remove the link (set by MachineConfigs 20)"},
		"a hash for contents of another":                      {[]*mcfgv1.MachineConfig{mc("10", "worker", plain("/a", "x")), mc("20", "worker", file("/a", `,"contents":{"source":"data:,hello","verification":{"hash":"sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}`)), mc("30", "worker", file("/a", `,"contents":{"compression":"gzip"}`))}, "files /a contents: unpacking gzip: the contents are not compressed, or end too early: remove `compression`, or copy them as a whole (set by MachineConfigs 10, 20, 30)"},
		"a file below another's file":                         {[]*mcfgv1.MachineConfig{mc("10", "worker", file("/a", "")), mc("20", "worker", file("/a/c", ""))}, "/a/c: every node refuses it: /a is a file of the same config, so no path can be below it: remove one of them (set by MachineConfigs 20)"},
		"a unit and another's file in its place":              {[]*mcfgv1.MachineConfig{mc("10", "worker", file("/etc/systemd/system/a.service", "")), mc("20", "worker", `"systemd":{"units":[{"name":"a.service","contents":"[Unit]\n"}]}`)}, "/etc/systemd/system/a.service: every node refuses it: more than one part of the config is about this path: keep one (set by MachineConfigs 20)"},
		"what a config merges below another's file":           {[]*mcfgv1.MachineConfig{mc("10", "worker", file("/a", "")), merging("20", `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a/c"}]}}`)}, "/a/c: every node refuses it: /a is a file of the same config"},
		"a link of what a config merges above another's file": {[]*mcfgv1.MachineConfig{mc("10", "worker", file("/a/c", "")), merging("20", `{"ignition":{"version":"3.5.0"},"storage":{"links":[{"path":"/a","target":"/b"}]}}`)}, "ignition.config: merging the configs that it names: files[0] /a/c: the config makes a link of a directory above this file, so Ignition fails: write the path without the link, or remove the link"},
		"kernel-devel and another's kernel":                   {[]*mcfgv1.MachineConfig{devel, realtime}, "extension kernel-devel (of MachineConfig 10) needs the default kernel, not realtime (of MachineConfig 20)"},
		"no MachineConfigs at all is a problem too":           {nil, "no MachineConfigs are selected"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := render.Merge("worker", c.mcs, render.Defaults{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestWinnerIsWhoSetItLast(t *testing.T) {
	devel := mc("30-c", "worker",
		`"systemd":{"units":[{"name":"a.service","enabled":true}]},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]}`)
	devel.Spec.KernelArguments = []string{"a=1 b"}
	r := merged(t, mc("10-a", "worker", plain("/etc/a", "1")), mc("20-b", "worker", file("/etc/a", `,"mode":384`)),
		devel,
		mc("40-d", "worker", plain("/etc/l", "1")),
		mc("50-e", "worker", `"storage":{"links":[{"path":"/etc/l","target":"/x"}]}`))
	for _, c := range []struct {
		kind       disruption.ChangeKind
		name, want string
	}{
		{disruption.KindFile, "/etc/a", "20-b"},
		{disruption.KindUnit, "a.service", "30-c"},
		{disruption.KindUser, "core", "30-c"},
		{disruption.KindKargs, "b", "30-c"},
		{disruption.KindFile, "/etc/l", ""},
		{disruption.KindLink, "/etc/l", "50-e"},
		{disruption.KindFile, "/etc/nothing", ""},
	} {
		if got := r.Winner(c.kind, c.name); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.kind, c.name, got, c.want)
		}
	}
}

func TestRenderingARenderedConfigGivesItself(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for range 200 {
		first := merged(t, randomMCs(r)...)
		again := merged(t, &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   first.Name,
			Labels: map[string]string{render.RoleLabel: "worker"},
		}, Spec: first.Spec})
		if first.Name != again.Name {
			t.Fatalf("%s became %s:\n%s", first.Name, again.Name, cmp.Diff(string(first.Spec.Config.Raw),
				string(again.Spec.Config.Raw)))
		}
	}
}

func TestTheNameDoesNotDependOnTheInputsOrder(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for range 200 {
		mcs := randomMCs(r)
		want := merged(t, mcs...).Name
		r.Shuffle(len(mcs), func(i, j int) { mcs[i], mcs[j] = mcs[j], mcs[i] })
		if got := merged(t, mcs...).Name; got != want {
			t.Fatalf("%s, in another order %s", want, got)
		}
	}
}

// randomMCs draws valid MachineConfigs that meet in some paths.
func randomMCs(r *rand.Rand) (mcs []*mcfgv1.MachineConfig) {
	for i := range 2 + r.Intn(6) {
		m := mc(fmt.Sprintf("%02d", i), []string{"worker", "infra"}[r.Intn(2)], []string{
			plain(fmt.Sprintf("/etc/%d", r.Intn(4)), fmt.Sprint(r.Intn(100))),
			file(fmt.Sprintf("/etc/%d", r.Intn(4)), fmt.Sprintf(`,"mode":%d`, r.Intn(0o777))),
			fmt.Sprintf(
				`"systemd":{"units":[{"name":"u%d.service","enabled":%v,"dropins":[{"name":"%d.conf","contents":"[x]"}]}]}`, r.Intn(2), r.Intn(2) == 0, r.Intn(3)),
			"",
		}[r.Intn(4)])
		m.Spec.KernelType = []string{"", "default", "realtime"}[r.Intn(3)]
		m.Spec.FIPS = r.Intn(5) == 0
		m.Spec.KernelArguments = [][]string{nil, {}, {"a=1 b"}}[r.Intn(3)]
		mcs = append(mcs, m)
	}
	return mcs
}

func TestSize(t *testing.T) {
	big := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	of := func(n int) []*mcfgv1.MachineConfig {
		return []*mcfgv1.MachineConfig{
			mc("10-small", "worker", plain("/etc/small", "x")),
			mc("20-big", "worker", file("/etc/big", `,"contents":{"source":"data:;base64,`+big(n)+`"}`)),
		}
	}
	if r := merged(t, of(380_000)...); len(r.Warnings) > 0 {
		t.Errorf("500 kB are warned of: %q", r.Warnings)
	}
	r := merged(t, of(400_000)...)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "34 % of the most that a cluster stores; the largest "+
		"are file /etc/big (533349 bytes, from MachineConfig 20-big), file /etc/small") {
		t.Errorf("warnings %q", r.Warnings)
	}
	unit := mc("20-big", "worker", `"systemd":{"units":[{"name":"big.service","contents":"[Unit]\n`+
		strings.Repeat("# "+strings.Repeat("x", 1000)+`\n`, 1562)+`"}]}`)
	// alone its spec would pass
	_, err := render.Merge("worker", []*mcfgv1.MachineConfig{of(1)[0], unit}, render.Defaults{})
	if err == nil || !strings.Contains(err.Error(), "a cluster stores at most 1572864") ||
		!strings.Contains(err.Error(), "unit big.service (1566693 bytes, from MachineConfig 20-big), file /etc/small") {
		t.Errorf("got %v", err)
	}
	r = merged(t, of(1_175_000)...)
	if len(r.Contents) != 1 || r.Contents[0].Path != "/etc/big" || r.Contents[0].Size != 1_175_000 ||
		len(r.Spec.Config.Raw) > 2000 || len(r.Warnings) > 0 {
		t.Errorf("a config that is too large has %d bytes, warnings %q and the contents %v", len(r.Spec.Config.Raw),
			r.Warnings, r.Contents)
	}
	var many []*mcfgv1.MachineConfig
	for i := range 3000 {
		many = append(many, mc(fmt.Sprintf("%05d", i), "worker", ""))
	}
	if _, err := render.Merge("worker", many, render.Defaults{}); err == nil ||
		!strings.Contains(err.Error(), "3000 MachineConfigs. Their list") {
		t.Errorf("got %v", err)
	}
}
