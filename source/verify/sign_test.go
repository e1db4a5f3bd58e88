package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// The times of the tests: keys are made, a commit is signed a day later, and checked half a year after that.
var (
	made   = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	signed = made.AddDate(0, 0, 1)
	now    = made.AddDate(0, 6, 0)
)

// people are everybody's keys. Making them is slow, so it is done once.
type people struct {
	alice, bob, carol, mallory ssh.Signer // ed25519, rsa, ecdsa, ed25519; mallory is not allowed
	short                      ssh.Signer // rsa, too short
	ada, eve                   *openpgp.Entity
}

var everybody = sync.OnceValue(func() people {
	return people{
		alice: sshSigner(ed25519Key()), mallory: sshSigner(ed25519Key()),
		bob: sshSigner(rsaKey(2048)), short: sshSigner(rsaKey(1024)), carol: sshSigner(ecdsaKey()),
		ada: entity("Ada", "ada@example.com", nil), eve: entity("Eve", "eve@example.com", nil),
	}
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ed25519Key() crypto.Signer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return must(private, err)
}

func rsaKey(bits int) crypto.Signer { return must(rsa.GenerateKey(rand.Reader, bits)) }

func ecdsaKey() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func sshSigner(k crypto.Signer) ssh.Signer { return must(ssh.NewSignerFromSigner(k)) }

func entity(name, mail string, c *packet.Config) *openpgp.Entity {
	if c == nil {
		c = &packet.Config{}
	}
	c.Time = func() time.Time { return made }
	if c.Algorithm == 0 {
		c.Algorithm = packet.PubKeyAlgoEdDSA
	}
	return must(openpgp.NewEntity(name, "", mail, c))
}

func publicPGP(e *openpgp.Entity) string {
	var out bytes.Buffer
	w := must(armor.Encode(&out, openpgp.PublicKeyType, nil))
	if err := e.Serialize(w); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.String() + "\n"
}

func publicSSH(s ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

func fingerprint(s ssh.Signer) string { return ssh.FingerprintSHA256(s.PublicKey()) }

// plain is a commit as git writes one, unsigned.
const plain = `tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
parent 0123456789abcdef0123456789abcdef01234567
author Ada Lovelace <ada@example.com> 1735776000 +0100
committer Bot <bot@example.com> 1735776000 +0000

time: chrony everywhere

The second server is the fallback.
`

// withHeader puts a header at the end of a commit's header.
func withHeader(raw, header string) string {
	head, body, _ := strings.Cut(raw, "\n\n")
	return head + "\n" + header + "\n\n" + body
}

// withSignature puts a signature where git puts it.
func withSignature(raw, armored string) string {
	return withHeader(raw, "gpgsig "+strings.ReplaceAll(strings.TrimSpace(armored), "\n", "\n "))
}

// sshSignature is how an SSH signature is made; a zero field is what git uses.
type sshSignature struct {
	version         uint32
	namespace, hash string
	algorithm       string
	edit            func(blob []byte) []byte
}

func (s sshSignature) over(payload string, by ssh.Signer) string {
	if s.version == 0 {
		s.version = 1
	}
	if s.namespace == "" {
		s.namespace = "git"
	}
	var digest []byte
	switch s.hash {
	case "sha256":
		sum := sha256.Sum256([]byte(payload))
		digest = sum[:]
	default:
		sum := sha512.Sum512([]byte(payload))
		digest = sum[:]
	}
	if s.hash == "" {
		s.hash = "sha512"
	}
	if s.algorithm == "" && by.PublicKey().Type() == ssh.KeyAlgoRSA {
		s.algorithm = ssh.KeyAlgoRSASHA512
	}
	message := "SSHSIG" + string(ssh.Marshal(struct{ N, R, H, M string }{s.namespace, "", s.hash, string(digest)}))
	var sig *ssh.Signature
	if s.algorithm == "" {
		sig = must(by.Sign(rand.Reader, []byte(message)))
	} else {
		sig = must(by.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, []byte(message), s.algorithm))
	}
	blob := fmt.Appendf(nil, "SSHSIG%s", ssh.Marshal(struct {
		V             uint32
		P, N, R, H, S string
	}{s.version, string(by.PublicKey().Marshal()), s.namespace, "", s.hash, string(ssh.Marshal(sig))}))
	if s.edit != nil {
		blob = s.edit(blob)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: blob}))
}

func bySSH(raw string, by ssh.Signer) string {
	return withSignature(raw, sshSignature{}.over(raw, by))
}

func pgpSignature(payload string, by *openpgp.Entity, c packet.Config) string {
	if c.Time == nil {
		c.Time = func() time.Time { return signed }
	}
	var out bytes.Buffer
	if err := openpgp.ArmoredDetachSign(&out, by, strings.NewReader(payload), &c); err != nil {
		panic(err)
	}
	return out.String()
}

func byPGP(raw string, by *openpgp.Entity) string {
	return withSignature(raw, pgpSignature(raw, by, packet.Config{}))
}

// allowed are the keys of everybody but mallory and eve.
func allowed(t testing.TB, more ...string) map[string][]byte {
	t.Helper()
	p := everybody()
	return map[string][]byte{
		"pgp.asc": []byte(publicPGP(p.ada)),
		"signers": []byte(strings.Join(append([]string{
			`alice@example.com ` + publicSSH(p.alice) + ` laptop`,
			`"bob@example.com,robert@example.com" namespaces="file,git" ` + publicSSH(p.bob),
			publicSSH(p.carol) + " carol@desk",
		}, more...), "\n") + "\n"),
	}
}

// pgpOver is an armored signature as gpg appends it to a tag.
func pgpOver(payload string, by *openpgp.Entity) string {
	return pgpSignature(payload, by, packet.Config{}) + "\n"
}

// pgpEntity is a key that a test changes, and sign signs the plain commit with it as it is now.
type pgpEntity struct {
	*openpgp.Entity
	sign func()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
