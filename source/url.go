package source

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Transport is the kind of access to a repository.
type Transport int

// The kinds of access to a repository.
const (
	// HTTP is https:// and http://.
	HTTP Transport = iota
	// SSH is ssh:// and user@host:path.
	SSH
	// Local is a folder of this machine, by its absolute path or file://.
	Local
	// OCI is oci://, a repository of an OCI registry.
	OCI
)

// Address is the parts of a repository's address.
type Address struct {
	// Transport is the kind of access to use.
	Transport Transport
	// Scheme is `https`, `http`, `ssh`, `file` or `oci`.
	Scheme string
	// User and Password in the address. String never returns them, except the user for ssh, which is part of the
	// address.
	User, Password string
	// Host is the host without the port; empty for Local.
	Host string
	// Port is the port; empty for the default port of the scheme.
	Port string
	// Path is the path on the host. For HTTP, Path keeps its percent-encoding. For `user@host:path`, Path may be
	// relative.
	Path string

	scp bool
}

var scpLike = regexp.MustCompile(`^(?:([^@/:\s]+)@)?([^@/:\s\[\]]+|\[[0-9a-fA-F:.]+\]):([^\s].*)$`)

// ociName matches the name of a repository, as the specification of OCI registries defines it.
var ociName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// ParseURL reads spec.url. The error is a Stalled InvalidSpec fault, and contains no credentials.
func ParseURL(raw string) (Address, error) {
	if strings.ContainsAny(raw, "\x00\r\n\t") {
		return Address{}, invalid("the url holds a control character")
	}
	if strings.HasPrefix(raw, "/") {
		return Address{Transport: Local, Scheme: "file", Path: path.Clean(raw)}, nil
	}
	if !strings.Contains(raw, "://") {
		m := scpLike.FindStringSubmatch(raw)
		if m == nil || m[1] == "" {
			return Address{}, invalid("url %q is not the address of a repository: write https://host/path, "+
				"ssh://user@host/path, user@host:path or an absolute path", redactInvalid(raw))
		}
		return Address{
			Transport: SSH, Scheme: "ssh", User: m[1], Host: strings.Trim(m[2], "[]"), Path: m[3],
			scp: true,
		}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		if strings.Contains(raw, "@") {
			return Address{}, invalid("url %q cannot be read: check its host, port and percent signs. In a user or "+
				"password write %%40 for @ and %%2F for a slash, or write them into the Secret", redactInvalid(raw))
		}
		return Address{}, invalid("url %q cannot be read: check its host, port and percent signs", redactInvalid(raw))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return Address{}, invalid("url %q holds a query or fragment: credentials belong into the Secret, a branch "+
			"into ref", redactInvalid(raw))
	}
	a := Address{Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), Path: u.Path}
	if strings.Contains(u.Path, "@") {
		// An example is https://me:pass/word@host/x: here the parser takes `/word@host/x` for the path.
		return Address{}, invalid("url %q has an @ after the host. In a user or password write %%40 for @ and %%2F "+
			"for a slash, or write them into the Secret", redactInvalid(raw))
	}
	if u.User != nil {
		a.User = u.User.Username()
		a.Password, _ = u.User.Password()
	}
	return a.check(raw, u)
}

func (a Address) check(raw string, u *url.URL) (Address, error) {
	switch a.Scheme {
	case "https", "http":
		a.Transport, a.Path = HTTP, strings.TrimRight(u.EscapedPath(), "/")
	case "ssh":
		a.Transport = SSH
		if a.Password != "" {
			return Address{}, invalid("url %q holds a password: ssh uses the key `identity` of the Secret",
				redactInvalid(raw))
		}
		if a.User == "" {
			a.User = "git"
		}
	case "file":
		a.Transport = Local
		if a.Host != "" && a.Host != "localhost" || !strings.HasPrefix(a.Path, "/") {
			return Address{}, invalid("url %q names another machine: write file:///absolute/path", redactInvalid(raw))
		}
		a.Host, a.Path = "", path.Clean(a.Path)
		return a, nil
	case "oci":
		a.Transport, a.Path = OCI, strings.TrimRight(a.Path, "/")
		if a.User != "" || a.Password != "" {
			return Address{}, invalid("url %q holds credentials: write them into the Secret of secretRef",
				redactInvalid(raw))
		}
		if !ociName.MatchString(strings.TrimPrefix(a.Path, "/")) {
			return Address{}, invalid("url %q names no repository of a registry: write oci://host/name in lower "+
				"case, and a tag or digest into ref", redactInvalid(raw))
		}
	default:
		return Address{}, invalid("url %q: %s:// is not supported; use https:// or ssh://, which are encrypted",
			redactInvalid(raw), a.Scheme)
	}
	if a.Host == "" || strings.Trim(a.Path, "/") == "" {
		return Address{}, invalid("url %q names no repository: write %s://host/path", redactInvalid(raw), a.Scheme)
	}
	return a, nil
}

// String returns the address without credentials, in the form in which it was written.
func (a Address) String() string {
	switch {
	case a.Transport == Local:
		return a.Path
	case a.scp:
		return a.User + "@" + a.host() + ":" + a.Path
	case a.Transport == SSH:
		return "ssh://" + url.User(a.User).String() + "@" + a.host() + (&url.URL{Path: a.Path}).EscapedPath()
	default:
		return a.Scheme + "://" + a.host() + a.Path
	}
}

func (a Address) host() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" {
		host += ":" + a.Port
	}
	return host
}

// Redact returns a repository's URL without credentials, also if the URL is invalid.
func Redact(raw string) string {
	if a, err := ParseURL(raw); err == nil {
		return a.String()
	}
	return redactInvalid(raw)
}

// redactInvalid drops everything from the scheme to the last @, and any query after it, of a URL that may be invalid.
func redactInvalid(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "", raw
	}
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		rest = rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	if ok {
		return scheme + "://" + rest
	}
	return rest
}
