package oci_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"

	"github.com/bunsen-os/bunsen/source/oci"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// pkcs8 returns a private key in PEM, and the same key as DER.
func pkcs8(t *testing.T, key crypto.PrivateKey) (text, der []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), der
}

// public returns the public key in PEM.
func public(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// seal encrypts a key as cosign does. Change edits the parameters before they are written.
func seal(t *testing.T, kind string, der []byte, password string, change func(map[string]any)) []byte {
	t.Helper()
	salt, nonce := make([]byte, 32), [24]byte{}
	if _, err := rand.Read(salt); err != nil {
		t.Fatal(err)
	}
	if _, err := rand.Read(nonce[:]); err != nil {
		t.Fatal(err)
	}
	derived, err := scrypt.Key([]byte(password), salt, 1<<10, 8, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{"N": 1 << 10, "r": 8, "p": 1}
	if change != nil {
		change(params)
	}
	raw, err := json.Marshal(map[string]any{
		"kdf":        map[string]any{"name": "scrypt", "params": params, "salt": salt},
		"cipher":     map[string]any{"name": "nacl/secretbox", "nonce": nonce[:]},
		"ciphertext": secretbox.Seal(nil, der, &nonce, (*[32]byte)(derived)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

func TestEachKindOfKeySignsWhatItsPublicKeyVerifies(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	plain, der := pkcs8(t, ec)
	edText, _ := pkcs8(t, ed)
	rsText, _ := pkcs8(t, rs)
	for name, test := range map[string]struct {
		text     []byte
		password string
		key      crypto.Signer
	}{
		"ECDSA":                          {plain, "", ec},
		"ECDSA, as openssl writes it":    {pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}), "", ec},
		"Ed25519":                        {edText, "", ed},
		"RSA":                            {rsText, "", rs},
		"RSA, as openssl writes it":      {pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rs)}), "", rs},
		"encrypted by cosign":            {seal(t, "ENCRYPTED SIGSTORE PRIVATE KEY", der, "pass", nil), "pass", ec},
		"encrypted by cosign 1":          {seal(t, "ENCRYPTED COSIGN PRIVATE KEY", der, "pass", nil), "pass", ec},
		"encrypted with no password":     {seal(t, "ENCRYPTED SIGSTORE PRIVATE KEY", der, "", nil), "", ec},
		"an unencrypted one, a password": {plain, "pass", ec},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := oci.ParsePrivateKey(test.text, []byte(test.password))
			if err != nil {
				t.Fatal(err)
			}
			keys, err := oci.ParseKeys(map[string][]byte{"cosign.pub": public(t, test.key)})
			if err != nil {
				t.Fatal(err)
			}
			text, signature, err := key.Sign("registry.example.org/cfg", digest)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := keys.Signer(text, signature, digest)
			if err != nil || signer != "cosign.pub ("+key.Fingerprint()+")" {
				t.Errorf("got %q, %v", signer, err)
			}
			again, same, err := key.Sign("registry.example.org/cfg", digest)
			if err != nil || string(again) != string(text) || same != signature {
				t.Errorf("a second signature differs, %v", err)
			}
			if _, err := keys.Signer(text, signature, strings.Replace(digest, "0", "1", 1)); err == nil {
				t.Error("the signature counts for another artifact")
			}
			if !json.Valid(text) || !strings.Contains(string(text), `"docker-reference":"registry.example.org/cfg"`) {
				t.Errorf("the statement is %s", text)
			}
		})
	}
}

func TestAKeyThatCannotSignIsRefused(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	plain, der := pkcs8(t, ec)
	weakText, _ := pkcs8(t, weak)
	const kind = "ENCRYPTED SIGSTORE PRIVATE KEY"
	sealed := func(change func(map[string]any)) []byte { return seal(t, kind, der, "pass", change) }
	for name, test := range map[string]struct {
		text  []byte
		words string
	}{
		"nothing":              {nil, "not a private key in PEM"},
		"a public key":         {public(t, ec), `a PEM block of type "PUBLIC KEY"`},
		"a damaged key":        {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:40]}), "is damaged"},
		"a short RSA key":      {weakText, "1024 bits, at least 2048"},
		"another password":     {seal(t, kind, der, "other", nil), "does not decrypt"},
		"no JSON":              {pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("{")}), "is damaged"},
		"no parameters":        {pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("{}")}), "form that is not supported"},
		"work for hours":       {sealed(func(p map[string]any) { p["N"] = 1 << 30 }), "out of range"},
		"work for hours, by r": {sealed(func(p map[string]any) { p["r"] = 1 << 40 }), "out of range"},
		"work for hours, by p": {sealed(func(p map[string]any) { p["p"] = 1 << 20 }), "out of range"},
		"no power of two":      {sealed(func(p map[string]any) { p["N"] = 1000 }), "out of range"},
		"a negative number":    {sealed(func(p map[string]any) { p["r"] = -8 }), "out of range"},
		"not a PKCS 8 key":     {seal(t, kind, []byte("nonsense"), "pass", nil), "is damaged"},
		"a damaged ciphertext": {[]byte(strings.Replace(string(plain), "PRIVATE KEY", kind, 2)), "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := oci.ParsePrivateKey(test.text, []byte("pass"))
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}
