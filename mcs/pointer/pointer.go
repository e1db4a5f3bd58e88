package pointer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// Pointer says where a machine gets its config from.
type Pointer struct {
	// Pool of the machine.
	Pool string
	// Server is the server's URL, as new machines reach it, such as https://api.example.com:22623.
	Server string
	// CA are the certificates to believe the server by, as PEM; none: those that the machine's image brings along.
	CA []byte
	// Token is the whole text of a provisioning token; empty for a server that asks for none.
	Token string
	// Version of Ignition to write. Since mcs.V3_1 the token is in a header; before, it can only be in the URL.
	Version mcs.Version
	// Zipped asks the server for a compressed config, which Ignition decompresses. It needs mcs.V3_1 or later.
	Zipped bool
}

// Default is the version to write where nobody says another: the first that has headers, which every later Ignition reads.
const Default = mcs.V3_1

// TokenInURL tells whether the token is a part of the URL, which Ignition writes to the machine's log.
func (p Pointer) TokenInURL() bool {
	d, ok := dialectOf(p.Version)
	return ok && !d.headers && p.Token != ""
}

// Ignition is the pointer as an Ignition config of p.Version, which that version's own parser accepts. The error has
// everything that is wrong with p.
func (p Pointer) Ignition() ([]byte, error) {
	d, config, err := p.config()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(struct {
		Ignition section `json:"ignition"`
	}{config})
	if err != nil {
		return nil, fmt.Errorf("writing Ignition: %w", err)
	}
	if err := d.accepts(raw); err != nil {
		return nil, fmt.Errorf("writing Ignition %s: its parser does not accept it: %w", d.version, err)
	}
	return append(raw, '\n'), nil
}

// Butane is the pointer as a Butane document of variant fcos, of the oldest version that gives Ignition of p.Version: it
// transpiles to what Ignition returns. 2.2.0 has no Butane.
func (p Pointer) Butane() ([]byte, error) {
	if _, err := p.Ignition(); err != nil { // what Ignition would not take is no better as Butane
		return nil, err
	}
	d, config, err := p.config()
	if err != nil {
		return nil, err
	}
	if d.butane == "" {
		return nil, fmt.Errorf("there is no Butane for Ignition %s: leave out --output butane, or take a later --version", d.version)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Where new machines of pool %s get their config from.\n", p.Pool)
	for _, c := range p.certificates() {
		fmt.Fprintf(&b, "# CA: %s\n", c.about)
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(struct {
		Variant  string
		Version  string
		Ignition section
	}{"fcos", d.butane, config}); err != nil {
		return nil, fmt.Errorf("writing Butane: %w", err)
	}
	return []byte(b.String()), nil
}

// section is the part `ignition` of a config: in JSON as Ignition spells it, in YAML as Butane does.
type section struct {
	Version  string   `json:"version" yaml:"-"`
	Config   configs  `json:"config" yaml:"config"`
	Security *trusted `json:"security,omitempty" yaml:"security,omitempty"`
}

// configs are the configs to fetch: merged since 3.0, appended before.
type configs struct {
	Append []resource `json:"append,omitempty" yaml:"-"`
	Merge  []resource `json:"merge,omitempty" yaml:"merge,omitempty"`
}

type resource struct {
	Source      string   `json:"source" yaml:"source"`
	Compression string   `json:"compression,omitempty" yaml:"compression,omitempty"`
	HTTPHeaders []header `json:"httpHeaders,omitempty" yaml:"http_headers,omitempty"`
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

// config puts the pointer together, and collects what stands in the way.
func (p Pointer) config() (dialect, section, error) {
	var errs []error
	d, ok := dialectOf(p.Version)
	if !ok {
		errs = append(errs, fmt.Errorf("--version %q: want one of %s", string(p.Version), words(Versions())))
	}
	if p.Zipped && ok && !d.headers {
		errs = append(errs, fmt.Errorf("--gzip needs headers, which Ignition %s does not have: leave it out, or take --version %s or later", p.Version, Default))
	}
	from, err := p.resource(d)
	errs = append(errs, err)
	certificates, err := readCertificates(p.CA)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return dialect{}, section{}, err
	}
	out := section{Version: string(d.version), Config: configs{Merge: []resource{from}}}
	if d.append {
		out.Config = configs{Append: []resource{from}}
	}
	if len(certificates) > 0 {
		out.Security = &trusted{}
		for _, c := range certificates {
			out.Security.TLS.CertificateAuthorities = append(out.Security.TLS.CertificateAuthorities, resource{Source: c.source})
		}
	}
	return d, out, nil
}

// resource is where the config is, and what to say when asking for it.
func (p Pointer) resource(d dialect) (resource, error) {
	var errs []error
	where, err := serverURL(p.Server)
	if err != nil {
		errs = append(errs, fmt.Errorf("--server %w", err))
	}
	if url.PathEscape(p.Pool) != p.Pool || strings.Trim(p.Pool, ".") == "" {
		errs = append(errs, fmt.Errorf("--pool %q is no name of a pool", p.Pool))
	}
	var t token.Token
	if p.Token != "" {
		if t, err = token.Parse(p.Token); err != nil {
			errs = append(errs, errors.New("--token: that is no provisioning token: want bunsen.ID.SECRET, as `bunsen token create` prints it"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return resource{}, err
	}
	where = where.JoinPath("config", p.Pool)
	var out resource
	switch {
	case p.Token != "" && d.headers:
		out.HTTPHeaders = append(out.HTTPHeaders, header{"Authorization", "Bearer " + t.String()})
	case p.Token != "":
		where.User = url.UserPassword(t.ID, t.Secret)
	}
	if p.Zipped {
		// Asking ourselves turns off what Go's client would decompress unseen; Ignition does it then, as told.
		out.Compression, out.HTTPHeaders = "gzip", append(out.HTTPHeaders, header{"Accept-Encoding", "gzip"})
	}
	out.Source = where.String()
	return out, nil
}

// CheckServer says what is wrong with a server's URL, beginning with the URL in quotes: the caller says where it stands.
func CheckServer(text string) error {
	_, err := serverURL(text)
	return err
}

// serverURL reads where the server is. A token must not travel in the clear, nor a config be changed on its way.
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

// certificates of the CA, where they can be read.
func (p Pointer) certificates() []certificate {
	out, _ := readCertificates(p.CA)
	return out
}

func words(versions []mcs.Version) string {
	var out []string
	for _, v := range versions {
		out = append(out, string(v))
	}
	return strings.Join(out, ", ")
}
