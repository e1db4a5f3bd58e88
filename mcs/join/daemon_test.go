package join_test

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_1/types"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// program is an ELF file of an architecture; interpreted, it is not static.
func program(t *testing.T, machine elf.Machine, interpreted bool) []byte {
	t.Helper()
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
		Phoff: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
		byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if interpreted {
		p.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	for _, part := range []any{h, p} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestTheConfigHasTheBinaryAndItsUnits reads the config as Ignition does.
func TestTheConfigHasTheBinaryAndItsUnits(t *testing.T) {
	content := program(t, elf.EM_AARCH64, false)
	b, err := join.NewBinary(content)
	if err != nil {
		t.Fatal(err)
	}
	if b.Arch != "arm64" || b.Hash != join.HashOf(content) {
		t.Errorf("it is for %s, with %s", b.Arch, b.Hash)
	}
	for _, at := range join.BinaryPaths() {
		config, err := b.Config(at)
		if err != nil {
			t.Fatal(err)
		}
		var raw bytes.Buffer
		if n, err := config.WriteTo(&raw); err != nil || int(n) != config.Len() {
			t.Fatalf("wrote %d of %d bytes, %v", n, config.Len(), err)
		}
		if err := mcs.CheckBy(mcs.V3_5, bytes.Replace(raw.Bytes(), []byte(join.DaemonVersion), []byte(mcs.V3_5),
			1)); err != nil {
			t.Error(err)
		}
		var is ign.Config
		if err := json.Unmarshal(raw.Bytes(), &is); err != nil {
			t.Fatal(err)
		}
		f := is.Storage.Files[0]
		zipped, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(*f.Contents.Source, "data:;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, content) || f.Path != at || *f.Mode != 0o755 ||
			*f.Contents.Verification.Hash != join.HashOf(content) {
			t.Errorf("%s has mode %o, %d bytes, %v", f.Path, *f.Mode, len(got), err)
		}
		var units []string
		for _, u := range is.Systemd.Units {
			units = append(units, fmt.Sprintf("%s %t", u.Name, u.Enabled != nil && *u.Enabled))
			if !strings.Contains(*u.Contents, "ExecStart="+at+" ") || at != join.DefaultBinaryPath &&
				strings.Contains(*u.Contents, join.DefaultBinaryPath) {
				t.Errorf("%s does not run %s:\n%s", u.Name, at, *u.Contents)
			}
		}
		if got := strings.Join(units, ", "); got != "machine-config-daemon-firstboot.service true, "+
			"machine-config-daemon-update.service false, machine-config-daemon.service true" {
			t.Errorf("the units are %s", got)
		}
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	for because, c := range map[string]struct {
		content []byte
		says    string
	}{
		"no program":             {[]byte("#!/bin/sh\n"), "no program for Linux"},
		"another architecture":   {program(t, elf.EM_RISCV, false), "EM_RISCV"},
		"it needs a loader":      {program(t, elf.EM_X86_64, true), "CGO_ENABLED=0"},
		"a file that is cut off": {program(t, elf.EM_X86_64, false)[:20], "no program"},
	} {
		if _, err := join.NewBinary(c.content); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", because, err, c.says)
		}
	}
	if err := join.CheckBinaryPath("/etc/passwd"); err == nil {
		t.Error("the daemon may be anywhere")
	}
}

// TestEveryUnitIsInstalled: a unit of config/daemon/systemd that no pointer installs would be missing on new machines.
// The unit for machines without a cluster is not for them.
func TestEveryUnitIsInstalled(t *testing.T) {
	units, err := join.DaemonUnits(join.DefaultBinaryPath)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{"machine-config-daemon-once.service": true}
	for _, u := range units {
		have[u.Name] = true
	}
	all, err := filepath.Glob("../../config/daemon/systemd/*.service")
	if err != nil || len(all) < 4 {
		t.Fatal(all, err)
	}
	for _, at := range all {
		if !have[filepath.Base(at)] {
			t.Errorf("%s is not installed", at)
		}
		if _, err := os.Stat(at); err != nil {
			t.Error(err)
		}
	}
}
