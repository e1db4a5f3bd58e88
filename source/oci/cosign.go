package oci

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The form of a signature in a registry: a layer with the signed statement, and an annotation of the layer with the
// signature.
const (
	// StatementType is the media type of a signed statement.
	StatementType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// SignatureAnnotation is the annotation of a statement with its signature in base64.
	SignatureAnnotation = "dev.cosignproject.cosign/signature"
	// MaxStatement is the largest size of a statement, in bytes.
	MaxStatement = 64 << 10

	statementKind = "cosign container image signature"
)

// Keys are the keys that artifacts must be signed with.
type Keys struct{ keys []key }

type key struct {
	name   string // name is the key in the Secret, and the fingerprint.
	der    []byte
	public crypto.PublicKey
}

// ParseKeys reads a Secret whose values are public keys in PEM, as `cosign generate-key-pair` writes them: ECDSA,
// Ed25519, or RSA with at least 2048 bits. The error is a Stalled SignatureMissing fault.
func ParseKeys(secret map[string][]byte) (Keys, error) {
	var out Keys
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(secret)) {
		keys, err := parse(name, secret[name])
		out.keys = append(out.keys, keys...)
		errs = append(errs, err)
	}
	if len(out.keys) == 0 && errors.Join(errs...) == nil {
		errs = append(errs, errors.New("the Secret has no key: add cosign.pub"))
	}
	if err := errors.Join(errs...); err != nil {
		return Keys{}, fault.NewStalled(v1alpha1.ReasonSignature, fmt.Errorf("reading the keys of spec.verify: %w",
			err))
	}
	return out, nil
}

func parse(name string, raw []byte) ([]key, error) {
	var out []key
	for {
		block, rest := pem.Decode(raw)
		if block == nil && len(out) > 0 {
			return out, nil
		}
		if block == nil || block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("%s is not a public key in PEM (-----BEGIN PUBLIC KEY-----), which artifacts "+
				"need: write the content of cosign.pub", name)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s is damaged: write the content of cosign.pub again", name)
		}
		switch k := public.(type) {
		case *ecdsa.PublicKey, ed25519.PublicKey:
		case *rsa.PublicKey:
			if k.N.BitLen() < 2048 {
				return nil, fmt.Errorf("%s has %d bits, at least 2048", name, k.N.BitLen())
			}
		default:
			return nil, fmt.Errorf("%s is of a kind that is not supported: use ECDSA, Ed25519 or RSA", name)
		}
		sum := sha256.Sum256(block.Bytes)
		label := fmt.Sprintf("%s (SHA256:%s)", name, base64.RawStdEncoding.EncodeToString(sum[:]))
		out, raw = append(out, key{label, block.Bytes, public}), rest
	}
}

// Digest returns a hash that identifies the keys.
func (k Keys) Digest() string {
	h := sha256.New()
	fmt.Fprint(h, "cosign:")
	for _, one := range k.keys {
		fmt.Fprintf(h, "%d:%s%s", len(one.der), one.der, one.name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Names lists the keys for messages.
func (k Keys) Names() []string {
	var out []string
	for _, one := range k.keys {
		out = append(out, one.name)
	}
	return out
}

// statement is the part of a signed statement that Signer reads.
type statement struct {
	Critical struct {
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
}

// Signer returns the key that signed a statement about an artifact. The digest is `sha256:<hex>`, and signature is the
// annotation of the statement. The error says why the statement does not count.
func (k Keys) Signer(text []byte, signature, digest string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return "", errors.New("the signature is not base64")
	}
	var signer string
	for _, one := range k.keys {
		if signs(one.public, text, raw) {
			signer = one.name
			break
		}
	}
	if signer == "" {
		return "", errors.New("another key made the signature")
	}
	// Only a text with a valid signature is parsed.
	var s statement
	if err := json.Unmarshal(text, &s); err != nil || s.Critical.Type != statementKind {
		return "", errors.New("the signed text is not a statement of cosign")
	}
	if s.Critical.Image.Digest != digest {
		return "", fmt.Errorf("the signature is for another artifact, %.19s", s.Critical.Image.Digest)
	}
	return signer, nil
}

func signs(public crypto.PublicKey, text, signature []byte) bool {
	sum := sha256.Sum256(text)
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(k, text, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
