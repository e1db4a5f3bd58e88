package document

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rules say which values of a file are encrypted. At most one of the suffixes and expressions is set.
type Rules struct {
	UnencryptedSuffix, EncryptedSuffix             string
	UnencryptedRegex, EncryptedRegex               string
	UnencryptedCommentRegex, EncryptedCommentRegex string
	// MACOnlyEncrypted leaves values in the clear out of the message authentication code.
	MACOnlyEncrypted bool

	expression *regexp.Regexp
}

// DefaultUnencryptedSuffix is the rule of files without a rule.
const DefaultUnencryptedSuffix = "_unencrypted"

// Compile checks rules that a file's metadata did not give, and completes them.
func (r Rules) Compile() (Rules, error) { return r, r.compile() }

func (r *Rules) compile() error {
	var set []string
	for _, text := range []string{
		r.UnencryptedSuffix, r.EncryptedSuffix, r.UnencryptedRegex, r.EncryptedRegex,
		r.UnencryptedCommentRegex, r.EncryptedCommentRegex,
	} {
		if text != "" {
			set = append(set, text)
		}
	}
	if len(set) == 0 {
		r.UnencryptedSuffix = DefaultUnencryptedSuffix
		return nil
	}
	if len(set) > 1 {
		return errors.New("it has more than one rule of encrypted_suffix, unencrypted_suffix, encrypted_regex, " +
			"unencrypted_regex and those for comments")
	}
	if r.UnencryptedSuffix == "" && r.EncryptedSuffix == "" {
		var err error
		if r.expression, err = regexp.Compile(set[0]); err != nil {
			return fmt.Errorf("the expression of its rule: %w", err)
		}
	}
	return nil
}

// Leaf is a value of a file, or a comment.
type Leaf struct {
	// Path has the keys to the value, without places in lists: SOPS does not authenticate them.
	Path []string
	// as users read it: `users[2].password`
	Name  string
	Value any
	// The rules say that the value is encrypted.
	Encrypt bool
}

// AdditionalData returns the data that SOPS authenticates with a value.
func (l Leaf) AdditionalData() string { return strings.Join(l.Path, ":") + ":" }

// Walk visits all leaves in order, and replaces each by the value that visit returns.
func (d Document) Walk(visit func(Leaf) (any, error)) error {
	for i, b := range d.Branches {
		w := walker{rules: d.Metadata.Rules, visit: visit}
		if err := w.branch(b, nil, "", nil); err != nil {
			if len(d.Branches) > 1 {
				return fmt.Errorf("document %d: %w", i+1, err)
			}
			return err
		}
	}
	return nil
}

type walker struct {
	rules Rules
	visit func(Leaf) (any, error)
	// gets values that have no leaf: null, and empty lists and mappings; may be nil
	empty func(name, text string)
}

func (w walker) without(name, text string) {
	if w.empty != nil {
		w.empty(name, text)
	}
}

// plainKey: the others have quotes, so that "a.b" is not b below a.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_/-]+$`)

func nameBelow(name, key string) string {
	if !plainKey.MatchString(key) {
		key = strconv.Quote(key)
	}
	return strings.TrimPrefix(name+"."+key, ".")
}

// branch visits the leaves of a mapping. above has the comments that apply to it.
func (w walker) branch(b Branch, path []string, name string, above [][]string) error {
	active := append(above[:len(above):len(above)], nil)
	last := len(active) - 1
	for i, it := range b {
		if c, ok := it.Key.(Comment); ok {
			active[last] = append(active[last], c.Text)
			v, err := w.leaf(c, path, name+" (comment)", active)
			if err != nil {
				return err
			}
			if text, ok := v.(string); ok {
				v = Comment{text, c.Inline}
			}
			b[i].Key = v
			continue
		}
		key, ok := it.Key.(string)
		if !ok {
			return errors.New("the file has a key that is no text")
		}
		under := append(path[:len(path):len(path)], key)
		v, err := w.value(it.Value, under, nameBelow(name, key), active)
		if err != nil {
			return err
		}
		b[i].Value, active[last] = v, nil
	}
	return nil
}

func (w walker) value(v any, path []string, name string, above [][]string) (any, error) {
	switch v := v.(type) {
	case nil:
		w.without(name, "null")
		return nil, nil
	case Branch:
		if len(v) == 0 {
			w.without(name, "{}")
		}
		return v, w.branch(v, path, name, above)
	case []any:
		if len(v) == 0 {
			w.without(name, "[]")
		}
		active := append(above[:len(above):len(above)], nil)
		last, n := len(active)-1, 0
		for i, item := range v {
			c, isComment := item.(Comment)
			if isComment {
				active[last] = append(active[last], c.Text)
			}
			found, err := w.value(item, path, name+"["+strconv.Itoa(n)+"]", active)
			if err != nil {
				return nil, err
			}
			v[i] = found
			if !isComment {
				active[last] = nil
				n++
			}
		}
		return v, nil
	case string, int, float64, bool, time.Time, Comment:
		return w.leaf(v, path, name, above)
	}
	return nil, fmt.Errorf("%s: a value has a type that SOPS cannot encrypt", name)
}

func (w walker) leaf(v any, path []string, name string, active [][]string) (any, error) {
	_, isComment := v.(Comment)
	return w.visit(Leaf{path, name, v, w.rules.encrypt(path, active, isComment)})
}

func (r Rules) encrypt(path []string, active [][]string, isComment bool) bool {
	some := func(match func(string) bool) bool {
		for _, key := range path {
			if match(key) {
				return true
			}
		}
		return false
	}
	switch {
	case r.EncryptedSuffix != "":
		return some(func(key string) bool { return strings.HasSuffix(key, r.EncryptedSuffix) })
	case r.EncryptedRegex != "":
		return some(r.expression.MatchString)
	case r.UnencryptedRegex != "":
		return !some(r.expression.MatchString)
	case r.UnencryptedCommentRegex != "":
		return !r.comments(active, false)
	case r.EncryptedCommentRegex != "":
		return r.comments(active, isComment)
	}
	return !some(func(key string) bool { return strings.HasSuffix(key, r.UnencryptedSuffix) })
}

// comments reports whether the expression matches a comment that applies, without the last one if skip: that is the one
// in question.
func (r Rules) comments(active [][]string, skip bool) bool {
	for i, group := range active {
		for j, text := range group {
			own := skip && i == len(active)-1 && j == len(group)-1
			if !own && r.expression.MatchString(text) {
				return true
			}
		}
	}
	return false
}

// Ciphertext reports whether a value is one that SOPS encrypted.
func Ciphertext(v any) bool {
	text, ok := v.(string)
	if c, isComment := v.(Comment); isComment {
		text, ok = c.Text, true
	}
	return ok && strings.HasPrefix(text, "ENC[AES256_GCM,data:") && strings.HasSuffix(text, "]")
}

// check refuses values in the clear that the rules encrypt. A user may have written them there.
func (d Document) check() error {
	var clear []string
	err := d.Walk(func(l Leaf) (any, error) {
		_, isComment := l.Value.(Comment)
		if l.Encrypt && !isComment && l.Value != "" && !Ciphertext(l.Value) && len(clear) < 5 {
			clear = append(clear, l.Name)
		}
		return l.Value, nil
	})
	if err == nil && len(clear) > 0 {
		err = fmt.Errorf("%s: in clear text, and the rules of the file encrypt it; change encrypted files with "+
			"`bunsen secret edit`", strings.Join(clear, ", "))
	}
	return err
}

// Entry is one line of a file as a reviewer without a key reads it: a value, an empty list or mapping, or a comment.
type Entry struct {
	// of a Leaf, after the number of its document if the file has several
	Name string
	// the ciphertext, or the value as it stands in the file, with quotes if it is a text
	Text string
	// Text is a ciphertext.
	Encrypted, Comment bool
}

// Entries returns everything besides the metadata, in its order. The authentication code of SOPS does not cover keys in
// the clear, comments, and empty or missing values, so whoever compares files compares these entries.
func (d Document) Entries() []Entry {
	var out []Entry
	for i, b := range d.Branches {
		prefix, had := "", len(out)
		if len(d.Branches) > 1 {
			prefix = fmt.Sprintf("document %d: ", i+1)
		}
		w := walker{rules: d.Metadata.Rules, visit: func(l Leaf) (any, error) {
			out = append(out, entryOf(prefix, l))
			return l.Value, nil
		}, empty: func(name, text string) { out = append(out, Entry{Name: prefix + name, Text: text}) }}
		_ = w.branch(b, nil, "", nil) // Parse has walked it before
		if len(out) == had {
			out = append(out, Entry{Name: prefix + "(empty)", Text: "{}"})
		}
	}
	return out
}

func entryOf(prefix string, l Leaf) Entry {
	e := Entry{Name: prefix + l.Name, Encrypted: l.Encrypt && Ciphertext(l.Value)}
	switch v := l.Value.(type) {
	case Comment:
		e.Comment, e.Text = true, v.Text
	case string:
		if e.Text = v; !e.Encrypted {
			e.Text = strconv.Quote(v)
		}
	case time.Time:
		e.Text = v.Format(time.RFC3339Nano)
	default:
		e.Text = fmt.Sprint(v)
	}
	return e
}
