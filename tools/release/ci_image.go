package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// ciImageName is the image for jobs of CI: bunsen with a shell and git, which these jobs need.
const ciImageName = "bunsen-ci"

const ciPurpose = "Checks config repositories in jobs of CI: bunsen, git and a shell"

// ciPackages are the packages of Debian in the image, with what they depend on.
const ciPackages = "bash,ca-certificates,coreutils,curl,dash,git,grep,gzip,sed,tar"

// ciSuite is the release of Debian.
const ciSuite = "bookworm"

// writeDebian writes the files of Debian's packages as an archive. mmdebstrap checks their signatures and runs nothing
// of them, so that the architecture of this machine does not matter.
func writeDebian(ctx context.Context, at linked.Platform, c commit) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--variant=extract", "--architectures="+at.Arch,
		"--include="+ciPackages, "--format=tar", "--quiet", ciSuite, "-")
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", c.Time.Unix()))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("unpacking git for %s: %w (package mmdebstrap has the program)\n%s", at.Arch, err,
			problems.Bytes())
	}
	return out, nil
}

// ciLayer returns the files of an archive of Debian's packages that jobs need, with one time. Perl is left out: only
// commands that send mails or speak to Subversion need it.
func ciLayer(debian []byte, at time.Time) ([]byte, error) {
	var out, authorities bytes.Buffer
	w := tar.NewWriter(&out)
	for r := tar.NewReader(bytes.NewReader(debian)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" || !ciNeeds(name) || h.Typeflag == tar.TypeBlock || h.Typeflag == tar.TypeChar {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, "usr/share/ca-certificates/") && h.Typeflag == tar.TypeReg {
			authorities.Write(content)
		}
		h.Name, h.ModTime, h.AccessTime, h.ChangeTime = name, at, time.Time{}, time.Time{}
		h.Uname, h.Gname, h.PAXRecords, h.Format = "", "", nil, tar.FormatUnknown
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if h.Typeflag == tar.TypeLink {
			h.Linkname = strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	for _, f := range []file{
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities.Bytes()}, // A script of the package would write it.
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nbunsen:x:65532:65532::/tmp:/bin/sh\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nbunsen:x:65532:\n")},
	} {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode, Size: int64(len(f.Content)), ModTime: at,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ciNeeds reports whether the image has a file. Licences stay.
func ciNeeds(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") {
		return path.Base(name) == "copyright" || strings.Count(name, "/") == 3
	}
	for _, prefix := range []string{
		"dev/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/perl", "usr/share/lintian/", "var/cache/",
		"var/lib/apt/", "var/log/", "usr/bin/perl", "usr/lib/x86_64-linux-gnu/perl", "usr/lib/aarch64-linux-gnu/perl",
		"usr/lib/x86_64-linux-gnu/libperl", "usr/lib/aarch64-linux-gnu/libperl", "etc/apt/", "etc/perl", "etc/passwd",
		"etc/group", "etc/ssl/certs/ca-certificates.crt", "usr/lib/x86_64-linux-gnu/gconv/",
		"usr/lib/aarch64-linux-gnu/gconv/", "usr/share/zoneinfo/", "usr/share/git-core/contrib", "usr/lib/git-core/git-svn",
	} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// buildCIImage returns the images for jobs of CI on the platforms of bunsen.
func buildCIImage(ctx context.Context, programs []program, c commit,
	debian func(context.Context, linked.Platform, commit) ([]byte, error),
) (built, error) {
	one := built{binary: binary{Name: ciImageName, Purpose: ciPurpose, User: unprivileged}}
	var images []v1.Image
	var on []linked.Platform
	for _, p := range programs {
		if p.Name != cliName {
			continue
		}
		p.binary = one.binary
		files, err := debian(ctx, p.Platform, c)
		if err != nil {
			return one, err
		}
		img, err := ciImage(p, files, c)
		if err != nil {
			return one, fmt.Errorf("assembling the image for jobs: %w", err)
		}
		subject, err := partial.Descriptor(img)
		if err != nil {
			return one, fmt.Errorf("describing the image for jobs: %w", err)
		}
		bill, err := attachedBill(p.Bill, *subject)
		if err != nil {
			return one, err
		}
		images, on, one.Bills = append(images, img), append(on, p.Platform), append(one.Bills, bill)
	}
	var err error
	one.Index, err = index(images, on, one.binary, c)
	return one, err
}

// ciImage puts bunsen into PATH, above the files of Debian. It has no entrypoint, because runners start a shell.
func ciImage(p program, debian []byte, c commit) (v1.Image, error) {
	base, err := ciLayer(debian, c.Time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(base)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	below, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: c.Time}, CreatedBy: "mmdebstrap " + ciSuite + " " + ciPackages, Author: "Bunsen",
	}})
	if err != nil {
		return nil, err
	}
	p.Name = cliName
	img, err := imageOn(below, p, c)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Entrypoint, config.Config.Cmd = nil, []string{"/bin/sh"}
	config.Config.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}
	config.Config.Labels = labels(binary{Name: ciImageName, Purpose: ciPurpose}, c)
	// Debian's programs have licences of their own, in /usr/share/doc.
	delete(config.Config.Labels, "org.opencontainers.image.licenses")
	return mutate.ConfigFile(img, config)
}
