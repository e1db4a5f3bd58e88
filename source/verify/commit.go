package verify

import (
	"bytes"
	"regexp"
	"strings"
	"time"
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
