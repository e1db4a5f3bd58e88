package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// daemonName is the program that hosts install as a package.
const daemonName = "machine-config-daemon"

// daemonUnits are the daemon's units, by name, for a program in /usr/bin. An extension image allows no files outside of
// /usr.
func daemonUnits(root string) (map[string][]byte, error) {
	dir := filepath.Join(root, "config", "daemon", "systemd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the units of the daemon: %w", err)
	}
	units := map[string][]byte{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a unit of the daemon: %w", err)
		}
		units[e.Name()] = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	}
	return units, nil
}

// daemonFiles are the files of the daemon's packages.
func daemonFiles(p program, units map[string][]byte) []file {
	all := []file{
		{"usr/bin/" + p.Name, 0o755, p.Executable},
		{"usr/share/doc/" + p.Name + "/notices.txt", 0o644, p.Notices},
		{"usr/share/doc/" + p.Name + "/" + p.Name + ".cdx.json", 0o644, p.Bill},
	}
	for name, text := range units {
		all = append(all, file{"usr/lib/systemd/system/" + name, 0o644, text})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// compressed returns the programs of one platform as a .tar.gz. In the archive, the files are in a directory with the
// archive's name.
func compressed(name string, programs []program, licence []byte, at time.Time) ([]byte, error) {
	all := []file{{name + "/LICENSE", 0o644, licence}}
	for _, p := range programs {
		all = append(all, file{name + "/" + p.Name, 0o755, p.Executable}, file{
			name + "/" + p.Name + ".notices.txt",
			0o644, p.Notices,
		},
			file{name + "/" + p.Name + ".cdx.json", 0o644, p.Bill})
	}
	return compressedArchive(name, all, at)
}

// compressedArchive returns files as a .tar.gz.
func compressedArchive(name string, all []file, at time.Time) ([]byte, error) {
	content, err := archive(all, at)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compressing %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// systemdArch names an architecture as systemd does.
var systemdArch = map[string]string{"amd64": "x86-64", "arm64": "arm64"}

// writeExtension writes the daemon as an extension image of systemd-sysext, for any distribution: a squashfs file
// system.
func writeExtension(ctx context.Context, to string, p program, units map[string][]byte, c commit) error {
	all := append(daemonFiles(p, units), file{
		"usr/lib/extension-release.d/extension-release." + p.Name, 0o644,
		[]byte("ID=_any\nARCHITECTURE=" + systemdArch[p.Platform.Arch] + "\nEXTENSION_RELOAD_MANAGER=1\n" +
			"SYSEXT_VERSION_ID=" + c.Version + "\n"),
	})
	dir, err := os.MkdirTemp("", "bunsen-sysext-")
	if err != nil {
		return fmt.Errorf("creating a directory for the extension image: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, f := range all {
		at := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("writing a file of the extension image: %w", err)
		}
		if err := os.WriteFile(at, f.Content, os.FileMode(f.Mode)); err != nil {
			return fmt.Errorf("writing a file of the extension image: %w", err)
		}
	}
	seconds := fmt.Sprint(c.Time.Unix())
	cmd := exec.CommandContext(ctx, "mksquashfs", dir, to, "-noappend", "-all-root", "-no-xattrs", "-quiet",
		"-no-progress",
		"-reproducible", "-mkfs-time", seconds, "-all-time", seconds)
	// mksquashfs refuses SOURCE_DATE_EPOCH together with its own flags for times.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SOURCE_DATE_EPOCH=") })
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("writing the extension image: %w (package squashfs-tools has mksquashfs)\n%s", err, out)
	}
	return nil
}

// writeRelease writes the files of a release except the images. For each platform, writeRelease writes an archive of
// all programs and the daemon's packages. It also writes the manifests, and the checksums of all files.
func writeRelease(ctx context.Context, o buildOptions, programs []program, c commit) error {
	units, err := daemonUnits(o.Root)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(o.Root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the project's licence: %w", err)
	}
	for _, at := range o.platforms() {
		own := slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return p.Platform != at })
		name := "bunsen-programs-" + c.Version + "-" + at.OS + "-" + at.Arch
		content, err := compressed(name, own, licence, c.Time)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.Out, name+".tar.gz"), content, 0o644); err != nil {
			return fmt.Errorf("writing an archive: %w", err)
		}
		for _, p := range own {
			if p.Name == daemonName {
				if err := writePackages(ctx, o.Out, p, units, c); err != nil {
					return err
				}
			}
		}
	}
	if err := writeManifests(o.Root, o.Out); err != nil {
		return err
	}
	if err := writeChart(o.Root, o.Out, c.Version); err != nil {
		return err
	}
	if err := packChart(o.Root, o.Out, c); err != nil {
		return err
	}
	if err := writeSchemas(ctx, o); err != nil {
		return err
	}
	return writeSums(o.Out, o.Key)
}

// writePackages writes the daemon's program and packages for one platform. Configs name the program by its address and
// hash.
func writePackages(ctx context.Context, out string, p program, units map[string][]byte, c commit) error {
	binary := p.Name + "-" + c.Version + "-" + p.Platform.OS + "-" + p.Platform.Arch
	if err := os.WriteFile(filepath.Join(out, binary), p.Executable, 0o755); err != nil {
		return fmt.Errorf("writing the program %s: %w", p.Name, err)
	}
	daemon := linuxPackage{Name: p.Name, Purpose: p.Purpose, Arch: p.Platform.Arch, Files: daemonFiles(p, units)}
	for _, format := range []string{"deb", "rpm"} { // The daemon needs systemd, which Alpine has not.
		if err := daemon.write(out, format, c); err != nil {
			return err
		}
	}
	return writeExtension(ctx, filepath.Join(out, p.Name+"-"+c.Version+"-"+systemdArch[p.Platform.Arch]+".raw"), p,
		units, c)
}

// published returns the files of a directory that a release publishes, by name: those in it, and the schemas. A release
// has no folders.
func published(dir string) (map[string]string, error) {
	files := map[string]string{}
	for _, from := range []string{dir, filepath.Join(dir, "schemas")} {
		entries, err := os.ReadDir(from)
		if err != nil && (from == dir || !errors.Is(err, os.ErrNotExist)) {
			return nil, fmt.Errorf("reading what was built: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() || strings.HasPrefix(e.Name(), "SHA256SUMS") {
				continue
			}
			if files[e.Name()] != "" {
				return nil, fmt.Errorf("two files of the release would be named %s", e.Name())
			}
			files[e.Name()] = filepath.Join(from, e.Name())
		}
	}
	return files, nil
}

// writeSums writes SHA256SUMS for all files that are published from a directory. With a key, it also writes the
// signature of that file, SHA256SUMS.sig, in base64.
func writeSums(dir, keyFile string) error {
	files, err := published(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return fmt.Errorf("reading what was built: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	text := []byte(sums.String())
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), text, 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	if keyFile == "" {
		return nil
	}
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	signed, err := sign(key, text)
	if err != nil {
		return fmt.Errorf("signing the checksums: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS.sig"), []byte(base64.StdEncoding.EncodeToString(signed)+"\n"),
		0o644); err != nil {
		return fmt.Errorf("writing the signature of the checksums: %w", err)
	}
	return nil
}
