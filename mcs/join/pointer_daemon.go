package join

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Daemon describes how a new machine gets machine-config-daemon: from the server, or from URL.
type Daemon struct {
	// Arch is one of Architectures, for the server's binary.
	Arch string
	// Path on the machine; empty: DefaultBinaryPath.
	Path string
	// URL of the binary; empty: from the server. One that ends in .gz is compressed; SHA512 is the hash of the
	// uncompressed binary, in hexadecimal.
	URL, SHA512 string
}

type (
	storage struct {
		Files []file `json:"files" yaml:"files"`
	}
	file struct {
		Path      string   `json:"path" yaml:"path"`
		Overwrite bool     `json:"overwrite" yaml:"overwrite"`
		Mode      int      `json:"mode" yaml:"mode"`
		Contents  resource `json:"contents" yaml:"contents"`
	}
	verification struct {
		Hash string `json:"hash" yaml:"hash"`
	}
	systemd struct {
		Units []unit `json:"units" yaml:"units"`
	}
	unit struct {
		Name     string `json:"name" yaml:"name"`
		Enabled  *bool  `json:"enabled,omitempty" yaml:"enabled,omitempty"`
		Contents string `json:"contents" yaml:"contents"`
	}
)

func (p Pointer) installDaemon(d format) (out document, err error) {
	if p.Daemon == nil {
		return out, nil
	}
	var errs []error
	if !d.headers {
		errs = append(errs, fmt.Errorf("installing the daemon needs Ignition %s or later: take --version %s, or "+
			"--daemon none", DaemonVersion, DefaultPointerVersion))
	}
	at := p.Daemon.Path
	if at == "" {
		at = DefaultBinaryPath
	}
	if err := CheckBinaryPath(at); err != nil {
		errs = append(errs, fmt.Errorf("--daemon-path: %w", err))
	}
	if p.Daemon.URL != "" {
		errs = append(errs, p.Daemon.checkURL())
	} else if !slices.Contains(Architectures(), p.Daemon.Arch) {
		errs = append(errs, fmt.Errorf("--daemon-arch %q: want one of %s", p.Daemon.Arch,
			strings.Join(Architectures(), ", ")))
	}
	if err := errors.Join(errs...); err != nil {
		return out, err
	}
	if p.Daemon.URL != "" {
		return p.Daemon.download(at)
	}
	from, err := p.resource(d, "daemon", p.Daemon.Arch, p.Pool)
	if err != nil {
		return out, nil // The pool's own config has the same error, so it is not repeated.
	}
	if at != DefaultBinaryPath {
		from.Source += "?" + url.Values{"path": {at}}.Encode()
	}
	out.Ignition.Config.Merge = []resource{from}
	return out, nil
}

func (m *Daemon) checkURL() error {
	var errs []error
	u, err := url.Parse(m.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" {
		errs = append(errs, errors.New("--daemon-url: want https://HOST/PATH or http://HOST/PATH"))
	}
	if raw, err := hex.DecodeString(m.SHA512); err != nil || len(raw) != 64 {
		errs = append(errs, errors.New("--daemon-sha512: want the SHA-512 of the binary, 128 hexadecimal digits, as "+
			"`sha512sum` prints it"))
	}
	return errors.Join(errs...)
}

// download also returns the units that run the binary.
func (m *Daemon) download(at string) (out document, err error) {
	binary := file{Path: at, Overwrite: true, Mode: 0o755, Contents: resource{
		Source:       m.URL,
		Verification: &verification{"sha512-" + strings.ToLower(m.SHA512)},
	}}
	if strings.HasSuffix(m.URL, ".gz") {
		binary.Contents.Compression = "gzip"
	}
	units, err := DaemonUnits(at)
	if err != nil {
		return out, err
	}
	out.Storage, out.Systemd = &storage{[]file{binary}}, &systemd{}
	for _, u := range units {
		out.Systemd.Units = append(out.Systemd.Units, unit{u.Name, u.Enabled, *u.Contents})
	}
	return out, nil
}
