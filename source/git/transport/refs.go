package transport

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// RefsRequest returns the request for all refs that begin with one of the prefixes. Without prefixes, the server lists
// all refs.
func RefsRequest(prefixes []string) []byte {
	var m message
	m.line("command=ls-refs")
	m.line("agent=bunsen")
	m.line("object-format=sha1")
	m.delimiter()
	m.line("peel")
	m.line("symrefs")
	m.line("unborn")
	for _, p := range prefixes {
		m.line("ref-prefix %s", p)
	}
	return m.end()
}

var objectName = regexp.MustCompile(`^[0-9a-f]{40}$`)

// ReadRefs reads the response to RefsRequest. The refs are in lexical order, HEAD first.
func ReadRefs(r io.Reader) ([]source.Ref, error) {
	p := newPackets(r)
	var refs []source.Ref
	for {
		k, text, err := p.line()
		switch {
		case err != nil:
			return nil, unexpected(err)
		case k != data:
			return sorted(refs), nil
		}
		ref, want := parseRef(text)
		if want != "" {
			return nil, p.expected("%s", want)
		}
		if ref.Hash != "" || ref.Target != "" {
			refs = append(refs, ref)
		}
	}
}

// parseRef reads `HASH NAME [symref-target:NAME] [peeled:HASH]`. HASH is `unborn` for a branch without commits. If the
// text is no ref, parseRef returns what it expected.
func parseRef(text string) (ref source.Ref, want string) {
	fields := strings.Split(text, " ")
	if len(fields) < 2 || fields[1] == "" {
		return ref, "the hash and the name of a ref"
	}
	ref = source.Ref{Name: fields[1], Hash: fields[0]}
	for _, attribute := range fields[2:] {
		switch name, value, _ := strings.Cut(attribute, ":"); name {
		case "symref-target":
			ref.Target = value
		case "peeled":
			ref.Peeled = value
		}
	}
	if ref.Hash == "unborn" {
		ref.Hash = ""
	}
	for _, hash := range []string{ref.Hash, ref.Peeled} {
		if hash != "" && !objectName.MatchString(hash) {
			return ref, "a hash of SHA-1"
		}
	}
	if ref.Name != "HEAD" {
		ref.Target = ""
	}
	return ref, ""
}

// sorted returns refs in lexical order, HEAD first. sorted leaves out the HEAD of a repository without any ref.
func sorted(refs []source.Ref) []source.Ref {
	slices.SortFunc(refs, func(a, b source.Ref) int {
		if (a.Name == "HEAD") != (b.Name == "HEAD") {
			if a.Name == "HEAD" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(refs) == 1 && refs[0].Name == "HEAD" && refs[0].Hash == "" {
		return nil
	}
	return refs
}
