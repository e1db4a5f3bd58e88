package verify

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

const (
	sshBegin = "-----BEGIN SSH SIGNATURE-----"
	pgpBegin = "-----BEGIN PGP SIGNATURE-----"
)

// Commit checks the signature of a raw commit object, as git stores it without the object's header. It returns the
// signer: `ssh SHA256:… (alice@example.com)` or `pgp 0123… (Alice <alice@example.com>)`. Keys must be valid at
// the time now.
//
// Errors are Stalled SignatureMissing faults that say what to do: the commit is not signed; its key is not allowed or
// has expired; the signature or the commit is damaged.
func Commit(raw []byte, keys Keys, now time.Time) (signer string, err error) {
	o, err := split(raw)
	if err != nil {
		return "", err
	}
	switch {
	case o.signature == "":
		return "", refuse("the commit is not signed, and a signed tag is not enough: sign the commit with an allowed key (`git commit -S`), and push it again")
	case strings.HasPrefix(o.signature, sshBegin):
		return keys.checkSSH(o, now)
	case strings.HasPrefix(o.signature, pgpBegin):
		return keys.checkPGP(o, now)
	}
	first, _, _ := strings.Cut(o.signature, "\n")
	return "", refuse("the commit's signature begins %.60q: only OpenPGP and SSH signatures can be checked; see git's setting gpg.format", source.Line(first))
}

// object is the two parts of a commit: the signed bytes, and the signature, which may be empty.
type object struct {
	payload   []byte
	signature string
}

// split separates the gpgsig header of a commit from all other bytes.
func split(raw []byte) (object, error) {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 || bytes.IndexByte(raw[:end], 0) >= 0 {
		return object{}, malformed("its header does not end")
	}
	var payload bytes.Buffer
	var signature strings.Builder
	h := header{seen: map[string]bool{}}
	for line := range bytes.Lines(raw[:end+1]) {
		more, continues := bytes.CutPrefix(line, []byte(" "))
		key, value, _ := bytes.Cut(line, []byte(" "))
		switch {
		case !continues:
			if err := h.next(strings.TrimSuffix(string(key), "\n"), strings.TrimSuffix(string(value), "\n")); err != nil {
				return object{}, err
			}
			more = value
		case h.key == "":
			return object{}, malformed("it begins with a space")
		case h.key != "gpgsig" && h.stage < rest:
			return object{}, malformed("its header %s continues on a second line", h.key)
		}
		if h.key == "gpgsig" {
			signature.Write(more)
		} else {
			payload.Write(line)
		}
	}
	if h.stage < rest {
		return object{}, malformed("it lacks the header tree, author or committer")
	}
	payload.Write(raw[end+1:])
	return object{payload.Bytes(), signature.String()}, nil
}

// header is the state while the header of a commit is read.
type header struct {
	key   string
	stage stage
	seen  map[string]bool
}

type stage int

const (
	start stage = iota
	tree        // tree and parents are read
	author
	rest // committer and all later lines
)

// order maps each key of git to the stage in which it may appear, and the stage that follows: git writes tree, parents,
// author and committer first.
var order = map[string]struct{ in, next stage }{
	"tree": {start, tree}, "parent": {tree, tree}, "author": {tree, author}, "committer": {author, rest},
	"gpgsig": {rest, rest}, "encoding": {rest, rest},
}

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// next checks the first line of a header.
func (h *header) next(key, value string) error {
	h.key = key
	o, known := order[key]
	switch {
	case (key == "tree" || key == "parent") && !fullHash.MatchString(value):
		return malformed("its header %s is not a SHA-1 hash", key)
	case known && (h.stage != o.in || h.seen[key]):
		return malformed("its header %s is repeated or out of order", key)
	case known:
		h.stage, h.seen[key] = o.next, key != "parent"
	case strings.HasPrefix(key, "gpgsig"):
		return malformed("its header %.40q is a signature for another kind of repository", key)
	case h.stage != rest:
		return malformed("its header %.40q precedes the committer", key)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return refuse("the commit does not have git's format, so two programs could read it differently: %s; create the commit again with git",
		fmt.Sprintf(format, args...))
}

func damaged(signer string) error {
	return refuse("the signature of %s does not match the commit, so the commit changed after the signature. Create the commit again, and find out who changed it", signer)
}

func unknownKey(signer string) error {
	return refuse("the key %s of the signature is not among the allowed keys. If you trust the key, add it to the Secret of verify.secretRef; if not, find out who pushed the commit", signer)
}

func refuse(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonSignature, fmt.Errorf(format, args...))
}
