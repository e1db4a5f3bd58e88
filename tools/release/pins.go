package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// pinned matches the lines of SHA256SUMS for the archives that jobs of CI run.
	pinned = regexp.MustCompile(`^[0-9a-f]{64}  bunsen-v[0-9][0-9A-Za-z.-]*-(linux|darwin)-(amd64|arm64)\.tar\.gz$`)
	// ciReference matches the image for jobs of CI.
	ciReference = regexp.MustCompile(`[0-9A-Za-z.:/_-]+/` + ciImageName + `@sha256:[0-9a-f]{64}`)
)

// ciPinned are the files that name the image for jobs of CI.
var ciPinned = []string{"templates/review.yml", ".pre-commit-hooks.yaml"}

const pinsHead = "# The archives that the action runs, as SHA256SUMS of the release has them. `make pins` writes " +
	"this file after a release.\n"

// writePins writes into the repository what the action runs: the SHA-256 of each archive of a release, the key with
// which it was signed, and the digest of the image for jobs. A release cannot contain its own digests, so the commit
// after it has them.
func writePins(o buildOptions) error {
	sums, err := os.ReadFile(filepath.Join(o.Out, "SHA256SUMS"))
	if err != nil {
		return fmt.Errorf("reading the release: %w", err)
	}
	text, found := pinsHead, 0
	for line := range strings.Lines(string(sums)) {
		if pinned.MatchString(strings.TrimSuffix(line, "\n")) {
			text, found = text+line, found+1
		}
	}
	if found == 0 {
		return fmt.Errorf("%s has no archive of a release: build it with VERSION=v1.2.3", filepath.Join(o.Out, "SHA256SUMS"))
	}
	if err := os.WriteFile(filepath.Join(o.Root, "action", "pins"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the pins: %w", err)
	}
	if o.Key != "" {
		if err := writePublicKey(o); err != nil {
			return err
		}
	}
	images, err := readImages(o.Out)
	if err != nil || images[ciImageName] == "" {
		fmt.Fprintf(os.Stderr, "the release has no image %s, so its digest stays as it is\n", ciImageName)
		return nil
	}
	return pinImage(o.Root, images[ciImageName])
}

// writePublicKey writes the public half of the key of the release.
func writePublicKey(o buildOptions) error {
	key, err := readKey(o.Key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("writing the public key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(filepath.Join(o.Root, "action", "release.pem"), text, 0o644); err != nil {
		return fmt.Errorf("writing the public key: %w", err)
	}
	return nil
}

// pinImage replaces the image for jobs in the files that name it.
func pinImage(root, reference string) error {
	for _, name := range ciPinned {
		at := filepath.Join(root, name)
		text, err := os.ReadFile(at)
		if err != nil {
			return fmt.Errorf("pinning the image: %w", err)
		}
		if !ciReference.Match(text) {
			return fmt.Errorf("%s names no image .../%s@sha256:…", name, ciImageName)
		}
		if err := os.WriteFile(at, ciReference.ReplaceAll(text, []byte(reference)), 0o644); err != nil {
			return fmt.Errorf("pinning the image: %w", err)
		}
	}
	return nil
}
