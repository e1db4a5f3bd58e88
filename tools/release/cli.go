package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/tools/linked"
)

// cliName is the program for people's machines.
const cliName = "bunsen"

// cliPlatforms are the platforms of the CLI.
var cliPlatforms = []linked.Platform{
	{OS: "linux", Arch: "amd64"},
	{OS: "linux", Arch: "arm64"},
	{OS: "darwin", Arch: "amd64"},
	{OS: "darwin", Arch: "arm64"},
	{OS: "windows", Arch: "amd64"},
	{OS: "windows", Arch: "arm64"},
}

// platforms are the platforms on which the binary is published.
func (b binary) platforms() []linked.Platform {
	if b.Name == cliName {
		return cliPlatforms
	}
	return platforms
}

// buildCLI writes the files of the CLI without those of the other programs.
func buildCLI(ctx context.Context, o buildOptions) error {
	c, err := o.commit(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return fmt.Errorf("creating the directory to write to: %w", err)
	}
	if err := writeCLI(ctx, o, nil, c); err != nil {
		return err
	}
	return writeSums(o.Out, o.Key)
}

// writeCLI writes an archive of the CLI for each platform, its packages for Linux, and what the package managers of
// laptops read.
func writeCLI(ctx context.Context, o buildOptions, programs []program, c commit) error {
	manual, err := writeManual(ctx, o.Root, c)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(o.Root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the project's licence: %w", err)
	}
	var archives []cliArchive
	for _, at := range o.cliPlatforms() {
		p, err := cliFor(ctx, o, programs, at)
		if err != nil {
			return err
		}
		a, err := packCLI(p, manual, licence, c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.Out, a.Name), a.Content, 0o644); err != nil {
			return fmt.Errorf("writing an archive: %w", err)
		}
		archives = append(archives, a)
		if at.OS != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm", "apk"} {
			l, err := cliPackage(p, manual, format)
			if err != nil {
				return err
			}
			if err := l.write(o.Out, format, c); err != nil {
				return err
			}
		}
	}
	return writeManagers(o, archives, c)
}

// cliPlatforms returns the platforms for which the CLI is built.
func (o buildOptions) cliPlatforms() []linked.Platform {
	if o.Bin != "" {
		return o.platforms()
	}
	return cliPlatforms
}

// cliFor returns the CLI for a platform, which is compiled unless an image needed it before.
func cliFor(ctx context.Context, o buildOptions, programs []program, at linked.Platform) (program, error) {
	for _, p := range programs {
		if p.Name == cliName && p.Platform == at {
			return p, nil
		}
	}
	for _, b := range binaries {
		if b.Name == cliName {
			fmt.Fprintf(os.Stderr, "building %s for %s/%s\n", b.Name, at.OS, at.Arch)
			return compile(ctx, o, b, at)
		}
	}
	return program{}, fmt.Errorf("no binary is named %s", cliName)
}

// writeManual returns the man pages and the scripts for shells, by their path: man/bunsen.1, completions/bunsen.bash. A
// test of the CLI writes them, so that no program links the library that does.
func writeManual(ctx context.Context, root string, c commit) ([]file, error) {
	dir, err := os.MkdirTemp("", "bunsen-manual-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the manual: %w", err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-ldflags=-s -w", "-run", "^TestTheManual$",
		"./cmd/bunsen", "-manual", dir)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", c.Time.Unix()))
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("writing the manual: %w\n%s", err, text)
	}
	var all []file
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		all = append(all, file{filepath.ToSlash(name), 0o644, content})
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the test of the CLI wrote no page")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manual: %w", err)
	}
	return all, nil
}

// cliArchive is the archive of the CLI for one platform.
type cliArchive struct {
	Platform linked.Platform
	// Name is that of the file. Dir is the one directory in it, and Program the name of the program in that.
	Name, Dir, Program string
	Content            []byte
}

// packCLI returns the archive of the CLI: a .zip for Windows, else a .tar.gz.
func packCLI(p program, manual []file, licence []byte, c commit) (a cliArchive, err error) {
	a = cliArchive{
		Platform: p.Platform, Program: p.Name,
		Dir: p.Name + "-" + c.Version + "-" + p.Platform.OS + "-" + p.Platform.Arch,
	}
	if p.Platform.OS == "windows" {
		a.Program += ".exe"
	}
	all := []file{
		{a.Program, 0o755, p.Executable},
		{"LICENSE", 0o644, licence},
		{"notices.txt", 0o644, p.Notices},
		{p.Name + ".cdx.json", 0o644, p.Bill},
	}
	for _, f := range manual {
		if p.Platform.OS != "windows" || path.Dir(f.Path) != "man" {
			all = append(all, f)
		}
	}
	for i := range all {
		all[i].Path = a.Dir + "/" + all[i].Path
	}
	if p.Platform.OS == "windows" {
		a.Name = a.Dir + ".zip"
		a.Content, err = zipped(a.Name, all, c.Time)
		return a, err
	}
	a.Name = a.Dir + ".tar.gz"
	a.Content, err = compressedArchive(a.Name, all, c.Time)
	return a, err
}

// zipped returns files as a .zip.
func zipped(name string, all []file, at time.Time) ([]byte, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range all {
		h := zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: at.UTC()}
		h.SetMode(fs.FileMode(f.Mode)) //nolint:gosec // a mode has 12 bits
		to, err := w.CreateHeader(&h)
		if err == nil {
			_, err = to.Write(f.Content)
		}
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// completion returns where the shell of a distribution looks for a script, by the format of its packages; "" for a
// script that no shell of it reads.
func completion(script, format string) string {
	switch {
	case script == "bunsen.bash":
		return "usr/share/bash-completion/completions/bunsen"
	case script == "bunsen.fish":
		return "usr/share/fish/vendor_completions.d/bunsen.fish"
	case script == "_bunsen" && format == "deb":
		return "usr/share/zsh/vendor-completions/_bunsen"
	case script == "_bunsen":
		return "usr/share/zsh/site-functions/_bunsen"
	}
	return ""
}

// cliPackage returns the CLI as a package, with its name as a plug-in of kubectl.
func cliPackage(p program, manual []file, format string) (linuxPackage, error) {
	doc := "usr/share/doc/" + p.Name + "/"
	l := linuxPackage{
		Name: p.Name, Purpose: p.Purpose, Arch: p.Platform.Arch,
		Links: map[string]string{
			"usr/bin/kubectl-bunsen": "bunsen", "usr/share/man/man1/kubectl-bunsen.1.gz": "bunsen.1.gz",
		},
		Files: []file{
			{"usr/bin/" + p.Name, 0o755, p.Executable},
			{doc + "notices.txt", 0o644, p.Notices},
			{doc + p.Name + ".cdx.json", 0o644, p.Bill},
		},
	}
	for _, f := range manual {
		if to := completion(path.Base(f.Path), format); to != "" {
			l.Files = append(l.Files, file{to, 0o644, f.Content})
		}
		if path.Dir(f.Path) != "man" {
			continue
		}
		page, err := compressedFile(f.Content)
		if err != nil {
			return l, err
		}
		l.Files = append(l.Files, file{"usr/share/man/man1/" + path.Base(f.Path) + ".gz", 0o644, page})
	}
	return l, nil
}

// checkBuild returns an error for a program of a laptop that was built for another platform. An ELF header alone says
// nothing about these.
func checkBuild(p program) error {
	info, err := buildinfo.Read(bytes.NewReader(p.Executable))
	if err != nil {
		return fmt.Errorf("reading for which platform the program %s is: %w", p.Name, err)
	}
	var got linked.Platform
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			got.OS = s.Value
		case "GOARCH":
			got.Arch = s.Value
		}
	}
	if got != p.Platform {
		return fmt.Errorf("the program %s is for %s/%s, and its archive for %s/%s", p.Name, got.OS, got.Arch,
			p.Platform.OS, p.Platform.Arch)
	}
	return nil
}

// isRelease reports whether a version is that of a release, or of a candidate for one.
func isRelease(version string) bool {
	m := release.FindStringSubmatch(version)
	return m != nil && m[3] == "" && m[5] == ""
}

// isFull reports whether a version is that of a release, and not of a candidate: whoever installs with a package
// manager gets the newest version that it knows.
func isFull(version string) bool {
	return isRelease(version) && release.FindStringSubmatch(version)[2] == ""
}
