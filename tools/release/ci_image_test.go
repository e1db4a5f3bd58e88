package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// TestTheImageForJobs assembles it of files as mmdebstrap writes them.
func TestTheImageForJobs(t *testing.T) {
	debian := func(context.Context, linked.Platform, commit) ([]byte, error) {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range []tar.Header{
			{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
			{Typeflag: tar.TypeChar, Name: "./dev/null", Mode: 0o666},
			{Typeflag: tar.TypeDir, Name: "./bin/", Mode: 0o755},
			{Typeflag: tar.TypeReg, Name: "./bin/dash", Mode: 0o755, Size: 4},
			{Typeflag: tar.TypeSymlink, Name: "./bin/sh", Linkname: "dash"},
			{Typeflag: tar.TypeReg, Name: "./usr/bin/git", Mode: 0o755, Size: 4},
			{Typeflag: tar.TypeLink, Name: "./usr/lib/git-core/git", Linkname: "./usr/bin/git"},
			{Typeflag: tar.TypeReg, Name: "./usr/bin/perl", Mode: 0o755, Size: 4},
			{Typeflag: tar.TypeReg, Name: "./usr/share/doc/git/copyright", Mode: 0o644, Size: 4},
			{Typeflag: tar.TypeReg, Name: "./usr/share/doc/git/changelog.gz", Mode: 0o644, Size: 4},
			{Typeflag: tar.TypeReg, Name: "./usr/share/ca-certificates/mozilla/A.crt", Mode: 0o644, Size: 4},
			{Typeflag: tar.TypeReg, Name: "./usr/share/ca-certificates/mozilla/B.crt", Mode: 0o644, Size: 4},
			{Typeflag: tar.TypeReg, Name: "./etc/passwd", Mode: 0o644, Size: 4},
		} {
			h.ModTime = time.Now() // Two builds of a commit give the same bytes, whenever they are made.
			if err := w.WriteHeader(&h); err != nil {
				return nil, err
			}
			if h.Size > 0 {
				if _, err := io.WriteString(w, "text"); err != nil {
					return nil, err
				}
			}
		}
		return out.Bytes(), w.Close()
	}
	c := commit{Version: "v1.2.3", Revision: strings.Repeat("a", 40), Time: time.Unix(1_700_000_000, 0).UTC()}
	programs := []program{
		{binary: binary{Name: "bunsen"}, Platform: platforms[0], Executable: []byte("elf"), Bill: []byte("{}")},
		{binary: binary{Name: "bunsen"}, Platform: platforms[1], Executable: []byte("elf"), Bill: []byte("{}")},
		{binary: binary{Name: "machine-config-server"}, Platform: platforms[0]},
	}
	var digests [2]string
	for i := range digests {
		one, err := buildCIImage(t.Context(), programs, c, debian)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := one.Index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = digest.String()
		manifest, err := one.Index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 2 || len(one.Bills) != 2 {
			t.Fatalf("%+v, %d bills, %v", manifest, len(one.Bills), err)
		}
		img, err := one.Index.Image(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Config.User != unprivileged || len(config.Config.Entrypoint) != 0 ||
			config.Config.Labels["org.opencontainers.image.title"] != ciImageName {
			t.Errorf("%+v, %v", config, err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 2 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		// What is the same in every release is below, so that nodes of a runner pull it once.
		top, err := layers[1].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(top)
		top.Close()
		if err != nil || untar(t, content, "")["usr/local/bin/bunsen"] != "elf" {
			t.Errorf("bunsen is not in the upper layer, %v", err)
		}
		files := map[string]string{}
		unpacked := mutate.Extract(img)
		for r := tar.NewReader(unpacked); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimSuffix(h.Name, "/")] = string(content) + h.Linkname
		}
		unpacked.Close()
		for name, want := range map[string]string{
			"usr/local/bin/bunsen": "elf", "bin/sh": "dash", "usr/bin/git": "text", "usr/lib/git-core/git": "usr/bin/git",
			"usr/share/doc/git/copyright": "text", "etc/ssl/certs/ca-certificates.crt": "texttext",
		} {
			if files[name] != want {
				t.Errorf("%s is %q, want %q", name, files[name], want)
			}
		}
		for _, name := range []string{"dev/null", "usr/bin/perl", "usr/share/doc/git/changelog.gz"} {
			if _, has := files[name]; has {
				t.Errorf("the image has %s", name)
			}
		}
		if !strings.Contains(files["etc/passwd"], "bunsen:x:65532:") {
			t.Errorf("the users are %q", files["etc/passwd"])
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds differ: %s, %s", digests[0], digests[1])
	}
}
