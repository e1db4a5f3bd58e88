package examples_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	fcos "github.com/coreos/butane/config/fcos/v1_7"
	fiot "github.com/coreos/butane/config/fiot/v1_0"
	flatcar "github.com/coreos/butane/config/flatcar/v1_1"
	openshift "github.com/coreos/butane/config/openshift/v4_22"
	r4e "github.com/coreos/butane/config/r4e/v1_1"
	"go.yaml.in/yaml/v3"
)

// specifications are Butane's, the newest stable version of each variant.
var specifications = []any{fcos.Config{}, flatcar.Config{}, openshift.Config{}, r4e.Config{}, fiot.Config{}}

// notShown are the keys of the specifications that the cookbook has no document for, and why.
var notShown = map[string]string{
	"<contents>.http_headers":           "nothing is fetched: the contents must be in the commit",
	"<contents>.http_headers.name":      "nothing is fetched: the contents must be in the commit",
	"<contents>.http_headers.value":     "nothing is fetched: the contents must be in the commit",
	"ignition.config.replace":           "it would throw away what the other documents of the pool say",
	"kernel_arguments.should_not_exist": "refused: a running node cannot take away what its image has",
	"passwd.groups.password_hash":       "a password of a group lets everybody in who knows it; use members",
}

// Every key that Butane's specifications have stands in some document of the cookbook.
func TestEveryKeyOfButaneIsShown(t *testing.T) {
	used := map[string]bool{}
	for _, file := range butaneDocuments(t) {
		var doc yaml.Node
		src, err := os.ReadFile(path.Join(cookbook, file))
		if err == nil {
			err = yaml.Unmarshal(src, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		usedKeys(doc.Content[0], "", used)
	}
	known := map[string]bool{}
	for _, s := range specifications {
		specifiedKeys(reflect.TypeOf(s), "", known)
	}
	if len(known) < 100 {
		t.Fatalf("only %d keys are specified: the types are read wrongly", len(known))
	}
	for key := range known {
		switch why, left := notShown[key]; {
		case left && used[key]:
			t.Errorf("%s is shown: take it out of notShown", key)
		case !left && !used[key]:
			t.Errorf("no document shows %s: write one, or say in notShown why not", key)
		case left && why == "":
			t.Errorf("%s: say why it is not shown", key)
		}
	}
	for key := range notShown {
		if !known[key] {
			t.Errorf("notShown has %s, which Butane does not have", key)
		}
	}
}

// butaneDocuments are the files that Butane's types describe whole; parts of documents, which patch, are not.
func butaneDocuments(t *testing.T) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(cookbook), ".", func(p string, e fs.DirEntry, err error) error {
		if slices.Contains([]string{".bu", ".butane", ".fcc"}, path.Ext(p)) {
			out = append(out, p)
		}
		return err
	})
	if err != nil || len(out) < 40 {
		t.Fatalf("%d documents: %v", len(out), err)
	}
	return out
}

// owned things have an owner, said in the same two ways everywhere.
var owned = []string{"storage.files", "storage.directories", "storage.links", "storage.trees"}

// holders of contents have the same keys everywhere, so that each key needs to be shown at one of them only.
var holders = []string{
	"storage.files.contents", "storage.files.append", "storage.luks.key_file", "ignition.config.merge",
	"ignition.config.replace", "ignition.security.tls.certificate_authorities",
}

func below(at, key string) string {
	switch {
	case slices.Contains(holders, at):
		at = "<contents>"
	case slices.Contains(owned, at) && (key == "user" || key == "group"):
		at = "<owner>"
	}
	return strings.TrimPrefix(at+"."+key, ".")
}

func usedKeys(n *yaml.Node, at string, out map[string]bool) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := below(at, n.Content[i].Value)
		out[key] = true
		usedKeys(n.Content[i+1], key, out)
	}
	for i := 0; n.Kind == yaml.SequenceNode && i < len(n.Content); i++ {
		usedKeys(n.Content[i], at, out)
	}
}

func specifiedKeys(t reflect.Type, at string, out map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			specifiedKeys(t.Field(i).Type, at, out)
		case name == "" || name == "-":
			panic(fmt.Sprintf("%s.%s has no key", t, t.Field(i).Name))
		default:
			key := below(at, name)
			out[key] = true
			specifiedKeys(t.Field(i).Type, key, out)
		}
	}
}
