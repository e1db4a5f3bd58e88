package main

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// sizeRow matches an image in the table of docs/installing.md: its name, and its limits in MB.
var sizeRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)`[^|]*\\|[^|]*\\| (\\d+) MB \\| (\\d+) MB \\|$")

// imageLimit returns the limits of an image in bytes, which the page for operators states: unpacked, and as a node
// pulls it.
func imageLimit(t *testing.T, image string) (unpacked, pulled int64) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "installing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range sizeRow.FindAllStringSubmatch(string(page), -1) {
		if row[1] != image {
			continue
		}
		a, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		b, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return a * 1e6, b * 1e6
	}
	t.Fatalf("docs/installing.md has no size of the image %s", image)
	return 0, 0
}

// version is the version of the release that the tests build, as its tag spells it, and number is how packages do.
const (
	version = "v0.1.0"
	number  = "0.1.0"
)

// push builds a release of the programs in BUNSEN_BIN, and pushes its images to a registry of this test.
func push(t *testing.T) (repository, out string, publicKey *ecdsa.PublicKey) {
	t.Helper()
	dir := programs(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	repository = strings.TrimPrefix(server.URL, "http://") + "/bunsen"
	keyFile, key := newKey(t)
	out = t.TempDir()
	args := []string{
		"all", "-root", root, "-o", out, "-version", version, "-bin", dir, "-push", repository, "-key",
		keyFile,
	}
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	return repository, out, &key.PublicKey
}

// newKey returns a key for signatures, in a file and itself.
func newKey(t *testing.T) (keyFile string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return keyFile, key
}

// TestRelease looks at all that a release publishes, as those who install it do.
func TestRelease(t *testing.T) {
	repository, out, key := push(t)
	t.Run("checksums", func(t *testing.T) { checkSums(t, out, key) })
	t.Run("archive", func(t *testing.T) { checkArchive(t, out) })
	t.Run("archive of the CLI", func(t *testing.T) { checkCLIArchive(t, out) })
	t.Run("packages of the CLI", func(t *testing.T) { checkCLIPackages(t, out) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, out) })
	t.Run("Homebrew", func(t *testing.T) { checkFormula(t, out) })
	t.Run("Debian package", func(t *testing.T) { checkDebianPackage(t, out) })
	t.Run("extension image", func(t *testing.T) { checkExtension(t, out) })
	t.Run("schemas", func(t *testing.T) {
		for _, name := range []string{"butane.json", "butane-fcos-1.6.0.json", "rolloutpolicy.json", "kustomization.json"} {
			if _, err := os.Stat(filepath.Join(out, "schemas", name)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("manifest", func(t *testing.T) { checkManifest(t, out, repository) })
	written, err := layout.FromPath(filepath.Join(out, "images"))
	if err != nil {
		t.Fatal(err)
	}
	digests := digestsOf(t, written)
	for _, b := range binaries {
		if b.Purpose == "" {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			tag, err := name.NewTag(repository + "/" + b.Name + ":" + version)
			if err != nil {
				t.Fatal(err)
			}
			all, err := remote.Index(tag)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := all.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if !digests[digest.String()] {
				t.Errorf("the layout has no index with the digest %s, which was pushed", digest)
			}
			manifest, err := all.IndexManifest()
			if err != nil {
				t.Fatal(err)
			}
			if len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != arch() {
				t.Fatalf("the index names %+v, want one image of this machine's architecture", manifest.Manifests)
			}
			img, err := all.Image(manifest.Manifests[0].Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, b, img)
			checkFiles(t, b, img)
			checkBill(t, b, tag, manifest.Manifests[0].Digest)
			checkSignature(t, tag.Digest(digest.String()), key)
		})
	}
}

func digestsOf(t *testing.T, p layout.Path) map[string]bool {
	t.Helper()
	all, err := p.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, m := range manifest.Manifests {
		digests[m.Digest.String()] = true
	}
	return digests
}

func checkConfig(t *testing.T, b binary, img v1.Image) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != b.User || !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/" + b.Name}) {
		t.Errorf("the image runs %q as user %q", config.Config.Entrypoint, config.Config.User)
	}
	if got := config.Config.Labels["org.opencontainers.image.title"]; got != b.Name {
		t.Errorf("the label with the title is %q", got)
	}
	if len(config.Config.Labels["org.opencontainers.image.revision"]) != 40 {
		t.Errorf("the label with the commit is %q", config.Config.Labels["org.opencontainers.image.revision"])
	}
}

// checkFiles compares an image's files with the program, and starts the program in a root that has these files alone.
func checkFiles(t *testing.T, b binary, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var pulled int64
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			t.Fatal(err)
		}
		pulled += size
	}
	unpacked := mutate.Extract(img)
	defer unpacked.Close()
	root, size := t.TempDir(), int64(0)
	modes := map[string]int64{}
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		size, modes[h.Name] = size+h.Size, h.Mode
		if err := os.WriteFile(at, content, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	most, mostPulled := imageLimit(t, b.Name)
	if size > most || pulled > mostPulled {
		t.Errorf("the image has %d bytes, %d of them pulled; docs/installing.md says at most %d and %d", size, pulled,
			most, mostPulled)
	}
	if size < most*8/10 {
		t.Errorf("the image has %d bytes, much less than the %d of docs/installing.md: lower that", size, most)
	}
	t.Logf("%s: %.1f MB, pulled as %.1f MB", b.Name, float64(size)/1e6, float64(pulled)/1e6)
	want := map[string]int64{"usr/local/bin/" + b.Name: 0o755, "usr/share/doc/" + b.Name + "/notices.txt": 0o644}
	if !maps.Equal(modes, want) {
		t.Errorf("the image has the files %v, want %v", modes, want)
	}
	if os.Getuid() != 0 {
		t.Log("not started: entering another root needs root")
		return
	}
	cmd := exec.Command("/usr/local/bin/"+b.Name, "--help")
	cmd.SysProcAttr, cmd.Dir, cmd.Env = &syscall.SysProcAttr{Chroot: root}, "/", []string{}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), b.Name) {
		t.Errorf("%s --help in a root with the image's files alone: %v\n%s", b.Name, err, out)
	}
}

// checkBill reads the bill of materials as one who has only the image's digest.
func checkBill(t *testing.T, b binary, tag name.Tag, of v1.Hash) {
	t.Helper()
	referrers, err := remote.Referrers(tag.Digest(of.String()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != string(billType) {
		t.Fatalf("these artifacts refer to the image: %+v; want one bill of materials", manifest.Manifests)
	}
	artifact, err := remote.Image(tag.Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := json.Unmarshal(onlyLayer(t, artifact), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Name != b.Name || bom.Components == nil || len(*bom.Components) < 10 {
		t.Errorf("the bill of materials is that of %+v", bom.Metadata.Component)
	}
}

func onlyLayer(t *testing.T, img v1.Image) []byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the artifact has %d layers, %v; want one", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	raw, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func checkSignature(t *testing.T, of name.Digest, key *ecdsa.PublicKey) {
	t.Helper()
	img, err := remote.Image(of.Tag(strings.Replace(of.DigestStr(), ":", "-", 1) + ".sig"))
	if err != nil {
		t.Fatal(err)
	}
	text := onlyLayer(t, img)
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations[signatureAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if !ecdsa.VerifyASN1(key, sum[:], signed) {
		t.Error("the signature is not that of the key")
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil || s.Critical.Image.Digest != of.DigestStr() {
		t.Errorf("the signed statement is %s, %v", text, err)
	}
}

func TestTheSameCommitGivesTheSameImage(t *testing.T) {
	c := commit{Version: "v1", Revision: strings.Repeat("a", 40), Time: time.Unix(1_700_000_000, 0).UTC()}
	p := program{
		binary: binaries[0], Platform: linked.Platform{OS: "linux", Arch: "arm64"}, Executable: []byte("elf"),
		Notices: []byte("notices"), Bill: []byte("{}"),
	}
	digest := func(p program, c commit) string {
		img, err := image(p, c)
		if err != nil {
			t.Fatal(err)
		}
		all, err := index([]v1.Image{img}, []linked.Platform{p.Platform}, p.binary, c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := all.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first := digest(p, c)
	if again := digest(p, c); again != first {
		t.Errorf("the second build has the digest %s, the first %s", again, first)
	}
	changed := p
	changed.Executable = []byte("elf2")
	if digest(changed, c) == first {
		t.Error("another program has the same digest")
	}
}

func TestKeysThatCannotSign(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct{ content, want string }{
		"no PEM":        {"hello", "is not PEM"},
		"a public key":  {"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n", "openssl genpkey"},
		"an RSA key":    {rsaKey(t), "want an ECDSA or Ed25519 key"},
		"an empty file": {"", "is not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readKey(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("reading it: %v; want an error with %q", err, tc.want)
			}
		})
	}
}

func TestNothingIsPushedToABadName(t *testing.T) {
	err := pushAll(t.Context(), buildOptions{Repository: "UPPER case", Version: "v1"},
		[]built{{binary: binaries[0], Index: empty.Index}})
	if err == nil || !strings.Contains(err.Error(), `reading the repository "UPPER case"`) {
		t.Errorf("pushing: %v", err)
	}
}

func TestArchivesHaveDirectoriesFirst(t *testing.T) {
	raw, err := archive([]file{{"b/c", 0o644, []byte("1")}, {"a/x/y", 0o755, nil}}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(time.Unix(0, 0)) || len(h.PAXRecords) > 0 {
			t.Errorf("%s belongs to %d:%d, has the time %s and the records %v", h.Name, h.Uid, h.Gid, h.ModTime,
				h.PAXRecords)
		}
		names = append(names, h.Name)
	}
	if want := []string{"a/", "a/x/", "a/x/y", "b/", "b/c"}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
}

func rsaKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
