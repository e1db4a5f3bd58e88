package registries

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	_ "go.podman.io/image/v5/openshift" // the transport atomic, whose scopes it checks
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

// unsigned is an image without signatures.
type unsigned struct{ reference types.ImageReference }

func (u unsigned) Reference() types.ImageReference { return u.reference }
func (u unsigned) Close() error                    { return nil }
func (u unsigned) HasThreadSafeGetBlob() bool      { return false }

func (u unsigned) GetManifest(context.Context, *godigest.Digest) ([]byte, string, error) {
	return []byte(`{"schemaVersion":2}`), "application/vnd.oci.image.manifest.v1+json", nil
}

func (u unsigned) GetBlob(context.Context, types.BlobInfo, types.BlobInfoCache) (io.ReadCloser, int64, error) {
	return nil, 0, os.ErrNotExist
}

func (u unsigned) GetSignatures(context.Context, *godigest.Digest) ([][]byte, error) { return nil, nil }

func (u unsigned) LayerInfosForCopy(context.Context, *godigest.Digest) ([]types.BlobInfo, error) {
	return nil, nil
}

// keys returns a public key and a certificate as a document has them.
func keys(t *testing.T) (public, certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "roots"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	root, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("PUBLIC KEY", der), text("CERTIFICATE", root)
}

func TestUnsignedImagesOfAScopeAreRefused(t *testing.T) {
	public, certificate := keys(t)
	root := node(t, mirrors[0], `
kind: ClusterImagePolicy
spec:
  scopes: [quay.io/signed, "*.example.org", registry.example.com/till:1.0, "registry.example.com/till`+digest+`", "registry.example.com/a/b/c/d", "localhost:5000"]
  policy: {rootOfTrust: {policyType: PublicKey, publicKey: {keyData: `+public+`, rekorKeyData: `+public+`}}}
`, `
kind: ClusterImagePolicy
spec:
  scopes: [fulcio.example.com]
  policy:
    rootOfTrust: {policyType: FulcioCAWithRekor, fulcioCAWithRekor: {fulcioCAData: `+certificate+`, rekorKeyData: `+public+`, fulcioSubject: {oidcIssuer: "https://issuer.example.com", signedEmail: a@example.com}}}
    signedIdentity: {matchPolicy: MatchRepository}
`, `
kind: ClusterImagePolicy
spec:
  scopes: [pki.example.com]
  policy:
    rootOfTrust: {policyType: PKI, pki: {caRootsData: `+certificate+`, caIntermediatesData: `+certificate+`, pkiCertificateSubject: {email: a@example.com, hostname: build.example.com}}}
    signedIdentity: {matchPolicy: ExactRepository, exactRepository: {repository: pki.example.com/a}}
`, `
kind: ImagePolicy
namespace: shop
spec:
  scopes: [registry.example.com/shop]
  policy:
    rootOfTrust: {policyType: PublicKey, publicKey: {keyData: `+public+`}}
    signedIdentity: {matchPolicy: RemapIdentity, remapIdentity: {prefix: registry.example.com, signedPrefix: build.example.com/shop}}
`)
	for _, c := range []struct {
		sentence, image string
		node, shop      bool // whether pods run the image: in all namespaces, in namespace shop
	}{
		{"an image of a scope", "quay.io/signed/a:1", false, false},
		{"an image beside a scope", "quay.io/signedness/a:1", true, true},
		{"an image of a domain", "a.example.org/a:1", false, false},
		{"an image by tag", "registry.example.com/till:1.0", false, false},
		{"another tag of it", "registry.example.com/till:1.1", true, true},
		{"an image by digest", "registry.example.com/till" + digest, false, false},
		{"a long path", "registry.example.com/a/b/c/d:1", false, false},
		{"a port", "localhost:5000/a:1", false, false},
		{"an authority for certificates", "fulcio.example.com/a:1", false, false},
		{"roots of certificates", "pki.example.com/a:1", false, false},
		{"a scope of a namespace", "registry.example.com/shop/a:1", true, false},
		{"no scope", "gcr.io/a:1", true, true},
	} {
		for file, want := range map[string]bool{
			"/etc/containers/policy.json":  c.node,
			"/etc/crio/policies/shop.json": c.shop,
		} {
			policy, err := signature.NewPolicyFromFile(filepath.Join(root, file))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got := runs(t, policy, c.image); got != want {
				t.Errorf("%s: %s allows it: %v, want %v", c.sentence, file, got, want)
			}
		}
	}
	ref, err := docker.ParseReference("//mirror.example.com:5000/quay/signed/a:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docker.SignatureStorageBaseURL(system(t, root), ref, false); err != nil {
		t.Errorf("reading registries.d: %v", err)
	}
}

// runs reports whether a policy allows an image without signatures.
func runs(t *testing.T, policy *signature.Policy, name string) bool {
	t.Helper()
	ref, err := docker.ParseReference("//" + name)
	if err != nil {
		t.Fatal(err)
	}
	decider, err := signature.NewPolicyContext(policy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = decider.Destroy() }()
	allowed, _ := decider.IsRunningImageAllowed(context.Background(), image.UnparsedInstance(unsigned{ref}, nil))
	return allowed
}
