package source

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Transport is a way to reach a repository.
type Transport int

// The transports.
const (
	// HTTP is https:// and http://.
	HTTP Transport = iota
	// SSH is ssh:// and user@host:path.
	SSH
	// Local is a folder of this machine, by its absolute path or file://.
	Local
)

// Address is a repository's address, taken apart.
type Address struct {
	// Transport that reaches it.
	Transport Transport
	// Scheme is `https`, `http`, `ssh` or `file`.
	Scheme string
	// User and Password as the address holds them; they never appear in String but for the user of ssh, who is part of
	// the address there.
	User, Password string
	// Host without port; empty for Local.
	Host string
	// Port, or empty for the scheme's own.
	Port string
	// Path on the host. For HTTP it is percent-encoded as it was; for `user@host:path` it may be relative.
	Path string

	scp bool
}

var scpLike = regexp.MustCompile(`^(?:([^@/:\s]+)@)?([^@/:\s\[\]]+|\[[0-9a-fA-F:.]+\]):([^\s].*)$`)

// ParseURL reads spec.url. The error is a Stalled InvalidSpec fault, and holds no credentials.
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
			return Address{}, invalid("url %q is no address of a repository: write https://host/path, ssh://user@host/path, user@host:path or an absolute path", crude(raw))
		}
		return Address{Transport: SSH, Scheme: "ssh", User: m[1], Host: strings.Trim(m[2], "[]"), Path: m[3], scp: true}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Address{}, invalid("url %q cannot be read: check its host, port and percent signs", crude(raw))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return Address{}, invalid("url %q holds a query or fragment: credentials belong into the Secret, a branch into ref", crude(raw))
	}
	a := Address{Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port(), Path: u.Path}
	if strings.Contains(u.Path, "@") {
		// As in https://me:pass/word@host/x, where everything after the second slash reads as a path.
		return Address{}, invalid("url %q holds an @ after the host: write %%40 for an @ and %%2F for a slash in a user or password, or put them into the Secret", crude(raw))
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
		a.Transport, a.Path = HTTP, u.EscapedPath()
	case "ssh":
		a.Transport = SSH
		if a.Password != "" {
			return Address{}, invalid("url %q holds a password: ssh uses the key `identity` of the Secret", crude(raw))
		}
		if a.User == "" {
			a.User = "git"
		}
	case "file":
		a.Transport = Local
		if a.Host != "" && a.Host != "localhost" || !strings.HasPrefix(a.Path, "/") {
			return Address{}, invalid("url %q names another machine: write file:///absolute/path", crude(raw))
		}
		a.Host, a.Path = "", path.Clean(a.Path)
		return a, nil
	default:
		return Address{}, invalid("url %q: %s:// is not supported; use https:// or ssh://, which are encrypted", crude(raw), a.Scheme)
	}
	if a.Host == "" || strings.Trim(a.Path, "/") == "" {
		return Address{}, invalid("url %q names no repository: write %s://host/path", crude(raw), a.Scheme)
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

// Redact returns a repository's URL without credentials. It never fails: of what is no URL it keeps what cannot be one.
func Redact(raw string) string {
	if a, err := ParseURL(raw); err == nil {
		return a.String()
	}
	return crude(raw)
}

// crude drops everything from the scheme to the last @, and any query after it, of something that may not parse.
func crude(raw string) string {
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
