package source_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ".": "", "./": "", "infra": "infra", "./infra/": "infra", "infra//prod/.": "infra/prod",
		"a..b/…": "a..b/…",
	} {
		if got, err := source.CleanPath(in); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"/infra":       "begins with a slash",
		"../infra":     "contains ..",
		"infra/../x":   "contains ..",
		`infra\prod`:   "backslash",
		"a/.git/hooks": "reserved for git",
		"a\x00":        "control character",
		"\xff":         "not UTF-8",
	} {
		_, err := source.CleanPath(in)
		if err == nil || !strings.Contains(err.Error(), want) ||
			fault.Of(err, "").Reason != v1alpha1.ReasonInvalidSpec {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	f.Add("a/./b//c/")
	f.Fuzz(func(t *testing.T, p string) {
		clean, err := source.CleanPath(p)
		if err != nil {
			return
		}
		again, err := source.CleanPath(clean)
		if err != nil || again != clean || strings.HasPrefix(clean, "/") || strings.Contains("/"+clean+"/", "/../") {
			t.Errorf("%q is cleaned to %q and that to %q, %v", p, clean, again, err)
		}
	})
}

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://host/team/cfg.git":        "https://host/team/cfg.git",
		"https://me:to:k@n@host:8443/cfg":  "https://host:8443/cfg",
		"https://token@host/a%2Fb":         "https://host/a%2Fb",
		"http://[::1]:80/cfg":              "http://[::1]:80/cfg",
		"ssh://git@host:2222/team/cfg.git": "ssh://git@host:2222/team/cfg.git",
		"ssh://host/cfg":                   "ssh://git@host/cfg",
		"git@host:team/cfg.git":            "git@host:team/cfg.git",
		"git@[::1]:cfg":                    "git@[::1]:cfg",
		"/srv/git/cfg.git/":                "/srv/git/cfg.git",
		"file:///srv/git/cfg.git":          "/srv/git/cfg.git",
	} {
		a, err := source.ParseURL(in)
		if err != nil || a.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, a, err, want)
			continue
		}
		if got := source.Redact(in); got != want {
			t.Errorf("%q is redacted to %q", in, got)
		}
		if again, err := source.ParseURL(a.String()); err != nil || again.String() != want {
			t.Errorf("%q reads back as %q, %v", want, again, err)
		}
	}
	for in, want := range map[string]string{
		"":                            "is not the address",
		"cfg":                         "is not the address",
		"./cfg":                       "is not the address",
		"host:cfg":                    "is not the address",
		"git://host/cfg":              "not supported",
		"ext::sh -c secret@x":         "is not the address",
		"ftp://me:secret@host/x":      "not supported",
		"https://me:secret@/x":        "names no repository",
		"https://me:secret@host":      "names no repository",
		"https://me:secret@host/a?b":  "query",
		"https://me:se?cret@host/a":   "cannot be read",
		"https://me:12/secret@host/a": "has an @ after the host",
		"https://me:secret@ho st/a":   "cannot be read",
		"https://me:secret@host:x/a":  "cannot be read",
		"ssh://git:secret@host/a":     "holds a password",
		"file://secret@host/a":        "another machine",
		"https://host/a\nsecret":      "control character",
	} {
		_, err := source.ParseURL(in)
		if err == nil || !strings.Contains(err.Error(), want) || fault.Of(err, "").Kind != fault.Stalled {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret@")) {
			t.Errorf("%q: the error gives the credentials away: %v", in, err)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("https://", "me", "pass", "host/x")
	f.Add("", "git", "a@b:c", "host:x")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		if len(password) < 6 || strings.Contains(rest, password) || strings.Contains(scheme+user, password) {
			return
		}
		const mark = "S3CR3T"
		if got := source.Redact("https://" + user + ":" + mark + password + "@" + rest); strings.Contains(got, mark) {
			t.Errorf("%q %q %q is redacted to %q", user, password, rest, got)
		}
	})
}

// TestADigestIsOfTheFilesAlone: the order in which files come and what was refused do not matter; everything else does.
func TestADigestIsOfTheFilesAlone(t *testing.T) {
	type file struct {
		Path       string
		Executable bool
		Content    []byte
	}
	digest := func(files []file) string {
		v := source.NewInventory(source.Limits{})
		for _, f := range files {
			v.Add(f.Path, f.Executable, f.Content)
		}
		return v.Digest()
	}
	property := func(contents [][]byte, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 1))
		var files []file
		for i, c := range contents {
			files = append(files, file{strings.Repeat("d/", rng.IntN(4)) + string(rune('a'+i)), rng.IntN(2) == 0, c})
		}
		want := digest(files)
		rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		if digest(files) != want {
			return false
		}
		if len(files) == 0 {
			return true
		}
		change := files[0]
		renamed, moded, grown := change, change, change
		renamed.Path += "x"
		moded.Executable = !moded.Executable
		grown.Content = append(grown.Content[:len(grown.Content):len(grown.Content)], 0)
		for _, other := range []file{renamed, moded, grown} {
			if digest(append([]file{other}, files[1:]...)) == want {
				return false
			}
		}
		return digest(files[1:]) != want
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
	if got, want := digest(nil),
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("an empty tree has the digest %s", got)
	}
}

func TestAnInventoryHoldsToItsLimits(t *testing.T) {
	v := source.NewInventory(source.Limits{Entries: 2, Bytes: 10, FileBytes: 6})
	steps := []struct {
		do   func() error
		want string
	}{
		{func() error { _, _, err := v.Enter("", "a"); return err }, ""},
		{func() error { return v.Admit("a", 6) }, ""},
		{func() error { return v.Admit("b", 7) }, "b has 7 bytes, at most 6 for one file"},
		{func() error { return v.Admit("c", 5) }, "the files up to c have more than 10 bytes in all"},
		{func() error { _, _, err := v.Enter("", ".."); return err }, ""},
		{func() error { _, _, err := v.Enter("", "c"); return err }, "more than 2 files and folders"},
	}
	for i, s := range steps {
		err := s.do()
		if s.want == "" && err != nil || s.want != "" && (err == nil || !strings.Contains(err.Error(), s.want)) {
			t.Errorf("step %d: got %v, want %q", i, err, s.want)
		}
		var f *fault.Error
		if err != nil && (!errors.As(err, &f) || f.Reason != v1alpha1.ReasonInvalidTree) {
			t.Errorf("step %d: %v is not InvalidTree", i, err)
		}
	}
	if diff := cmp.Diff([]source.Refusal{{Path: `".."`, Why: "the name stands for another folder"}},
		v.Refused()); diff != "" {
		t.Errorf("refused -want +got\n%s", diff)
	}
}

func TestALongPathIsRefused(t *testing.T) {
	v := source.NewInventory(source.Limits{})
	_, ok, err := v.Enter(strings.Repeat("folder/", 150), "name")
	if ok || err != nil || len(v.Refused()) != 1 {
		t.Errorf("got %v, %v, %v", ok, err, v.Refused())
	}
}

func TestWhatACommitSaysOfItselfIsOneCleanLine(t *testing.T) {
	for in, want := range map[string]string{
		"subject\n\nbody":        "subject",
		"\n\n  subject \r\nbody": "subject",
		"\x1b[31mred\x07\u202e":  "[31mred",
		"\xff\xfe":               "\uFFFD",
		"":                       "",
		strings.Repeat("ü", 300): strings.Repeat("ü", 199) + "…",
	} {
		if got := source.Line(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestATimeThatNoAPIHoldsIsNone(t *testing.T) {
	zone := time.FixedZone("x", 3600)
	for in, want := range map[time.Time]time.Time{
		time.Date(2026, 1, 2, 3, 4, 5, 9, zone): time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
		time.Unix(1<<40, 0):                     {},
		time.Unix(-1, 0):                        {},
	} {
		if got := source.CommitTime(in); !got.Equal(want) {
			t.Errorf("%v is %v, want %v", in, got, want)
		}
	}
}

// TestNestedFoldersAreBounded: who writes a tree has each of the nested folders open.
func TestNestedFoldersAreBounded(t *testing.T) {
	v := source.NewInventory(source.Limits{})
	at := ""
	for range 32 {
		p, ok, err := v.Enter(at, "d")
		if !ok || err != nil {
			t.Fatalf("folder %q is refused: %v", p, err)
		}
		at = p
	}
	if _, ok, err := v.Enter(at, "file"); !ok || err != nil {
		t.Errorf("a file in 32 folders is refused: %v", err)
	}
	below, _, _ := v.Enter(at, "d")
	if _, ok, err := v.Enter(below, "file"); ok || err != nil || len(v.Refused()) != 1 ||
		v.Refused()[0].Why != "it is in 33 nested folders, at most 32" {
		t.Errorf("a file in 33 folders: %v, %v, refused %v", ok, err, v.Refused())
	}
}
