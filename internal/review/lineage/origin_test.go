package lineage_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

func hideNothing(_, content string) secretmask.Masked { return secretmask.Masked{Text: content} }

// repositories are the examples, and every repository in the test data of the rooms before this one, by name.
func repositories(t *testing.T) map[string]source.Tree {
	t.Helper()
	out := map[string]source.Tree{}
	examples, err := filepath.Glob("../../../examples/*/pools")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples:", err)
	}
	for _, pools := range examples {
		root := filepath.Dir(pools)
		out[root] = source.Tree{Root: root, FS: os.DirFS(root)}
	}
	for _, pattern := range []string{"../../../transpile/testdata/*.txtar", "../testdata/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal("no repositories:", pattern, err)
		}
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, side := range []string{"base/", "head/", ""} {
				if root := t.TempDir(); unpack(t, archive, side, root) {
					out[file+" "+side] = source.Tree{Root: root, FS: os.DirFS(root)}
					if side == "base/" {
						continue
					}
					break
				}
			}
		}
	}
	return out
}

// unpack writes what an archive has below a prefix, and tells whether that has pools.
func unpack(t *testing.T, a *txtar.Archive, prefix, root string) (ok bool) {
	t.Helper()
	for _, f := range a.Files {
		name, found := strings.CutPrefix(f.Name, prefix)
		if !found || f.Name == "refused" || strings.HasPrefix(f.Name, "want") {
			continue
		}
		ok = ok || strings.HasPrefix(name, "pools/")
		write(t, filepath.Join(root, name), string(f.Data))
	}
	return ok
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// explained is one pool's lineage beside its rendered config.
func explained(t *testing.T, res transpile.Result, pool string) (*lineage.Lineage, render.Rendered, bool) {
	t.Helper()
	fragments, err := transpile.Select(res, pool)
	if err != nil {
		t.Fatal(err)
	}
	var mcs []*mcfgv1.MachineConfig
	for _, f := range fragments {
		mcs = append(mcs, f.MachineConfig)
	}
	rendered, err := render.Merge(pool, mcs, render.Defaults{})
	if err != nil {
		return nil, rendered, false // a pool that selects nothing, or fragments that do not go together
	}
	layers, err := lineage.LayersOfPool(res, pool)
	if err != nil {
		t.Fatal(err)
	}
	return lineage.New(layers, lineage.Options{Pool: pool, Mask: hideNothing}), rendered, true
}

// excepted are places whose line mentions neither value nor key nor item, and why it is the right one all the same.
var excepted = []struct {
	because string
	holds   func(item lineage.Item, line string) bool
}{
	{
		"boot_device, its devices and fips stand for devices with values of Butane's own",
		func(item lineage.Item, line string) bool {
			return item.Kind == disruption.KindStorage && containsAny(line, "boot_device", "mirror", "luks", "layout",
				"device",
				"threshold", "tpm2", "tang", "/dev/", "fips", "advertisement", "config:")
		},
	},
	{"with_mount_unit stands for a unit of Butane's own", func(item lineage.Item, line string) bool {
		return item.Kind == disruption.KindUnit && containsAny(item.Name, ".mount", ".swap") &&
			strings.Contains(line, "with_mount_unit")
	}},
	{"the users of grub stand for a file system and a file of Butane's own", func(item lineage.Item, line string) bool {
		return (item.Name == "/boot/grub2/user.cfg" || item.Name == "/dev/disk/by-label/boot") &&
			strings.Contains(line, "users:")
	}},
	{"what Ignition reads itself is embedded by local and inline", func(item lineage.Item, line string) bool {
		return item.Kind == disruption.KindIgnition && containsAny(line, "local:", "inline:", "source:")
	}},
	{"a config that another one merges stands at the line that names it", func(_ lineage.Item, line string) bool {
		return containsAny(line, `"merge":`, "inline:")
	}},
	{
		"a file of a tree has its mode and place from the tree, which names a directory above it",
		func(item lineage.Item, line string) bool {
			_, dir, ok := strings.Cut(line, "path: ")
			return ok && strings.HasPrefix(item.Name, strings.TrimSpace(dir)+"/")
		},
	},
	{"what is no key is hidden, so that the line cannot be held against it", func(item lineage.Item, line string) bool {
		return item.Kind == disruption.KindUser && containsAny(line, `"one"`, `"two"`)
	}},
	{
		"an operation of a JSON patch stands where it begins, and its path and value follow",
		func(_ lineage.Item, line string) bool {
			return strings.Contains(line, "op: ") || strings.Contains(line, `"op":`)
		},
	},
	{
		"a JSON patch has numbers in the notation of JSON, and modes are octal elsewhere",
		func(_ lineage.Item, line string) bool {
			return strings.Contains(line, "value: ")
		},
	},
	{
		"a file of the kubelet's settings has no line: the document's field that causes it stands for it",
		func(item lineage.Item, line string) bool {
			return strings.Contains(item.Name, "kubelet") && containsAny(line, "kind: Kubelet", "logLevel",
				"kubeletConfig",
				"maxPods") ||
				item.Name == "/etc/node-sizing-enabled.env" && strings.Contains(line, "autoSizingReserved")
		},
	},
	{"so has a file of the container runtime's settings", func(item lineage.Item, line string) bool {
		return strings.Contains(item.Name, "/01-ctrcfg-") &&
			strings.Contains(line, item.Name[strings.LastIndex(item.Name, "-")+1:]+":") ||
			item.Name == "/etc/containers/storage.conf" && strings.Contains(line, "overlaySize:")
	}},
	{
		"a file about the mirrors of a registry has no line of its own: the document's source stands for it",
		func(item lineage.Item, line string) bool {
			return (strings.HasPrefix(item.Name, "/etc/containers/registries.conf.d/90-registry-") ||
				strings.HasPrefix(item.Name, "/etc/containerd/certs.d/")) && strings.Contains(line, "source:")
		},
	},
	{
		"so has a file about signatures of images: the spec of the document stands for it",
		func(item lineage.Item, line string) bool {
			return (item.Name == "/etc/containers/policy.json" ||
				item.Name == "/etc/containers/registries.d/sigstore-registries.yaml" || strings.HasPrefix(item.Name,
				"/etc/crio/policies/")) && strings.HasPrefix(line, "spec:")
		},
	},
}

func containsAny(line string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

// TestEveryLeafHasALineThatMentionsIt: for every repository that can be rendered, each attribute of each item has a
// line, and there stands the value, its key or its item; or it is of a `local:` file, which holds the value.
func TestEveryLeafHasALineThatMentionsIt(t *testing.T) {
	pools, leaves := 0, 0
	for name, tree := range repositories(t) {
		res := transpile.Fragments(tree)
		for _, pool := range res.Pools {
			l, rendered, ok := explained(t, res, pool)
			if !ok {
				continue
			}
			pools++
			for _, item := range l.All() {
				last, _ := l.Last(item.Kind, item.Name)
				if want := rendered.Winner(item.Kind, item.Name); item.Kind != disruption.KindIgnition &&
					item.Kind != lineage.KindExtensionsImage && (last.Layer != want || winner(item) != want) {
					t.Errorf("%s, pool %s: %s %s is of %q and %q, and render says %q", name, pool, item.Kind, item.Name,
						last.Layer, winner(item), want)
				}
				for _, a := range item.Attributes {
					leaves++
					if why := unmentioned(tree, item, a); why != "" {
						t.Errorf("%s, pool %s: %s %s: %s at %s: %s", name, pool, item.Kind, item.Name, a.Name, a.At,
							why)
					}
				}
			}
		}
	}
	if pools < 20 || leaves < 100 {
		t.Errorf("only %d pools with %d leaves: the test has lost its subject", pools, leaves)
	}
}

// unmentioned tells what is wrong with an attribute's place, or "".
func unmentioned(tree source.Tree, item lineage.Item, a lineage.Attribute) string {
	src, err := fs.ReadFile(tree.FS, a.At.File)
	if err != nil {
		return "there is no such file"
	}
	local := a.At.File != a.Source && a.At.Column == 0 && a.At.Line <= 1
	if local && (string(src) == a.Content || !strings.HasSuffix(a.At.File, ".bu") && !strings.HasSuffix(a.At.File,
		".yaml")) {
		return "" // a `local:` file is the value itself
	}
	if strings.HasSuffix(a.Name, "compression") && (a.Value == `""` || a.Value == "") {
		return "" // said by nobody: what Butane embeds is not compressed, and it says so beside the contents
	}
	lines := strings.Split(string(src), "\n")
	if a.At.Line < 1 || a.At.Line > len(lines) {
		return "there is no such line"
	}
	line := lines[a.At.Line-1]
	for _, word := range words(item, a) {
		if word != "" && strings.Contains(line, word) {
			return ""
		}
	}
	for _, e := range excepted {
		if e.holds(item, line) {
			return ""
		}
	}
	return "the line is: " + line
}

// words are what a line may say to be the place of an attribute.
func words(item lineage.Item, a lineage.Attribute) []string {
	first, _, _ := strings.Cut(a.Value, "\n")
	out := []string{first, item.Name, strings.TrimLeft(a.Value, "0")}
	parts := strings.Split(a.Name, ".")
	out = append(out, parts[0], snake(parts[0]), strings.TrimPrefix(a.Name, "dropins."))
	switch {
	case a.Name == "contents" || strings.HasPrefix(a.Name, "append.") || strings.HasPrefix(a.Name, "dropins."):
		out = append(out, "inline", "local", "source", "contents", "value")
	case strings.HasPrefix(a.Name, "sshAuthorizedKeys."):
		out = append(out, strings.Fields(a.Value)[0])
	case a.Name == "user" || a.Name == "group":
		out = append(out, "id", "name")
	}
	if item.Kind == disruption.KindKargs || item.Kind == disruption.KindExtensions {
		out = append(out, "kernelArguments", "kernel_arguments", "extensions")
	}
	return out
}

func snake(key string) string {
	var b strings.Builder
	for _, r := range key {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestAnItemThatNobodySets(t *testing.T) {
	tree := source.Tree{Root: "../../../examples/quickstart", FS: os.DirFS("../../../examples/quickstart")}
	res := transpile.Fragments(tree)
	l, _, ok := explained(t, res, "worker")
	if !ok {
		t.Fatal("the example does not render")
	}
	for question, want := range map[string]string{
		"/etc/chrony.cnf":       "no file /etc/chrony.cnf in pool worker; did you mean /etc/chrony.conf? If a node has it nevertheless, it comes from the OS image, or a user set it on the node",
		"chrony.conf":           "no item chrony.conf in pool worker; did you mean /etc/chrony.conf?",
		"/usr/bin/bash":         "no file /usr/bin/bash in pool worker: no document of this repository sets it, so a node that has it has it from another GitSource or a MachineConfig made through the API (bunsen trace names it), from the OS image, or a user set it on the node",
		"user nobody":           "no user nobody in pool worker: no document of this repository sets it, so a node that has it has it from another GitSource or a MachineConfig made through the API (bunsen trace names it), from the OS image, or a user set it on the node",
		"fips":                  "no FIPS mode in pool worker",
		"karg nosmt":            "no kernel argument nosmt in pool worker",
		"/etc/\u202echrony.cnf": `no file "/etc/\u202echrony.cnf" in pool worker; did you mean /etc/chrony.conf? If a node has it nevertheless, it comes from the OS image, or a user set it on the node`,
	} {
		_, err := l.Find(question)
		var unknown *lineage.UnknownError
		if !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", question, err, want)
		}
	}
	for _, question := range []string{
		"", " ", "/", "user", "karg", "file /", "/etc/systemd/system/",
		"/etc/systemd/system/.d/x", "\x00", "disk",
	} {
		if items, err := l.Find(question); err == nil {
			t.Errorf("%q is answered with %v", question, items)
		}
	}
	if _, err := lineage.LayersOfPool(res, "gpu"); err == nil || !strings.Contains(err.Error(), "no pool gpu") {
		t.Errorf("a pool that is none: %v", err)
	}
}
