package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// pinned matches the lines of SHA256SUMS for the archives that jobs of CI run. action/install.sh has the same
	// pattern.
	pinned = regexp.MustCompile(`^[0-9a-f]{64}  bunsen-(v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?)-(linux|darwin)-` +
		`(amd64|arm64)\.tar\.gz$`)
	// ciReference matches the image for jobs of CI.
	ciReference = regexp.MustCompile(`[0-9A-Za-z.:/_-]+/` + ciImageName + `@sha256:[0-9a-f]{64}`)
)

const (
	pinsFile  = "action/pins"
	pinnedKey = "action/release.pem"
	// noDigest ends the reference of an image before the first release.
	noDigest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// ciPinned are the files that name the image for jobs of CI.
var ciPinned = []string{"templates/review.yml", ".pre-commit-hooks.yaml"}

const pinsHead = "# The archives that the action runs, as SHA256SUMS of the release has them, and where they are. " +
	"`make pins` writes\n# this file before the version is tagged.\n"

// writePins writes into the repository what jobs of CI run: the SHA-256 of each archive of a release, its address, the
// key with which it was signed, and the digest of the image. A release cannot contain its own digests, so the commit
// after the one that was built has them, and the tag names that commit. Nothing is written unless all is right.
func writePins(o buildOptions) error {
	key, err := releaseKey(o)
	if err != nil {
		return err
	}
	sums, err := verifiedSums(o.Out, key)
	if err != nil {
		return err
	}
	archives := pinsOf(string(sums))
	if err := checkPins(archives, o.Version); err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(o.Out, "SHA256SUMS"), err)
	}
	from := o.url(commit{Version: o.Version}, "")
	if !strings.HasPrefix(from, "https://") {
		return fmt.Errorf("the release would be at %s: name an https URL with DOWNLOADS", from)
	}
	image, err := releasedImage(o.Out, sums)
	if err != nil {
		return err
	}
	files, err := imagePins(o.Root, image)
	if err != nil {
		return err
	}
	files[pinsFile] = []byte(pinsHead + "from " + strings.TrimSuffix(from, "/") + "\n" + strings.Join(archives, "\n") +
		"\n")
	if files[pinnedKey], err = publicPEM(key); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(o.Root, name), text, 0o644); err != nil {
			return fmt.Errorf("writing the pins: %w", err)
		}
	}
	return nil
}

// pinsOf returns the lines of a text that are pins.
func pinsOf(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); pinned.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// checkPins returns an error unless all pins are of one version, which is that of a release.
func checkPins(lines []string, version string) error {
	if m := release.FindStringSubmatch(version); m == nil || m[3] != "" || m[5] != "" || version != tagOf(version) {
		return fmt.Errorf("%q is not the version of a release: name it as VERSION=v1.2.3", version)
	}
	if len(lines) == 0 {
		return errors.New("it has no archive of a release")
	}
	for _, line := range lines {
		if got := pinned.FindStringSubmatch(line)[1]; got != version {
			return fmt.Errorf("it is of the version %s, and not %s", got, version)
		}
	}
	return nil
}

// releaseKey returns the public key of the release: that of the key that signs, or else that of earlier releases.
func releaseKey(o buildOptions) (*ecdsa.PublicKey, error) {
	var key crypto.PublicKey
	if o.Key != "" {
		signer, err := readKey(o.Key)
		if err != nil {
			return nil, err
		}
		key = signer.Public()
	} else {
		raw, err := os.ReadFile(filepath.Join(o.Root, pinnedKey))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s of an earlier release is not there: name the key, SIGNING_KEY=FILE",
				pinnedKey)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the key of earlier releases: %w", err)
		}
		block, _ := pem.Decode(raw)
		if block == nil {
			return nil, fmt.Errorf("reading the key of earlier releases: %s is not PEM", pinnedKey)
		}
		if key, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
			return nil, fmt.Errorf("reading the key of earlier releases: %w", err)
		}
	}
	of, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("the key of the release is no ECDSA key, and the openssl of macOS checks no other: " +
			"sign the release with a key of openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")
	}
	return of, nil
}

// verifiedSums returns SHA256SUMS of a release, whose signature is that of the key.
func verifiedSums(out string, key *ecdsa.PublicKey) ([]byte, error) {
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		return nil, fmt.Errorf("reading the release: %w", err)
	}
	name := filepath.Join(out, "SHA256SUMS.sig")
	encoded, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the release is not signed, because there is no %s: build it with SIGNING_KEY=key.pem",
			name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the release: %w", err)
	}
	signed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if sum := sha256.Sum256(sums); !ecdsa.VerifyASN1(key, sum[:], signed) {
		return nil, fmt.Errorf("%s is not the signature of SHA256SUMS by the key of the release", name)
	}
	return sums, nil
}

// releasedImage returns the reference of the image for jobs. SHA256SUMS has the hash of the file with the reference, so
// that the signature is also one of the image.
func releasedImage(out string, sums []byte) (string, error) {
	name := filepath.Join(out, "images.json")
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading the images of the release: %w", err)
	}
	if !bytes.Contains(sums, fmt.Appendf(nil, "%x  images.json\n", sha256.Sum256(raw))) {
		return "", fmt.Errorf("%s is not the one of SHA256SUMS", name)
	}
	images, err := readImages(out)
	if err != nil {
		return "", err
	}
	image := images[ciImageName]
	switch {
	case image == "":
		return "", fmt.Errorf("%s has no %s: build the release with CI_IMAGE=1", name, ciImageName)
	case strings.HasPrefix(image, "image.invalid/"):
		return "", fmt.Errorf("%s names no registry: build the release with PUSH=registry.example.com/bunsen", name)
	case ciReference.FindString(image) != image:
		return "", fmt.Errorf("%s: the image %q has no digest", name, image)
	}
	return image, nil
}

// publicPEM returns a public key as PEM.
func publicPEM(key *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("writing the public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// imagePins returns the files that name the image for jobs, with another image in its place.
func imagePins(root, reference string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range ciPinned {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("pinning the image: %w", err)
		}
		if !ciReference.Match(text) {
			return nil, fmt.Errorf("%s names no image .../%s@sha256:…", name, ciImageName)
		}
		files[name] = ciReference.ReplaceAll(text, []byte(reference))
	}
	return files, nil
}

// checkTag returns an error unless a commit may have the tag of a version. Whoever names the tag runs what the commit
// pins, so it pins that version, and beside the pins it is the commit that was built.
func checkTag(ctx context.Context, root, revision, version string) error {
	git := func(args ...string) (string, error) {
		text, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
		}
		return string(text), err
	}
	text, err := git("show", revision+":"+pinsFile)
	if err != nil {
		return fmt.Errorf("reading the pins of %s: %w", revision, err)
	}
	if err := checkPins(pinsOf(text), version); err != nil {
		return fmt.Errorf("reading %s of %s: %w; a tag names the commit with what make pins wrote", pinsFile, revision,
			err)
	}
	for _, name := range ciPinned {
		if text, err = git("show", revision+":"+name); err == nil && strings.Contains(text, noDigest) {
			err = errors.New("it pins no image: run make pins")
		}
		if err != nil {
			return fmt.Errorf("reading %s of %s: %w", name, revision, err)
		}
	}
	text, err = git("diff", "--name-only", revision+"^", revision)
	if err != nil {
		return fmt.Errorf("comparing %s with the commit that was built: %w", revision, err)
	}
	for name := range strings.Lines(text) {
		name = strings.TrimSuffix(name, "\n")
		if name != pinsFile && name != pinnedKey && !slices.Contains(ciPinned, name) {
			return fmt.Errorf("%s changes %s beside the pins, so it is not what was built: commit the pins alone",
				revision, name)
		}
	}
	return nil
}
