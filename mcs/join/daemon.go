package join

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"debug/elf"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_1/types"

	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/mcs"
)

// DaemonVersion is the first Ignition version that decompresses data: URLs, and later ones read it too.
const DaemonVersion = mcs.V3_1

// DefaultBinaryPath is in the units of config/daemon/systemd. Ignition and the daemon can write it on every
// distribution except Flatcar, whose /usr is read-only.
const DefaultBinaryPath = "/usr/local/bin/" + name

const name = "machine-config-daemon"

// BinaryPaths are where the service can have its binary. SELinux labels both directories bin_t, without which systemd
// cannot execute a program.
func BinaryPaths() []string { return []string{DefaultBinaryPath, "/opt/bin/" + name} }

// ErrPath is the error for a path at which the daemon's binary cannot be.
var ErrPath = errors.New("the daemon cannot be at this path")

// CheckBinaryPath returns an error for a path that is not one of Paths.
func CheckBinaryPath(at string) error {
	if slices.Contains(BinaryPaths(), at) {
		return nil
	}
	return fmt.Errorf("%w: %q: want one of %s", ErrPath, at, strings.Join(BinaryPaths(), ", "))
}

// Architectures are the architectures for which a release has binaries of the daemon, with Go's names.
func Architectures() []string { return []string{"amd64", "arm64"} }

var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// DaemonUnits returns three services that run the binary at a path: the daemon and its first boot, which are enabled,
// and the update of the binary.
func DaemonUnits(at string) ([]ign.Unit, error) {
	var out []ign.Unit
	for _, u := range []struct {
		name    string
		enabled bool
	}{{name + "-firstboot.service", true}, {name + "-update.service", false}, {name + ".service", true}} {
		text, err := fs.ReadFile(config.Services, path.Join("daemon/systemd", u.name))
		if err != nil {
			return nil, fmt.Errorf("reading the unit %s: %w", u.name, err)
		}
		unit := ign.Unit{Name: u.name, Contents: new(strings.ReplaceAll(withoutComments(string(text)),
			DefaultBinaryPath,
			at))}
		if u.enabled {
			unit.Enabled = new(true)
		}
		out = append(out, unit)
	}
	return out, nil
}

// withoutComments is for clouds, which limit the length of user data.
func withoutComments(unit string) string {
	var b strings.Builder
	for line := range strings.Lines(unit) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Binary is a binary of the daemon, in the form that Ignition reads.
type Binary struct {
	Arch string
	// as Ignition writes it: sha512-…
	Hash string

	encoded []byte // encoded is the binary, compressed with gzip and encoded with base64.
}

// NewBinary reads a binary. It must be statically linked: a machine may not have the libraries.
func NewBinary(content []byte) (*Binary, error) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("it is no program for Linux: %w", err)
	}
	arch, known := machines[file.Machine]
	if !known {
		return nil, fmt.Errorf("its architecture is %s: want one of %s", file.Machine,
			strings.Join(Architectures(), ", "))
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, errors.New("it is not static: build it with CGO_ENABLED=0")
	}
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(content); err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing it: %w", err)
	}
	encoded := make([]byte, base64.StdEncoding.EncodedLen(zipped.Len()))
	base64.StdEncoding.Encode(encoded, zipped.Bytes())
	return &Binary{Arch: arch, Hash: HashOf(content), encoded: encoded}, nil
}

// HashOf returns the SHA-512 of a content, as Ignition writes it.
func HashOf(content []byte) string { return fmt.Sprintf("sha512-%x", sha512.Sum512(content)) }

// Binaries are the binaries of the daemon that a server has, at most one for each architecture.
type Binaries []*Binary

// Archs returns the architectures of the binaries.
func (b Binaries) Archs() (out []string) {
	for _, one := range b {
		out = append(out, one.Arch)
	}
	return out
}

// Config returns the config that installs the binary of an architecture at a path, by default DefaultBinaryPath. The
// error wraps mcs.ErrNoSuchConfig or ErrPath, or is an *mcs.UnsupportedFieldsError for a version of Ignition that
// cannot read the config.
func (b Binaries) Config(v mcs.Version, arch, at string) (DaemonConfig, error) {
	if string(v) < string(DaemonVersion) {
		return DaemonConfig{}, &mcs.UnsupportedFieldsError{
			Config: "that installs the daemon", Version: v,
			Fields: []string{"compression of a data: URL"},
		}
	}
	i := slices.Index(b.Archs(), arch)
	if i < 0 {
		return DaemonConfig{}, fmt.Errorf("%w for the architecture %.16q, only for %s", mcs.ErrNoSuchConfig, arch,
			strings.Join(b.Archs(), ", "))
	}
	if at == "" {
		at = DefaultBinaryPath
	}
	return b[i].Config(at)
}

// DaemonConfig is an Ignition config that installs the daemon.
type DaemonConfig struct{ parts [][]byte }

// Config returns the config that installs the binary at a path, with the units that run it.
func (b *Binary) Config(at string) (DaemonConfig, error) {
	if err := CheckBinaryPath(at); err != nil {
		return DaemonConfig{}, err
	}
	units, err := DaemonUnits(at)
	if err != nil {
		return DaemonConfig{}, err
	}
	// The binary comes in after the check of the config, so that all requests share its bytes.
	const hole = "QlVOU0VO"
	out := ign.Config{Ignition: ign.Ignition{Version: string(DaemonVersion)}, Systemd: ign.Systemd{Units: units}}
	out.Storage.Files = []ign.File{{
		Node: ign.Node{Path: at, Overwrite: new(true)},
		FileEmbedded1: ign.FileEmbedded1{Mode: new(0o755), Contents: ign.Resource{
			Source: new("data:;base64," + hole), Compression: new("gzip"),
			Verification: ign.Verification{Hash: new(b.Hash)},
		}},
	}}
	raw, err := json.Marshal(out)
	if err == nil {
		err = mcs.CheckBy(DaemonVersion, raw)
	}
	if err != nil {
		return DaemonConfig{}, fmt.Errorf("writing the config that installs the daemon: %w", err)
	}
	head, tail, _ := bytes.Cut(raw, []byte(hole))
	return DaemonConfig{[][]byte{head, b.encoded, tail}}, nil
}

// Len returns the length of the config.
func (c DaemonConfig) Len() (n int) {
	for _, part := range c.parts {
		n += len(part)
	}
	return n
}

// WriteTo implements io.WriterTo.
func (c DaemonConfig) WriteTo(w io.Writer) (sent int64, err error) {
	for _, part := range c.parts {
		n, err := w.Write(part)
		if sent += int64(n); err != nil {
			return sent, err
		}
	}
	return sent, nil
}
