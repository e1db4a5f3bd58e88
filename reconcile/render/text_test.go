package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/ghodss/yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// TestPiecesMakeTheTextOfTheWhole holds what is put together from the texts of items, written a few at a time, against
// what one call writes for the whole: JSON, the text that the hash is over, and the size.
func TestPiecesMakeTheTextOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	for n := range 2000 {
		var parts []lists
		var all lists
		for range r.Intn(4) {
			part := oddLists(r)
			parts = append(parts, part)
			all.files, all.directories, all.links = append(all.files, part.files...), append(all.directories, part.directories...), append(all.links, part.links...)
			all.units, all.users, all.groups = append(all.units, part.units...), append(all.users, part.users...), append(all.groups, part.groups...)
		}
		rest := oddRest(r)
		whole := rest
		whole.Ignition = all.into(rest.Ignition)
		want, err := whole.Spec()
		if err != nil {
			t.Fatal(err)
		}
		wantHashed, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		written, err := write(parts)
		if err != nil {
			t.Fatal(err)
		}
		var doc document
		for _, w := range written {
			for list := range w {
				doc.texts[list] = append(doc.texts[list], w[list]...)
			}
		}
		hashed, err := doc.finish(rest)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want.Config.Raw), string(doc.spec.Config.Raw)); diff != "" {
			t.Fatalf("config %d, JSON (-whole +pieces):\n%s", n, diff)
		}
		if diff := cmp.Diff(string(wantHashed), string(bytes.Join(hashed, nil))); diff != "" {
			t.Fatalf("config %d, YAML (-whole +pieces):\n%s", n, diff)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if size, err := doc.size(); err != nil || size != len(text) {
			t.Fatalf("config %d: size %d, %v; it is %d", n, size, err, len(text))
		}
	}
}

func oddRest(r *rand.Rand) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true, KernelType: oddText(r), OSImageURL: oddText(r)}
	for range r.Intn(3) {
		c.KernelArguments = append(c.KernelArguments, oddText(r))
	}
	if r.Intn(3) == 0 {
		c.Ignition.Storage.Luks = []ign.Luks{{Name: oddText(r), Label: util.StrToPtr(oddText(r))}}
	}
	if r.Intn(3) == 0 {
		c.Ignition.Ignition.Proxy.HTTPProxy = util.StrToPtr(oddText(r))
	}
	return c
}

func oddLists(r *rand.Rand) (l lists) {
	node := func() ign.Node { return ign.Node{Path: oddText(r), User: ign.NodeUser{Name: some(r, "true", "0x1")}} }
	for range r.Intn(4) {
		f := ign.File{Node: node()}
		f.Contents.Source = util.StrToPtr(oddSource(r))
		if r.Intn(3) == 0 {
			f.Append = []ign.Resource{{}, {Source: util.StrToPtr(oddSource(r))}}
		}
		l.files = append(l.files, f)
	}
	for range r.Intn(2) {
		l.directories = append(l.directories, ign.Directory{Node: node()})
	}
	for range r.Intn(2) {
		l.links = append(l.links, ign.Link{Node: node(), LinkEmbedded1: ign.LinkEmbedded1{Target: util.StrToPtr(oddText(r))}})
	}
	for range r.Intn(3) {
		l.units = append(l.units, ign.Unit{Name: oddText(r), Contents: util.StrToPtr(oddText(r)), Dropins: []ign.Dropin{{Name: oddText(r)}}})
	}
	for range r.Intn(2) {
		l.users = append(l.users, ign.PasswdUser{Name: oddText(r), SSHAuthorizedKeys: []ign.SSHAuthorizedKey{ign.SSHAuthorizedKey(oddText(r))}})
	}
	for range r.Intn(2) {
		l.groups = append(l.groups, ign.PasswdGroup{Name: oddText(r)})
	}
	return l
}

// oddSource is mostly a long source of letters that YAML takes as they are.
func oddSource(r *rand.Rand) string {
	if r.Intn(4) == 0 {
		return oddText(r)
	}
	const letters = "abcXYZ0189%,;:/+=._~-"
	text := []string{"data:", "data:;base64,", "data:,", "daTa:"}[r.Intn(4)]
	for range r.Intn(200) {
		text += string(letters[r.Intn(len(letters))])
	}
	if r.Intn(100) == 0 {
		text = fmt.Sprintf("data:,stand-in-%010d%s", r.Intn(3), text)
	}
	return text
}

// oddText is text of which YAML has to think how to write it.
func oddText(r *rand.Rand) string {
	parts := []string{
		"a", " ", "\n", "\n\n", ": ", "# ", "'", `"`, "\\", "\t", "ä", "😀", "- ", "{", "true", "0644", "~", "<&>", "\r", "items-of-files", "\n    - path: items-of-files\n",
		`{"path":"items-of-files"}`, `"files":[`, "a long run of words that goes on and on and on until every line that folds has folded ",
	}
	text := ""
	for range r.Intn(6) {
		text += parts[r.Intn(len(parts))]
	}
	if r.Intn(60) == 0 {
		text += []string{"\u2028", "\u2029", "\u0085"}[r.Intn(3)]
	}
	return text
}
