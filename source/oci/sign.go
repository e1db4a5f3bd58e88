package oci

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// PrivateKey signs artifacts.
type PrivateKey struct {
	signer crypto.Signer
	name   string
}

// IsEncrypted reports whether a private key in PEM needs a password.
func IsEncrypted(raw []byte) bool {
	block, _ := pem.Decode(raw)
	return block != nil && encryptedTypes[block.Type]
}

// encryptedTypes are the PEM types of cosign's encrypted keys. Earlier versions of cosign write the second type.
var encryptedTypes = map[string]bool{"ENCRYPTED SIGSTORE PRIVATE KEY": true, "ENCRYPTED COSIGN PRIVATE KEY": true}

// ParsePrivateKey reads a private key in PEM: the cosign.key that `cosign generate-key-pair` writes, which the password
// decrypts, or an unencrypted ECDSA, Ed25519 or RSA key. No error contains a part of the key or of the password.
func ParsePrivateKey(raw, password []byte) (PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return PrivateKey{}, errors.New("it is not a private key in PEM: name the file cosign.key that cosign " +
			"generate-key-pair wrote")
	}
	var parsed any
	var err error
	switch {
	case encryptedTypes[block.Type]:
		var der []byte
		if der, err = decrypt(block.Bytes, password); err != nil {
			return PrivateKey{}, err
		}
		parsed, err = x509.ParsePKCS8PrivateKey(der)
	case block.Type == "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case block.Type == "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	case block.Type == "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return PrivateKey{}, fmt.Errorf("a PEM block of type %q is not a private key for signatures: use ECDSA, "+
			"Ed25519 or RSA, unencrypted or as cosign encrypts it", block.Type)
	}
	if err != nil {
		return PrivateKey{}, errors.New("the private key is damaged: copy it again from the machine that created it")
	}
	return newPrivateKey(parsed)
}

// newPrivateKey accepts the keys whose signatures Keys.Signer accepts.
func newPrivateKey(parsed any) (PrivateKey, error) {
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return PrivateKey{}, errors.New("a key of this kind makes no signatures: use ECDSA, Ed25519 or RSA")
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return PrivateKey{}, errors.New("a key of this kind is not supported: use ECDSA, Ed25519 or RSA")
	}
	keys, err := parse("the key", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		return PrivateKey{}, err
	}
	sum := sha256.Sum256(keys[0].der)
	return PrivateKey{signer, "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])}, nil
}

// Fingerprint returns `SHA256:<base64>` of the public key, as Keys.Names has it.
func (k PrivateKey) Fingerprint() string { return k.name }

// Sign returns the statement about an artifact, and its signature in base64. The digest is `sha256:<hex>`, and
// repository is `registry/name`. The same key and artifact give the same bytes.
func (k PrivateKey) Sign(repository, digest string) (text []byte, signature string, err error) {
	text, err = json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": repository},
			"image":    map[string]string{"docker-manifest-digest": digest},
			"type":     statementKind,
		},
		"optional": nil,
	})
	if err != nil {
		return nil, "", fmt.Errorf("writing the statement: %w", err)
	}
	sum := sha256.Sum256(text)
	var raw []byte
	switch s := k.signer.(type) {
	case ed25519.PrivateKey:
		raw = ed25519.Sign(s, text)
	case *rsa.PrivateKey:
		raw, err = rsa.SignPKCS1v15(nil, s, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		// Without random input, the signature is deterministic, by RFC 6979.
		raw, err = s.Sign(nil, sum[:], crypto.SHA256)
	}
	if err != nil {
		return nil, "", fmt.Errorf("signing the statement: %w", err)
	}
	return text, base64.StdEncoding.EncodeToString(raw), nil
}

// sealed is the content of cosign's encrypted key.
type sealed struct {
	KDF struct {
		Name   string `json:"name"`
		Params struct {
			N int `json:"N"`
			R int `json:"r"`
			P int `json:"p"`
		} `json:"params"`
		Salt []byte `json:"salt"`
	} `json:"kdf"`
	Cipher struct {
		Name  string `json:"name"`
		Nonce []byte `json:"nonce"`
	} `json:"cipher"`
	Ciphertext []byte `json:"ciphertext"`
}

// maxScrypt bounds the work of a key derivation: 1 GiB of memory. The keys that cosign writes need 32 or 64 MiB.
const maxScrypt = 1 << 30

func decrypt(raw, password []byte) ([]byte, error) {
	var s sealed
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, errors.New("the encrypted key is damaged: copy it again from the machine that created it")
	}
	n, r, p := s.KDF.Params.N, s.KDF.Params.R, s.KDF.Params.P
	if s.KDF.Name != "scrypt" || s.Cipher.Name != "nacl/secretbox" || len(s.Cipher.Nonce) != 24 {
		return nil, errors.New("the key is encrypted in a form that is not supported: create it with cosign " +
			"generate-key-pair")
	}
	if n < 2 || r < 1 || p < 1 || p > 16 || n > maxScrypt/128/r {
		return nil, errors.New("the key derivation of the encrypted key is out of range: create the key with cosign " +
			"generate-key-pair")
	}
	derived, err := scrypt.Key(password, s.KDF.Salt, n, r, p, 32)
	if err != nil {
		return nil, errors.New("the key derivation of the encrypted key is out of range: create the key with cosign " +
			"generate-key-pair")
	}
	der, ok := secretbox.Open(nil, s.Ciphertext, (*[24]byte)(s.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("the password does not decrypt the key")
	}
	return der, nil
}
