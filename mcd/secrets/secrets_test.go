package secrets_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/secrets"
)

// configOf has files that refer to secrets at the paths, a plain file, and hard links from keys to values.
func configOf(links map[string]string, paths ...string) plan.Config {
	c := plan.Config{Name: "rendered-s@r1"}
	c.Config.Ignition.Ignition.Version = "3.5.0"
	add := func(p, source string) {
		c.Config.Ignition.Storage.Files = append(c.Config.Ignition.Storage.Files, ign.File{
			Node:          ign.Node{Path: p},
			FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
		})
	}
	for _, p := range paths {
		add(p, machineconfig.TemplateURL("${secret:a/b}"))
	}
	add("/etc/plain", "data:,plain")
	hard := true
	for _, at := range slices.Sorted(maps.Keys(links)) {
		to := links[at]
		c.Config.Ignition.Storage.Links = append(c.Config.Ignition.Storage.Links, ign.Link{
			Node:          ign.Node{Path: at},
			LinkEmbedded1: ign.LinkEmbedded1{Target: &to, Hard: &hard},
		})
	}
	return c
}

func TestResolvingAConfig(t *testing.T) {
	const odd = `/etc/a[b]*?\c`
	links := map[string]string{
		"/etc/1": "/etc/2", "/etc/2": "/etc/known", "/etc/3": "/etc/4", "/etc/4": "/etc/unknown",
		"/etc/5": "/etc/plain",
	}
	before := configOf(links, "/etc/known", "/etc/unknown", odd)
	c, err := secrets.Resolve(before, secrets.Contents{
		"/etc/known": []byte("value"), odd: nil,
		"/etc/plain": []byte("forged"),
	})
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, f := range c.Config.Ignition.Storage.Files {
		text, err := machineconfig.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		has[f.Path] = string(text)
	}
	if want := map[string]string{"/etc/known": "value", odd: "", "/etc/plain": "plain"}; !maps.Equal(has, want) {
		t.Errorf("the files are %v, want %v", has, want)
	}
	var left []string
	for _, l := range c.Config.Ignition.Storage.Links {
		left = append(left, l.Path)
	}
	if !slices.Equal(left, []string{"/etc/1", "/etc/2", "/etc/5"}) {
		t.Errorf("the links are %v", left)
	}
	for p, hidden := range map[string]bool{
		"/etc/known": true, odd: true, "/etc/1": true, "/etc/2": true,
		"/etc/5": false, "/etc/plain": false, "/etc/ab": false,
	} {
		if c.Secrets.Match(p) != hidden {
			t.Errorf("%s is hidden: %t, want %t (%q)", p, !hidden, hidden, c.Secrets)
		}
	}
	if len(before.Config.Ignition.Storage.Files) != 4 || len(before.Config.Ignition.Storage.Links) != 5 ||
		len(before.Secrets) != 0 {
		t.Error("the caller's config changed")
	}
	owned, err := secrets.Owned(before)
	if err != nil || len(owned.Config.Ignition.Storage.Files) != 4 {
		t.Errorf("%+v, %v", owned.Config.Ignition.Storage, err)
	}
}

// TestTheCopyNeverForgetsWhatIsNeeded plays random histories of assignments, updates and rollbacks: the contents of the
// config in force, of the one before it, and of an update that has begun are there, and at most those of three configs.
func TestTheCopyNeverForgetsWhatIsNeeded(t *testing.T) {
	for seed := range uint64(2000) {
		g := rand.New(rand.NewPCG(seed, 1))
		var kept secrets.Copy
		inForce, before := "", ""
		for step := range 30 {
			at := fmt.Sprintf("rendered-s@r%d", g.IntN(6))
			if g.IntN(5) == 0 {
				at = "rendered-plain"
			}
			paths := []string{"/etc/a"}
			if at == "rendered-plain" {
				paths = nil
			}
			if _, known := kept.Known(at, paths); !known && paths != nil {
				kept = kept.With(at, secrets.Contents{"/etc/a": []byte(at)}, inForce)
			}
			if g.IntN(3) > 0 && at != inForce { // otherwise it was rolled back
				inForce, before = at, inForce
			}
			if g.IntN(3) > 0 { // otherwise the daemon did not come to confirm it
				kept = kept.Confirmed(inForce)
			}
			text, err := json.Marshal(kept)
			if err != nil {
				t.Fatal(err)
			}
			kept = secrets.ParseCopy(text)
			for _, needed := range []string{inForce, before} {
				if has := string(kept.Contents[needed]["/etc/a"]); strings.Contains(needed, "@") && has != needed &&
					(needed == inForce || kept.InForce == inForce && kept.Before == needed) {
					t.Fatalf("seed %d, step %d: in force %s after %s, the copy has %s", seed, step, inForce, before,
						text)
				}
			}
			if len(kept.Contents) > 3 {
				t.Fatalf("seed %d, step %d: the copy has %d configs", seed, step, len(kept.Contents))
			}
		}
	}
}

// TestADamagedCopyIsEmpty has files that a power cut, or an earlier daemon, could leave.
func TestADamagedCopyIsEmpty(t *testing.T) {
	for _, text := range []string{
		"", "{", "null", "[]", `{"contents":7}`,
		`{"contents":{"a@r1":{"/etc/a":"no base64"}}}`,
	} {
		if c := secrets.ParseCopy([]byte(text)); !c.IsEmpty() {
			t.Errorf("%q: %+v", text, c)
		}
	}
	if secrets.Path != host.StateDir+"/secrets.json" {
		t.Error(secrets.Path)
	}
}

// FuzzCheck takes any answer: what it accepts has exactly the paths of the config, and no error has a content.
func FuzzCheck(f *testing.F) {
	f.Add("rendered-s", "r1", "/etc/a", "/etc/b", []byte("canary"))
	f.Fuzz(func(t *testing.T, config, revision, one, two string, value []byte) {
		a := v1alpha1.NodeSecrets{
			Config: config, Revision: revision,
			Files: []v1alpha1.SecretFile{{Path: one, Contents: value}, {Path: two, Contents: value}},
		}
		got, err := secrets.Check(a, "rendered-s@r1", []string{"/etc/a", "/etc/b"})
		ok := config == "rendered-s" && revision == "r1" && (one == "/etc/a" && two == "/etc/b" || one == "/etc/b" &&
			two == "/etc/a")
		if ok != (err == nil) || err == nil && len(got) != 2 {
			t.Errorf("%+v gives %v, %v", a, got, err)
		}
		if err != nil && (len(err.Error()) > 1500 || strings.Contains(err.Error(), "\n") || len(value) > 5 &&
			!strings.Contains(config+revision+one+two, string(value)) && strings.Contains(err.Error(), string(value))) {
			t.Errorf("the error is %q", err)
		}
	})
}
