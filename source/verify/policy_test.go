package verify_test

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

func hashOf(kind, raw string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(raw), raw)))
}

// plainTag is an annotated tag of a commit as git writes one, unsigned.
func plainTag(name, commit string) string {
	return "object " + hashOf("commit", commit) + "\ntype commit\ntag " + name +
		"\ntagger Ada Lovelace <ada@example.com> 1735776000 +0000\n\nrelease " + name + "\n"
}

func tagBySSH(raw string, by ssh.Signer) string { return raw + sshSignature{}.over(raw, by) }

// subject returns the plain commit with another subject.
func subject(text string) string { return strings.Replace(plain, "time: chrony everywhere", text, 1) }

// TestPolicy: what each mode requires, and what the refusals say.
func TestPolicy(t *testing.T) {
	p := everybody()
	signedHead, unsigned := bySSH(plain, p.alice), plain
	byAlice, byBob := "ssh "+fingerprint(p.alice)+" (alice@example.com)", "ssh "+fingerprint(p.bob)+
		" (bob@example.com,robert@example.com)"
	byAda := fmt.Sprintf("pgp %X (Ada <ada@example.com>)", p.ada.PrimaryKey.Fingerprint)
	tagged := func(ref, commit, tag string) source.Evidence {
		return source.Evidence{Ref: ref, Commit: []byte(commit), Tag: []byte(tag), Added: [][]byte{[]byte(commit)}}
	}
	head := func(commit string) source.Evidence {
		return source.Evidence{Ref: "refs/heads/main", Commit: []byte(commit), Added: [][]byte{[]byte(commit)}}
	}
	const applied = "1111111111111111111111111111111111111111"
	since := func(descent source.Descent, newestFirst ...string) source.Evidence {
		e := head(newestFirst[0])
		e.Applied, e.Descent, e.Added = applied, descent, nil
		for _, raw := range newestFirst {
			e.Added = append(e.Added, []byte(raw))
		}
		return e
	}
	first, second := bySSH(subject("first"), p.alice), bySSH(subject("second"), p.bob)
	v1 := func(commit string) string { return tagBySSH(plainTag("v1", commit), p.alice) }
	for name, test := range map[string]struct {
		verify  v1alpha1.Verification
		given   source.Evidence
		signer  string
		refused []string
		retry   bool
	}{
		"head: signed":                          {given: head(signedHead), signer: byAlice},
		"head: not signed":                      {given: head(unsigned), refused: []string{"the commit is not signed", "git commit -S"}},
		"head: a signed tag is not enough":      {given: tagged("refs/tags/v1", unsigned, v1(unsigned)), refused: []string{"the commit is not signed", "verify.mode Tag"}},
		"head: the commits before it count not": {given: since(source.Descends, second, subject("unsigned"), first), signer: byBob},

		"tag: signed, the commit is not": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", unsigned, v1(unsigned)), signer: byAlice},
		"tag: signed by OpenPGP":         {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", unsigned, plainTag("v1", unsigned)+pgpOver(plainTag("v1", unsigned), p.ada)), signer: byAda},
		"tag: not signed, the commit is": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", signedHead, plainTag("v1", signedHead)), refused: []string{`the tag "v1" is not signed`, "git tag -s"}},
		"tag: lightweight":               {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: source.Evidence{Ref: "refs/tags/v1", Commit: []byte(signedHead)}, refused: []string{`the tag "v1" is not signed`, "no object of its own"}},
		"tag: a branch":                  {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: head(signedHead), refused: []string{`"refs/heads/main" is not a tag`}},
		"tag: signed under another name": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v2", unsigned, v1(unsigned)), refused: []string{`the tag "v2" was created as "v1"`}},
		"tag: signed for another commit": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", unsigned, v1(signedHead)), refused: []string{"names commit " + hashOf("commit", signedHead)[:8], hashOf("commit", unsigned)[:8]}},
		"tag: signed by a stranger":      {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", unsigned, tagBySSH(plainTag("v1", unsigned), p.mallory)), refused: []string{fingerprint(p.mallory), "not among the allowed keys", "pushed the tag"}},
		"tag: changed after signing":     {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", unsigned, strings.Replace(v1(unsigned), "release", "Release", 1)), refused: []string{"the tag changed after the signature"}},
		"tag: the commit is malformed":   {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, given: tagged("refs/tags/v1", "tree x\n\n", v1("tree x\n\n")), refused: []string{"the commit does not have git's format"}},

		"both: one signer":           {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, given: tagged("refs/tags/v1", signedHead, v1(signedHead)), signer: byAlice},
		"both: two signers":          {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, given: tagged("refs/tags/v1", second, v1(second)), signer: byAlice + " (tag), " + byBob + " (commit)"},
		"both: the commit is not":    {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, given: tagged("refs/tags/v1", unsigned, v1(unsigned)), refused: []string{"the commit is not signed"}},
		"both: neither, both listed": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, given: tagged("refs/tags/v1", unsigned, plainTag("v1", unsigned)), refused: []string{`the tag "v1" is not signed`, "the commit is not signed"}},

		"range: all signed":                {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Descends, second, first), signer: byBob},
		"range: signed on unsigned":        {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Descends, second, subject("sneaked in"), first), refused: []string{"1 of the 3 commits since 11111111", hashOf("commit", subject("sneaked in"))[:8] + ` "sneaked in" by Bot <bot@example.com>: the commit is not signed`}},
		"range: every bad one listed":      {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Descends, subject("one"), bySSH(subject("two"), p.mallory), "garbage", first), refused: []string{"3 of the 4 commits", `"one" by Bot`, `"two" by Bot`, fingerprint(p.mallory), hashOf("commit", "garbage")[:8] + ": the commit does not have git's format"}},
		"range: unsigned on signed":        {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Descends, unsigned, first), refused: []string{"1 of the 2 commits", "not signed"}},
		"range: the first commit":          {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: head(signedHead), signer: byAlice},
		"range: the first, unsigned":       {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: head(unsigned), refused: []string{"the commit is not signed"}},
		"range: unknown history":           {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Unknown, signedHead), refused: []string{"the history between it and " + hashOf("commit", signedHead)[:8] + " cannot be read", "bunsen.dev/accept-commit=" + hashOf("commit", signedHead)}, retry: true},
		"range: rewritten, all signed":     {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Rewritten, second, first), signer: byBob},
		"range: rewritten, one is not":     {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: since(source.Rewritten, second, unsigned), refused: []string{"1 of the 2 commits"}},
		"range: the applied commit itself": {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange}, given: source.Evidence{Applied: hashOf("commit", signedHead), Commit: []byte(signedHead)}, signer: byAlice},

		"signers: by ssh fingerprint":        {verify: v1alpha1.Verification{Signers: []string{fingerprint(p.alice)}}, given: head(signedHead), signer: byAlice},
		"signers: by principal":              {verify: v1alpha1.Verification{Signers: []string{"Robert@example.com"}}, given: head(second), signer: byBob},
		"signers: by OpenPGP fingerprint":    {verify: v1alpha1.Verification{Signers: []string{strings.ToLower(fmt.Sprintf("0x%X", p.ada.PrimaryKey.Fingerprint))}}, given: head(byPGP(plain, p.ada)), signer: byAda},
		"signers: by address of a user id":   {verify: v1alpha1.Verification{Signers: []string{"ada@example.com"}}, given: head(byPGP(plain, p.ada)), signer: byAda},
		"signers: another trusted key":       {verify: v1alpha1.Verification{Signers: []string{"bob@example.com", "ada@example.com"}}, given: head(signedHead), refused: []string{"signed by " + byAlice, "verify.signers allows only bob@example.com, ada@example.com"}},
		"signers: never an untrusted key":    {verify: v1alpha1.Verification{Signers: []string{"eve@example.com", fmt.Sprintf("%X", p.eve.PrimaryKey.Fingerprint)}}, given: head(byPGP(plain, p.eve)), refused: []string{"not among the allowed keys"}},
		"signers: a comment is no principal": {verify: v1alpha1.Verification{Signers: []string{"carol@desk"}}, given: head(bySSH(plain, p.carol)), refused: []string{"verify.signers allows only carol@desk"}},
		"signers: every commit of a range":   {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyRange, Signers: []string{"bob@example.com"}}, given: since(source.Descends, second, first), refused: []string{"1 of the 2 commits", `"first" by Bot`}},

		"committers: allowed":               {verify: v1alpha1.Verification{Committers: []string{"BOT@example.com"}}, given: head(signedHead), signer: byAlice},
		"committers: another one":           {verify: v1alpha1.Verification{Committers: []string{"ada@example.com"}}, given: head(signedHead), refused: []string{`the commit's committer is "bot@example.com"`, "verify.committers allows only ada@example.com"}},
		"authors: another one, both listed": {verify: v1alpha1.Verification{Authors: []string{"x@example.com"}, Committers: []string{"y@example.com"}}, given: head(signedHead), refused: []string{"verify.authors allows only x@example.com", "verify.committers allows only y@example.com"}},
		"committers: two addresses":         {verify: v1alpha1.Verification{Committers: []string{"ada@example.com"}}, given: head(bySSH(strings.Replace(plain, "Bot <bot@example.com>", "Bot <bot@example.com> <ada@example.com>", 1), p.alice)), refused: []string{"no e-mail address that all programs read alike"}},
		"committers: of a tag's commit":     {verify: v1alpha1.Verification{Mode: v1alpha1.VerifyTag, Committers: []string{"ada@example.com"}}, given: tagged("refs/tags/v1", unsigned, v1(unsigned)), refused: []string{"verify.committers"}},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := verify.ParsePolicy(test.verify, v1alpha1.GitRef{Tag: "v1"}, allowed(t))
			if err != nil {
				t.Fatal(err)
			}
			signer, err := policy.Check(test.given, now)
			if test.refused == nil {
				if err != nil || signer != test.signer {
					t.Fatalf("got %q, %v, want %q", signer, err, test.signer)
				}
				return
			}
			want := fault.Stalled
			if test.retry {
				want = fault.Retry
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != want || f.Reason != v1alpha1.ReasonSignature || signer != "" {
				t.Fatalf("got %q, %v, want a %s %s fault", signer, err, want, v1alpha1.ReasonSignature)
			}
			for _, w := range test.refused {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
		})
	}
}

func TestNoPolicyAllowsNothing(t *testing.T) {
	commit := []byte(bySSH(plain, everybody().alice))
	signer, err := verify.Policy{}.Check(source.Evidence{Commit: commit, Added: [][]byte{commit}}, now)
	wantRefusal(t, signer, err, []string{"no policy"})
}

// TestParsePolicy: every problem of a spec is in one error.
func TestParsePolicy(t *testing.T) {
	tag, branch := v1alpha1.GitRef{Tag: "v1"}, v1alpha1.GitRef{Branch: "main"}
	for name, test := range map[string]struct {
		verify  v1alpha1.Verification
		ref     v1alpha1.GitRef
		refused []string
	}{
		"a tag":                       {v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, tag, nil},
		"versions":                    {v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, v1alpha1.GitRef{SemVer: "~1", Branch: "main"}, nil},
		"the full name of a tag":      {v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, v1alpha1.GitRef{Name: "refs/tags/v1"}, nil},
		"a tag mode without a tag":    {v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, branch, []string{"verify.mode Tag needs a tag"}},
		"a commit beside the tag":     {v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, v1alpha1.GitRef{Tag: "v1", Commit: strings.Repeat("1", 40)}, []string{"needs a tag"}},
		"another ref beside the tag":  {v1alpha1.Verification{Mode: v1alpha1.VerifyTagAndHead}, v1alpha1.GitRef{Tag: "v1", Name: "refs/heads/main"}, []string{"verify.mode TagAndHead needs a tag"}},
		"an unknown mode":             {v1alpha1.Verification{Mode: "Tail"}, branch, []string{`verify.mode is "Tail"`}},
		"a short key id":              {v1alpha1.Verification{Signers: []string{"0xDEADBEEF"}}, branch, []string{"verify.signers[0]", "short id"}},
		"a cut ssh fingerprint":       {v1alpha1.Verification{Signers: []string{"SHA256:abc"}}, branch, []string{"verify.signers[0]", "ssh-keygen -lf"}},
		"a pattern":                   {v1alpha1.Verification{Signers: []string{"a@example.com", "*@example.com"}}, branch, []string{"verify.signers[1]", "without patterns"}},
		"a name with its address":     {v1alpha1.Verification{Committers: []string{"Ada <ada@example.com>"}}, branch, []string{"verify.committers[0]", "one e-mail address"}},
		"an empty author":             {v1alpha1.Verification{Authors: []string{" "}}, branch, []string{"verify.authors[0]"}},
		"a fingerprint with spaces":   {v1alpha1.Verification{Signers: []string{"0123 4567 89AB CDEF 0123  4567 89AB CDEF 0123 4567"}}, branch, nil},
		"every problem in one answer": {v1alpha1.Verification{Mode: v1alpha1.VerifyTag, Signers: []string{"*"}, Authors: []string{"*"}}, branch, []string{"needs a tag", "verify.signers[0]", "verify.authors[0]"}},
	} {
		policy, err := verify.ParsePolicy(test.verify, test.ref, allowed(t))
		if test.refused == nil {
			if err != nil || policy.Digest() == "" {
				t.Errorf("%s: %q, %v", name, policy.Digest(), err)
			}
			continue
		}
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Stalled || f.Reason != v1alpha1.ReasonInvalidSpec ||
			policy.Digest() != "" {
			t.Errorf("%s: got %v, want a Stalled %s fault", name, err, v1alpha1.ReasonInvalidSpec)
			continue
		}
		for _, w := range test.refused {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error does not say %q: %v", name, w, err)
			}
		}
	}
}

// TestPolicyDigest: a stored tree counts only under the policy that allowed it.
func TestPolicyDigest(t *testing.T) {
	seen := map[string]string{}
	for name, v := range map[string]v1alpha1.Verification{
		"head": {Mode: v1alpha1.VerifyHead}, "tag": {Mode: v1alpha1.VerifyTag},
		"both": {Mode: v1alpha1.VerifyTagAndHead}, "range": {Mode: v1alpha1.VerifyRange},
		"signers": {Signers: []string{"a", "b"}}, "one signer": {Signers: []string{"a"}},
		"committers": {Committers: []string{"a"}}, "authors": {Authors: []string{"a"}},
	} {
		digest := must(verify.ParsePolicy(v, v1alpha1.GitRef{Tag: "v1"}, allowed(t))).Digest()
		if other, ok := seen[digest]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[digest] = name
	}
	if a, b := must(verify.ParsePolicy(v1alpha1.Verification{}, v1alpha1.GitRef{}, allowed(t))),
		must(verify.ParsePolicy(v1alpha1.Verification{Mode: v1alpha1.VerifyHead}, v1alpha1.GitRef{},
			allowed(t))); a.Digest() != b.Digest() {
		t.Error("no mode and Head differ")
	}
}

// FuzzTag: whatever is pushed as a tag, the answer is a signer or a fault, and never a signer for what no allowed key
// signed.
func FuzzTag(f *testing.F) {
	p := everybody()
	good := tagBySSH(plainTag("v1", plain), p.mallory)
	for _, raw := range []string{good, plainTag("v1", plain), plainTag("v1", plain) + pgpOver(plainTag("v1", plain),
		p.eve), tagBySSH(plainTag("v2", plain), p.mallory), good + good} {
		f.Add([]byte(raw))
	}
	secret := map[string][]byte{"k": []byte(publicSSH(p.mallory) + "\n" + publicPGP(p.eve))}
	policy := must(verify.ParsePolicy(v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, v1alpha1.GitRef{Tag: "v1"},
		secret))
	f.Fuzz(func(t *testing.T, raw []byte) {
		signer, err := policy.Check(source.Evidence{Ref: "refs/tags/v1", Commit: []byte(plain), Tag: raw}, now)
		var fa *fault.Error
		if (signer == "") == (err == nil) || err != nil && !errors.As(err, &fa) {
			t.Errorf("got %q, %v", signer, err)
		}
		if err == nil && !strings.HasPrefix(string(raw), plainTag("v1", plain)+"-----BEGIN ") {
			t.Errorf("%s signed %q?", signer, raw)
		}
	})
}
