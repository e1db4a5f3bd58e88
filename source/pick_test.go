package source_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

func sha(c string) string { return strings.Repeat(c, 40) }

// refs is a repository with two branches, a pull request and tags, one of them annotated.
func refs() []source.Ref {
	return []source.Ref{
		{Name: "HEAD", Hash: sha("a"), Target: "refs/heads/main"},
		{Name: "refs/heads/main", Hash: sha("a")},
		{Name: "refs/heads/next", Hash: sha("b")},
		{Name: "refs/heads/team/x@y", Hash: sha("9")},
		{Name: "refs/pull/7/head", Hash: sha("c")},
		{Name: "refs/tags/v1.4.0", Hash: sha("d")},
		{Name: "refs/tags/v1.4.10", Hash: sha("e"), Peeled: sha("f")},
		{Name: "refs/tags/v1.4.9", Hash: sha("0")},
		{Name: "refs/tags/v1.5.0-rc.1", Hash: sha("1")},
		{Name: "refs/tags/v2.0.0", Hash: sha("2")},
		{Name: "refs/tags/stable", Hash: sha("3"), Peeled: sha("4")},
	}
}

func TestPick(t *testing.T) {
	type want = v1alpha1.GitRef
	for name, test := range map[string]struct {
		want     want
		revision string
		full     string
	}{
		"nothing asked is HEAD, named by its branch": {want{}, "main@sha1:" + sha("a"), "refs/heads/main"},
		"a branch":                       {want{Branch: "next"}, "next@sha1:" + sha("b"), "refs/heads/next"},
		"a branch with an @ in its name": {want{Branch: "team/x@y"}, "team/x@y@sha1:" + sha("9"), "refs/heads/team/x@y"},
		"a tag":                          {want{Tag: "v1.4.0"}, "v1.4.0@sha1:" + sha("d"), "refs/tags/v1.4.0"},
		"an annotated tag is the commit behind it": {want{Tag: "stable"}, "stable@sha1:" + sha("4"), "refs/tags/stable"},
		"a full name":                                     {want{Name: "refs/pull/7/head"}, "refs/pull/7/head@sha1:" + sha("c"), "refs/pull/7/head"},
		"a full name of a branch is shortened":            {want{Name: "refs/heads/next"}, "next@sha1:" + sha("b"), "refs/heads/next"},
		"versions are numbers, and annotated tags peeled": {want{SemVer: "~1.4"}, "v1.4.10@sha1:" + sha("f"), "refs/tags/v1.4.10"},
		"a pre-release is not in a plain range":           {want{SemVer: ">=1.0 <2.0.0"}, "v1.4.10@sha1:" + sha("f"), "refs/tags/v1.4.10"},
		"a pre-release is in a range that has one":        {want{SemVer: ">=1.5.0-0 <2.0.0-0"}, "v1.5.0-rc.1@sha1:" + sha("1"), "refs/tags/v1.5.0-rc.1"},
		"any version":                                     {want{SemVer: "*"}, "v2.0.0@sha1:" + sha("2"), "refs/tags/v2.0.0"},
		"a commit that no ref points at":                  {want{Commit: sha("5")}, "sha1:" + sha("5"), ""},
		"a commit that one points at":                     {want{Commit: sha("b")}, "sha1:" + sha("b"), "refs/heads/next"},
		"a commit on a branch":                            {want{Commit: sha("5"), Branch: "main"}, "sha1:" + sha("5"), "refs/heads/main"},
		"commit wins over all":                            {want{Commit: sha("5"), Name: "refs/heads/next", SemVer: "*", Tag: "stable", Branch: "main"}, "sha1:" + sha("5"), "refs/heads/next"},
		"name wins over semver":                           {want{Name: "refs/heads/next", SemVer: "*", Tag: "stable", Branch: "main"}, "next@sha1:" + sha("b"), "refs/heads/next"},
		"semver wins over tag":                            {want{SemVer: "~1.4", Tag: "stable", Branch: "main"}, "v1.4.10@sha1:" + sha("f"), "refs/tags/v1.4.10"},
		"tag wins over branch":                            {want{Tag: "stable", Branch: "main"}, "stable@sha1:" + sha("4"), "refs/tags/stable"},
	} {
		t.Run(name, func(t *testing.T) {
			// The order of a listing means nothing.
			all := refs()
			rand.New(rand.NewPCG(1, uint64(len(name)))).Shuffle(len(all), func(i, j int) {
				all[i], all[j] = all[j], all[i]
			})
			got, err := source.Pick(all, test.want)
			if err != nil {
				t.Fatal(err)
			}
			if got.Revision().String() != test.revision || got.FullName != test.full {
				t.Errorf("got %s by %s, want %s by %s", got.Revision(), got.FullName, test.revision, test.full)
			}
		})
	}
}

func TestWhatCannotBePickedSaysWhatThereIs(t *testing.T) {
	type want = v1alpha1.GitRef
	many := refs()
	for c := range 15 {
		many = append(many, source.Ref{Name: "refs/heads/z" + string(rune('a'+c)), Hash: sha("8")})
	}
	for name, test := range map[string]struct {
		refs   []source.Ref
		want   want
		reason string
		text   string
	}{
		"an unknown branch":     {refs(), want{Branch: "x"}, v1alpha1.ReasonRefNotFound, `no branch "x"; the repository has: main, next, team/x@y`},
		"an unknown tag":        {refs(), want{Tag: "v9"}, v1alpha1.ReasonRefNotFound, `no tag "v9"; the repository has: stable, v1.4.0, v1.4.10, v1.4.9, v1.5.0-rc.1, v2.0.0`},
		"an unknown name":       {refs(), want{Name: "refs/pull/8/head"}, v1alpha1.ReasonRefNotFound, `no ref "refs/pull/8/head"; the repository has the branches: main, next, team/x@y`},
		"a short name":          {refs(), want{Name: "main"}, v1alpha1.ReasonInvalidSpec, `name "main" is not a full ref name: write refs/heads/main for the branch, or set branch instead of name`},
		"no version matches":    {refs(), want{SemVer: "~3.0"}, v1alpha1.ReasonRefNotFound, `no tag matches "~3.0"; the repository's versions are v2.0.0, v1.5.0-rc.1, v1.4.10, v1.4.9, v1.4.0`},
		"no tag is a version":   {refs()[:3], want{SemVer: "~3.0"}, v1alpha1.ReasonRefNotFound, `no tag matches "~3.0", and no tag is a version; the repository has: none`},
		"a range that is none":  {refs(), want{SemVer: "about one"}, v1alpha1.ReasonInvalidSpec, `semver "about one" is not a range of versions, such as ~1.4 or >=1.2 <2: improper constraint: "about one"`},
		"half a commit":         {refs(), want{Commit: "abc"}, v1alpha1.ReasonInvalidSpec, `commit "abc" is not a full hash: give all 40 hex digits in lower case`},
		"no HEAD":               {refs()[1:], want{}, v1alpha1.ReasonRefNotFound, `the repository has no default branch: set ref.branch; it has: main, next, team/x@y`},
		"HEAD without a commit": {append(refs()[2:3:3], source.Ref{Name: "HEAD", Target: "refs/heads/trunk"}), want{}, v1alpha1.ReasonRefNotFound, `the default branch "trunk" has no commit: push to it or set ref.branch; the repository has: next`},
		"an empty repository":   {nil, want{Branch: "main"}, v1alpha1.ReasonRefNotFound, "the repository is empty: push a commit"},
		"very many branches":    {many, want{Branch: "x"}, v1alpha1.ReasonRefNotFound, `no branch "x"; the repository has: main, next, team/x@y, za, zb, zc, zd, ze, zf, zg and 8 more`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := source.Pick(test.refs, test.want)
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Stalled || f.Reason != test.reason || err.Error() != test.text {
				t.Errorf("got  %v\nwant %v", err, test.text)
			}
		})
	}
}

func TestAHeadThatIsDetachedIsFollowedAsHead(t *testing.T) {
	got, err := source.Pick([]source.Ref{{Name: "HEAD", Hash: sha("a")}}, v1alpha1.GitRef{})
	if err != nil || got.Revision().String() != "HEAD@sha1:"+sha("a") {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTwoSpellingsOfOneVersionDoNotDependOnTheOrder(t *testing.T) {
	a, b := source.Ref{Name: "refs/tags/1.4.0", Hash: sha("a")}, source.Ref{Name: "refs/tags/v1.4.0", Hash: sha("b")}
	one, err1 := source.Pick([]source.Ref{a, b}, v1alpha1.GitRef{SemVer: "1.x"})
	two, err2 := source.Pick([]source.Ref{b, a}, v1alpha1.GitRef{SemVer: "1.x"})
	if one != two || err1 != nil || err2 != nil {
		t.Errorf("got %v and %v, %v %v", one, two, err1, err2)
	}
}

// TestARevisionReadsBack is the invariant of a Commit's textual form.
func TestARevisionReadsBack(t *testing.T) {
	property := func(ref string, digits [20]byte) bool {
		hash := ""
		for _, d := range digits {
			hash += string("0123456789abcdef"[d>>4]) + string("0123456789abcdef"[d&15])
		}
		r := source.Revision{Ref: ref, Hash: hash}
		got, err := source.ParseRevision(r.String())
		return err == nil && got == r
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"", "main", "main@", "main@sha1:abc", "sha256:" + sha("a"), "main@sha1:" + sha("A"),
		sha("a"),
	} {
		if got, err := source.ParseRevision(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, got)
		}
	}
}

func FuzzParseRevision(f *testing.F) {
	f.Add("main@sha1:" + sha("a"))
	f.Add("sha1:" + sha("a"))
	f.Add("a@b@sha1:" + sha("0"))
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := source.ParseRevision(s); err == nil && r.String() != s && "@"+r.String() != s {
			t.Errorf("%q reads as %q", s, r)
		}
	})
}

func TestJitterIsSpreadAndKnown(t *testing.T) {
	const interval = time.Minute
	var tenths [10]int
	for i := range 10_000 {
		seed := "source-" + string(rune('a'+i%26)) + time.Duration(i).String()
		j := source.Jitter(interval, seed)
		if j != source.Jitter(interval, seed) {
			t.Fatalf("seed %q gives two answers", seed)
		}
		if j < 0 || j > interval/10 {
			t.Fatalf("seed %q gives %v, beyond a tenth of %v", seed, j, interval)
		}
		tenths[min(9, int(j*10/(interval/10)))]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 {
			t.Errorf("of 10000 seeds %d fall into tenth %d: %v", n, i, tenths)
		}
	}
	for _, odd := range []time.Duration{0, -time.Second, 1, 5} {
		if j := source.Jitter(odd, "x"); j != 0 {
			t.Errorf("interval %v is spread by %v", odd, j)
		}
	}
	if got := source.NextPoll(interval, "x"); got < interval || got > interval*11/10 {
		t.Errorf("next poll in %v", got)
	}
}
