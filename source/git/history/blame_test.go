package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/history"
)

// gitEnv makes the git binary independent of the user's configuration.
func gitEnv() []string {
	return append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always")
}

func gitCmd(dir string, args ...string) (string, error) {
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, gitEnv()
	out, err := c.CombinedOutput()
	return string(out), err
}

// imported makes a bare repository of a fast-import stream.
func imported(t testing.TB, commands string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := gitCmd(dir, "init", "-q", "--bare", "-b", "main", "."); err != nil {
		t.Fatalf("making a repository: %v\n%s", err, out)
	}
	c := exec.Command("git", "fast-import", "--quiet")
	c.Dir, c.Env, c.Stdin = dir, gitEnv(), strings.NewReader(commands)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("importing: %v\n%s", err, out)
	}
	return dir
}

// stream writes a fast-import stream.
type stream struct {
	b       strings.Builder
	commits int
}

// commit adds one to a branch; its changes are lines of fast-import.
func (h *stream) commit(branch, from string, merge []string, changes ...string) {
	h.commits++
	fmt.Fprintf(&h.b, "commit refs/heads/%s\nmark :%d\nauthor Ada <ada@example.org> %d +0000\n"+
		"committer Bot <bot@example.org> %[3]d +0000\n%s",
		branch, h.commits, 1700000000+h.commits*60, data(fmt.Sprint("commit ", h.commits)))
	if from != "" {
		fmt.Fprintf(&h.b, "from %s\n", from)
	}
	for _, m := range merge {
		fmt.Fprintf(&h.b, "merge %s\n", m)
	}
	for _, c := range changes {
		h.b.WriteString(c)
	}
	h.b.WriteString("\n")
}

func data(text string) string { return fmt.Sprintf("data %d\n%s\n", len(text), text) }

func file(path, text string) string { return "M 100644 inline " + path + "\n" + data(text) }

// porcelain returns what git blame answers.
func porcelain(t *testing.T, dir, path string) map[int]string {
	t.Helper()
	out, err := gitCmd(dir, "blame", "--line-porcelain", "HEAD", "--", path)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := map[int]string{}
	for _, line := range strings.Split(out, "\n") {
		words := strings.Fields(line)
		if len(words) < 3 || len(words[0]) != 40 || strings.HasPrefix(line, "\t") {
			continue
		}
		if n, err := strconv.Atoi(words[2]); err == nil {
			found[n] = words[0] + " " + words[1]
		}
	}
	return found
}

// blamed returns what Blame answers, in the same form.
func blamed(t *testing.T, dir, path string, lines int) map[int]string {
	t.Helper()
	h, err := history.Open(t.Context(), git.LocalRevision{Repository: dir})
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for i := range lines {
		all = append(all, i+1)
	}
	got, err := h.Blame(t.Context(), history.Query{File: path, Lines: all})
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]string{}
	for n, b := range got {
		out[n] = fmt.Sprint(b.Commit.Hash, " ", b.Line)
	}
	return out
}

// TestBlameIsGits holds Blame against git's own on random histories with branches and merges. A version of the file is
// a set of lines of which each has its own place, so that there is one way alone to say what a change left as it was.
func TestBlameIsGits(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	merges := 0
	for n := range 25 {
		var h stream
		versions := map[int]map[int]bool{}
		fresh := 0
		for i := 1; i <= 40; i++ {
			lines, from, others := map[int]bool{}, "", []string(nil)
			if i > 1 {
				p := max(1, i-1-r.Intn(4))
				from = fmt.Sprint(":", p)
				maps.Copy(lines, versions[p])
				if q := max(1, i-1-r.Intn(6)); q != p && r.Intn(3) == 0 {
					others = append(others, fmt.Sprint(":", q))
					merges++
					if r.Intn(4) == 0 {
						lines = maps.Clone(versions[q])
					} else {
						maps.Copy(lines, versions[q])
					}
				}
			}
			for range r.Intn(4) {
				fresh++
				lines[r.Intn(1000)*1000+fresh] = true
			}
			for l := range maps.Clone(lines) {
				if r.Intn(8) == 0 {
					delete(lines, l)
				}
			}
			lines[0] = true
			versions[i] = lines
			h.commit("main", from, others, file("pools/worker/a.bu", text(lines)), file("other", fmt.Sprint(i)))
		}
		dir := imported(t, h.b.String())
		want := porcelain(t, dir, "pools/worker/a.bu")
		if got := blamed(t, dir, "pools/worker/a.bu", len(want)); !maps.Equal(got, want) {
			t.Fatalf("history %d: got %v\nwant %v\n%s", n, got, want, h.b.String())
		}
	}
	if merges < 100 {
		t.Errorf("only %d merges: the test has lost its subject", merges)
	}
}

func text(lines map[int]bool) string {
	var b strings.Builder
	for _, l := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintln(&b, "line", l)
	}
	return b.String()
}

func TestBlameOfLinesThatRepeatThemselves(t *testing.T) {
	var h stream
	h.commit("main", "", nil, file("a", "x\n\ny\n\nz\n"))
	h.commit("main", ":1", nil, file("a", "x\n\nnew\n\ny\n\nz\n"))
	h.commit("main", ":2", nil, file("a", "x\n\nnew\n\ny\n\nz\nno line break"))
	dir := imported(t, h.b.String())
	want := porcelain(t, dir, "a")
	if len(want) != 8 {
		t.Fatalf("git blames %d lines", len(want))
	}
	got := blamed(t, dir, "a", 8)
	for _, n := range []int{1, 3, 5, 7, 8} { // which of the empty lines is new is ambiguous
		if got[n] != want[n] {
			t.Errorf("line %d: got %s, want %s", n, got[n], want[n])
		}
	}
}

func TestBlameFollowsAFileThatWasMoved(t *testing.T) {
	var h stream
	h.commit("main", "", nil, file("base/10-a.bu", "one\ntwo\n"), file("copy", "one\ntwo\n"))
	h.commit("main", ":1", nil, file("base/10-a.bu", "one\nTWO\n"))
	h.commit("main", ":2", nil, "D base/10-a.bu\n", file("pools/worker/10-a.bu", "one\nTWO\n"))
	h.commit("main", ":3", nil, file("pools/worker/10-a.bu", "one\nTWO\nthree\n"))
	dir := imported(t, h.b.String())
	want := porcelain(t, dir, "pools/worker/10-a.bu")
	if got := blamed(t, dir, "pools/worker/10-a.bu", 3); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	at, err := history.Open(t.Context(), git.LocalRevision{Repository: dir, Path: "pools"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := at.Blame(t.Context(), history.Query{File: "worker/10-a.bu", Lines: []int{2}})
	if err != nil || got[2].File != "base/10-a.bu" || got[2].Commit.Subject != "commit 2" ||
		got[2].Commit.Author != "Ada <ada@example.org>" {
		t.Errorf("got %+v, %v", got[2], err)
	}
}

func TestBlameOfTheWorkTree(t *testing.T) {
	var h stream
	h.commit("main", "", nil, file("a", "one\ntwo\n"))
	h.commit("main", ":1", nil, file("a", "one\ntwo\nthree\n"))
	h.commit("main", ":2", nil, file("b", "x\n"))
	dir := imported(t, h.b.String())
	open, err := history.Open(t.Context(), git.LocalRevision{Repository: dir})
	if err != nil {
		t.Fatal(err)
	}
	for sentence, c := range map[string]struct {
		file, text string
		line       int
		want       string
	}{
		"an old line that moved down":              {"a", "zero\none\ntwo\nthree\n", 2, "commit 1"},
		"a line that is not committed yet":         {"a", "zero\none\ntwo\nthree\n", 1, ""},
		"a file that is not committed yet":         {"new", "one\n", 1, ""},
		"a whole file as committed":                {"a", "one\ntwo\nthree\n", 0, "commit 2"},
		"a whole file that changed since":          {"a", "one\n", 0, ""},
		"a whole file that is not committed":       {"new", "one\n", 0, ""},
		"a line of the revision":                   {"a", "", 3, "commit 2"},
		"a whole file of the revision":             {"a", "", 0, "commit 2"},
		"a whole file that one commit alone wrote": {"b", "", 0, "commit 3"},
	} {
		q := history.Query{File: c.file, Lines: []int{c.line}}
		if c.text != "" {
			q.Text = []byte(c.text)
		}
		got, err := open.Blame(t.Context(), q)
		if err != nil || got[c.line].Commit.Subject != c.want {
			t.Errorf("%s: got %+v, %v; want %q", sentence, got[c.line], err, c.want)
		}
	}
	for sentence, q := range map[string]history.Query{
		"a line beyond the end": {File: "a", Lines: []int{4}},
		"a file that is none":   {File: "nothing", Lines: []int{1}},
		"a folder":              {File: "", Lines: []int{0}},
	} {
		if _, err := open.Blame(t.Context(), q); !errors.Is(err, history.ErrNoSuchLine) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

func TestBlameEndsWhereAShallowCloneEnds(t *testing.T) {
	var h stream
	h.commit("main", "", nil, file("a", "one\n"))
	h.commit("main", ":1", nil, file("a", "one\ntwo\n"))
	h.commit("main", ":2", nil, file("a", "one\ntwo\nthree\n"))
	clone := t.TempDir()
	if out, err := gitCmd(clone, "clone", "-q", "--bare", "--depth=2", "file://"+imported(t, h.b.String()),
		"."); err != nil {
		t.Fatal(out, err)
	}
	want := porcelain(t, clone, "a")
	if got := blamed(t, clone, "a", 3); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// long is a repository of n commits, of which every hundredth changes the file asked for.
func long(t testing.TB, n int) string {
	var h stream
	lines := bytes.Repeat([]byte("line of some length\n"), 30)
	for i := 1; i <= n; i++ {
		from := ""
		if i > 1 {
			from = fmt.Sprint(":", i-1)
		}
		changes := []string{file(fmt.Sprintf("pools/p%d/%d.bu", i%20, i%200), fmt.Sprint("version ", i, "\n"))}
		if i%100 == 1 {
			changes = append(changes, file("pools/worker/a.bu", fmt.Sprint(string(lines), "version ", i, "\n")))
		}
		if i == 1 {
			for j := range 2000 {
				changes = append(changes, file(fmt.Sprintf("base/d%d/%d.bu", j%40, j), fmt.Sprint("file ", j, "\n")))
			}
		}
		h.commit("main", from, nil, changes...)
	}
	dir := imported(t, h.b.String())
	if out, err := gitCmd(dir, "repack", "-adfq"); err != nil { // deltas as deep as they get
		t.Fatal(out, err)
	}
	return dir
}

// BenchmarkBlame prints what a question costs in a repository of 10,000 commits.
func BenchmarkBlame(b *testing.B) {
	dir := long(b, 10000)
	for b.Loop() {
		h, err := history.Open(b.Context(), git.LocalRevision{Repository: dir})
		if err != nil {
			b.Fatal(err)
		}
		got, err := h.Blame(b.Context(), history.Query{File: "pools/worker/a.bu", Lines: []int{1, 31}})
		if err != nil || got[1].Commit.Subject != "commit 1" || got[31].Commit.Subject != "commit 9901" {
			b.Fatal(got, err)
		}
	}
}

func TestARepositoryWithoutAllOfItsHistoryIsKnown(t *testing.T) {
	var h stream
	h.commit("main", "", nil, file("a", "one\n"))
	h.commit("main", "", nil, file("a", "one\ntwo\n"))
	whole, shallow := imported(t, h.b.String()), t.TempDir()
	if out, err := gitCmd(".", "clone", "-q", "--depth", "1", "file://"+whole, shallow); err != nil {
		t.Fatalf("cloning: %v\n%s", err, out)
	}
	for dir, want := range map[string]bool{whole: false, shallow: true} {
		commits, err := history.Open(t.Context(), git.LocalRevision{Repository: dir, Revision: "main"})
		if err != nil {
			t.Fatal(err)
		}
		if commits.IsShallow() != want {
			t.Errorf("shallow: %v, want %v", !want, want)
		}
	}
}
