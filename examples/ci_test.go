package examples

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	pinnedAction = regexp.MustCompile(`^(?:\./|(?:https://)?[\w.-]+/[\w./-]+@[0-9a-f]{40}$)`)
	// pinnedComponent is a component of GitLab, or the rev of a hook of pre-commit.
	pinnedComponent = regexp.MustCompile(`^(?:\S+@)?[0-9a-f]{40}$`)
	pinnedImage     = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	// ofBunsen matches what a job runs of Bunsen: the action, the component, the hook or the image.
	ofBunsen  = regexp.MustCompile(`bunsen-os/bunsen(?:/review)?@|bunsen-os/bunsen\n|/bunsen-ci@sha256:`)
	commit    = regexp.MustCompile(`^[0-9a-f]{40}$`)
	installed = regexp.MustCompile(`\bgo (?:install|run) (?:-C \S+ )?(\S+)`)
	download  = regexp.MustCompile(`\b(?:curl|wget)\b`)
	gitSource = regexp.MustCompile(`\bgit (?:clone|fetch|pull)\b`)
	gitCommit = regexp.MustCompile(`\bgit checkout (?:-\S+ )*(?:"\$GITHUB_SHA"|[0-9a-f]{40})\s`)
)

// unpinned returns what a workflow of any service runs that is not named by its content.
func unpinned(text []byte) (problems []string, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	variables, inContainer := map[string]string{}, false
	walk(&doc, "", "", func(parent, key string, n *yaml.Node) {
		if parent == "env" || parent == "variables" {
			variables[key] = n.Value
		}
		inContainer = inContainer || key == "container" || parent == "container" && key == "image"
	})
	walk(&doc, "", "", func(parent, key string, n *yaml.Node) {
		say := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("line %d: ", n.Line)+fmt.Sprintf(format, args...))
		}
		switch {
		case key == "uses" && !pinnedAction.MatchString(n.Value):
			say("action %s is not pinned to a commit", n.Value)
		case key == "uses" && !strings.HasPrefix(n.Value, "./") && !strings.Contains(n.LineComment, "v"):
			say("action %s has no comment with its version", n.Value)
		case (key == "component" || key == "rev") && !pinnedComponent.MatchString(n.Value):
			say("%s %s is not pinned to a commit", key, n.Value)
		case (key == "image" || parent == "image" && key == "name" || key == "container" || key == "services") &&
			!pinnedImage.MatchString(n.Value):
			say("image %s is not pinned to a digest", n.Value)
		}
		if key == "uses" && inContainer {
			say("action %s needs node, which the container may not have", n.Value)
		}
		for _, match := range installed.FindAllStringSubmatch(n.Value, -1) {
			if strings.HasPrefix(match[1], "./") {
				continue // It is of the checkout, which the job pins.
			}
			_, version, _ := strings.Cut(match[1], "@")
			if name, isVariable := strings.CutPrefix(version, "$"); isVariable {
				version = variables[strings.Trim(name, "{}")]
			}
			if !commit.MatchString(version) {
				say("go installs %s, which is not pinned to a commit", match[1])
			}
		}
		if download.MatchString(n.Value) && !strings.Contains(n.Value, "sha256sum -c") {
			say("a download is not checked with sha256sum -c in its step")
		}
		if gitSource.MatchString(n.Value) && !gitCommit.MatchString(n.Value+"\n") {
			say("a step fetches a repository and checks out no commit")
		}
	})
	return problems, nil
}

// walk visits each scalar with its key, and with the key above that. Items of a list have the keys of the list.
func walk(n *yaml.Node, parent, key string, visit func(parent, key string, n *yaml.Node)) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			walk(n.Content[i+1], key, n.Content[i].Value, visit)
		}
	case yaml.ScalarNode:
		visit(parent, key, n)
	default:
		for _, c := range n.Content {
			walk(c, parent, key, visit)
		}
	}
}

func TestWorkflowsRunOnlyWhatIsPinned(t *testing.T) {
	seen := 0
	err := fs.WalkDir(os.DirFS("."), "ci", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(p) != ".yml" && path.Ext(p) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		problems, err := unpinned(text)
		for _, problem := range problems {
			t.Errorf("%s: %s", p, problem)
		}
		// A release builds bunsen from its own checkout. Nothing else compiles.
		if !ofBunsen.Match(text) && !bytes.Contains(text, []byte("make release ")) {
			t.Errorf("%s gets bunsen in another way than the README says", p)
		}
		seen++
		return err
	})
	if err != nil || seen < 7 {
		t.Errorf("%d workflows: %v", seen, err)
	}
}

func TestUnpinnedWorkflowsAreFound(t *testing.T) {
	const sha, digest = "08c6903cd8c0fde910a37f88322edcfb5dd907a8",
		"sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a"
	for name, test := range map[string]struct{ text, want string }{
		"a pinned action":                     {"steps:\n- uses: actions/checkout@" + sha + " # v5.0.0", ""},
		"an action of the repository itself":  {"steps:\n- uses: ./actions/x", ""},
		"an action with a tag":                {"steps:\n- uses: actions/checkout@v5", "action actions/checkout@v5 is not pinned"},
		"an action with a branch":             {"steps:\n- uses: actions/checkout@main", "is not pinned"},
		"an action with a short commit":       {"steps:\n- uses: actions/checkout@" + sha[:12], "is not pinned"},
		"an action of another host":           {"steps:\n- uses: https://example.org/a/b@" + sha + " # v1", ""},
		"a branch of an action elsewhere":     {"steps:\n- uses: https://example.org/a/b@main # v1", "is not pinned"},
		"a pinned component":                  {"include:\n- component: example.org/a/b/c@" + sha, ""},
		"a component with a version":          {"include:\n- component: example.org/a/b/c@1.0.0", "is not pinned"},
		"a hook with a tag":                   {"repos:\n- repo: https://example.org/a\n  rev: v1", "is not pinned"},
		"an action from an image with a tag":  {"steps:\n- uses: docker://alpine:3", "is not pinned"},
		"a pinned action without its version": {"steps:\n- uses: actions/checkout@" + sha, "has no comment with its version"},
		"a pinned image":                      {"default:\n  image: golang:1.26.8@" + digest, ""},
		"an image with a tag":                 {"default:\n  image: golang:1.26", "image golang:1.26 is not pinned"},
		"an image without a tag":              {"container:\n  image: golang", "is not pinned"},
		"an image with a name of its own":     {"image:\n  name: golang:1.26\n  entrypoint: [x]", "is not pinned"},
		"a container in short":                {"jobs:\n  a:\n    container: golang:1.26", "is not pinned"},
		"a service in short":                  {"services:\n- postgres:17", "is not pinned"},
		"the latest bunsen":                   {"script:\n- go install example.org/cmd/bunsen@latest", "is not pinned to a commit"},
		"a version of bunsen":                 {"script:\n- go install example.org/cmd/bunsen@v1.2.3", "is not pinned to a commit"},
		"a program of the checkout":           {"script:\n- go run -C tools ./release tag", ""},
		"the latest from a folder":            {"script:\n- go run -C x example.org/a@latest", "is not pinned to a commit"},
		"a commit of bunsen":                  {"script:\n- go install example.org/cmd/bunsen@" + sha, ""},
		"a commit of bunsen in a variable":    {"env:\n  C: " + sha + "\nsteps:\n- run: go install example.org/cmd/bunsen@$C", ""},
		"a tag of bunsen in a variable":       {"variables:\n  C: v1\nsteps:\n- run: go install example.org/cmd/bunsen@${C}", "is not pinned to a commit"},
		"a variable that nothing sets":        {"steps:\n- run: go run example.org/cmd/bunsen@$C", "is not pinned to a commit"},
		"a download that nobody checks":       {"steps:\n- run: curl -o bunsen https://example.org/bunsen && chmod +x bunsen", "is not checked"},
		"a download that is checked":          {"steps:\n- run: |\n    curl -o b https://example.org/b\n    echo \"$SUM  b\" | sha256sum -c -", ""},
		"an action in a container":            {"container:\n  image: golang:1.26.8@" + digest + "\nsteps:\n- uses: ./actions/x", "needs node"},
		"a repository at its newest commit":   {"steps:\n- run: git clone https://example.org/x .", "checks out no commit"},
		"a repository at a branch":            {"steps:\n- run: git fetch origin && git checkout main", "checks out no commit"},
		"a repository at the job's commit":    {"steps:\n- run: |\n    git fetch -q origin\n    git checkout -q --detach \"$GITHUB_SHA\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := unpinned([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(problems, "\n")
			if !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
