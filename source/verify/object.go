package verify

import (
	"crypto/sha1" //nolint:gosec // git names objects by it
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/source"
)

const (
	sshBegin = "-----BEGIN SSH SIGNATURE-----"
	pgpBegin = "-----BEGIN PGP SIGNATURE-----"
)

// kind is the kind of a git object, in messages.
type kind string

const (
	commitKind kind = "commit"
	tagKind    kind = "tag"
)

// object is a commit or a tag that was read strictly.
type object struct {
	kind      kind
	payload   []byte // payload is the bytes that the signature covers.
	signature string // the signature; empty if the object has none
	header    map[string]string
	message   string
}

// identity is the key that signed an object.
type identity struct {
	text string // the signer as text for messages: `ssh SHA256:… (alice@example.com)`
	// keys are the fingerprints of the key: `SHA256:…`, or upper-case hex digits of the OpenPGP key and its subkey
	keys  []string
	names []string // names are the principals or e-mail addresses, in lower case.
}

// check returns who signed an object.
func (k Keys) check(o object, now time.Time) (identity, error) {
	switch {
	case o.signature == "" && o.kind == tagKind:
		return identity{}, refuse("the tag %.60q is not signed: replace it by a tag that is signed with an allowed "+
			"key (`git tag -s`), and push that one", o.header["tag"])
	case o.signature == "":
		return identity{}, refuse("the commit is not signed: sign the commit with an allowed key (`git commit -S`), " +
			"and push it again. A signed tag is enough only with verify.mode Tag")
	case strings.HasPrefix(o.signature, sshBegin):
		return k.checkSSH(o, now)
	case strings.HasPrefix(o.signature, pgpBegin):
		return k.checkPGP(o, now)
	}
	first, _, _ := strings.Cut(o.signature, "\n")
	return identity{}, refuse("the %s's signature begins %.60q: only OpenPGP and SSH signatures can be checked; see "+
		"git's setting gpg.format", o.kind, source.Line(first))
}

// mailOf returns the e-mail address of the header author, committer or tagger, in lower case. mailOf returns "" if two
// programs could read different addresses from the line.
func (o object) mailOf(header string) string {
	line := o.header[header]
	_, after, begins := strings.Cut(line, "<")
	mail, after, ends := strings.Cut(after, ">")
	if !begins || !ends || strings.ContainsAny(mail+after, "<>") {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(mail))
}

// date returns the time in the header committer or tagger, in UTC; false if there is no time.
func (o object) date() (time.Time, bool) {
	line := o.header["committer"]
	if o.kind == tagKind {
		line = o.header["tagger"]
	}
	words := strings.Fields(line[strings.LastIndex(line, ">")+1:])
	if len(words) == 0 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(words[0], 10, 64)
	return time.Unix(seconds, 0).UTC(), err == nil
}

// describe names a commit in a list of problems: `0123abcd "subject" by Ada <ada@example.com>`. The arguments are the
// object as git stores it, and the parts that could be parsed.
func describe(raw []byte, o object) string {
	by, _, _ := strings.Cut(o.header["committer"], ">")
	text := hashOf(commitKind, raw)[:8]
	if o.kind == "" {
		return text
	}
	return fmt.Sprintf("%s %s by %s>", text, source.Quote(source.Line(o.message)), source.Line(by))
}

// hashOf returns the name that git gives an object.
func hashOf(k kind, raw []byte) string {
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "%s %d\x00", k, len(raw))
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}
