package sops

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// maxDataKey, also for a part of it, is in bytes.
const maxDataKey = 1 << 10

// ParseIdentities reads the age identities of a file: one a line, with comments. Its errors do not contain them.
func ParseIdentities(text []byte) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("reading age keys: a line is no age key; a key begins with AGE-SECRET-KEY-1, and " +
			"comments with #")
	}
	return ids, nil
}

// Recipient returns the public key of an identity, or "".
func Recipient(id age.Identity) string {
	switch id := id.(type) {
	case *age.X25519Identity:
		return id.Recipient().String()
	case *age.HybridIdentity:
		return id.Recipient().String()
	}
	return ""
}

// Keys decrypt the data keys of files.
type Keys struct {
	Age []age.Identity
	// for data keys that no age key decrypts; nil if there is none
	Service *Service
}

// Service is a key service, and what it may be asked for.
type Service struct {
	// Ask decrypts a data key, or a part of it, for a recipient.
	Ask func(document.Recipient) ([]byte, error)
	// Allowed are the recipients for which it is asked, as Recipient.String returns them. A file may name any key, and
	// whoever wrote it must not choose what the service decrypts, or where it sends its credentials.
	Allowed []string
	// AllowedIn says where the user adds a recipient to Allowed.
	AllowedIn string
}

// ParseAllowed checks a text of Service.Allowed.
func ParseAllowed(text string) error {
	kind, name, _ := strings.Cut(text, " ")
	if strings.HasPrefix(text, "age1") && name == "" {
		return nil
	}
	if kind == "age" || !document.IsKind(kind) || strings.TrimSpace(name) != name || name == "" {
		return fmt.Errorf("%q is no key: it begins with pgp, kms, gcp_kms, azure_kv, hc_vault or hckms, and goes on "+
			"with what the file names, such as `kms arn:aws:kms:…`", text)
	}
	return nil
}

// MissingKeyError says that no given key can decrypt a file.
type MissingKeyError struct {
	Recipients []string
	// Given are the public keys of the given identities.
	Given []string
	// Groups have a part of the data key each; Needed are needed, Opened were decrypted.
	Groups, Needed, Opened int
	// Tried says for each recipient why the key service did not decrypt the data key.
	Tried []string
	// The service may answer differently later.
	Asked bool
	// A key service could decrypt the file, and there is none.
	NoService bool
}

// Error names the recipients, and what was given and tried instead.
func (e *MissingKeyError) Error() string {
	given := "Bunsen has no age key"
	if len(e.Given) > 0 {
		given = "Bunsen has the age keys of " + strings.Join(e.Given, ", ")
	}
	parts := ""
	if e.Groups > 1 {
		parts = fmt.Sprintf(" (%d of its %d key groups are needed, and %d could be decrypted)", e.Needed, e.Groups,
			e.Opened)
	}
	text := fmt.Sprintf("the file is encrypted for %s, and %s%s; ", strings.Join(e.Recipients, ", "), given, parts)
	switch {
	case len(e.Tried) > 0:
		return text + strings.Join(e.Tried, "; ")
	case e.NoService:
		return text + "add the age key of one of them, start a key service for the others, or encrypt the file for " +
			"another key"
	}
	return text + "add the age key of one of them, or encrypt the file for another key"
}

const (
	// in bytes; a part has one more, its place
	dataKeySize = 32
	// the recipients of a file, if the key service is needed
	maxAsked = 20
)

// dataKey tries age keys first, and then the key service.
func (k Keys) dataKey(m document.Metadata) ([]byte, error) {
	size := dataKeySize
	if len(m.Groups) > 1 {
		size++
	}
	var parts [][]byte
	var damaged []error
	var closed [][]document.Recipient
	for _, group := range m.Groups {
		part, err := openGroup(group, k.Age)
		if part != nil && len(part) != size {
			part, err = nil, fmt.Errorf("the data key has %d bytes, and not %d", len(part), size)
		}
		if damaged = append(damaged, err); part != nil {
			parts = append(parts, part)
		} else {
			closed = append(closed, group)
		}
	}
	if len(parts) < m.Threshold {
		missing := &MissingKeyError{Recipients: m.Recipients(), Groups: len(m.Groups), Needed: m.Threshold}
		if parts = append(parts, k.ask(closed, m.Threshold-len(parts), size, missing)...); len(parts) < m.Threshold {
			if err := errors.Join(damaged...); err != nil {
				return nil, err
			}
			missing.Opened = len(parts)
			for _, id := range k.Age {
				if r := Recipient(id); r != "" {
					missing.Given = append(missing.Given, r)
				}
			}
			return nil, missing
		}
	}
	if len(m.Groups) == 1 {
		return parts[0], nil
	}
	return combine(parts)
}

// combine recovers a secret from its parts by interpolation at zero. The last byte of a part is its place.
func combine(parts [][]byte) ([]byte, error) {
	size := len(parts[0])
	seen := map[byte]bool{}
	for _, p := range parts {
		if len(p) != size || size < 2 || p[size-1] == 0 || seen[p[size-1]] {
			return nil, errors.New("the parts of the data key do not belong together")
		}
		seen[p[size-1]] = true
	}
	out := make([]byte, size-1)
	for i, p := range parts {
		weight := byte(1)
		for j, q := range parts {
			if i != j {
				weight = multiply(weight, multiply(q[size-1], invert(q[size-1]^p[size-1])))
			}
		}
		for k := range out {
			out[k] ^= multiply(weight, p[k])
		}
	}
	return out, nil
}

// invert returns a^254, which is the inverse of a.
func invert(a byte) byte {
	out := byte(1)
	for range 254 {
		out = multiply(out, a)
	}
	return out
}

// ask has the key service decrypt the parts of groups until there are as many as needed. The error gets why not.
func (k Keys) ask(groups [][]document.Recipient, needed, size int, missing *MissingKeyError) (parts [][]byte) {
	all := slices.Concat(groups...)
	if k.Service == nil {
		missing.NoService = slices.ContainsFunc(all, func(r document.Recipient) bool { return r.Kind != "age" })
		return nil
	}
	if len(all) > maxAsked {
		missing.Tried = []string{
			fmt.Sprintf("the key service was not asked, because the file has %d keys, and at most "+
				"%d are allowed", len(all), maxAsked),
		}
		return nil
	}
	for _, group := range groups {
		if len(parts) == needed {
			break
		}
		if part := k.askGroup(group, size, missing); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// askGroup takes the first recipient for which the key service can decrypt the part, or returns nil.
func (k Keys) askGroup(group []document.Recipient, size int, missing *MissingKeyError) []byte {
	for _, r := range inOrder(group) {
		if !slices.Contains(k.Service.Allowed, r.String()) {
			if r.Kind != "age" {
				missing.Tried = append(missing.Tried, fmt.Sprintf("the key service was not asked for %q, because only "+
					"its owner decides for which keys it is: if this key is yours, add that text to %s", r,
					k.Service.AllowedIn))
			}
			continue
		}
		part, err := k.Service.Ask(r)
		if err == nil && len(part) != size {
			err = fmt.Errorf("it answered with %d bytes, and a data key has %d", len(part), size)
		}
		if err == nil {
			return part
		}
		missing.Asked = true
		missing.Tried = append(missing.Tried, fmt.Sprintf("the key service did not decrypt the data key for %q: %v", r,
			err))
	}
	return nil
}

// kindOrder is the order in which the program sops tries keys.
var kindOrder = []string{"age", "pgp", "kms", "gcp_kms", "hckms", "azure_kv", "hc_vault"}

// inOrder is the order in which the program sops tries them.
func inOrder(group []document.Recipient) []document.Recipient {
	return slices.SortedStableFunc(slices.Values(group), func(a, b document.Recipient) int {
		return cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind))
	})
}

// openGroup takes the first identity that can decrypt the part, or returns nil.
func openGroup(group []document.Recipient, identities []age.Identity) ([]byte, error) {
	var damaged []error
	for _, r := range group {
		if r.Kind != "age" || len(identities) == 0 {
			continue
		}
		in, err := age.Decrypt(armor.NewReader(strings.NewReader(r.Encrypted)), identities...)
		var none *age.NoIdentityMatchError
		if errors.As(err, &none) {
			continue
		}
		if err == nil {
			var part []byte
			if part, err = io.ReadAll(io.LimitReader(in, maxDataKey)); err == nil {
				return part, nil
			}
		}
		damaged = append(damaged, fmt.Errorf("the data key for %s is damaged: %w", r.Name, err))
	}
	return nil, errors.Join(damaged...)
}

func (w Writer) newDataKey(m *document.Metadata) ([]byte, error) {
	key := make([]byte, dataKeySize)
	if _, err := io.ReadFull(w.Random, key); err != nil {
		return nil, err
	}
	parts := [][]byte{key}
	if len(m.Groups) > 1 {
		var err error
		if parts, err = divide(w.Random, key, len(m.Groups), m.Threshold); err != nil {
			return nil, err
		}
	}
	var problems []error
	for i, group := range m.Groups {
		for j := range group {
			problems = append(problems, wrap(&group[j], parts[i]))
		}
	}
	return key, errors.Join(problems...)
}

// divide divides a secret into parts, any threshold of which recover it.
func divide(random io.Reader, secret []byte, parts, threshold int) ([][]byte, error) {
	if threshold < 2 || threshold > parts || parts > 255 {
		return nil, errors.New("the threshold of key groups must be at least 2, and at most the number of groups")
	}
	out := make([][]byte, parts)
	for i := range out {
		out[i] = append(make([]byte, len(secret)), byte(i+1))
	}
	coefficients := make([]byte, threshold-1)
	for k, constant := range secret {
		if _, err := io.ReadFull(random, coefficients); err != nil {
			return nil, err
		}
		for _, part := range out {
			x := part[len(secret)]
			value := byte(0)
			for _, c := range coefficients {
				value = multiply(value^c, x)
			}
			part[k] = value ^ constant
		}
	}
	return out, nil
}

func wrap(r *document.Recipient, part []byte) error {
	if r.Kind != "age" {
		return fmt.Errorf("the file is also for %s, and Bunsen writes keys of age only; use the program sops for it", r)
	}
	to, err := age.ParseRecipients(strings.NewReader(r.Name))
	if err != nil {
		return fmt.Errorf("%q is no public key of age; it begins with age1", r.Name)
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to...)
	if err != nil {
		return fmt.Errorf("encrypting for %s: %w", r.Name, err)
	}
	if _, err := w.Write(part); err != nil {
		return err
	}
	if err := errors.Join(w.Close(), text.Close()); err != nil {
		return err
	}
	r.Encrypted = out.String()
	return nil
}

// multiply multiplies two elements of the field GF(2^8) with the polynomial of AES, in constant time.
func multiply(a, b byte) (product byte) {
	for i := range 8 {
		product ^= a & -(b >> i & 1)
		a = a<<1 ^ 0x1b&-(a>>7)
	}
	return product
}
