package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/source"
)

// The header of a bundle has at most maxBundleLines lines and maxBundleHeader bytes, because its refs stay in memory.
// One line has at most as many bytes as the reader's buffer.
const (
	maxBundleLines  = 50_000
	maxBundleHeader = 8 << 20
)

// Bundle is the header of a bundle, as gitformat-bundle(5) describes it. In the file, a pack follows the header.
type Bundle struct {
	// Prerequisites are the commits that a reader must have already.
	Prerequisites []string
	// Refs are in lexical order, HEAD first. Peeled is empty in all Refs, because the header does not say which refs
	// are annotated tags. If the bundle has one branch and no HEAD, HEAD is that branch.
	Refs []source.Ref
}

var (
	sha256Name   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	errNoBundle  = errors.New("the file is not a git bundle, or only a part of one")
	errLargeHead = errors.New("the header of the bundle is too large: name fewer refs in git bundle create")
	errSHA256    = errors.New("the bundle uses SHA-256 object names, which are not supported: convert the repository " +
		"to SHA-1")
)

// ReadBundle reads the header of a bundle of version 2 or 3. After ReadBundle, the reader is at the beginning of the
// pack. No error contains a part of the file, because the path may lead to any file.
func ReadBundle(r *bufio.Reader) (Bundle, error) {
	first, err := headerLine(r)
	if err != nil {
		return Bundle{}, err
	}
	version3 := first == "# v3 git bundle"
	if first != "# v2 git bundle" && !version3 {
		return Bundle{}, errNoBundle
	}
	var b Bundle
	left := maxBundleHeader
	for range maxBundleLines {
		text, err := headerLine(r)
		if err != nil {
			return Bundle{}, err
		}
		left -= len(text)
		switch {
		case left < 0:
			return Bundle{}, errLargeHead
		case text == "":
			return b.checked()
		case version3 && text[0] == '@' && len(b.Refs)+len(b.Prerequisites) == 0:
			err = checkCapability(text[1:])
		case text[0] == '-':
			err = b.addPrerequisite(text[1:])
		default:
			err = b.addRef(text)
		}
		if err != nil {
			return Bundle{}, err
		}
	}
	return Bundle{}, errLargeHead
}

// headerLine reads a line and returns it without the line break.
func headerLine(r *bufio.Reader) (string, error) {
	raw, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return "", errNoBundle
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errLargeHead
	case err != nil:
		return "", err
	}
	return string(raw[:len(raw)-1]), nil
}

// checkCapability accepts only capabilities that do not change how the bundle is read.
func checkCapability(text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch {
	case name == "object-format" && value == "sha1":
		return nil
	case name == "object-format" && value == "sha256":
		return errSHA256
	case name == "filter":
		return errors.New("the bundle leaves out objects: create it without --filter")
	}
	return errors.New("the bundle requires a capability that is not supported: create it with git bundle create " +
		"--version=2")
}

func (b *Bundle) addPrerequisite(text string) error {
	hash, _, _ := strings.Cut(text, " ")
	if err := checkName(hash); err != nil {
		return err
	}
	b.Prerequisites = append(b.Prerequisites, hash)
	return nil
}

func (b *Bundle) addRef(text string) error {
	hash, name, _ := strings.Cut(text, " ")
	if err := checkName(hash); err != nil {
		return err
	}
	if name != "HEAD" && !strings.HasPrefix(name, "refs/") || safetext.HasControl(name) || strings.Contains(name, " ") {
		return errNoBundle
	}
	b.Refs = append(b.Refs, source.Ref{Name: name, Hash: hash})
	return nil
}

func checkName(hash string) error {
	switch {
	case sha256Name.MatchString(hash):
		return errSHA256
	case !objectName.MatchString(hash):
		return errNoBundle
	}
	return nil
}

// checked sorts the refs, and finds the branch of HEAD.
func (b Bundle) checked() (Bundle, error) {
	b.Refs = sorted(b.Refs)
	for i, r := range b.Refs {
		if i > 0 && r.Name == b.Refs[i-1].Name {
			return Bundle{}, fmt.Errorf("the bundle has the ref %q twice: create it again", r.Name)
		}
	}
	branches := slices.DeleteFunc(slices.Clone(b.Refs), func(r source.Ref) bool {
		return !strings.HasPrefix(r.Name, "refs/heads/")
	})
	if len(b.Refs) > 0 && b.Refs[0].Name == "HEAD" {
		branches = slices.DeleteFunc(branches, func(r source.Ref) bool { return r.Hash != b.Refs[0].Hash })
		if len(branches) == 1 {
			b.Refs[0].Target = branches[0].Name
		}
	} else if len(branches) == 1 {
		b.Refs = slices.Insert(b.Refs, 0, source.Ref{Name: "HEAD", Hash: branches[0].Hash, Target: branches[0].Name})
	}
	return b, nil
}
