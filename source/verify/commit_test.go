package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/verify"
)

// commitCase is a commit, with the signer that is found or the words of the refusal. Where git itself lets it pass,
// gitTakes says why this package does not.
type commitCase struct {
	raw      string
	signer   string
	refused  []string
	gitTakes string
}

func commitCases() map[string]commitCase {
	p := everybody()
	const notAsGit = "does not have git's format"
	twice := bySSH(plain, p.alice)
	inside := strings.Replace(plain, "committer ", "x-note one\n two\ncommitter ", 1)
	tag := "mergetag object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n type commit\n tag v1\n" +
		" tagger A <a@b> 1 +0000\n \n gpgsig in a tag\n -----BEGIN PGP SIGNATURE-----\n \n AAAA\n" +
		" -----END PGP SIGNATURE-----"
	return map[string]commitCase{
		"signed with OpenPGP":                         {raw: byPGP(plain, p.ada), signer: fmt.Sprintf("pgp %X (Ada <ada@example.com>)", p.ada.PrimaryKey.Fingerprint)},
		"signed with ssh, ed25519":                    {raw: bySSH(plain, p.alice), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"signed with ssh, rsa, by one of two names":   {raw: bySSH(plain, p.bob), signer: "ssh " + fingerprint(p.bob) + " (bob@example.com,robert@example.com)"},
		"signed with ssh, ecdsa, by a plain key":      {raw: bySSH(plain, p.carol), signer: "ssh " + fingerprint(p.carol) + " (carol@desk)"},
		"signed with ssh over a sha256 hash":          {raw: withSignature(plain, sshSignature{hash: "sha256"}.over(plain, p.alice)), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"without a message":                           {raw: bySSH(plain[:strings.Index(plain, "\n\n")+2], p.alice), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"in another encoding":                         {raw: bySSH(withHeader(plain, "encoding ISO-8859-1")+"caf\xe9\n", p.alice), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"a merge of a signed tag":                     {raw: byPGP(withHeader(plain, tag), p.ada), signer: fmt.Sprintf("pgp %X (Ada <ada@example.com>)", p.ada.PrimaryKey.Fingerprint)},
		"with an unknown header before gpgsig":        {raw: bySSH(withHeader(plain, "x-note one\n two"), p.alice), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"with an unknown header after gpgsig":         {raw: withHeader(withSignature(plain, sshSignature{}.over(withHeader(plain, "x-note one"), p.alice)), "x-note one"), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"with a tree inside of an unknown header":     {raw: bySSH(withHeader(plain, "x-note one\n tree 1111111111111111111111111111111111111111"), p.alice), signer: "ssh " + fingerprint(p.alice) + " (alice@example.com)"},
		"not signed":                                  {raw: plain, refused: []string{"not signed", "git commit -S"}},
		"with a signature in its message alone":       {raw: plain + "\ngpgsig " + sshSignature{}.over(plain, p.alice), refused: []string{"not signed"}},
		"signed with ssh by a stranger":               {raw: bySSH(plain, p.mallory), refused: []string{fingerprint(p.mallory), "not among the allowed keys"}},
		"signed with OpenPGP by a stranger":           {raw: byPGP(plain, p.eve), refused: []string{fmt.Sprintf("%X", p.eve.PrimaryKey.Fingerprint), "not among the allowed keys"}},
		"changed after signing, ssh":                  {raw: strings.Replace(bySSH(plain, p.alice), "chrony", "Chrony", 1), refused: []string{fingerprint(p.alice), "does not match"}},
		"changed after signing, OpenPGP":              {raw: strings.Replace(byPGP(plain, p.ada), "chrony", "Chrony", 1), refused: []string{"does not match"}},
		"moved to another tree":                       {raw: strings.Replace(bySSH(plain, p.alice), "4b825dc6", "4b825dc7", 1), refused: []string{"does not match"}},
		"with an unknown header put in later":         {raw: withHeader(bySSH(plain, p.alice), "x-note one"), refused: []string{"does not match"}},
		"with two trees":                              {raw: bySSH("tree 1111111111111111111111111111111111111111\n"+plain, p.alice), refused: []string{notAsGit, "tree is repeated"}, gitTakes: "git reads the first tree; others read the second"},
		"with a tree after the committer":             {raw: bySSH(withHeader(plain, "tree 1111111111111111111111111111111111111111"), p.alice), refused: []string{notAsGit, "tree is repeated or out of order"}, gitTakes: "git reads the first tree; others read the second"},
		"with two authors":                            {raw: bySSH(strings.Replace(plain, "committer ", "author E <e@e> 1 +0000\ncommitter ", 1), p.alice), refused: []string{notAsGit, "author is repeated"}, gitTakes: "git shows the first author"},
		"with two encodings":                          {raw: bySSH(withHeader(plain, "encoding UTF-8\nencoding ISO-8859-1"), p.alice), refused: []string{notAsGit, "encoding is repeated"}, gitTakes: "git reads the first encoding"},
		"with a header before the committer":          {raw: bySSH(inside, p.alice), refused: []string{notAsGit, "precedes the committer"}, gitTakes: "git skips it"},
		"with a parent after the author":              {raw: bySSH(strings.Replace(plain, "committer ", "parent 1111111111111111111111111111111111111111\ncommitter ", 1), p.alice), refused: []string{notAsGit, "parent is repeated or out of order"}, gitTakes: "git skips it"},
		"with two signatures":                         {raw: withSignature(twice, sshSignature{}.over(twice, p.alice)), refused: []string{notAsGit, "gpgsig is repeated"}, gitTakes: "git takes both out and ssh-keygen reads the first"},
		"with a signature for SHA-256 repositories":   {raw: strings.Replace(bySSH(plain, p.alice), "gpgsig ", "gpgsig-sha256 ", 1), refused: []string{notAsGit, "gpgsig-sha256"}},
		"with a second signature for SHA-256":         {raw: withHeader(bySSH(plain, p.alice), "gpgsig-sha256 x"), refused: []string{notAsGit, "gpgsig-sha256"}, gitTakes: "git takes both signatures out"},
		"with a tree over two lines":                  {raw: bySSH(strings.Replace(plain, "\nparent", "\n x\nparent", 1), p.alice), refused: []string{notAsGit, "second line"}, gitTakes: "git skips it"},
		"with a signature that was made for a file":   {raw: withSignature(plain, sshSignature{namespace: "file"}.over(plain, p.alice)), refused: []string{`namespace "file"`}},
		"with a signature of another version":         {raw: withSignature(plain, sshSignature{version: 2}.over(plain, p.alice)), refused: []string{"version 2"}},
		"signed with ssh-rsa, that is SHA-1":          {raw: withSignature(plain, sshSignature{algorithm: ssh.KeyAlgoRSA}.over(plain, p.bob)), refused: []string{"SHA-1"}},
		"with an ssh signature that ends early":       {raw: withSignature(plain, sshSignature{edit: func(b []byte) []byte { return b[:40] }}.over(plain, p.alice)), refused: []string{"damaged"}},
		"with an ssh signature and something more":    {raw: withSignature(plain, sshSignature{edit: func(b []byte) []byte { return append(b, 0) }}.over(plain, p.alice)), refused: []string{"damaged"}},
		"with two ssh signatures in one header":       {raw: withSignature(plain, strings.Repeat(sshSignature{}.over(plain, p.alice), 2)), refused: []string{"not one armored block"}, gitTakes: "ssh-keygen reads the first"},
		"with two OpenPGP signatures in one header":   {raw: withSignature(plain, pgpSignature(plain, p.ada, packet.Config{})+"\n"+pgpSignature(plain, p.eve, packet.Config{})), refused: []string{"not one armored signature"}},
		"signed with OpenPGP and SHA-1":               {raw: withSignature(plain, textSignature(plain, p.ada, packet.SigTypeBinary, 2)), refused: []string{"SHA-1", "forged"}, gitTakes: "gpg takes it by default"},
		"signed with OpenPGP as a text":               {raw: withSignature(plain, textSignature(plain, p.ada, packet.SigTypeText, 8)), refused: []string{"not over plain bytes"}, gitTakes: "gpg takes it; line ends are not protected then"},
		"signed with OpenPGP for a week, long ago":    {raw: withSignature(plain, pgpSignature(plain, p.ada, packet.Config{SigLifetimeSecs: 7 * 86400})), refused: []string{"not valid now", "expired"}},
		"signed with OpenPGP by a clock that is off":  {raw: withSignature(plain, pgpSignature(plain, p.ada, packet.Config{Time: func() time.Time { return now.Add(time.Hour) }})), refused: []string{"clock"}},
		"with an OpenPGP signature that is cut short": {raw: withSignature(plain, emptySubpacket()), refused: []string{"damaged"}},
		"signed with X.509":                           {raw: withSignature(plain, "-----BEGIN SIGNED MESSAGE-----\nAAAA\n-----END SIGNED MESSAGE-----"), refused: []string{"only OpenPGP and SSH"}},
		"nothing at all":                              {raw: "", refused: []string{notAsGit}},
		"a header without an end":                     {raw: plain[:100], refused: []string{notAsGit, "does not end"}},
		"with a NUL in its header":                    {raw: bySSH(strings.Replace(plain, "Bot", "B\x00t", 1), p.alice), refused: []string{notAsGit}},
		"without a committer":                         {raw: bySSH(strings.Replace(plain, "committer", "x-committer", 1), p.alice), refused: []string{notAsGit}},
	}
}

// emptySubpacket is a signature with a subpacket (exportable, number 4) that has no bytes: some versions of the library
// read past its end.
func emptySubpacket() string {
	var out bytes.Buffer
	w := must(armor.Encode(&out, openpgp.SignatureType, nil))
	body := []byte{4, 0, 22, 8, 0, 2, 1, 4, 0, 0, 0, 0}
	_, err := w.Write(append([]byte{0xc0 | 2, byte(len(body))}, body...))
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return out.String()
}

// textSignature signs with a type and hash (RFC 9580's numbers) that the library does not choose by itself.
func textSignature(payload string, by *openpgp.Entity, kind packet.SignatureType, hash byte) string {
	sig := &packet.Signature{
		Version: 4, SigType: kind, PubKeyAlgo: by.PrivateKey.PubKeyAlgo, Hash: hashes[hash],
		CreationTime: signed, IssuerKeyId: &by.PrimaryKey.KeyId, IssuerFingerprint: by.PrimaryKey.Fingerprint,
	}
	h := must(sig.PrepareSign(nil))
	if kind == packet.SigTypeText {
		payload = strings.ReplaceAll(payload, "\n", "\r\n")
	}
	h.Write([]byte(payload))
	if err := sig.Sign(h, by.PrivateKey,
		&packet.Config{NonDeterministicSignaturesViaNotation: packet.BoolPointer(false)}); err != nil {
		panic(err)
	}
	return armored(sig)
}

func TestCommit(t *testing.T) {
	keys := must(verify.ParseKeys(allowed(t)))
	for name, test := range commitCases() {
		t.Run(name, func(t *testing.T) {
			signer, err := verify.Commit([]byte(test.raw), keys, now)
			if test.refused == nil {
				if err != nil || signer != test.signer {
					t.Fatalf("got %q, %v, want %q", signer, err, test.signer)
				}
				return
			}
			wantRefusal(t, signer, err, test.refused)
		})
	}
}

func wantRefusal(t *testing.T, signer string, err error, words []string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Stalled || f.Reason != v1alpha1.ReasonSignature || signer != "" {
		t.Fatalf("got %q, %v, want a Stalled %s fault", signer, err, v1alpha1.ReasonSignature)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func TestKeysAreJudgedAtTheMoment(t *testing.T) {
	p := everybody()
	revoked := entity("Rita", "rita@example.com", nil)
	byRevoked := byPGP(plain, revoked)
	if err := revoked.RevokeKey(packet.KeyCompromised, "lost", &packet.Config{Time: func() time.Time {
		return signed.Add(time.Hour)
	}}); err != nil {
		t.Fatal(err)
	}
	expiring := entity("Xenia", "xenia@example.com", &packet.Config{KeyLifetimeSecs: 90 * 86400})
	subkeys := entity("Sue", "sue@example.com", nil)
	if err := subkeys.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time {
		return made
	}}); err != nil {
		t.Fatal(err)
	}
	small := entity("Tim", "tim@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 1024})
	line := func(options string) []byte { return []byte("m@x " + options + " " + publicSSH(p.mallory)) }
	commit := bySSH(plain, p.mallory)
	for name, test := range map[string]struct {
		raw     string
		key     []byte
		at      time.Time
		refused []string
	}{
		"a line before its time":                     {commit, line(`valid-after="20250701120000Z"`), now, []string{"not valid yet", "valid-after=2025-07-01T12:00:00Z"}},
		"a line in its time":                         {commit, line(`valid-after="20250101",valid-before="202507011200"`), now, nil},
		"a line after its time":                      {commit, line(`valid-before="20250630"`), now, []string{"not valid any more", "valid-before=2025-06-30T00:00:00Z"}},
		"a line that began after the commit":         {commit, line(`valid-after="20250629"`), now, []string{"was not valid at the time of the commit, 2025-01-02T00:00:00Z"}},
		"a line for other things than git":           {commit, line(`namespaces="file,email"`), now, []string{"not for git"}},
		"a line for everything":                      {commit, line(`NAMESPACES="*"`), now, nil},
		"two lines of which the second is in time":   {commit, []byte(string(line(`valid-before="20250630"`)) + "\n" + string(line(`valid-after="20250101"`))), now, nil},
		"an OpenPGP key that was revoked since":      {byRevoked, []byte(publicPGP(revoked)), now, []string{"revoked"}},
		"an OpenPGP key that expired since":          {byPGP(plain, expiring), []byte(publicPGP(expiring)), now, []string{"expired", "Extend it"}},
		"an OpenPGP key that is about to expire":     {byPGP(plain, expiring), []byte(publicPGP(expiring)), made.AddDate(0, 0, 89), nil},
		"a subkey of an OpenPGP key":                 {byPGP(plain, subkeys), []byte(publicPGP(subkeys)), now, nil},
		"an OpenPGP key that is too short":           {byPGP(plain, small), []byte(publicPGP(small)), now, []string{"RSA key of 1024 bits"}},
		"the second of two OpenPGP blocks":           {byPGP(plain, p.eve), []byte(publicPGP(p.ada) + publicPGP(p.eve)), now, nil},
		"an ssh line between OpenPGP blocks, for it": {commit, []byte(publicPGP(p.ada) + string(line(`namespaces="git"`)) + "\n" + publicPGP(p.eve)), now, nil},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := verify.ParseKeys(map[string][]byte{"k": test.key})
			if err != nil {
				t.Fatal(err)
			}
			signer, err := verify.Commit([]byte(test.raw), keys, test.at)
			switch {
			case test.refused != nil:
				wantRefusal(t, signer, err, test.refused)
			case err != nil || signer == "":
				t.Errorf("got %q, %v", signer, err)
			}
		})
	}
}

func TestNoKeysAllowNobody(t *testing.T) {
	for _, raw := range []string{byPGP(plain, everybody().ada), bySSH(plain, everybody().alice)} {
		signer, err := verify.Commit([]byte(raw), verify.Keys{}, now)
		wantRefusal(t, signer, err, []string{"not among the allowed keys"})
	}
}

// TestAnyChangeOfTheContentIsRefused changes, adds and removes each byte of a signed commit that is not its signature.
func TestAnyChangeOfTheContentIsRefused(t *testing.T) {
	p := everybody()
	keys := must(verify.ParseKeys(allowed(t)))
	for name, raw := range map[string]string{"ssh": bySSH(plain, p.alice), "OpenPGP": byPGP(plain, p.ada)} {
		from := strings.Index(raw, "gpgsig ")
		to := strings.Index(raw, "\n\n") + 1
		for i := range len(raw) {
			if i >= from && i < to {
				continue
			}
			changed := [][]byte{
				[]byte(raw[:i] + string(raw[i]^1) + raw[i+1:]), []byte(raw[:i] + string(raw[i]^0x20) + raw[i+1:]),
				[]byte(raw[:i] + raw[i+1:]), []byte(raw[:i] + " " + raw[i:]), []byte(raw[:i] + "\n" + raw[i:]),
			}
			for _, c := range changed {
				if string(c) == raw || removed(string(c), raw[from:to]) == removed(raw, raw[from:to]) {
					continue // one of two equal bytes taken out, or a change of the signature's own line
				}
				if signer, err := verify.Commit(c, keys, now); err == nil {
					t.Errorf("%s: byte %d changed and still signed by %s:\n%q", name, i, signer, c)
				}
			}
		}
	}
}

func removed(raw, part string) string { return strings.Replace(raw, part, "", 1) }
