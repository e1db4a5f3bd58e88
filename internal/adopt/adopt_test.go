package adopt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

const head = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\n" +
	"metadata: {name: 10-worker-a, labels: {machineconfiguration.openshift.io/role: worker}}\n"

func TestBrokenTextIsAnError(t *testing.T) {
	for sentence, c := range map[string]struct{ text, want string }{
		"nothing":                       {"", "there is no object in the input"},
		"only comments and empty pages": {"---\n# nothing\n---\n", "there is no object in the input"},
		"an empty list":                 {"kind: List\napiVersion: v1\nitems: []\n", "there is no object in the input"},
		"YAML that does not end":        {head + "---\na: [", "reading in.yaml: line "},
		"JSON that does not end":        {`{"kind": "List", "items": [`, "nothing is imported, because what is missing is not known"},
	} {
		repo, findings, err := adopt.Import([]adopt.Input{{Name: "in.yaml", Data: []byte(c.text)}}, adopt.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(repo.Files)+len(findings) > 0 {
			t.Errorf("%s: error %v, want %q", sentence, err, c.want)
		}
	}
}

func TestVersion2ComesAlongWhereItCanBeRead(t *testing.T) {
	in := adopt.Input{Name: "in.yaml", Data: []byte(head + "spec: {config: {ignition: {version: 2.2.0}, storage: " +
		"{files: [{path: /etc/a, contents: {source: 'data:,a'}}]}}}\n")}
	upgrade := func(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
		spec.Config.Raw = bytes.Replace(spec.Config.Raw, []byte("2.2.0"), []byte("3.0.0"), 1)
		return spec, nil
	}
	plain := adopt.Input{Name: "in.yaml", Data: bytes.Replace(in.Data, []byte("path: /etc/a"),
		[]byte("filesystem: root, path: /etc/a, mode: 420"), 1)}
	for _, c := range []struct {
		opts adopt.Options
		in   adopt.Input
	}{{adopt.Options{Upgrade: upgrade}, in}, {adopt.Options{}, plain}} {
		repo, findings := imported(t, c.opts, c.in)
		rendersEqual(t, repo, findings)
		if !bytes.Contains(repo.Files["pools/worker/10-a.bu"], []byte("inline: a")) {
			t.Errorf("not imported:\n%s", show(repo))
		}
	}
	refuse := func(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
		return spec, errors.New("networkd has no place in version 3")
	}
	repo, _ := imported(t, adopt.Options{Upgrade: refuse}, in)
	if o := repo.Objects[0]; o.Aside == "" || !strings.Contains(o.Skipped, "networkd") {
		t.Errorf("want it aside with the reason, got %+v", o)
	}
}

func TestWordsOfOldYAMLAreBooleans(t *testing.T) {
	repo, findings := imported(t, adopt.Options{},
		adopt.Input{Name: "in.yaml", Data: []byte(head + "spec: {config: {ignition: {version: 3.5.0}, systemd: " +
			"{units: [{name: a.service, enabled: no, contents: 'no'}]}}}\n")})
	rendersEqual(t, repo, findings)
	if !bytes.Contains(repo.Files["pools/worker/10-a.bu"], []byte("enabled: false")) {
		t.Error(show(repo))
	}
}

// A pool whose contents are packed to fit into an object of the API still fits when it comes back.
func TestUnpackingStaysWithinMeasure(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "spec:\n  config:\n    ignition: {version: 3.5.0}\n    storage:\n      files:\n")
	g := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		for range 20_000 {
			fmt.Fprintln(w, g.IntN(9))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "      - {path: /etc/f%d, contents: {compression: gzip, source: \"data:;base64,%s\"}}\n", i,
			base64.StdEncoding.EncodeToString(packed.Bytes()))
	}
	repo, findings := imported(t, adopt.Options{}, adopt.Input{Name: "in.yaml", Data: []byte(b.String())})
	rendersEqual(t, repo, findings)
	plain, packed := 0, 0
	for file := range repo.Files {
		switch {
		case strings.HasSuffix(file, ".gz"):
			packed++
		case strings.Contains(file, "/files/"):
			plain++
		}
	}
	if plain == 0 || packed == 0 || plain+packed != 8 {
		t.Errorf("%d contents are unpacked and %d are not, want some of each", plain, packed)
	}
}

func TestSecretsAreNotInMessages(t *testing.T) {
	const secret = "hunter2hunter2"
	_, findings := imported(t, adopt.Options{},
		adopt.Input{Name: "in.yaml", Data: []byte(head + "spec: {config: {ignition: {version: 3.5.0}, storage: " +
			"{files: [{path: /etc/password, contents: {source: 'data:," + secret + "'}}]}, passwd: {users: [{name: " +
			"core, passwordHash: " + secret + "}]}}}\n")})
	if len(findings) == 0 {
		t.Error("no finding speaks of the secret")
	}
	for _, f := range findings {
		if strings.Contains(f.String(), secret) {
			t.Errorf("a finding tells it: %s", f)
		}
	}
}
