package main

import (
	"archive/tar"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// TestAnImageForEachArchitecture compiles a program for both architectures, pushes its image, and pulls it as a machine
// of each architecture does.
func TestAnImageForEachArchitecture(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n", "main.go": "package main\n\nvar version string\n\n" +
			"func main() { println(version) }\n", "LICENSE": "none",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithReferrersSupport(true)))
	defer server.Close()
	o := buildOptions{Root: dir, Version: version, Repository: strings.TrimPrefix(server.URL, "http://") + "/bunsen"}
	b := binary{Name: "small", Module: ".", Package: ".", Purpose: "Prints its version", User: unprivileged}
	var programs []program
	for _, at := range o.platforms() {
		p, err := compile(t.Context(), o, b, at)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	c := commit{Version: version, Revision: strings.Repeat("a", 40), Time: time.Unix(1_700_000_000, 0).UTC()}
	one, err := buildImage(b, programs, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := pushAll(t.Context(), o, []built{one}); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(o.Repository + "/small:" + version)
	if err != nil {
		t.Fatal(err)
	}
	for arch := range machines {
		img, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.OS != "linux" {
			t.Errorf("the image for %s says that it is for %s/%s", arch, config.OS, config.Architecture)
		}
		p := program{binary: b, Platform: linked.Platform{OS: "linux", Arch: arch}, Executable: executable(t, img)}
		if err := checkPlatform(p); err != nil {
			t.Error(err)
		}
	}
	all, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var on []string
	for _, m := range manifest.Manifests {
		on = append(on, m.Platform.String())
	}
	slices.Sort(on)
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(on, want) {
		t.Errorf("the index has images for %q, want %q", on, want)
	}
	t.Run("a program for another machine", func(t *testing.T) { refuseOthers(t, programs) })
}

// executable returns the program of an image.
func executable(t *testing.T, img v1.Image) []byte {
	t.Helper()
	unpacked := mutate.Extract(img)
	defer unpacked.Close()
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && h.Mode&0o111 != 0 {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
}

// refuseOthers puts programs into images of another architecture, and programs that need a loader into any image.
func refuseOthers(t *testing.T, programs []program) {
	for i := range programs {
		p := programs[i]
		p.Platform = programs[1-i].Platform
		if err := checkPlatform(p); err == nil || !strings.Contains(err.Error(), "is for EM_") {
			t.Errorf("a program for %s in an image for %s: %v", programs[i].Platform.Arch, p.Platform.Arch, err)
		}
	}
	p := programs[0]
	p.Executable = []byte("#!/bin/sh\n")
	err := checkPlatform(p)
	if err == nil || !strings.Contains(err.Error(), "reading the header of the program small") {
		t.Errorf("a script as a program: %v", err)
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatalf("reading a program of this machine, to put it into an image: %v", err)
	}
	p.Executable, p.Platform.Arch = shell, arch()
	if err := checkPlatform(p); err == nil || !strings.Contains(err.Error(), "needs a loader") {
		t.Errorf("a program that needs a loader: %v", err)
	}
}
