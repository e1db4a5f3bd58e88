package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Keys are the allowed keys. The zero value allows no key. Keys are immutable and safe for concurrent use.
type Keys struct {
	digest string
	ssh    []sshKey
	pgp    openpgp.EntityList
}

// rules is the version of this package's rules, and a part of every digest. Change it if the rules change, so that
// Bunsen checks stored commits again.
const rules = "2"

// ParseKeys reads the data of a Secret. Each value contains, in any mix: armored OpenPGP public keys; lines of SSH
// public keys; lines of ssh-keygen's allowed signers, `principals [options] type key [comment]`, with the options
// namespaces, valid-after and valid-before, whose times are UTC. ParseKeys skips empty lines and lines that begin with
// #.
//
// The error is a Stalled InvalidSpec fault that lists every problem by the Secret's key and line. The fault quotes
// nothing that could be key material. A Secret without a key, or a value without a key, is an error too.
func ParseKeys(secret map[string][]byte) (Keys, error) {
	var keys Keys
	var problems []error
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\x00", rules)
	for _, name := range slices.Sorted(maps.Keys(secret)) {
		fmt.Fprintf(hash, "%d:%s%d:%s", len(name), name, len(secret[name]), secret[name])
		problems = append(problems, keys.read(name, secret[name])...)
	}
	if len(secret) == 0 {
		problems = append(problems, errors.New("the Secret is empty: put armored OpenPGP public keys or SSH public "+
			"keys into it"))
	}
	if len(problems) > 0 {
		err := fmt.Errorf("reading the allowed keys of verify.secretRef: %w", errors.Join(problems...))
		return Keys{}, fault.NewStalled(v1alpha1.ReasonInvalidSpec, err)
	}
	keys.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return keys, nil
}

// Digest identifies the keys and the rules of this package: `sha256:<hex>`. The digest of the zero value is empty.
func (k Keys) Digest() string { return k.digest }

// read adds the keys of one value of the Secret.
func (k *Keys) read(name string, value []byte) (problems []error) {
	if !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0 {
		return []error{fmt.Errorf("%s: is not text: export an OpenPGP key with gpg --armor --export", name)}
	}
	before := len(k.ssh) + len(k.pgp)
	lines := strings.Split(string(value), "\n")
	for n := 0; n < len(lines); n++ {
		line, at := strings.TrimSpace(lines[n]), n
		var err error
		switch {
		case line == "" || line[0] == '#':
			continue
		case strings.HasPrefix(line, "-----BEGIN "):
			size := blockSize(lines[n:])
			n += size - 1
			err = k.addBlock(lines[at : at+size])
		default:
			err = k.addLine(line)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", name, at+1, err))
		}
	}
	if len(problems) == 0 && len(k.ssh)+len(k.pgp) == before {
		problems = append(problems, fmt.Errorf("%s: holds no key: remove it or put one in", name))
	}
	return problems
}

// blockSize returns the number of lines of an armored block, or of all lines if the block does not end.
func blockSize(lines []string) int {
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "-----END ") {
			return i + 1
		}
	}
	return len(lines)
}

func (k *Keys) addBlock(lines []string) error {
	begin, end := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[len(lines)-1])
	switch {
	case strings.Contains(begin, "PRIVATE KEY"):
		return errors.New("holds a private key: put the public key here, and replace the private one, for it may " +
			"have been read")
	case begin != "-----BEGIN PGP PUBLIC KEY BLOCK-----":
		return errors.New("an armored block that is not PGP PUBLIC KEY BLOCK: only OpenPGP public keys and SSH keys " +
			"can be used")
	case end != "-----END PGP PUBLIC KEY BLOCK-----":
		return errors.New("the block does not end with -----END PGP PUBLIC KEY BLOCK-----: copy it whole")
	}
	entities, err := readEntities(strings.Join(lines, "\n") + "\n")
	k.pgp = append(k.pgp, entities...)
	return err
}

// readEntities reads every key of an armored block. A key that cannot be used is an error.
func readEntities(armored string) (all openpgp.EntityList, err error) {
	defer recoverAs(&err, errors.New("the OpenPGP block is damaged: copy it whole"))
	block, err := armor.Decode(strings.NewReader(armored))
	if err != nil {
		return nil, errors.New("the OpenPGP block is damaged: copy it whole")
	}
	packets := packet.NewReader(block.Body)
	for {
		e, err := openpgp.ReadEntity(packets)
		switch {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("the OpenPGP block's key number %d cannot be used: %s; export it again with gpg "+
				"--armor --export",
				len(all)+1, reasonText(err))
		case e.PrivateKey != nil:
			return nil, errors.New("the OpenPGP block holds a private key: put the public key here, and replace the " +
				"private one, for it may have been read")
		}
		all = append(all, e)
	}
}

// reasonText describes a library's error without its text, which may contain a part of the key.
func reasonText(err error) string {
	var unsupported pgperrors.UnsupportedError
	if errors.As(err, &unsupported) {
		return "it is of a kind that is not supported"
	}
	return "it is damaged, or no user identity is bound to it"
}
