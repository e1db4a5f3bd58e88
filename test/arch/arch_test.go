package arch

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before committing it")

// root is the repository's top, seen from this package.
const root = "../.."

// TestRepository runs every rule on the project itself.
func TestRepository(t *testing.T) {
	repo, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	linked, err := FindLinks(t.Context(), root, Daemon)
	if err != nil {
		t.Error(err)
	}
	repo.Links = map[string][]Linked{Daemon: linked}
	text, err := os.ReadFile("exemptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	exemptions, err := ParseExemptions("test/arch/exemptions.txt", string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Exempt(Check(repo), exemptions) {
		t.Error(v)
	}
}

// TestDaemonDependencies keeps a list that a reviewer reads: a new line is a
// new module that runs as root on every node.
func TestDaemonDependencies(t *testing.T) {
	repo, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	linked, err := FindLinks(t.Context(), root, Daemon)
	if err != nil {
		t.Fatal(err)
	}
	got := "# The modules that " + Daemon + " links. Written by `make golden`.\n" +
		strings.Join(Modules(repo.Module, linked), "\n") + "\n"
	golden(t, "deps.txt", got)
}

// TestLibrariesAreExplained compares go.mod with the page that says why each
// module is there: none without a reason, no reason without its module.
func TestLibrariesAreExplained(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var gomod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &gomod); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/adr/0006-libraries.md"))
	if err != nil {
		t.Fatal(err)
	}
	var required, explained []string
	for _, r := range gomod.Require {
		if !r.Indirect {
			required = append(required, r.Path)
		}
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			if name, ok := strings.CutPrefix(strings.TrimSpace(name), "`"); ok {
				explained = append(explained, strings.TrimSuffix(name, "`"))
			}
		}
	}
	slices.Sort(explained)
	slices.Sort(required)
	if diff := cmp.Diff(required, explained); diff != "" {
		t.Errorf("go.mod requires (-), docs/adr/0006-libraries.md explains (+):\n%s", diff)
	}
}

// TestRulesFire shows for each rule that it finds what it is for, and nothing
// else: testdata/<rule>.txtar is a small repository that breaks it, and its
// want.txt is what the rule says about it.
func TestRulesFire(t *testing.T) {
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			checkFixture(t, rule.Name, func(r Repo) []Violation {
				vs := sorted(rule.Check(r))
				if len(vs) == 0 {
					t.Errorf("rule %s finds nothing in a tree made to break it", rule.Name)
				}
				for _, v := range vs {
					if v.Rule != rule.Name {
						t.Errorf("rule %s reports under the name %s; exemptions would miss it", rule.Name, v.Rule)
					}
				}
				return vs
			})
		})
	}
}

// TestCleanTreePasses shows that the rules can be kept all at once.
func TestCleanTreePasses(t *testing.T) {
	checkFixture(t, "clean", func(r Repo) []Violation {
		vs := Check(r)
		for _, v := range vs {
			t.Error(v)
		}
		return vs
	})
}

// TestTableOfRooms holds the table to its own architecture, so that a rule
// cannot be got around by widening a row.
func TestTableOfRooms(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rooms {
		if seen[r.Prefix] {
			t.Errorf("row %s stands twice", r.Prefix)
		}
		seen[r.Prefix] = true
		if len(strings.Fields(r.Because)) < 3 {
			t.Errorf("row %s has no reason: %q", r.Prefix, r.Because)
		}
		if r.Kind == Test || r.Kind == Command {
			continue
		}
		for _, target := range Rooms {
			if !coversAny(r.Allowed, target.Prefix) {
				continue
			}
			if target.Kind == Shell && !isPart(r, target) || target.Kind == Command || target.Kind == Test {
				t.Errorf("row %s lets in %s, kind %s: only cmd constructs shells", r.Prefix, target.Prefix, target.Kind)
			}
			if a, b := side(r.Prefix), side(target.Prefix); a != "" && b != "" && a != b {
				t.Errorf("row %s lets in %s across the wall", r.Prefix, target.Prefix)
			}
		}
	}
	for _, r := range Rooms {
		for _, a := range r.Allowed {
			if !seen[a] && !strings.HasSuffix(a, "...") {
				t.Errorf("row %s allows %s, which is no room", r.Prefix, a)
			}
		}
	}
}

// TestShellFilesExist: the list of files with I/O names nothing that went, and no room that has only one kind of files.
func TestShellFilesExist(t *testing.T) {
	for dir, files := range shellFiles {
		if room, _ := roomOf(Rooms, dir); room.Kind != Mixed || room.Prefix != dir {
			t.Errorf("%s has shell files and is no room of kind %s", dir, Mixed)
		}
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(root, dir, file)); err != nil {
				t.Errorf("shells.go names %s/%s: %v", dir, file, err)
			}
		}
	}
}

func TestExemptions(t *testing.T) {
	broken := []Violation{{Rule: "init", Subject: "a/a.go", Where: "a/a.go:3", Message: "m"}}
	for name, test := range map[string]struct {
		text string
		want string // what is left, or the error
	}{
		"an exemption with a reason takes the violation out":  {"init a/a.go the library asks for it", ""},
		"comments and empty lines are skipped":                {"# why\n\ninit a/a.go the library asks for it", ""},
		"an exemption for another file changes nothing there": {"init b/b.go the library asks for it", "a/a.go:3 f:1"},
		"without exemptions everything is left":               {"", "a/a.go:3"},
		"an exemption that nothing needs is a violation":      {"init a/a.go the library asks\ninit a/b.go the library asks", "f:2"},
		"a reason is mandatory":                               {"init a/a.go", `f:1: want "rule subject reason", the reason in a few words that convince a reviewer`},
		"one word is no reason":                               {"init a/a.go legacy", `f:1: want "rule subject reason", the reason in a few words that convince a reviewer`},
		"a misspelt rule is said, with all others at once":    {"inti a/a.go the library asks\ninit x", "f:1: there is no rule \"inti\"\nf:2: want \"rule subject reason\", the reason in a few words that convince a reviewer"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			exemptions, err := ParseExemptions("f", test.text)
			if err != nil {
				got = append(got, err.Error())
			} else {
				for _, v := range Exempt(broken, exemptions) {
					got = append(got, v.Where)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// checkFixture loads testdata/<name>.txtar, runs check on it and compares with its want.txt.
func checkFixture(t *testing.T, name string, check func(Repo) []Violation) {
	t.Helper()
	file := filepath.Join("testdata", name+".txtar")
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	repo, want := fixture(t, archive)
	var got strings.Builder
	for _, v := range check(repo) {
		fmt.Fprintln(&got, v)
	}
	if *update {
		want.Data = []byte(got.String())
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want.Data), got.String()); diff != "" {
		t.Errorf("%s, -want +got (-update rewrites):\n%s", file, diff)
	}
}

// fixture turns an archive into a parsed repository. The file links/<binary>.txt lists "package module" of what a
// binary would link.
func fixture(t *testing.T, archive *txtar.Archive) (repo Repo, want *txtar.File) {
	t.Helper()
	source := &txtar.Archive{}
	links := map[string][]Linked{}
	for i, f := range archive.Files {
		binary, isLinks := strings.CutPrefix(f.Name, "links/")
		switch {
		case f.Name == "want.txt":
			want = &archive.Files[i]
		case isLinks:
			binary = strings.TrimSuffix(binary, ".txt")
			for line := range strings.Lines(string(f.Data)) {
				pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
				links[binary] = append(links[binary], Linked{pkg, module})
			}
		default:
			source.Files = append(source.Files, f)
		}
	}
	if want == nil {
		t.Fatal("the archive has no want.txt")
	}
	fsys, err := txtar.FS(source)
	if err != nil {
		t.Fatal(err)
	}
	repo, err = Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	repo.Links = links
	return repo, want
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading the golden file (-update writes it): %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s, -want +got (-update rewrites; each new line needs a reason):\n%s", file, diff)
	}
}
