package kinds

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxScope is the largest number of bytes of a registry's name. The name of a file contains it.
const maxScope = 200

var (
	// hostLabel is a part of a host's name. Container runtimes compare names byte by byte, so upper-case letters would
	// match nothing.
	hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// component is a part of a repository's path.
	component = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
	// plain has only characters that a name can have.
	plain = regexp.MustCompile(`^[a-z0-9._:/*-]*$`)
)

// scope is the valid name of a registry, of a part of one, or of all hosts below a domain: `quay.io`, `quay.io/a/b`,
// `*.example.com`.
type scope string

// host returns the host with its port.
func (s scope) host() string {
	host, _, _ := strings.Cut(string(s), "/")
	return host
}

// path returns the path without a leading slash; "" for a whole registry.
func (s scope) path() string {
	_, path, _ := strings.Cut(string(s), "/")
	return path
}

// isWildcard reports whether the scope is all hosts below a domain.
func (s scope) isWildcard() bool { return strings.HasPrefix(string(s), "*.") }

// fileName returns a name for a file that differs for each scope: + stands for a slash, and for the star of a wildcard.
func (s scope) fileName() string { return strings.NewReplacer("/", "+", "*", "+").Replace(string(s)) }

// badScope returns why a text is no scope, as the end of a sentence, or "". It quotes no text that may have
// credentials.
func badScope(text string, wildcards bool) string {
	switch {
	case text == "":
		return "is empty: write a registry such as quay.io, or a part of one such as quay.io/libpod"
	case strings.Contains(text, "@sha256:"):
		return "has a digest: name the repository only"
	case strings.Contains(text, "@"):
		return "has an @: nodes take credentials from their pull secret, so write the registry without them"
	case len(text) > maxScope:
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), maxScope)
	case strings.Contains(text, "://"):
		return fmt.Sprintf("%q has a scheme: write the host and the path without it", text)
	case strings.ToLower(text) != text:
		return fmt.Sprintf("%q has upper-case letters: container runtimes compare names byte by byte, so write "+
			"lower-case letters", text)
	case !plain.MatchString(text):
		return fmt.Sprintf("%q has characters that no registry has: write letters, digits and ._:/-", text)
	case strings.Contains(text, "*"):
		return badWildcard(text, wildcards)
	}
	host, path, hasPath := strings.Cut(text, "/")
	if bad := badHost(host); bad != "" {
		return fmt.Sprintf("%q %s", text, bad)
	}
	if !hasPath {
		return ""
	}
	for part := range strings.SplitSeq(path, "/") {
		if strings.Contains(part, ":") {
			return fmt.Sprintf("%q has a tag: name the repository only", text)
		}
		if !component.MatchString(part) {
			return fmt.Sprintf("%q has the path component %q: write lower-case letters and digits, with one of . _ "+
				"__ - between them", text, part)
		}
	}
	return ""
}

func badWildcard(text string, allowed bool) string {
	rest, isPrefix := strings.CutPrefix(text, "*.")
	switch {
	case !allowed:
		return fmt.Sprintf("%q has a wildcard: a mirror is one registry", text)
	case !isPrefix || strings.ContainsAny(rest, "*:/"):
		return fmt.Sprintf("%q is no wildcard: write *. and a domain without port and path, such as *.example.com",
			text)
	}
	for label := range strings.SplitSeq(rest, ".") {
		if !hostLabel.MatchString(label) {
			return fmt.Sprintf("%q is no wildcard: %q is no part of a domain", text, label)
		}
	}
	return ""
}

// badHost returns why the first part of a scope is no host, or "". Image names such as library/nginx begin with none.
func badHost(host string) string {
	name, port, hasPort := strings.Cut(host, ":")
	if n, err := strconv.Atoi(port); hasPort && (err != nil || n < 1 || n > 65535 || port[0] == '0') {
		return fmt.Sprintf("has the port %q: write a number from 1 to 65535", port)
	}
	for label := range strings.SplitSeq(name, ".") {
		if !hostLabel.MatchString(label) {
			return fmt.Sprintf("has %q in its host: write lower-case letters and digits, with - between them", label)
		}
	}
	if !strings.Contains(name, ".") && !hasPort && name != "localhost" {
		return "does not begin with a registry: write its host first, such as docker.io/library/nginx"
	}
	return ""
}
