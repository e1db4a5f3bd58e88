package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// billType is the media type of a bill of materials in CycloneDX.
const billType = types.MediaType("application/vnd.cyclonedx+json")

// unprivileged is the user and the group of programs that need no rights on the machine.
const unprivileged = "65532:65532"

// commit is the source commit of a build. All images of the build name this commit.
type commit struct {
	Version, Revision string
	// Time is the time of the commit. All files of an image have this time, so that the same commit gives the same
	// bytes.
	Time time.Time
}

// program is one program with the files of its image.
type program struct {
	binary
	Platform linked.Platform
	// Executable and Notices are the contents of two files in the program's image. Bill is the bill of materials, which
	// is attached to the image.
	Executable, Notices, Bill []byte
}

// file is one file of an image.
type file struct {
	Path    string
	Mode    int64
	Content []byte
}

// files returns the files of a program's image.
func (p program) files() []file {
	return []file{
		{"usr/local/bin/" + p.Name, 0o755, p.Executable},
		{"usr/share/doc/" + p.Name + "/notices.txt", 0o644, p.Notices},
	}
}

// image returns the image of a program for one platform.
func image(p program, c commit) (v1.Image, error) { return imageOn(empty.Image, p, c) }

// imageOn puts the files of a program above those of another image.
func imageOn(below v1.Image, p program, c commit) (v1.Image, error) {
	content, err := archive(p.files(), c.Time)
	if err != nil {
		return nil, fmt.Errorf("writing the layer of %s: %w", p.Name, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	},
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compressing the layer of %s: %w", p.Name, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(below, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: c.Time}, CreatedBy: "make images", Author: "Bunsen",
	}})
	if err != nil {
		return nil, fmt.Errorf("assembling the image of %s: %w", p.Name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the config of the image of %s: %w", p.Name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = p.Platform.OS, p.Platform.Arch
	config.Created = v1.Time{Time: c.Time}
	config.Config = v1.Config{
		User: p.User, WorkingDir: "/", Entrypoint: []string{"/usr/local/bin/" + p.Name},
		Env:    []string{"PATH=/usr/local/bin"},
		Labels: labels(p.binary, c),
	}
	return mutate.ConfigFile(img, config)
}

// labels are the annotations that the OCI image specification defines.
func labels(b binary, c commit) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       b.Name,
		"org.opencontainers.image.description": b.Purpose,
		"org.opencontainers.image.source":      homepage,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.vendor":      "Bunsen",
		"org.opencontainers.image.version":     c.Version,
		"org.opencontainers.image.revision":    c.Revision,
		"org.opencontainers.image.created":     c.Time.UTC().Format(time.RFC3339),
	}
}

// index joins the images of one program for all its platforms into one image index.
func index(images []v1.Image, platforms []linked.Platform, b binary, c commit) (v1.ImageIndex, error) {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, img := range images {
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: platforms[i].OS, Architecture: platforms[i].Arch},
		}})
	}
	annotated, ok := mutate.Annotations(all, labels(b, c)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotating the index of %s: the library returns another type", b.Name)
	}
	return annotated, nil
}

// attachedBill returns the bill of materials of an image as an artifact that refers to the image.
func attachedBill(bill []byte, subject v1.Descriptor) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), billType)
	img, err := mutate.AppendLayers(base, static.NewLayer(bill, billType))
	if err != nil {
		return nil, fmt.Errorf("assembling the bill of materials: %w", err)
	}
	subject.Platform = nil
	attached, ok := mutate.Subject(img, subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("attaching the bill of materials: the library returns another type")
	}
	return attached, nil
}

// archive returns a tar archive of files and their directories. All files and directories belong to root and have the
// same time.
func archive(files []file, at time.Time) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	written := map[string]bool{".": true}
	var directory func(string) error
	directory = func(dir string) error {
		if written[dir] {
			return nil
		}
		if err := directory(path.Dir(dir)); err != nil {
			return err
		}
		written[dir] = true
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at})
	}
	for _, f := range files {
		if err := directory(path.Dir(f.Path)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode,
			Size: int64(len(f.Content)), ModTime: at,
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
