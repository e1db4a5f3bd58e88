package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // These imports register their package formats.
	_ "github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// homepage is where the project is.
const homepage = "https://github.com/bunsen-os/bunsen"

// about follows the sentence about a program in the description of its package.
const about = "Bunsen keeps the operating system of a Kubernetes cluster's nodes in git, as\nButane documents, and " +
	"rolls each commit out to the nodes, a few at a time."

// linuxPackage is a package of one program for the package manager of a distribution. It has no scripts, so that its
// installation starts nothing.
type linuxPackage struct {
	Name, Purpose, Arch string
	Files               []file
	// Links are symbolic links, by their path, with the path that they name.
	Links map[string]string
}

// release matches the parts of a version: its numbers, a candidate, and what git describe adds for later commits.
var release = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-((?:alpha|beta|rc)[.\d]*))?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)

// debianVersion returns a version as Debian compares it. A commit without a tag comes before every release.
func debianVersion(version string) string {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return "0~" + version
	}
	version = m[1] + prefixed("~", m[2])
	if m[3] != "" {
		version += "-" + m[3] + "-g" + m[4]
	}
	return version + m[5]
}

// rpmVersion returns a version as RPM compares it, which has no hyphens.
func rpmVersion(version string) string {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return "0~" + strings.ReplaceAll(version, "-", ".")
	}
	version = m[1] + prefixed("~", m[2])
	if m[3] != "" {
		version += "^" + m[3] + ".g" + m[4]
	}
	return version + strings.ReplaceAll(m[5], "-", ".")
}

// alpineVersion returns a version as apk compares it. It has no place for the hash of a commit.
func alpineVersion(version string, at time.Time) string {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return "0_git" + at.UTC().Format("20060102150405")
	}
	return m[1] + prefixed("_", strings.ReplaceAll(m[2], ".", "")) + prefixed("_p", m[3])
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// fileName returns the name of the package's file, as its distribution spells it.
func (l linuxPackage) fileName(format string, c commit) string {
	switch format {
	case "rpm":
		return l.Name + "-" + rpmVersion(c.Version) + "-1." + alpineArch[l.Arch] + ".rpm"
	case "apk":
		return l.Name + "-" + alpineVersion(c.Version, c.Time) + "-r0." + alpineArch[l.Arch] + ".apk"
	}
	return l.Name + "_" + debianVersion(c.Version) + "_" + l.Arch + ".deb"
}

// alpineArch names an architecture as RPM and apk do.
var alpineArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// write writes the package to a directory.
func (l linuxPackage) write(dir, format string, c commit) error {
	content, err := l.content(format, c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, l.fileName(format, c)), content, 0o644); err != nil {
		return fmt.Errorf("writing the package of %s: %w", l.Name, err)
	}
	return nil
}

// content returns the bytes of the package.
func (l linuxPackage) content(format string, c commit) ([]byte, error) {
	info := &nfpm.Info{
		Name: l.Name, Arch: l.Arch, Platform: "linux", VersionSchema: "none",
		Maintainer:  "The Bunsen maintainers <maintainers@bunsen-os.invalid>",
		Description: l.Purpose + "\n" + about, Homepage: homepage, License: "Apache-2.0", Section: "admin", Priority: "optional",
		MTime: c.Time,
	}
	info.RPM.BuildHost, info.RPM.Summary = "bunsen", l.Purpose
	all := l.Files
	switch format {
	case "deb":
		papers, err := l.debianPapers(c)
		if err != nil {
			return nil, err
		}
		all, info.Version = append(all[:len(all):len(all)], papers...), debianVersion(c.Version)
	case "rpm":
		info.Version, info.Release = rpmVersion(c.Version), "1"
	case "apk":
		info.Version, info.Release = alpineVersion(c.Version, c.Time), "r0"
	}
	info = nfpm.WithDefaults(info)
	dir, err := os.MkdirTemp("", "bunsen-package-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the package: %w", err)
	}
	defer os.RemoveAll(dir)
	for i, f := range all {
		source := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(source, f.Content, 0o600); err != nil {
			return nil, fmt.Errorf("writing a file of the package: %w", err)
		}
		info.Contents = append(info.Contents, &nfpmfiles.Content{
			Source: source, Destination: "/" + f.Path, FileInfo: &nfpmfiles.ContentFileInfo{
				Owner: "root", Group: "root", Mode: os.FileMode(f.Mode), MTime: c.Time,
			},
		})
	}
	for at, to := range l.Links {
		info.Contents = append(info.Contents, &nfpmfiles.Content{
			Source: to, Destination: "/" + at, Type: nfpmfiles.TypeSymlink,
			FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", MTime: c.Time},
		})
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return nil, fmt.Errorf("finding the packager: %w", err)
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return nil, fmt.Errorf("writing the package of %s: %w", l.Name, err)
	}
	return out.Bytes(), nil
}

// debianPapers are the files that Debian's policy asks of every package.
func (l linuxPackage) debianPapers(c commit) ([]file, error) {
	doc := "usr/share/doc/" + l.Name + "/"
	changelog, err := compressedFile(fmt.Appendf(nil, "%s (%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- "+
		"The Bunsen maintainers <maintainers@bunsen-os.invalid>  %s\n", l.Name, debianVersion(c.Version), c.Version,
		c.Time.UTC().Format(time.RFC1123Z)))
	if err != nil {
		return nil, err
	}
	return []file{
		{doc + "changelog.gz", 0o644, changelog},
		{doc + "copyright", 0o644, []byte("Bunsen is under the Apache License 2.0, which is in " +
			"/usr/share/common-licenses/Apache-2.0.\nThe licences of the modules that it links are in notices.txt in " +
			"this directory.\n\nCopyright: the Bunsen authors, " + homepage + "\n")},
		{"usr/share/lintian/overrides/" + l.Name, 0o644, []byte("# The program is one file for every distribution.\n" +
			l.Name + ": statically-linked-binary\n")},
	}, nil
}

// compressedFile returns a file as gzip -9n does.
func compressedFile(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing a file: %w", err)
	}
	return out.Bytes(), nil
}
