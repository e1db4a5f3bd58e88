package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// buildOptions are the inputs and the outputs of a build.
type buildOptions struct {
	// Root is the root of the repository.
	Root string
	// Out is the directory to write to.
	Out string
	// Version is the version of the programs and the tag of the images.
	Version string
	// Bin is a directory with programs that were built before, for this machine's platform. If Bin is empty, the
	// programs are built for all platforms.
	Bin string
	// Repository is the registry path to which the images are pushed, such as registry.example.com/bunsen; if it is
	// empty, nothing is pushed.
	Repository string
	// CI adds the image for jobs of CI, for which mmdebstrap downloads packages of Debian.
	CI bool
	// Downloads is the URL below which users find the files; if it is empty, that of the release on GitHub.
	Downloads string
	// Key is a file with the private key for signatures; if it is empty, nothing is signed.
	Key string
}

// platforms returns the platforms of the build.
func (o buildOptions) platforms() []linked.Platform {
	if o.Bin != "" {
		return []linked.Platform{{OS: "linux", Arch: arch()}}
	}
	return platforms
}

// compileAll returns every program that has a purpose, for all platforms.
func compileAll(ctx context.Context, o buildOptions) ([]program, error) {
	var all []program
	for _, b := range binaries {
		if b.Purpose == "" {
			continue
		}
		for _, at := range o.platforms() {
			fmt.Fprintf(os.Stderr, "building %s for %s/%s\n", b.Name, at.OS, at.Arch)
			p, err := compile(ctx, o, b, at)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// built is the result of the build for one program.
type built struct {
	binary
	Index v1.ImageIndex
	// Bills are artifacts that refer to the images of Index, one for each platform.
	Bills []v1.Image
}

// writeImages writes the images of programs to a layout. If Repository is set, writeImages also pushes the images.
func writeImages(ctx context.Context, o buildOptions, programs []program, c commit) error {
	var all []built
	for _, b := range binaries {
		if b.Purpose == "" {
			continue
		}
		one, err := buildImage(b, programs, c)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	if o.CI {
		one, err := buildCIImage(ctx, programs, c, writeDebian)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	digests, err := writeLayout(filepath.Join(o.Out, "images"), o.Version, all)
	if err != nil {
		return err
	}
	if err := writeDigests(o, digests); err != nil {
		return err
	}
	if o.Repository == "" {
		return nil
	}
	return pushAll(ctx, o, all)
}

// buildImage returns the images of one program.
func buildImage(b binary, programs []program, c commit) (built, error) {
	one := built{binary: b}
	var images []v1.Image
	var on []linked.Platform
	for _, p := range programs {
		if p.Name != b.Name {
			continue
		}
		img, err := image(p, c)
		if err != nil {
			return built{}, err
		}
		subject, err := partial.Descriptor(img)
		if err != nil {
			return built{}, fmt.Errorf("describing the image of %s: %w", b.Name, err)
		}
		bill, err := attachedBill(p.Bill, *subject)
		if err != nil {
			return built{}, fmt.Errorf("attaching to the image of %s: %w", b.Name, err)
		}
		images, on, one.Bills = append(images, img), append(on, p.Platform), append(one.Bills, bill)
	}
	var err error
	one.Index, err = index(images, on, b, c)
	return one, err
}

// compile returns a program for a platform, with its notices and its bill of materials.
func compile(ctx context.Context, o buildOptions, b binary, at linked.Platform) (program, error) {
	p := program{binary: b, Platform: at}
	from := filepath.Join(o.Bin, b.Name)
	if o.Bin == "" {
		dir, err := os.MkdirTemp("", "bunsen-images-")
		if err != nil {
			return p, fmt.Errorf("creating a directory for %s: %w", b.Name, err)
		}
		defer os.RemoveAll(dir)
		from = filepath.Join(dir, b.Name)
		if err := goBuild(ctx, o, b, at, from); err != nil {
			return p, err
		}
	}
	var err error
	if p.Executable, err = os.ReadFile(from); err != nil {
		return p, fmt.Errorf("reading the program %s: %w", b.Name, err)
	}
	if err := checkPlatform(p); err != nil {
		return p, err
	}
	papers, err := papersOf(ctx, o.Root, o.Version, b, at)
	if err != nil {
		return p, err
	}
	p.Notices, p.Bill = papers.Notices, papers.Bill
	return p, nil
}

// machines are the architectures of programs, as their ELF headers name them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkPlatform returns an error for a program that does not run on its platform, such as one that was put into the
// directory of -bin on another machine. An image has no file beside the program, so the program needs no loader.
func checkPlatform(p program) error {
	if p.Platform.OS != "linux" {
		return checkBuild(p)
	}
	header, err := elf.NewFile(bytes.NewReader(p.Executable))
	if err != nil {
		return fmt.Errorf("reading the header of the program %s: %w", p.Name, err)
	}
	defer header.Close()
	if want := machines[p.Platform.Arch]; header.Machine != want {
		return fmt.Errorf("the program %s is for %s, and its image for %s/%s needs one for %s", p.Name, header.Machine,
			p.Platform.OS, p.Platform.Arch, want)
	}
	if slices.ContainsFunc(header.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
		return fmt.Errorf("the program %s needs a loader and libraries, which its image does not have: build it with "+
			"CGO_ENABLED=0", p.Name)
	}
	return nil
}

// goBuild compiles without this machine's paths, so that the same commit gives the same bytes everywhere.
func goBuild(ctx context.Context, o buildOptions, b binary, at linked.Platform, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+o.Version, "-o",
		out, b.Package)
	cmd.Dir = filepath.Join(o.Root, b.Module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+at.OS, "GOARCH="+at.Arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s for %s/%s: %w\n%s", b.Name, at.OS, at.Arch, err, text)
	}
	return nil
}

// commit returns the commit that is built. A version that others will take for a release has nothing that is not in
// git, because nobody could find out what it was.
func (o buildOptions) commit(ctx context.Context) (commit, error) {
	if o.Bin == "" && isRelease(o.Version) {
		out, err := exec.CommandContext(ctx, "git", "-C", o.Root, "status", "--porcelain").Output()
		if err != nil {
			return commit{}, fmt.Errorf("looking for changes that are not in git: %w", err)
		}
		if len(out) > 0 {
			return commit{}, fmt.Errorf("%s would have changes that are not in git: commit them, or remove them:\n%s",
				o.Version, out)
		}
	}
	return commitOf(ctx, o.Root, o.Version)
}

// commitOf returns the checked out commit for the images. The time in SOURCE_DATE_EPOCH replaces the time of the
// commit.
func commitOf(ctx context.Context, root, version string) (commit, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "show", "-s", "--format=%H %ct", "HEAD")
	out, err := cmd.Output()
	if err != nil {
		return commit{}, fmt.Errorf("reading the commit of %s: %w", root, err)
	}
	revision, at, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		at = epoch
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("reading the time of the commit: %w", err)
	}
	return commit{Version: version, Revision: revision, Time: time.Unix(seconds, 0).UTC()}, nil
}

// writeLayout replaces a directory by an OCI image layout of all images, and returns the digest of each.
func writeLayout(dir, version string, all []built) (map[string]string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("removing the images of an earlier build: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the directory for the images: %w", err)
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("writing the image layout: %w", err)
	}
	digests := map[string]string{}
	for _, b := range all {
		digest, err := b.Index.Digest()
		if err != nil {
			return nil, fmt.Errorf("reading the digest of %s: %w", b.Name, err)
		}
		digests[b.Name] = digest.String()
		// Programs that import a layout name its images by one of these annotations.
		names := layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "bunsen.invalid/" + b.Name + ":" +
				version,
		})
		if err := at.AppendIndex(b.Index, names); err != nil {
			return nil, fmt.Errorf("writing the image of %s: %w", b.Name, err)
		}
		for _, bill := range b.Bills {
			if err := at.AppendImage(bill); err != nil {
				return nil, fmt.Errorf("writing the bill of materials of %s: %w", b.Name, err)
			}
		}
	}
	return digests, nil
}

// references returns the names of a build's images, by program. Each name has the image's digest, so that a registry
// cannot exchange the image.
func references(o buildOptions, digests map[string]string) map[string]string {
	all := map[string]string{}
	for program, digest := range digests {
		repository := o.Repository
		if repository == "" {
			repository = "image.invalid"
		}
		all[program] = repository + "/" + program + "@" + digest
	}
	return all
}

// writeDigests writes images.json: the reference of each image by its program.
func writeDigests(o buildOptions, digests map[string]string) error {
	raw, err := json.MarshalIndent(references(o, digests), "", "  ")
	if err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.Out, "images.json"), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	return nil
}

// pushAll pushes images and their bills of materials. With a key, pushAll also pushes signatures. pushAll uses the
// credentials of docker login.
func pushAll(ctx context.Context, o buildOptions, all []built) error {
	opts := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, b := range all {
		tag, err := name.NewTag(o.Repository + "/" + b.Name + ":" + o.Version)
		if err != nil {
			return fmt.Errorf("reading the repository %q: %w", o.Repository, err)
		}
		if err := remote.WriteIndex(tag, b.Index, opts...); err != nil {
			return fmt.Errorf("pushing %s: %w", tag, err)
		}
		for _, bill := range b.Bills {
			digest, err := bill.Digest()
			if err != nil {
				return fmt.Errorf("reading the digest of a bill of materials: %w", err)
			}
			if err := remote.Write(tag.Digest(digest.String()), bill, opts...); err != nil {
				return fmt.Errorf("pushing the bill of materials of %s: %w", tag, err)
			}
		}
		digest, err := b.Index.Digest()
		if err != nil {
			return fmt.Errorf("reading the digest of %s: %w", b.Name, err)
		}
		if o.Key != "" {
			if err := pushSignature(tag.Digest(digest.String()), o.Key, opts...); err != nil {
				return err
			}
		}
		fmt.Printf("%s@%s\n", tag.Repository, digest)
	}
	return nil
}
