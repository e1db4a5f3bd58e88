package verify

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// Commit checks the signature of a raw commit object, as git stores it without the object's header. Commit returns the
// signer: `ssh SHA256:… (alice@example.com)` or `pgp 0123… (Alice <alice@example.com>)`. Keys must be valid at the time
// now.
//
// Errors are Stalled SignatureMissing faults that say what to do: the commit is not signed; the key that signed it is
// not allowed or has expired; the signature or the commit is damaged.
func Commit(raw []byte, keys Keys, now time.Time) (signer string, err error) {
	o, err := splitCommit(raw)
	if err != nil {
		return "", err
	}
	by, err := keys.check(o, now)
	return by.text, err
}

// splitCommit separates the gpgsig header of a commit from all other bytes.
func splitCommit(raw []byte) (object, error) {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 || bytes.IndexByte(raw[:end], 0) >= 0 {
		return object{}, commitKind.malformed("its header does not end")
	}
	var payload bytes.Buffer
	var signature strings.Builder
	h := header{values: map[string]string{}}
	for line := range bytes.Lines(raw[:end+1]) {
		more, continues := bytes.CutPrefix(line, []byte(" "))
		key, value, _ := bytes.Cut(line, []byte(" "))
		switch {
		case !continues:
			if err := h.next(strings.TrimSuffix(string(key), "\n"), strings.TrimSuffix(string(value),
				"\n")); err != nil {
				return object{}, err
			}
			more = value
		case h.key == "":
			return object{}, commitKind.malformed("it begins with a space")
		case h.key != "gpgsig" && h.stage < rest:
			return object{}, commitKind.malformed("its header %s continues on a second line", h.key)
		}
		if h.key == "gpgsig" {
			signature.Write(more)
		} else {
			payload.Write(line)
		}
	}
	if h.stage < rest {
		return object{}, commitKind.malformed("it lacks the header tree, author or committer")
	}
	payload.Write(raw[end+1:])
	return object{
		kind: commitKind, payload: payload.Bytes(), signature: signature.String(), header: h.values,
		message: string(raw[end+2:]),
	}, nil
}

// header is the state while splitCommit reads the header of a commit.
type header struct {
	key    string
	stage  stage
	values map[string]string // the first line of each known header
}

type stage int

const (
	start stage = iota
	tree        // In this stage, the headers tree and parent are read.
	author
	rest // In this stage, the header committer and all later lines are read.
)

// order maps each header key that git writes to the stage in which the key may appear, and to the stage after it. Git
// writes tree, parents, author and committer first.
var order = map[string]struct{ in, next stage }{
	"tree": {start, tree}, "parent": {tree, tree}, "author": {tree, author}, "committer": {author, rest},
	"gpgsig": {rest, rest}, "encoding": {rest, rest},
}

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// next checks the first line of one header field.
func (h *header) next(key, value string) error {
	h.key = key
	o, known := order[key]
	_, seen := h.values[key]
	switch {
	case (key == "tree" || key == "parent") && !fullHash.MatchString(value):
		return commitKind.malformed("its header %s is not a SHA-1 hash", key)
	case known && (h.stage != o.in || seen && key != "parent"):
		return commitKind.malformed("its header %s is repeated or out of order", key)
	case known:
		h.stage, h.values[key] = o.next, value
	case strings.HasPrefix(key, "gpgsig"):
		return commitKind.malformed("its header %.40q is a signature for another kind of repository", key)
	case h.stage != rest:
		return commitKind.malformed("its header %.40q precedes the committer", key)
	}
	return nil
}

//nolint:gosec // git names objects by it

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

// hashOf returns the name that git gives an object.
func hashOf(k kind, raw []byte) string {
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "%s %d\x00", k, len(raw))
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil))
}

// tagHeader are the headers of a tag, in the order in which git writes them.
var tagHeader = []string{"object", "type", "tag", "tagger"}

// begins are the lines that begin a signature in the message of a tag, as git finds them.
var begins = []string{sshBegin, pgpBegin, "-----BEGIN PGP MESSAGE-----", "-----BEGIN SIGNED MESSAGE-----"}

func (k kind) malformed(format string, args ...any) error {
	return refuse("the %s does not have git's format, so two programs could read it differently: %s; create the %s "+
		"again with git",
		k, fmt.Sprintf(format, args...), k)
}

func (k kind) damaged(signer string) error {
	return refuse("the signature of %s does not match the %s, so the %s changed after the signature. Create the %s "+
		"again, and find out who changed it", signer, k, k, k)
}

func (k kind) unknownKey(signer string) error {
	return refuse("the key %s of the signature is not among the allowed keys. If you trust the key, add it to the "+
		"Secret of verify.secretRef; if not, find out who pushed the %s", signer, k)
}

func refuse(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonSignature, fmt.Errorf(format, args...))
}
