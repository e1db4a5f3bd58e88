package verify_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

// gitObject is an object that git and this package check. git's answer is the expectation; differs says why this
// package has another one.
type gitObject struct {
	kind, raw string
	differs   string
	// commit is the commit of a tag, if it is not the plain one.
	commit string
}

// TestGitAgrees asks the real git about commits and tags: good, bad and hostile ones.
func TestGitAgrees(t *testing.T) {
	w := newWorkshop(t)
	objects := map[string]gitObject{}
	for name, c := range commitCases() {
		objects["commit "+name] = gitObject{kind: "commit", raw: c.raw, differs: c.gitTakes}
	}
	for _, more := range []map[string]gitObject{hostileCommits(), keyCases(w), tagCases(), w.realObjects()} {
		for name, o := range more {
			objects[name] = o
		}
	}
	keys := w.keys()
	good, bad, differ := 0, 0, 0
	for name, o := range objects {
		theirs, answer := w.gitAccepts(o)
		ours := accepts(t, o, keys)
		switch {
		case theirs:
			good++
		default:
			bad++
		}
		if ours != theirs {
			differ++
		}
		if ours && !theirs {
			t.Errorf("%s: git refuses it, and this package takes it\n%s\n%q", name, answer, o.raw)
		} else if (ours != theirs) != (o.differs != "") {
			t.Errorf("%s: git takes it: %v, this package: %v; expected difference: %q\n%s", name, theirs, ours,
				o.differs, answer)
		}
	}
	t.Logf("%d objects: git takes %d and refuses %d; %d named differences", len(objects), good, bad, differ)
	if len(objects) < 60 {
		t.Errorf("only %d objects", len(objects))
	}
}

// accepts reports whether this package takes an object now.
func accepts(t *testing.T, o gitObject, secret map[string][]byte) bool {
	t.Helper()
	if o.kind != "tag" {
		_, err := verify.Commit([]byte(o.raw), must(verify.ParseKeys(secret)), time.Now())
		return err == nil
	}
	if o.commit == "" {
		o.commit = plain
	}
	policy := must(verify.ParsePolicy(v1alpha1.Verification{Mode: v1alpha1.VerifyTag}, v1alpha1.GitRef{Tag: "v1"},
		secret))
	_, err := policy.Check(source.Evidence{Ref: "refs/tags/v1", Commit: []byte(o.commit), Tag: []byte(o.raw)},
		time.Now())
	return err == nil
}

// hostileCommits are commits that try to be read in two ways.
func hostileCommits() map[string]gitObject {
	p := everybody()
	signature := sshSignature{}.over(plain, p.alice)
	message := func(raw string) gitObject { return gitObject{kind: "commit", raw: bySSH(raw, p.alice)} }
	return map[string]gitObject{
		"commit with CR LF in its message":              message(strings.ReplaceAll(plain, "\n\nThe", "\r\n\r\nThe")),
		"commit with CR LF in its header":               {kind: "commit", raw: bySSH(strings.Replace(plain, "\nparent", "\r\nparent", 1), p.alice)},
		"commit with CR LF after its committer":         {kind: "commit", raw: bySSH(strings.Replace(plain, "+0000\n\n", "+0000\r\n\n", 1), p.alice)},
		"commit with CR LF in its signature":            {kind: "commit", raw: withHeader(plain, "gpgsig "+strings.ReplaceAll(strings.TrimSpace(signature), "\n", "\r\n "))},
		"commit with CR LF in its OpenPGP signature":    {kind: "commit", raw: withHeader(plain, "gpgsig "+strings.ReplaceAll(strings.TrimSpace(pgpSignature(plain, p.ada, packet.Config{})), "\n", "\r\n "))},
		"commit with a NUL in its message":              message(plain + "a\x00b\n"),
		"commit with text after its ssh signature":      {kind: "commit", raw: withSignature(plain, signature+"and more\n"), differs: "ssh-keygen ignores what follows the block; text that nobody signed is refused"},
		"commit with text before its ssh signature":     {kind: "commit", raw: withSignature(plain, "hello\n"+signature)},
		"commit with two ssh signatures in one header":  {kind: "commit", raw: withSignature(plain, signature+signature), differs: "ssh-keygen reads the first one; which one counts must be clear"},
		"commit with text after its OpenPGP signature":  {kind: "commit", raw: withSignature(plain, pgpSignature(plain, p.ada, packet.Config{})+"\nand more"), differs: "gpg ignores what follows the block; text that nobody signed is refused"},
		"commit with an empty gpgsig header":            {kind: "commit", raw: withHeader(plain, "gpgsig ")},
		"commit with a gpgsig header without a space":   {kind: "commit", raw: withHeader(plain, "gpgsig")},
		"commit with GPGSIG in capitals":                {kind: "commit", raw: strings.Replace(bySSH(plain, p.alice), "gpgsig ", "GPGSIG ", 1)},
		"commit with gpgsig before its committer":       {kind: "commit", raw: strings.Replace(plain, "committer ", "gpgsig "+strings.ReplaceAll(strings.TrimSpace(signature), "\n", "\n ")+"\ncommitter ", 1), differs: "git finds it anywhere in the header; git itself writes it last"},
		"commit with the signature of a tag":            {kind: "commit", raw: withSignature(plain, sshSignature{}.over(plainTag("v1", plain), p.alice))},
		"commit that is a tag":                          {kind: "commit", raw: tagBySSH(plainTag("v1", plain), p.alice)},
		"commit with its message signed as a tag's":     {kind: "commit", raw: plain + signature},
		"commit with a signed tag's signature appended": {kind: "commit", raw: withHeader(plain, "mergetag object "+hashOf("commit", plain)+"\n type commit\n tag v1\n tagger A <a@b> 1 +0000\n \n x\n "+strings.ReplaceAll(strings.TrimSpace(signature), "\n", "\n "))},
		"commit with another commit after its NUL":      message(plain + "\x00tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\n"),
		"commit with a space line in its header":        message(strings.Replace(plain, "\n\ntime", "\n \n\ntime", 1)),
		"commit with a continued committer":             {kind: "commit", raw: bySSH(strings.Replace(plain, "+0000\n\n", "+0000\n tree 1111111111111111111111111111111111111111\n\n", 1), p.alice)},
		"commit without parents":                        message(strings.Replace(plain, "parent 0123456789abcdef0123456789abcdef01234567\n", "", 1)),
		"commit with three parents":                     message(strings.Replace(plain, "author", "parent 1111111111111111111111111111111111111111\nparent 2222222222222222222222222222222222222222\nauthor", 1)),
		"commit with a parent of SHA-256":               {kind: "commit", raw: bySSH(strings.Replace(plain, "01234567\nauthor", "01234567"+strings.Repeat("0", 24)+"\nauthor", 1), p.alice)},
	}
}

// keyCases are commits by keys of all kinds and states. It adds each key to the workshop.
func keyCases(w *workshop) map[string]gitObject {
	p := everybody()
	out := map[string]gitObject{}
	pgp := func(name, differs string, c *packet.Config, prepare func(e *pgpEntity)) {
		e := entity(name, "key@example.com", c)
		raw := ""
		sign := func() { raw = byPGP(plain, e) }
		if prepare != nil {
			prepare(&pgpEntity{e, sign})
		}
		if raw == "" {
			sign()
		}
		w.pgp = append(w.pgp, publicPGP(e))
		out["OpenPGP key: "+name] = gitObject{kind: "commit", raw: raw, differs: differs}
	}
	at := func(lifetime uint32) *packet.Config {
		return &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, KeyLifetimeSecs: lifetime, Time: func() time.Time {
			return made
		}}
	}
	pgp("RSA", "", &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048}, nil)
	pgp("RSA of 1024 bits", "gpg takes weak keys", &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 1024}, nil)
	pgp("ECDSA", "", &packet.Config{Algorithm: packet.PubKeyAlgoECDSA, Curve: packet.CurveNistP256}, nil)
	pgp("expired", "", at(90*86400), nil)
	pgp("with an end in fifty years", "", at(50*365*86400), nil)
	pgp("revoked", "", nil, func(e *pgpEntity) {
		e.sign()
		check(e.RevokeKey(packet.KeyCompromised, "lost", at(0)))
	})
	pgp("superseded", "", nil, func(e *pgpEntity) {
		e.sign()
		check(e.RevokeKey(packet.KeySuperseded, "new", at(0)))
	})
	pgp("a signing subkey", "", nil, func(e *pgpEntity) { check(e.AddSigningSubkey(at(0))) })
	pgp("an expired signing subkey", "", nil, func(e *pgpEntity) {
		check(e.AddSigningSubkey(at(90 * 86400)))
	})
	pgp("a revoked signing subkey", "", nil, func(e *pgpEntity) {
		check(e.AddSigningSubkey(at(0)))
		e.sign()
		check(e.RevokeSubkey(&e.Subkeys[len(e.Subkeys)-1], packet.KeyCompromised, "lost", at(0)))
	})
	line := func(name, options, differs string) {
		key := sshSigner(ed25519Key())
		w.signers = append(w.signers, "key@example.com "+options+" "+publicSSH(key))
		out["ssh key: "+name] = gitObject{kind: "commit", raw: bySSH(plain, key), differs: differs}
	}
	line("valid now", `valid-after="20200101",valid-before="20990101"`, "")
	line("valid later", `valid-after="20990101"`, "")
	line("valid long ago", `valid-before="20200101"`, "")
	line("valid when the commit says that it was made", `valid-before="20250630"`,
		"git believes the committer's date, which the owner of an expired key can choose; the key must be valid now")
	line("valid after the commit says that it was made", `valid-after="20250630"`, "")
	line("for git and files", `namespaces="file,git"`, "")
	line("for files only", `namespaces="file"`, "")
	line("for all namespaces", `namespaces="*"`, "")
	any := sshSigner(ed25519Key())
	w.signers = append(w.signers, "*@example.org "+publicSSH(any))
	out["ssh key: of everybody of a domain"] = gitObject{kind: "commit", raw: bySSH(plain, any)}
	out["ssh key: too short, not listed"] = gitObject{kind: "commit", raw: bySSH(plain, p.short)}
	return out
}

// tagCases are annotated tags of the plain commit.
func tagCases() map[string]gitObject {
	p := everybody()
	v1 := plainTag("v1", plain)
	sig := func(raw string, by ssh.Signer) string { return sshSignature{}.over(raw, by) }
	pgp := func(raw string) string { return pgpOver(raw, p.ada) }
	change := func(old, new string) string { return strings.Replace(v1, old, new, 1) }
	const strict = "git verify-tag does not read the header; two programs could read it differently"
	out := map[string]gitObject{}
	for name, o := range map[string]gitObject{
		"not signed":                             {raw: v1},
		"signed with ssh, ed25519":               {raw: tagBySSH(v1, p.alice)},
		"signed with ssh, rsa":                   {raw: tagBySSH(v1, p.bob)},
		"signed with ssh, ecdsa":                 {raw: tagBySSH(v1, p.carol)},
		"signed with OpenPGP":                    {raw: v1 + pgp(v1)},
		"signed with ssh by a stranger":          {raw: tagBySSH(v1, p.mallory)},
		"signed with OpenPGP, stranger":          {raw: v1 + pgpOver(v1, p.eve)},
		"changed after signing":                  {raw: strings.Replace(tagBySSH(v1, p.alice), "release", "Release", 1)},
		"moved to another commit":                {raw: strings.Replace(tagBySSH(v1, p.alice), "object "+hashOf("commit", plain), "object "+hashOf("commit", subject("x")), 1), commit: subject("x")},
		"of another commit than the ref":         {raw: tagBySSH(v1, p.alice), commit: subject("x"), differs: "git verify-tag does not know the ref"},
		"under another name":                     {raw: tagBySSH(plainTag("v0", plain), p.alice), differs: "git verify-tag does not know the ref"},
		"of a commit that is damaged":            {raw: tagBySSH(plainTag("v1", "tree x"), p.alice), commit: "tree x", differs: "git verify-tag does not read the commit"},
		"with the signature of a commit":         {raw: v1 + sig(plain, p.alice)},
		"with two ssh signatures":                {raw: v1 + sig(v1, p.alice) + sig(v1, p.alice)},
		"with a second signature over the first": {raw: tagBySSH(tagBySSH(v1, p.mallory), p.alice), differs: "git reads the last one; which one counts must be clear"},
		"with two OpenPGP signatures":            {raw: v1 + pgp(v1) + pgp(v1)},
		"with an OpenPGP and an ssh signature":   {raw: tagBySSH(v1+pgp(v1), p.alice), differs: "git reads the last one; which one counts must be clear"},
		"with text after its ssh signature":      {raw: tagBySSH(v1, p.alice) + "and more\n", differs: "ssh-keygen ignores what follows the block; text that nobody signed is refused"},
		"with text after its OpenPGP signature":  {raw: v1 + pgp(v1) + "and more\n", differs: "gpg ignores what follows the block; text that nobody signed is refused"},
		"with its signature inside of a line":    {raw: v1 + "x " + sig(v1+"x ", p.alice)},
		"with an indented signature":             {raw: v1 + " " + sig(v1, p.alice)},
		"with CR LF in its message":              {raw: tagBySSH(change("release v1\n", "release v1\r\n\r\n"), p.alice)},
		"with CR LF in its header":               {raw: tagBySSH(change("type commit\n", "type commit\r\n"), p.alice), differs: strict},
		"with a NUL in its message":              {raw: tagBySSH(change("release", "rel\x00ease"), p.alice), differs: "other programs end the message there"},
		"without a message":                      {raw: tagBySSH(change("\nrelease v1\n", "\n"), p.alice)},
		"without a tagger":                       {raw: tagBySSH(change("tagger Ada Lovelace <ada@example.com> 1735776000 +0000\n", ""), p.alice)},
		"with two objects":                       {raw: tagBySSH("object "+hashOf("commit", subject("x"))+"\n"+v1, p.alice), differs: strict},
		"with its headers out of order":          {raw: tagBySSH(change("type commit\ntag v1\n", "tag v1\ntype commit\n"), p.alice), differs: strict},
		"with a header more":                     {raw: tagBySSH(change("\n\n", "\nx-note one\n\n"), p.alice), differs: strict},
		"with a header on two lines":             {raw: tagBySSH(change("tag v1\n", "tag v1\n v2\n"), p.alice), differs: strict},
		"with a gpgsig header":                   {raw: withHeader(v1, "gpgsig "+strings.ReplaceAll(strings.TrimSpace(sig(v1, p.alice)), "\n", "\n "))},
		"with a signature for SHA-256":           {raw: tagBySSH(change("\n\n", "\ngpgsig-sha256 x\n\n"), p.alice)},
		"of a tree":                              {raw: tagBySSH(change("type commit", "type tree"), p.alice), differs: "git verify-tag takes tags of everything"},
		"of a tag":                               {raw: tagBySSH(change("type commit", "type tag"), p.alice), differs: "git verify-tag takes tags of everything"},
		"that is a commit":                       {raw: bySSH(plain, p.alice)},
		"signed for another namespace":           {raw: v1 + sshSignature{namespace: "file"}.over(v1, p.alice)},
		"with an armored OpenPGP message":        {raw: v1 + "-----BEGIN PGP MESSAGE-----\n\nowEB\n-----END PGP MESSAGE-----\n"},
		"with an X.509 signature":                {raw: v1 + "-----BEGIN SIGNED MESSAGE-----\nAAAA\n-----END SIGNED MESSAGE-----\n"},
	} {
		o.kind = "tag"
		out["tag "+name] = o
	}
	return out
}

// workshop is a bare repository, with a keyring and a file of allowed signers for git.
type workshop struct {
	t         *testing.T
	dir, repo string
	pgp       []string
	signers   []string
	env       []string
}

func newWorkshop(t *testing.T) *workshop {
	for _, program := range []string{"git", "ssh-keygen", "gpg", "gpgconf"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed: make setup installs it", program)
		}
	}
	dir, err := os.MkdirTemp("", "sign") // gpg's agent needs a short path for its socket
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{t: t, dir: dir, repo: filepath.Join(dir, "repo")}
	home := filepath.Join(dir, "gnupg")
	w.env = append(os.Environ(), "GNUPGHOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C",
		"GIT_COMMITTER_EMAIL=c@example.com")
	t.Cleanup(func() {
		_, _ = w.try("", "gpgconf", "--homedir", home, "--kill", "all")
		_ = os.RemoveAll(dir)
	})
	check(os.Mkdir(home, 0o700))
	check(os.WriteFile(filepath.Join(home, "gpg.conf"), []byte("trust-model always\n"), 0o600))
	secret := allowed(t)
	w.pgp = []string{string(secret["pgp.asc"])}
	w.signers = []string{string(secret["signers"])}
	w.run("", "git", "init", "-q", "--bare", w.repo)
	return w
}

// keys is the Secret with everybody's keys. It writes the same keys for git.
func (w *workshop) keys() map[string][]byte {
	secret := map[string][]byte{
		"pgp.asc": []byte(strings.Join(w.pgp, "\n")),
		"signers": []byte(strings.Join(w.signers, "\n")),
	}
	// ssh-keygen reads no plain key there; git wants a name before it.
	lines := strings.ReplaceAll(string(secret["signers"]), "\necdsa", "\ncarol@desk ecdsa")
	check(os.WriteFile(filepath.Join(w.dir, "signers"), []byte(lines), 0o600))
	w.run(string(secret["pgp.asc"]), "gpg", "-q", "--batch", "--import")
	return secret
}

func (w *workshop) try(stdin, program string, args ...string) (string, error) {
	c := exec.Command(program, args...)
	c.Dir, c.Stdin, c.Env = w.dir, strings.NewReader(stdin), w.env
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s", program, args, err, stderr.String())
	}
	return string(out), err
}

func (w *workshop) run(stdin, program string, args ...string) string {
	w.t.Helper()
	out, err := w.try(stdin, program, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// gitAccepts reports git's exit code of verify-commit or verify-tag, and its answer.
func (w *workshop) gitAccepts(o gitObject) (bool, string) {
	w.t.Helper()
	hash := w.run(o.raw, "git", "-C", w.repo, "hash-object", "-t", o.kind, "-w", "--stdin", "--literally")
	_, err := w.try("", "git", "-C", w.repo, "-c", "gpg.ssh.allowedSignersFile="+filepath.Join(w.dir, "signers"),
		"verify-"+o.kind, hash)
	return err == nil, fmt.Sprint(err)
}

// realObjects are commits and tags that git itself signed, with keys that gpg and ssh-keygen created.
func (w *workshop) realObjects() map[string]gitObject {
	out := map[string]gitObject{}
	object := func(kind, name string) gitObject {
		raw, err := w.try("", "git", "-C", w.repo, "cat-file", kind, name)
		check(err)
		return gitObject{kind: kind, raw: raw}
	}
	sign := func(name string, config ...string) {
		args := append([]string{"-C", w.repo}, config...)
		commit := w.run("subject of "+name+"\n", "git", append(args, "commit-tree", "-S",
			"4b825dc642cb6eb9a060e54bf8d69288fbee4904")...)
		out["git commit -S with "+name] = object("commit", commit)
		w.run("", "git", append(args, "tag", "-f", "-s", "-m", "release", "v1", commit)...)
		tag := object("tag", "refs/tags/v1")
		tag.commit = out["git commit -S with "+name].raw
		out["git tag -s with "+name] = tag
	}
	w.run("", "git", "-C", w.repo, "hash-object", "-t", "tree", "-w", "--stdin")
	for name, args := range map[string][]string{
		"ssh ed25519": {"-t", "ed25519"},
		"ssh rsa":     {"-t", "rsa", "-b", "3072"}, "ssh ecdsa": {"-t", "ecdsa", "-b", "384"},
	} {
		file := filepath.Join(w.dir, strings.ReplaceAll(name, " ", "-"))
		w.run("", "ssh-keygen", append(args, "-q", "-N", "", "-C", "real", "-f", file)...)
		w.signers = append(w.signers, "real@example.com "+string(must(os.ReadFile(file+".pub"))))
		sign(name, "-c", "gpg.format=ssh", "-c", "user.signingkey="+file)
	}
	for _, kind := range []string{"rsa2048", "ed25519"} {
		mail := kind + "@example.com"
		w.run("", "gpg", "-q", "--batch", "--passphrase", "", "--quick-gen-key", "Real <"+mail+">", kind, "sign",
			"never")
		sign("OpenPGP "+kind, "-c", "user.signingkey="+mail)
		w.pgp = append(w.pgp, w.run("", "gpg", "--armor", "--export", mail)+"\n")
	}
	w.signCertificate(out)
	return out
}

// signCertificate signs with a certificate of an authority that git trusts.
func (w *workshop) signCertificate(out map[string]gitObject) {
	ca, key := filepath.Join(w.dir, "ca"), filepath.Join(w.dir, "certified")
	for _, file := range []string{ca, key} {
		w.run("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file)
	}
	w.run("", "ssh-keygen", "-q", "-s", ca, "-I", "id", "-n", "cert@example.com", key+".pub")
	commit := w.run("certified\n", "git", "-C", w.repo, "-c", "gpg.format=ssh", "-c", "user.signingkey="+key+
		"-cert.pub", "commit-tree", "-S", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
	raw, err := w.try("", "git", "-C", w.repo, "cat-file", "commit", commit)
	check(err)
	out["git commit -S with a certificate"] = gitObject{kind: "commit", raw: raw}
}
