package join

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v3"
)

// Pointer describes from where a machine gets its config.
type Pointer struct {
	Pool string
	// Server is its URL for new machines, such as https://api.example.com:22623.
	Server string
	// CA certificates of the server, as PEM; empty: those of the machine's image.
	CA []byte
	// Token is the whole text; empty for a server that needs none.
	Token string
	// Version of Ignition. From mcs.V3_1 on, the token is in a header, before that in the URL.
	Version mcs.Version
	// Gzip requests a compressed config, which Ignition decompresses from mcs.V3_1 on.
	Gzip bool
	// Daemon says how the machine gets machine-config-daemon, from mcs.V3_1 on; nil: with its image or its config.
	Daemon *Daemon
}

// DefaultPointerVersion is the first Ignition version with headers. Every later Ignition reads this version.
const DefaultPointerVersion = mcs.V3_1

// TokenInURL reports whether the token is in the URL. Ignition writes the URL to the machine's log.
func (p Pointer) TokenInURL() bool {
	d, ok := formatOf(p.Version)
	return ok && !d.headers && p.Token != ""
}

// Ignition returns the pointer as an Ignition config that the parser of p.Version accepts. The error lists everything
// that is wrong with p.
func (p Pointer) Ignition() ([]byte, error) {
	d, config, err := p.config()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing Ignition: %w", err)
	}
	if err := mcs.CheckBy(d.version, raw); err != nil {
		return nil, fmt.Errorf("writing Ignition %s: its parser does not accept it: %w", d.version, err)
	}
	return append(raw, '\n'), nil
}

// Butane returns the pointer as a Butane document of variant fcos, in the oldest version for p.Version, that translates
// to what Ignition returns. There is none for version 2.2.0.
func (p Pointer) Butane() ([]byte, error) {
	if _, err := p.Ignition(); err != nil { // A config that Ignition refuses is also invalid as Butane.
		return nil, err
	}
	d, config, err := p.config()
	if err != nil {
		return nil, err
	}
	if d.butane == "" {
		return nil, fmt.Errorf("there is no Butane for Ignition %s: leave out --output butane, or take a later "+
			"--version", d.version)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Where new machines of pool %s get their config from.\n", p.Pool)
	for _, c := range p.certificates() {
		fmt.Fprintf(&b, "# CA: %s\n", c.description)
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(struct {
		Variant  string
		Version  string
		document `yaml:",inline"`
	}{"fcos", d.butane, config}); err != nil {
		return nil, fmt.Errorf("writing Butane: %w", err)
	}
	return []byte(b.String()), nil
}

// document has the keys of Ignition in JSON, and those of Butane in YAML.
type document struct {
	Ignition section  `json:"ignition" yaml:"ignition"`
	Storage  *storage `json:"storage,omitempty" yaml:"storage,omitempty"`
	Systemd  *systemd `json:"systemd,omitempty" yaml:"systemd,omitempty"`
}

type section struct {
	Version  string   `json:"version" yaml:"-"`
	Config   configs  `json:"config" yaml:"config"`
	Security *trusted `json:"security,omitempty" yaml:"security,omitempty"`
}

// configs: Since version 3.0, Ignition merges the configs; before, it appends them.
type configs struct {
	Append []resource `json:"append,omitempty" yaml:"-"`
	Merge  []resource `json:"merge,omitempty" yaml:"merge,omitempty"`
}

type resource struct {
	Source       string        `json:"source" yaml:"source"`
	Compression  string        `json:"compression,omitempty" yaml:"compression,omitempty"`
	HTTPHeaders  []header      `json:"httpHeaders,omitempty" yaml:"http_headers,omitempty"`
	Verification *verification `json:"verification,omitempty" yaml:"verification,omitempty"`
}

type header struct {
	Name  string `json:"name" yaml:"name"`
	Value string `json:"value" yaml:"value"`
}

type trusted struct {
	TLS struct {
		CertificateAuthorities []resource `json:"certificateAuthorities" yaml:"certificate_authorities"`
	} `json:"tls" yaml:"tls"`
}

func (p Pointer) config() (format, document, error) {
	var errs []error
	d, ok := formatOf(p.Version)
	if !ok {
		errs = append(errs, fmt.Errorf("--version %q: want one of %s", string(p.Version),
			joinVersions(PointerVersions())))
	}
	if p.Gzip && ok && !d.headers {
		errs = append(errs, fmt.Errorf("--gzip needs headers, which Ignition %s does not have: leave it out, or take "+
			"--version %s or later", p.Version, DefaultPointerVersion))
	}
	from, err := p.resource(d, "config", p.Pool)
	errs = append(errs, err)
	installed, err := p.installDaemon(d)
	errs = append(errs, err)
	certificates, err := readCertificates(p.CA)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return format{}, document{}, err
	}
	if p.Gzip {
		// The header is explicit, so that Ignition decompresses the body, and not Go's HTTP client.
		from.Compression, from.HTTPHeaders = "gzip", append(from.HTTPHeaders, header{"Accept-Encoding", "gzip"})
	}
	// Later configs override earlier ones, and merged ones the pointer itself. The pool's config comes last, so it can
	// have its own daemon.
	out := section{Version: string(d.version), Config: configs{Merge: append(installed.Ignition.Config.Merge, from)}}
	if d.append {
		out.Config = configs{Append: []resource{from}}
	}
	if len(certificates) > 0 {
		out.Security = &trusted{}
		for _, c := range certificates {
			out.Security.TLS.CertificateAuthorities = append(out.Security.TLS.CertificateAuthorities,
				resource{Source: c.source})
		}
	}
	installed.Ignition = out
	return d, installed, nil
}

// resource returns a URL of the server, and the headers for it.
func (p Pointer) resource(d format, elements ...string) (resource, error) {
	var errs []error
	where, err := serverURL(p.Server)
	if err != nil {
		errs = append(errs, fmt.Errorf("--server %w", err))
	}
	if url.PathEscape(p.Pool) != p.Pool || strings.Trim(p.Pool, ".") == "" {
		errs = append(errs, fmt.Errorf("--pool %q is no name of a pool", p.Pool))
	}
	var t Token
	if p.Token != "" {
		if t, err = ParseToken(p.Token); err != nil {
			errs = append(errs, errors.New("--token: that is no provisioning token: want bunsen.ID.SECRET, as "+
				"`bunsen token create` prints it"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return resource{}, err
	}
	where = where.JoinPath(elements...)
	var out resource
	switch {
	case p.Token != "" && d.headers:
		out.HTTPHeaders = append(out.HTTPHeaders, header{"Authorization", "Bearer " + t.String()})
	case p.Token != "":
		where.User = url.UserPassword(t.ID, t.Secret)
	}
	out.Source = where.String()
	return out, nil
}

// CheckServer returns what is wrong with a server's URL, which the text begins with. The caller adds where it is set.
func CheckServer(text string) error {
	_, err := serverURL(text)
	return err
}

// serverURL requires https, because the machine sends a token and gets a config.
func serverURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "":
		return nil, fmt.Errorf("%q: want https://HOST:22623", text)
	case u.Scheme != "https":
		return nil, fmt.Errorf("%q: want https, since a token and a config travel there", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "":
		return nil, fmt.Errorf("%q: want no more than https://HOST:22623", u.Redacted())
	case strings.Contains(u.Path+"/", "/config/"):
		return nil, fmt.Errorf("%q: want https://HOST:22623, without /config/POOL", text)
	}
	return u, nil
}

// certificates returns those that can be parsed.
func (p Pointer) certificates() []certificate {
	out, _ := readCertificates(p.CA)
	return out
}

func joinVersions(versions []mcs.Version) string {
	var out []string
	for _, v := range versions {
		out = append(out, string(v))
	}
	return strings.Join(out, ", ")
}

// format is what a version of the Ignition spec supports in a pointer config.
type format struct {
	version mcs.Version
	// the oldest version of variant fcos that Butane translates to this one; empty if there is none
	butane string
	// Ignition can request a config with headers, and decompress it. It appends configs instead of merging them.
	headers, append bool
}

// formats: oldest first. The server serves the same versions.
var formats = []format{
	{mcs.V2_2, "", false, true},
	{mcs.V3_0, "1.0.0", false, false},
	{mcs.V3_1, "1.1.0", true, false},
	{mcs.V3_2, "1.2.0", true, false},
	{mcs.V3_3, "1.4.0", true, false},
	{mcs.V3_4, "1.5.0", true, false},
	{mcs.V3_5, "1.6.0", true, false},
}

// PointerVersions returns the Ignition versions that a pointer config can have, oldest first.
func PointerVersions() []mcs.Version {
	out := make([]mcs.Version, len(formats))
	for i, d := range formats {
		out[i] = d.version
	}
	return out
}

func formatOf(v mcs.Version) (format, bool) {
	i := slices.IndexFunc(formats, func(d format) bool { return d.version == v })
	if i < 0 {
		return format{}, false
	}
	return formats[i], true
}

type certificate struct {
	// as a data URL, not compressed, because Ignition 2.3 fails on a compressed CA; each a resource of its own, because
	// Ignition before 2.4 reads only the first certificate of one
	source string
	// for people
	description string
	// the SHA-256 of the DER, in hexadecimal
	fingerprint string
}

// Fingerprints returns the SHA-256, in hexadecimal, of each certificate (DER) of a PEM bundle, as in a
// v1alpha1.ServerReport.
func Fingerprints(bundle []byte) ([]string, error) {
	all, err := readCertificates(bundle)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		out = append(out, c.fingerprint)
	}
	return out, nil
}

// readCertificates drops duplicates. The bundle may be empty.
func readCertificates(bundle []byte) ([]certificate, error) {
	if len(bytes.TrimSpace(bundle)) == 0 {
		return nil, nil
	}
	all, err := trustfile.Certificates(bundle)
	if err != nil {
		err = fmt.Errorf("reading the CA: %w", err)
	}
	var out []certificate
	seen := map[string]bool{}
	for _, c := range all {
		sum := fmt.Sprintf("%x", sha256.Sum256(c.Raw))
		if seen[sum] {
			continue
		}
		seen[sum] = true
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		out = append(out, certificate{
			source: "data:," + dataurl.Escape(text), fingerprint: sum,
			description: fmt.Sprintf("%q until %s, sha256 %s", c.Subject.String(),
				c.NotAfter.UTC().Format(time.DateOnly), sum),
		})
	}
	return out, err
}

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
