package mcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// Each archive has a rendered MachineConfig (in.yaml), where it matters what the server does with it (server.yaml) and,
// per version, the Ignition that a machine of pool worker gets (2.2.0.json or 3.x.0.json, with the files' contents
// decoded below, and what was withheld) or the error (3.x.0.error).
func TestComposeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives in testdata", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var mc mcfgv1.MachineConfig
			if err := yaml.UnmarshalStrict(archive.Files[0].Data, &mc); err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1:1]}
			in := Input{Pool: "worker", Rendered: &mc}
			if s := archive.Files[1]; s.Name == "server.yaml" {
				got.Files = append(got.Files, s)
				in.Extra, in.Withhold = readServer(t, s.Data)
			}
			for _, v := range []Version{V2_2, V3_0, V3_2, V3_4, V3_5} {
				body, err := Compose(in, v)
				if err != nil {
					got.Files = append(got.Files, txtar.File{
						Name: string(v) + ".error",
						Data: []byte(err.Error() + "\n"),
					})
					continue
				}
				got.Files = append(got.Files, txtar.File{Name: string(v) + ".json", Data: readable(t, body)})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("-want +got; read the diff, then -update if it is right\n%s", diff)
			}
		})
	}
}

// readServer reads what an archive says of the server.
func readServer(t *testing.T, text []byte) (Extra, bool) {
	t.Helper()
	var s struct {
		Withhold bool
		Files    []struct {
			Path, Contents string
			Mode           int
		}
		Join *struct{ Server, CA string }
	}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		t.Fatal(err)
	}
	var extra Extra
	for _, f := range s.Files {
		extra.Files = append(extra.Files, File{f.Path, f.Mode, []byte(f.Contents)})
	}
	if s.Join != nil {
		extra.Join = &Join{Server: s.Join.Server, CA: []byte(s.Join.CA)}
	}
	return extra, s.Withhold
}

func whole(b Body, token string) []byte {
	if !b.NeedsBootstrapToken() {
		return b.Head
	}
	return slices.Concat(b.Head, []byte(token), b.Tail)
}

// readable indents a config and shows the contents of its files below it.
func readable(t *testing.T, b Body) []byte {
	t.Helper()
	body := whole(b, "TOKEN-OF-THIS-MACHINE--")
	var config ign.Config
	if err := json.Unmarshal(body, &config); err != nil {
		t.Fatal(err)
	}
	for _, f := range config.Storage.Files {
		if f.Contents.Source != nil && !machineconfig.IsRemote(f.Contents) {
			body = bytes.ReplaceAll(body, []byte(*f.Contents.Source), []byte("(below)"))
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	for _, f := range config.Storage.Files {
		if !machineconfig.IsRemote(f.Contents) {
			fmt.Fprintf(&out, "# %s: %s\n", f.Path, bytes.TrimSpace(contents(t, f)))
		}
	}
	for _, w := range b.Withheld {
		fmt.Fprintf(&out, "# withheld: %s\n", w)
	}
	return out.Bytes()
}

func contents(t *testing.T, f ign.File) []byte {
	t.Helper()
	data, err := machineconfig.Contents(f.Contents)
	if err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
	return data
}

func rendered(ignition string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = "rendered-worker-1"
	mc.Spec.Config.Raw = []byte(ignition)
	return mc
}

func decode(t *testing.T, body []byte) ign.Config {
	t.Helper()
	config, rpt, err := ign.ParseCompatibleVersion(body)
	if err != nil {
		t.Fatalf("the served config does not parse: %v\n%s", err, rpt)
	}
	return config
}

func TestWithoutTheAppendedFilesTheServedConfigIsTheRenderedOne(t *testing.T) {
	ignition := `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"overwrite":true,"path":"/etc/a","contents":{"source":"data:,1"},"mode":420}]},"systemd":{"units":[{"enabled":true,"name":"a.service"}]}}`
	body, err := Compose(Input{Pool: "worker", Rendered: rendered(ignition)}, Newest)
	if err != nil {
		t.Fatal(err)
	}
	served := machineconfig.Config{Ignition: decode(t, body.Head)}
	files := served.Ignition.Storage.Files
	served.Ignition.Storage.Files = files[:len(files)-2]
	got, err := served.IgnitionJSON()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != ignition {
		t.Errorf("got  %s\nwant %s", got, ignition)
	}
}

func TestAnEntryAtAnAppendedPathIsReplacedWhateverItIs(t *testing.T) {
	nested := `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"%s","contents":{"source":"data:,mine"}}]}}`
	appended := []string{"/etc/ca", NodeAnnotationsPath, KubeconfigPath, EncapsulatedPath}
	extra := Extra{Files: []File{{"/etc/ca", 0o644, []byte("pem")}}, Join: &Join{Server: "https://api:6443"}}
	for kind, config := range map[string]string{
		"file":                 `"storage":{"files":[{"path":"%s","contents":{"source":"data:,mine"}},{"path":"/etc/z"}]}`,
		"directory":            `"storage":{"directories":[{"path":"%s"}],"files":[{"path":"/etc/z"}]}`,
		"link":                 `"storage":{"links":[{"path":"%s","target":"/etc/y"}],"files":[{"path":"/etc/z"}]}`,
		"file of config in it": `"storage":{"files":[{"path":"/etc/z"}]},"ignition":{"version":"3.5.0","config":{"merge":[{"source":"data:,` + dataurl.EscapeString(nested) + `"}]}}`,
	} {
		for _, path := range appended {
			config := strings.ReplaceAll(strings.ReplaceAll(config, "%s", path), "%25s", path)
			if !strings.Contains(config, `"ignition":`) {
				config += `,"ignition":{"version":"3.5.0"}`
			}
			body, err := Compose(Input{Pool: "worker", Rendered: rendered("{" + config + "}"), Extra: extra}, Newest)
			if err != nil {
				t.Errorf("%s at %s: %v", kind, path, err)
				continue
			}
			got := decode(t, whole(body, "abcdef.0123456789abcdef"))
			var paths []string
			for _, f := range got.Storage.Files {
				paths = append(paths, f.Path)
				if bytes.Contains(contents(t, f), []byte("mine")) {
					t.Errorf("%s at %s: the machine would get the rendered config's file", kind, path)
				}
			}
			if others := len(got.Storage.Directories) + len(got.Storage.Links) +
				len(got.Ignition.Config.Merge); !slices.Equal(paths, append([]string{"/etc/z"}, appended...)) ||
				others > 0 {
				t.Errorf("%s at %s: got files %q and %d others", kind, path, paths, others)
			}
		}
	}
}

func TestABadRenderedConfigIsNamedWithItsFault(t *testing.T) {
	for _, c := range []struct{ because, ignition, want string }{
		{"not JSON", `{`, "reading config rendered-worker-1: "},
		{"Ignition 2", `{"ignition":{"version":"2.2.0"}}`, "2.2.0"},
		{"a relative path", `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"etc/x"}]}}`, "etc/x"},
		{"a file where an appended one needs a directory", `{"ignition":{"version":"3.2.0"},"storage":{"links":[{"path":"/etc/machine-config-daemon","target":"/x"}]}}`, "composing Ignition from config rendered-worker-1: "},
	} {
		_, err := Compose(Input{Pool: "worker", Rendered: rendered(c.ignition)}, Newest)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", c.because, err, c.want)
		}
	}
	if _, err := Compose(Input{Pool: "worker"}, Newest); !errors.Is(err, ErrNothingRendered) {
		t.Errorf("no config: got %v", err)
	}
	var refused *UnsupportedVersionError
	if _, err := Compose(Input{Pool: "worker", Rendered: rendered(`{"ignition":{"version":"3.5.0"}}`)},
		"2.1.0"); !errors.As(err, &refused) {
		t.Errorf("a version that is none: got %v", err)
	}
}

func TestAConfigWithoutIgnitionStillTellsTheMachineWhatItIs(t *testing.T) {
	mc := rendered("")
	mc.Spec.Config.Raw = nil
	mc.Spec.OSImageURL = "quay.io/example/os@sha256:0"
	body, err := Compose(Input{Pool: "worker", Rendered: mc}, V3_1)
	if err != nil {
		t.Fatal(err)
	}
	files := decode(t, body.Head).Storage.Files
	if last := contents(t, files[len(files)-1]); !bytes.Contains(last, []byte("quay.io/example/os")) {
		t.Errorf("the encapsulated config lacks the OS image: %s", last)
	}
}

// Ignition before 2.3, which reads 3.0.0 and 2.2.0, gives up at "compression is not supported with that scheme".
func TestWhoCannotUnpackIsSentItUnpacked(t *testing.T) {
	const zipped = `{"source":"data:;base64,H4sIAAAAAAACA0tMBADXGYoHAgAAAA==","compression":"gzip"}`
	mc := rendered(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","mode":420,"contents":` + zipped +
		`,"append":[` + zipped + `]},{"path":"/b","contents":{"source":"https://x/y","compression":"gzip"}}]}}`)
	for _, v := range Versions() {
		body, err := Compose(Input{Rendered: mc}, v)
		if err != nil {
			t.Fatal(err)
		}
		want := 3
		if v == V2_2 || v == V3_0 {
			want = 1 // what is elsewhere is unpacked by all
			if bytes.Count(body.Head, []byte(`data:;base64,YWE=`)) != 2 {
				t.Errorf("%s: it is not in\n%s", v, body.Head)
			}
		}
		if got := bytes.Count(body.Head, []byte(`"compression":"gzip"`)); got != want {
			t.Errorf("%s: %d are compressed, want %d", v, got, want)
		}
	}
	if !bytes.Contains(mc.Spec.Config.Raw, []byte(zipped)) {
		t.Error("composing changed its input")
	}
}
