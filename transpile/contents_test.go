package transpile_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// repositoryOf returns a tree with files.
func repositoryOf(t *testing.T, files map[string]string) source.Tree {
	t.Helper()
	tree := source.Tree{Root: t.TempDir()}
	tree.FS = os.DirFS(tree.Root)
	for name, data := range files {
		write(t, tree.Root, name, data)
	}
	return tree
}

func document(variant, files string) string {
	head := "variant: fcos\nversion: 1.5.0\n"
	if variant == "openshift" {
		head = "variant: openshift\nversion: 4.17.0\nmetadata: {name: 10-worker-big, labels: " +
			"{machineconfiguration.openshift.io/role: worker}}\n"
	}
	return head + "storage:\n  files:\n" + files
}

func hashOf(data string) string {
	sum := sha512.Sum512([]byte(data))
	return "sha512-" + hex.EncodeToString(sum[:])
}

// noise returns text that no compression makes smaller, so that sizes are as they look.
func noise(seed byte, n int) string {
	sum := sha512.Sum512([]byte{seed})
	return strings.Repeat(base64.StdEncoding.EncodeToString(sum[:]), 1+n/88)[:n]
}

// TestLargeFilesGoToTheContentStore: a file that no config can have is named by its hash, in every variant, and the
// place of the value is the file itself.
func TestLargeFilesGoToTheContentStore(t *testing.T) {
	big := noise(1, machineconfig.MaxContentObject+1)
	for _, variant := range []string{"fcos", "openshift"} {
		tree := repositoryOf(t, map[string]string{
			"pools/worker/10-big.bu": document(variant, "    - path: /usr/local/bin/big\n      mode: 0755\n      contents:\n        local: big\n    - path: /etc/small\n      contents: {inline: x}\n"),
			"pools/worker/big":       big,
		})
		got := withStore(tree)
		if got.Report.Fatal() || len(got.Fragments) != 1 {
			t.Fatalf("%s: %s", variant, got.Report)
		}
		f := got.Fragments[0]
		files := machineconfig.RemoteFiles(parsed(t, f))
		if len(files) != 1 || files[0].Hash != hashOf(big) || files[0].URL != machineconfig.StoredSource(hashOf(big)) {
			t.Errorf("%s: the config downloads %v", variant, files)
		}
		if len(f.Contents) != 1 || f.Contents[0].Path != "/usr/local/bin/big" ||
			f.Contents[0].Size != int64(len(big)) || contentOf(t, f.Contents[0]) != big {
			t.Errorf("%s: the contents are %+v", variant, f.Contents)
		}
		if at, _ := f.Origin.Find("$.storage.files.0.contents.source"); at.File != "pools/worker/big" &&
			at.File != "pools/worker/10-big.bu" {
			t.Errorf("%s: its place is %v", variant, at)
		}
	}
}

func parsed(t *testing.T, f transpile.Fragment) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse(f.MachineConfig.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func contentOf(t *testing.T, f machineconfig.LargeFile) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTheLargestFilesMove: of files that fit one by one and not together, the largest move until the rest fits,
// whatever the order of the document is; a document that fits stays as it is.
func TestTheLargestFilesMove(t *testing.T) {
	files := map[string]string{}
	var forward, backward string
	for i, size := range []int{300_000, 400_000, 500_000, 200_000} {
		name := fmt.Sprintf("pools/worker/%d.txt", i)
		files[name] = noise(byte(i), size)
		entry := fmt.Sprintf("    - path: /opt/%d\n      contents: {local: ../../%s}\n", i, name)
		forward, backward = forward+entry, entry+backward
	}
	for order, text := range map[string]string{"forward": forward, "backward": backward} {
		files["pools/worker/10-big.bu"] = document("fcos", text)
		got := withStore(repositoryOf(t, files))
		if got.Report.Fatal() {
			t.Fatal(got.Report)
		}
		if n := len(got.Fragments[0].Contents); n != 0 {
			t.Fatalf("%s: the document fits, and %d files moved", order, n)
		}
		files["pools/worker/more.txt"] = noise(9, 250_000)
		files["pools/worker/10-big.bu"] += "    - path: /opt/more\n      contents: {local: more.txt}\n"
		got = withStore(repositoryOf(t, files))
		if got.Report.Fatal() {
			t.Fatal(got.Report)
		}
		var moved []string
		for _, c := range got.Fragments[0].Contents {
			moved = append(moved, c.Path)
			if contentOf(t, c) == "" {
				t.Errorf("%s: %s is empty", order, c.Path)
			}
		}
		if strings.Join(moved, " ") != "/opt/1 /opt/2" || len(got.Fragments[0].MachineConfig.Spec.Config.Raw) > 1<<20 {
			t.Errorf("%s: %v moved, and %d bytes stay", order, moved,
				len(got.Fragments[0].MachineConfig.Spec.Config.Raw))
		}
	}
}

// TestTwoDocumentsShareAContent: the same bytes at two paths and in two pools are one file of the content store.
func TestTwoDocumentsShareAContent(t *testing.T) {
	big := noise(1, 2<<20)
	got := withStore(repositoryOf(t, map[string]string{
		"pools/worker/10-a.bu": document("fcos", "    - path: /opt/a\n      contents: {local: a}\n    - path: /opt/b\n      contents: {local: ../../files/b}\n"),
		"pools/edge/10-a.bu":   document("fcos", "    - path: /opt/c\n      contents: {local: ../../files/b}\n"),
		"pools/worker/a":       big,
		"files/b":              big,
	}))
	if got.Report.Fatal() {
		t.Fatal(got.Report)
	}
	if all := transpile.Contents(got.Fragments); len(all) != 1 || all[0].Hash != hashOf(big) {
		t.Errorf("the contents are %+v", all)
	}
}

func TestRefusedLargeFiles(t *testing.T) {
	big, own := noise(1, 2<<20), hashOf("x")
	local := "    - path: /opt/big\n      contents:\n        local: big\n"
	for name, c := range map[string]struct{ document, big, want string }{
		"a unit":                    {"variant: fcos\nversion: 1.5.0\nsystemd:\n  units:\n    - name: a.service\n      contents_local: big\n", big, "only `contents: {local: …}` of a file in storage.files"},
		"a tree":                    {"variant: fcos\nversion: 1.5.0\nstorage:\n  trees:\n    - local: .\n", big, `"pools/worker/big" has 2097152 bytes`},
		"an appended part":          {document("fcos", "    - path: /opt/big\n      append:\n        - local: big\n"), big, "only `contents: {local: …}` of a file in storage.files"},
		"a template":                {document("fcos", "    - path: /opt/big\n      template: true\n      contents: {local: big}\n"), big, "a template at most"},
		"a compressed file":         {document("fcos", local+"        compression: gzip\n"), big, "has no compressed files"},
		"a wrong hash":              {document("fcos", local+"        verification: {hash: "+own+"}\n"), big, "does not match"},
		"an encrypted file":         {document("fcos", local), strings.Repeat("x", 1<<20) + encryptedMark + strings.Repeat("y", 1<<20), "SOPS encrypted"},
		"a unit as a file":          {document("fcos", "    - path: /etc/systemd/system/a.service\n      contents: {local: big}\n"), big, "units and presets are not downloaded"},
		"an address of its own":     {document("fcos", "    - path: /opt/a\n      contents:\n        source: "+machineconfig.StoredSource(own)+"\n        verification: {hash: "+own+"}\n"), "x", "only Bunsen writes"},
		"an address without a hash": {document("fcos", "    - path: /opt/a\n      contents: {source: https://content.bunsen.invalid/x}\n"), "x", "is not https://content.bunsen.invalid/sha512-HEX"},
	} {
		got := withStore(repositoryOf(t, map[string]string{
			"pools/worker/10-a.bu": c.document,
			"pools/worker/big":     c.big,
		}))
		if !got.Report.Fatal() || !strings.Contains(got.Report.String(), c.want) {
			t.Errorf("%s: %s", name, got.Report)
		}
	}
}

const encryptedMark = "ENC[AES256_GCM,data:"

// TestAFileOf100MiB: no part of it stands in memory.
func TestAFileOf100MiB(t *testing.T) {
	tree := repositoryOf(t,
		map[string]string{"pools/worker/10-a.bu": document("fcos",
			"    - path: /opt/big\n      contents: {local: big}\n")})
	file := filepath.Join(tree.Root, "pools/worker/big")
	sparse(t, file, 100<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := withStore(tree)
	runtime.ReadMemStats(&after)
	if got.Report.Fatal() || len(got.Fragments[0].Contents) != 1 || got.Fragments[0].Contents[0].Size != 100<<20 {
		t.Fatal(got.Report)
	}
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 20 {
		t.Errorf("%d MiB were allocated", mib)
	}
	sparse(t, file, machineconfig.MaxContent+1)
	if got := withStore(tree); !strings.Contains(got.Report.String(), "files of at most 268435456") {
		t.Error(got.Report)
	}
	write(t, tree.Root, "pools/worker/20-b.bu", string(bytes.Repeat([]byte("#"), 9<<20)))
	if got := withStore(tree); !strings.Contains(got.Report.String(), "reads at most 4194304") {
		t.Error(got.Report)
	}
}

func sparse(t *testing.T, file string, size int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

// TestLargeFilesHaveNoFacts: with a table of nodes, a reference in a large file would look as if it worked.
func TestLargeFilesHaveNoFacts(t *testing.T) {
	files := map[string]string{
		"pools/worker/10-a.bu": document("fcos", "    - path: /opt/big\n      contents: {local: big}\n    - path: /etc/hostname\n      contents: {inline: \"${node.name}\"}\n"),
		"pools/worker/big":     strings.Repeat("x", 32<<10-3) + "${node.name}" + noise(1, 2<<20),
	}
	if got := withStore(repositoryOf(t, files)); got.Report.Fatal() {
		t.Errorf("without a table: %s", got.Report)
	}
	files["pools/worker/nodes.yaml"] = "w1: {}\n"
	if got := withStore(repositoryOf(t, files)); !strings.Contains(got.Report.String(),
		"is the same on all nodes") {
		t.Errorf("with a table: %s", got.Report)
	}
}

// withStore translates a tree for a cluster that has a content store.
func withStore(tree source.Tree) transpile.Result {
	return (&transpile.Transpiler{LargeFiles: true}).Fragments(tree)
}

// TestALargeFileWithoutAContentStoreIsAnErrorAtItsLine has a file that is too large, and files that are too large
// together.
func TestALargeFileWithoutAContentStoreIsAnErrorAtItsLine(t *testing.T) {
	const document = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /opt/a\n" +
		"      contents: {local: a}\n    - path: /opt/b\n      contents: {local: b}\n"
	noise := func(size int) string {
		out := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(out)
		return string(out)
	}
	for _, c := range []struct {
		a, b int
		want []string
	}{
		{3 << 20, 10, []string{"10-a.bu:5:7: error: /opt/a has 3 MiB and does not fit into a MachineConfig", "--content-registry", "`bunsen hash`", "[large-file]"}},
		{900_000, 800_000, []string{"10-a.bu:5:7: error: /opt/a has 879 KiB and does not fit"}},
		{10, 10, nil},
	} {
		got := transpile.Fragments(repositoryOf(t, map[string]string{
			"pools/worker/10-a.bu": document, "pools/worker/a": noise(c.a), "pools/worker/b": noise(c.b),
		}))
		if got.Report.Fatal() != (c.want != nil) || len(got.Fragments) > 0 && c.want != nil {
			t.Errorf("%d and %d: %v", c.a, c.b, got.Report)
		}
		for _, want := range c.want {
			if !strings.Contains(got.Report.String(), want) {
				t.Errorf("%d and %d: no %q in %v", c.a, c.b, want, got.Report)
			}
		}
	}
}
