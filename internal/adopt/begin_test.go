package adopt_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

func TestANewRepositoryRendersOnEverySystem(t *testing.T) {
	for _, system := range adopt.OSNames() {
		t.Run(system, func(t *testing.T) {
			b := adopt.Begin{
				OS: system, Pools: []string{"storage", "123", "rollout"}, User: "admin",
				Keys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF758/7uB88unhi8l9ZBJhS5kyaQQZSw5QwlvfHBb3Qd a@b"},
				URL:  "https://git.example.com/os.git", CI: map[string][]byte{".ci/x.yml": []byte("x\n")},
			}
			files, err := adopt.NewRepository(b)
			if err != nil {
				t.Fatal(err)
			}
			res := built(t, adopt.Repository{Files: files})
			if res.Report.String() != "" {
				t.Errorf("the report has %s", res.Report)
			}
			pools := map[string]int{}
			for _, f := range res.Fragments {
				pools[f.Pool]++
			}
			if !maps.Equal(pools, map[string]int{"master": 2, "worker": 3}) {
				t.Errorf("the pools have %v documents", pools)
			}
			if len(res.Cluster) != 6 {
				t.Errorf("cluster/ has %d objects", len(res.Cluster))
			}
			readme := string(files["README.md"])
			for _, part := range []string{
				"url: https://git.example.com/os.git", "    cluster/        pools, how", "A pull request gets",
			} {
				if !strings.Contains(readme, part) {
					t.Errorf("the README lacks %q: %s", part, readme)
				}
			}
			for name, text := range files {
				if strings.Contains(string(text), "{{") || text[len(text)-1] != '\n' {
					t.Errorf("%s is no finished text: %s", name, text)
				}
			}
		})
	}
}

func TestANewRepositoryWithoutExtras(t *testing.T) {
	files, err := adopt.NewRepository(adopt.Begin{OS: "flatcar"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".editorconfig", ".vscode/extensions.json", ".vscode/settings.json", "README.md", "base/10-journald.bu",
		"base/kustomization.yaml", "cluster/disruption.yaml", "cluster/rollout.yaml", "pools/master/kustomization.yaml",
		"pools/worker/20-motd.bu", "pools/worker/files/motd", "pools/worker/kustomization.yaml",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("it has %q", got)
	}
	if text := string(files["base/10-journald.bu"]); !strings.Contains(text, "variant: flatcar\n") ||
		!strings.HasSuffix(text, "/butane-flatcar-1.1.0.json\n") {
		t.Errorf("its documents are %s", text)
	}
}

func TestWhatNoRepositoryCanBeginWith(t *testing.T) {
	key := []string{"ssh-ed25519 AAAA"}
	for because, tt := range map[string]struct {
		b    adopt.Begin
		want string
	}{
		"no system":                         {adopt.Begin{}, `the operating system "" is not known: name one of`},
		"a system of nobody":                {adopt.Begin{OS: "plan9"}, `"plan9" is not known: name one of almalinux,`},
		"a pool that leaves its directory":  {adopt.Begin{OS: "flatcar", Pools: []string{"../x"}}, `"../x" cannot be the name`},
		"a pool that every cluster has":     {adopt.Begin{OS: "flatcar", Pools: []string{"worker"}}, "every cluster has the pool worker"},
		"a pool twice":                      {adopt.Begin{OS: "flatcar", Pools: []string{"a", "a"}}, "a pool is named twice"},
		"a user that is YAML":               {adopt.Begin{OS: "flatcar", Keys: key, User: "x: y"}, `"x: y" cannot get SSH keys`},
		"a user without keys":               {adopt.Begin{OS: "flatcar", User: "ada"}, `"ada" cannot get SSH keys`},
		"keys for a user that nobody named": {adopt.Begin{OS: "debian", Keys: key}, "name the user who may log in"},
	} {
		t.Run(because, func(t *testing.T) {
			files, err := adopt.NewRepository(tt.b)
			if err == nil || !strings.Contains(err.Error(), tt.want) || files != nil {
				t.Errorf("%v, %d files", err, len(files))
			}
		})
	}
}
