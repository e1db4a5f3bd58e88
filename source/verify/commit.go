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

// Commit checks the signature of a raw commit object, as git stores it without the object's own header, and names the
// signer: `ssh SHA256:… (alice@example.com)` or `pgp 0123… (Alice <alice@example.com>)`. Keys must be valid at now.
//
// Errors are Stalled SignatureMissing faults, each with what to do: the commit is not signed; it is signed by a key that
// is not allowed, or no longer; the signature or the commit is damaged.
func Commit(raw []byte, keys Keys, now time.Time) (signer string, err error) {
	o, err := split(raw)
	if err != nil {
		return "", err
	}
	switch {
	case o.signature == "":
		return "", refuse("the commit is not signed: sign it with an allowed key, as git commit -S does, and push it again; a signed tag is not enough")
	case strings.HasPrefix(o.signature, sshBegin):
		return keys.checkSSH(o, now)
	case strings.HasPrefix(o.signature, pgpBegin):
		return keys.checkPGP(o, now)
	}
	first, _, _ := strings.Cut(o.signature, "\n")
	return "", refuse("the commit's signature begins %.60q: only OpenPGP and SSH signatures can be checked; see git's setting gpg.format", source.Line(first))
}

// object is a commit cut in two: what was signed, and the signature, empty where there is none.
type object struct {
	payload   []byte
	signature string
}

// split takes the one gpgsig header out of a commit and leaves every other byte as it is.
func split(raw []byte) (object, error) {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 || bytes.IndexByte(raw[:end], 0) >= 0 {
		return object{}, malformed("its header does not end")
	}
	var payload bytes.Buffer
	var signature strings.Builder
	var h header
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
			return object{}, malformed("its header %s goes on over a second line", h.key)
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

// header is a commit's header while it is read: git writes tree, parents, author and committer first, in this order.
type header struct {
	key   string
	stage stage
	once  [2]bool // gpgsig, encoding
}

type stage int

const (
	start stage = iota
	tree        // tree and parents are read
	author
	rest // committer and whatever follows
)

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// next judges a header that begins.
func (h *header) next(key, value string) error {
	h.key = key
	switch {
	case (key == "tree" || key == "parent") && !fullHash.MatchString(value):
		return malformed("its header %s is not a SHA-1 hash", key)
	case key == "tree" && h.stage == start:
		h.stage = tree
	case key == "parent" && h.stage == tree:
	case key == "author" && h.stage == tree:
		h.stage = author
	case key == "committer" && h.stage == author:
		h.stage = rest
	case key == "gpgsig" && h.stage == rest && !h.once[0]:
		h.once[0] = true
	case key == "encoding" && h.stage == rest && !h.once[1]:
		h.once[1] = true
	case key == "tree" || key == "parent" || key == "author" || key == "committer" || key == "gpgsig" || key == "encoding":
		return malformed("its header %s stands twice or out of order", key)
	case strings.HasPrefix(key, "gpgsig"):
		return malformed("its header %.40q is a signature for another kind of repository", key)
	case h.stage != rest:
		return malformed("its header %.40q stands before the committer", key)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return refuse("the commit is not as git writes them, so two programs could read it differently: %s; make the commit again with git",
		fmt.Sprintf(format, args...))
}

func damaged(signer string) error {
	return refuse("the signature of %s does not fit the commit: one of them was changed after signing; make the commit again and find out who changed it", signer)
}

func stranger(signer string) error {
	return refuse("the commit is signed by %s, which is not among the allowed keys: if you trust it, add its public key to the Secret of verify.secretRef, else find out who pushed the commit", signer)
}

func refuse(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonSignature, fmt.Errorf(format, args...))
}
