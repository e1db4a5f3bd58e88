package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A signature has the form that `cosign verify --key` reads. The image at the tag sha256-DIGEST.sig has one layer with
// the statement. The annotation of this layer is the signature of the statement.
const (
	statementType       = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// statement is the content that sign signs. It names a reference and its digest.
type statement struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// readKey reads a private key in PEM: PKCS #8 or SEC 1, without a passphrase.
func readKey(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key for signatures: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading the key for signatures: %s is not PEM", path)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the key for signatures: %w (make one with: openssl genpkey -algorithm EC "+
			"-pkeyopt ec_paramgen_curve:P-256)", err)
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		return key, nil
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, errors.New("reading the key for signatures: want an ECDSA or Ed25519 key")
}

// sign returns the signature of a text. An ECDSA key signs the text's SHA-256, and an Ed25519 key the text itself.
func sign(key crypto.Signer, text []byte) ([]byte, error) {
	if _, ok := key.(ed25519.PrivateKey); ok {
		return key.Sign(rand.Reader, text, crypto.Hash(0))
	}
	sum := sha256.Sum256(text)
	return key.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// signature returns the image with the signature of another image.
func signature(of name.Digest, key crypto.Signer) (v1.Image, error) {
	var s statement
	s.Critical.Identity.Reference = of.Repository.Name()
	s.Critical.Image.Digest = of.DigestStr()
	s.Critical.Type = "cosign container image signature"
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing the statement of a signature: %w", err)
	}
	signed, err := sign(key, text)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", of, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(text, statementType), MediaType: statementType,
		Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signed)},
	})
}

// pushSignature signs an image and pushes the signature beside it.
func pushSignature(of name.Digest, keyFile string, opts ...remote.Option) error {
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	img, err := signature(of, key)
	if err != nil {
		return err
	}
	tag := of.Tag(strings.Replace(of.DigestStr(), ":", "-", 1) + ".sig")
	if err := remote.Write(tag, img, opts...); err != nil {
		return fmt.Errorf("pushing the signature of %s: %w", of, err)
	}
	return nil
}
