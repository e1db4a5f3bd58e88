package examples

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// manager is a custom manager of Renovate. Its expressions have the syntax of RE2, as those of Go.
type manager struct {
	Description         string   `json:"description"`
	CustomType          string   `json:"customType"`
	ManagerFilePatterns []string `json:"managerFilePatterns"`
	MatchStrings        []string `json:"matchStrings"`
	Strategy            string   `json:"matchStringsStrategy"`
	Datasource          string   `json:"datasourceTemplate"`
}

// find returns what the manager finds in a file, as Renovate does.
func (m manager) find(t *testing.T, name, text string) (found []string) {
	t.Helper()
	if !slices.ContainsFunc(m.ManagerFilePatterns, func(p string) bool {
		return regexp.MustCompile(strings.Trim(p, "/")).MatchString(name)
	}) {
		return nil
	}
	texts := []string{text}
	for i, pattern := range m.MatchStrings {
		expression := regexp.MustCompile(pattern)
		if m.Strategy != "recursive" {
			found = append(found, m.dependencies(expression, text)...)
			continue
		}
		if i == len(m.MatchStrings)-1 {
			for _, part := range texts {
				found = append(found, m.dependencies(expression, part)...)
			}
			continue
		}
		var inner []string
		for _, part := range texts {
			inner = append(inner, expression.FindAllString(part, -1)...)
		}
		texts = inner
	}
	return found
}

func (m manager) dependencies(expression *regexp.Regexp, text string) (found []string) {
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		group := map[string]string{"datasource": m.Datasource}
		for i, name := range expression.SubexpNames() {
			if match[i] != "" {
				group[name] = match[i]
			}
		}
		found = append(found, fmt.Sprintf("%s %s %s %.15s", group["datasource"], group["depName"],
			group["currentValue"], group["currentDigest"]))
	}
	return found
}

func renovateManagers(t *testing.T) []manager {
	t.Helper()
	raw, err := os.ReadFile("ci/renovate/bunsen.json")
	if err != nil {
		t.Fatal(err)
	}
	var preset struct {
		CustomManagers []manager `json:"customManagers"`
	}
	if err := json.Unmarshal(raw, &preset); err != nil || len(preset.CustomManagers) == 0 {
		t.Fatalf("%d managers: %v", len(preset.CustomManagers), err)
	}
	return preset.CustomManagers
}

// TestRenovateFindsWhatTheExamplesPin runs the patterns of the preset over all files of the examples.
func TestRenovateFindsWhatTheExamplesPin(t *testing.T) {
	var got []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range renovateManagers(t) {
			for _, found := range m.find(t, name, string(text)) {
				got = append(got, name+": "+found)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ci/gitlab/.gitlab-ci.yml: github-tags bunsen-os/bunsen v0.1.0 000000000000000",
		"ci/pre-commit/.pre-commit-config.yaml: github-tags bunsen-os/bunsen v0.1.0 000000000000000",
		"cookbook/pools/lab/image.yaml: docker quay.io/example/fedora-coreos  sha256:2a7e5c3d",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestRenovateReadsDocuments(t *testing.T) {
	const digest = "sha256:2a7e5c3d9f1b8a6e4c2d0f9e7b5a3c1d8f6e4b2a0c9d7e5f3b1a8c6d4e2f0a9b"
	long := strings.Repeat("0123456789abcdef", 8)
	for sentence, test := range map[string]struct{ file, text, want string }{
		"an image with a tag": {
			"pools/worker/os.yaml", "spec:\n  osImageURL: quay.io/example/os:41@" + digest,
			"docker quay.io/example/os 41 sha256:2a7e5c3d",
		},
		"an image of a registry with a port": {
			"os.yaml", "  osImageURL: \"registry:5000/os@" + digest + "\"", "docker registry:5000/os  sha256:2a7e5c3d",
		},
		"an image with a port and a tag": {
			"os.yaml", "  baseOSExtensionsContainerImage: registry:5000/os:v4@" + digest,
			"docker registry:5000/os v4 sha256:2a7e5c3d",
		},
		"an image without a digest":      {"os.yaml", "  osImageURL: quay.io/example/os:41\n", ""},
		"an image outside of a document": {"os.md", "  osImageURL: quay.io/example/os:41@" + digest, ""},
		"images of a set": {
			"pins.yaml", "kind: PinnedImageSet\nspec:\n  pinnedImages:\n    - name: quay.io/a/b:v1@" + digest +
				"\n    - name: quay.io/c@" + digest,
			"docker quay.io/a/b v1 sha256:2a7e5c3d\ndocker quay.io/c  sha256:2a7e5c3d",
		},
		"names of another kind": {"x.yaml", "kind: Other\n    - name: quay.io/a/b:v1@" + digest, ""},
		"a file of a release": {
			"a.bu", "contents:\n  source: https://github.com/bunsen-os/bunsen/releases/download/v0.1.0/" +
				"machine-config-daemon-v0.1.0-linux-amd64\n  verification:\n    hash: sha512-" + long,
			"github-release-attachments bunsen-os/bunsen v0.1.0 0123456789abcde",
		},
		"a file without a hash": {
			"a.bu", "  source: https://github.com/a/b/releases/download/v1/c\n  mode: 0644\n", "",
		},
		"a file elsewhere with a comment": {
			"a.bu", "# renovate: datasource=github-releases depName=kubernetes/kubernetes\n      source: " +
				"https://extensions.flatcar.org/extensions/kubernetes-v1.35.2-x86-64.raw",
			"github-releases kubernetes/kubernetes v1.35.2 ",
		},
		"a file elsewhere": {"a.bu", "source: https://extensions.flatcar.org/extensions/kubernetes-v1.35.2-x86-64.raw", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			for _, m := range renovateManagers(t) {
				if m.CustomType != "regex" || m.Description == "" {
					t.Errorf("a manager of the type %q with the description %q", m.CustomType, m.Description)
				}
				got = append(got, m.find(t, test.file, test.text)...)
			}
			if got := strings.Join(got, "\n"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
