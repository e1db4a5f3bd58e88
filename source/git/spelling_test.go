package git_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source/git"
)

// spellings are a repository in which each form of gitrevisions(7) names something, and one clone of each kind.
type spellings struct {
	*repo
	// twins are two commits whose hashes begin alike, up to the text.
	twins [2]string
	alike string
	// mixed is the beginning of the hash of one commit and of other objects that are no commit.
	mixed string
	// blob is the beginning of the hash of a file alone.
	blob string
}

// newSpellings makes the repository. Dates are fixed, so hashes are the same in each run.
func newSpellings(t testing.TB) spellings {
	t.Helper()
	s := spellings{repo: newRepo(t)}
	r := s.repo
	first := r.commit("first", map[string]string{"a": "1", "pools/b": "1"})
	r.git(r.work, "tag", "-a", "v1", "-m", "annotated")
	r.git(r.work, "tag", "-a", "v1-again", "-m", "a tag of a tag", "v1")
	r.git(r.work, "tag", "light")
	r.git(r.work, "tag", "a-tree", "HEAD^{tree}")
	r.git(r.work, "tag", "-a", "a-file", "-m", "of a file", "HEAD:a")
	r.commit("second", map[string]string{"a": "2"})
	r.git(r.work, "checkout", "-q", "-b", "topic/x", first)
	r.commit("on topic", map[string]string{"c": "1"})
	r.git(r.work, "checkout", "-q", "main")
	r.git(r.work, "merge", "-q", "--no-ff", "-m", "merge", "topic/x")
	r.commit("after the merge", map[string]string{"a": "3"})
	r.git(r.work, "fetch", "-q", "origin")
	r.git(r.work, "branch", "--set-upstream-to=origin/main", "main")
	r.git(r.work, "remote", "set-head", "origin", "main")
	r.git(r.work, "commit", "-q", "--allow-empty", "-m", "fix: not pushed")
	r.git(r.work, "reset", "-q", "--soft", "HEAD~1") // ORIG_HEAD
	r.git(r.work, "branch", "both", "main")
	r.git(r.work, "tag", "both", "main~1")
	r.git(r.work, "branch", "deadbeef", "main~1")
	r.git(r.work, "branch", "x-g"+first[:7], "main")
	r.git(r.work, "branch", "a@b", "topic/x")
	r.git(r.work, "branch", "stash", "topic/x")
	r.git(r.work, "update-ref", "refs/odd", "topic/x")
	r.git(r.work, "update-ref", "refs/bisect/bad", "topic/x")
	r.git(r.work, "branch", "bisect/bad", "main")
	r.git(r.work, "symbolic-ref", "refs/heads/alias", "refs/heads/topic/x")
	r.git(r.work, "symbolic-ref", "refs/heads/dangling", "refs/heads/nothing")
	r.git(r.work, "branch", first[:8], "main") // A branch that looks like another commit.
	r.write(map[string]string{"a": "stashed"})
	r.git(r.work, "stash", "-q")
	s.crowd()
	return s
}

// crowd adds so many commits and files that hashes begin alike, below refs/crowd.
func (s *spellings) crowd() {
	s.t.Helper()
	var in strings.Builder
	for i := range 1500 {
		text := fmt.Sprint("file ", i)
		fmt.Fprintf(&in, "blob\ndata %d\n%s\n", len(text), text)
	}
	for i := range 800 {
		text := fmt.Sprint("commit ", i)
		fmt.Fprintf(&in, "commit refs/crowd\ncommitter A <a@example.com> %d +0000\ndata %d\n%s\n\n", 1700000000+i,
			len(text), text)
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = s.work, gitEnv(), strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	commits, others := map[string][]string{}, map[string]int{}
	all := s.git(s.work, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
	for line := range strings.Lines(all) {
		hash, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "commit" {
			commits[hash[:4]] = append(commits[hash[:4]], hash)
		} else if kind == "blob" || kind == "tree" {
			others[hash[:4]]++
		}
	}
	for short, hashes := range commits {
		switch {
		case len(hashes) == 2 && (s.alike == "" || short < s.alike):
			s.twins, s.alike = [2]string(hashes), short
		case len(hashes) == 1 && others[short] > 0 && (s.mixed == "" || short < s.mixed):
			s.mixed = short
		}
	}
	for short, n := range others {
		if n == 1 && commits[short] == nil && (s.blob == "" || short < s.blob) {
			s.blob = short
		}
	}
	if s.alike == "" || s.mixed == "" || s.blob == "" {
		s.t.Fatal("no hashes begin alike: make more commits")
	}
}

// TestSpellingsOfRevisions: each form of gitrevisions(7) is resolved as the real git resolves it, or is an error that
// says what to write instead. It is never another commit.
func TestSpellingsOfRevisions(t *testing.T) {
	s := newSpellings(t)
	first := s.git(s.work, "rev-parse", "light")
	head := s.git(s.work, "rev-parse", "HEAD")
	// same means that git names a commit, and Bunsen the same one. Any other text is a part of Bunsen's error.
	const same, none = "", "no revision"
	hash, log, files := "Write the hash that `git rev-parse` prints", "the log of this clone", "names a file"
	table := []struct{ spelling, want string }{
		{"HEAD", same},
		{"@", same},
		{"main", same},
		{"heads/main", same},
		{"refs/heads/main", same},
		{"topic/x", same},
		{"light", same},
		{"tags/light", same},
		{"v1", same},
		{"v1-again", same},
		{"refs/tags/v1", same},
		{"origin/main", same},
		{"remotes/origin/main", same},
		{"refs/remotes/origin/main", same},
		{"origin", same},
		{"origin/HEAD", same},
		{"refs/odd", same},
		{"odd", same},
		{"crowd", same},
		{"alias", same},
		{"dangling", none},
		{"both", same},
		{"heads/both", same},
		{"tags/both", same},
		{"a@b", same},
		{"deadbeef", same},
		{"stash", same},
		{"ORIG_HEAD", same},
		{"FETCH_HEAD", same},
		{first, same},
		{strings.ToUpper(first), same},
		{first[:39], same},
		{first[:12], same},
		{strings.ToUpper(first[:12]), same},
		{first[:9], same},
		{first[:8], same}, // The branch of that name.
		{first[:3], none},
		{s.mixed, same},
		{s.mixed + "^0", same},
		{s.alike, s.twins[0]},
		{s.alike + "~1", s.twins[1]},
		{s.twins[0], same},
		{s.blob, "names no commit"},
		{"v1-1-g" + head[:10], same},
		{"anything-g" + head[:10], same},
		{"x-g" + first[:7], same}, // The branch of that name.
		{"HEAD^", same},
		{"@^", same},
		{"@~2", same},
		{"HEAD^0", same},
		{"HEAD~0", same},
		{"HEAD^1", same},
		{"HEAD~", same},
		{"HEAD~1^2", same},
		{"HEAD~1^3", "has no parent 3"},
		{"HEAD^^^", same},
		{"HEAD~99", "is the first commit"},
		{"HEAD^^2~1", same},
		{"HEAD~99999999999999999999", "too large"},
		{"v1^", "is the first commit"},
		{"v1^0", same},
		{"v1~0", same},
		{"v1^{}", same},
		{"v1^{commit}", same},
		{"v1^{object}", same},
		{"v1^{tag}", same},
		{"v1-again^{tag}", same},
		{"light^{tag}", "is no annotated tag"},
		{"HEAD^{}", same},
		{"HEAD^{commit}", same},
		{"HEAD^{commit}~1", same},
		{"HEAD^{tree}", "names a tree"},
		{"HEAD^{blob}", "names a blob"},
		{"HEAD^{nonsense}", "Write the revision alone"},
		{"a-tree", "names no commit"},
		{"a-file", "names no commit"},
		{"@{u}", "such as origin/main"},
		{"@{U}", "such as origin/main"},
		{"main@{u}", "such as origin/main"},
		{"main@{upstream}", "such as origin/main"},
		{"@{push}", "such as origin/main"},
		{"main@{push}", "such as origin/main"},
		{"@{1}", log},
		{"@{0}", log},
		{"HEAD@{1}", log},
		{"main@{1}", log},
		{"stash@{0}", log},
		{"main@{yesterday}", log},
		{"HEAD@{5 minutes ago}", log},
		{"main@{1}~1", log},
		{"@{-1}", "checked out before"},
		{"-", "full name"},
		{":/fix", hash},
		{":/on topic", hash},
		{"HEAD^{/on topic}", hash},
		{"HEAD^{/x..y}", hash},
		{"main..topic/x", "A...B"},
		{"..main", "A...B"},
		{"main..", "A...B"},
		{"main...topic/x", "as their only argument"},
		{"^main", "leave out"},
		{"HEAD^@", "REVISION^1"},
		{"HEAD^!", "REVISION^1"},
		{"HEAD^-", "REVISION^1"},
		{"HEAD~1^-2", "REVISION^1"},
		{"HEAD:a", files},
		{":a", files},
		{":0:a", files},
		{"main:", files},
		{"--", "full name"},
		{"--all", "full name"},
		{"--branches=main", "full name"},
		{"nothing", none},
		{"head~1", none},
		{"config", none},
		{"refs", none},
		{"refs/heads", none},
		{"refs//heads//main", none},
		{"../.git/refs/heads/main", "A...B"},
		{"main ", none},
		{" main", none},
		{"main/", none},
		{"/main", none},
		{strings.Repeat("0", 40), none},
	}
	for _, clone := range s.clones() {
		for _, row := range table {
			t.Run(filepath.Base(clone)+" "+row.spelling, func(t *testing.T) {
				_, got, err := (git.LocalRevision{Repository: clone, Revision: row.spelling}).Resolve(t.Context())
				switch {
				case row.want == same:
					want, gitErr := gitCmd(clone, "-c", "core.warnAmbiguousRefs=false", "log", "-1", "--format=%H",
						"--end-of-options", row.spelling, "--")
					if err != nil || gitErr != nil || got.String() != want {
						t.Errorf("got %s, %v; git says %s, %v", got, err, want, gitErr)
					}
				case err == nil:
					t.Errorf("got %s; want an error with %q", got, row.want)
				case !strings.Contains(err.Error(), row.want):
					t.Errorf("got %v; want it to contain %q", err, row.want)
				}
			})
		}
	}
}

// clones returns the repository with loose objects, a linked work tree, a clone that borrows its objects, and at last
// the repository with packed refs and objects.
func (s spellings) clones() (dirs []string) {
	packed, linked, borrows := filepath.Join(s.root, "packed"), filepath.Join(s.root, "linked"),
		filepath.Join(s.root, "borrows")
	if err := os.CopyFS(packed, os.DirFS(s.work)); err != nil {
		s.t.Fatal(err)
	}
	s.git(packed, "gc", "-q")
	s.git(s.work, "worktree", "add", "-q", "--detach", linked, "main")
	if err := os.CopyFS(borrows, os.DirFS(packed)); err != nil {
		s.t.Fatal(err)
	}
	for _, of := range []string{"info", "pack"} {
		if err := os.RemoveAll(filepath.Join(borrows, ".git/objects", of)); err != nil {
			s.t.Fatal(err)
		}
	}
	list := filepath.Join(borrows, ".git/objects/info/alternates")
	if err := os.MkdirAll(filepath.Dir(list), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(list, []byte(filepath.Join(packed, ".git/objects")+"\n"), 0o644); err != nil {
		s.t.Fatal(err)
	}
	for name, ref := range map[string]string{"ORIG_HEAD": "main", "FETCH_HEAD": "topic/x"} {
		if name == "ORIG_HEAD" {
			s.git(linked, "update-ref", name, ref)
			continue
		}
		s.git(linked, "fetch", "-q", "origin", ref)
	}
	return []string{s.work, packed, linked, borrows}
}

// TestARefOfOneWorkTree: refs/bisect/bad of a linked work tree is not the one of another work tree.
func TestARefOfOneWorkTree(t *testing.T) {
	s := newSpellings(t)
	linked := s.clones()[2]
	at := git.LocalRevision{Repository: linked, Revision: "bisect/bad"}
	_, got, err := at.Resolve(t.Context())
	if want := s.git(linked, "rev-parse", "refs/heads/bisect/bad"); err != nil || got.String() != want {
		t.Errorf("without a ref of its own: got %s, %v; want the branch, %s", got, err, want)
	}
	s.git(linked, "update-ref", "refs/bisect/bad", "HEAD~1")
	if _, got, err = at.Resolve(t.Context()); err == nil || !strings.Contains(err.Error(), "each work tree") {
		t.Errorf("with a ref of its own: got %s, %v", got, err)
	}
}

// TestRandomSpellings: whatever is put together from the parts of gitrevisions(7) is git's commit or an error.
func TestRandomSpellings(t *testing.T) {
	s := newSpellings(t)
	first := s.git(s.work, "rev-parse", "light")
	names := []string{
		"HEAD", "@", "main", "topic/x", "v1", "v1-again", "light", "both", "a-tree", "a-file", "origin", "origin/main",
		"stash", "deadbeef", "alias", "dangling", first, first[:8], first[:10], s.alike, s.mixed, s.blob,
		"x-g" + first[:7],
		"y-3-g" + first[:9], "ORIG_HEAD", "nothing", "",
	}
	ends := []string{
		"^", "~", "^^", "^0", "~0", "^1", "^2", "^3", "~2", "~3", "^{}", "^{commit}", "^{tag}", "^{object}", "^{tree}",
		"@{0}", "^{/first}", ":a", "^@", "^!", "^-", "..main", "...main", "^{commit", "~x", "/", ".",
	}
	random := rand.New(rand.NewPCG(1, 2))
	var texts []string
	for range 1000 {
		text := names[random.IntN(len(names))]
		for range random.IntN(4) {
			text += ends[random.IntN(len(ends))]
		}
		if text != "" { // Nothing is HEAD.
			texts = append(texts, text)
		}
	}
	cmd := exec.Command("git", "cat-file", "--batch-check=%(objectname)")
	cmd.Dir, cmd.Env = s.work, gitEnv()
	cmd.Stdin = strings.NewReader(strings.Join(texts, "^{commit}\n") + "^{commit}\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("git answered %d lines for %d revisions", len(lines), len(texts))
	}
	equal := 0
	for i, text := range texts {
		_, got, err := (git.LocalRevision{Repository: s.work, Revision: text}).Resolve(t.Context())
		switch {
		case err == nil && got.String() != lines[i]:
			t.Errorf("%q: got %s; git says %s", text, got, lines[i])
		case err == nil:
			equal++
		case !strings.Contains(lines[i], " ") && !strings.Contains(err.Error(), "not supported"):
			t.Errorf("%q: got %v; git says %s", text, err, lines[i])
		}
	}
	if equal < 100 {
		t.Errorf("only %d of %d revisions were found", equal, len(texts))
	}
}

// FuzzSpelling: any text is git's commit or an error, and never leads out of the repository.
func FuzzSpelling(f *testing.F) {
	s := newSpellings(f)
	known := map[string]bool{}
	for _, hash := range strings.Fields(s.git(s.work, "rev-list", "--all", "--reflog")) {
		known[hash] = true
	}
	for _, text := range []string{
		"HEAD", "@~2", "v1^{}", "v1-again^{tag}", s.alike, s.mixed, "HEAD~99999999999999999999", "HEAD^{/x..y}",
		"main...topic/x", "HEAD^-", ":0:a", "--all", "../.git/refs/heads/main", "refs//heads//main", "@{-1}", "a\x00b",
		"HEAD^{commit}^{commit}~1^2", "y-3-gdeadbeef", "stash@{0}", strings.Repeat("^", 10_000),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, got, err := (git.LocalRevision{Repository: s.work, Revision: text}).Resolve(t.Context())
		if err == nil && !known[got.String()] {
			t.Errorf("%q is %s, which is no commit of the repository", text, got)
		}
		if err != nil && got.String() != strings.Repeat("0", 40) {
			t.Errorf("%q is both %s and an error: %v", text, got, err)
		}
	})
}

func TestAShallowCloneSaysSo(t *testing.T) {
	r := newRepo(t)
	r.commit("first", map[string]string{"a": "1"})
	r.commit("second", map[string]string{"a": "2"})
	r.git(r.root, "clone", "-q", "--depth=1", "file://"+r.bare, "shallow")
	at := git.LocalRevision{Repository: filepath.Join(r.root, "shallow"), Revision: "HEAD^"}
	if _, got, err := at.Resolve(t.Context()); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("got %s, %v", got, err)
	}
}
