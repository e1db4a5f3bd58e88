package review

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// Readers are the changes of who can read the secrets of a repository. No rendered config has them.
type Readers struct {
	// NewRecipients are keys that head adds, in creation rules or in encrypted files.
	NewRecipients []NewRecipient `json:"newRecipients,omitempty"`
	// CreationRules are the lines by which the creation rules differ: `FILE: -RULE` and `FILE: +RULE`.
	CreationRules []string `json:"creationRules,omitempty"`
}

// NewRecipient is a key that can read secrets which it could not read before.
type NewRecipient struct {
	// Name is the public key, or kind and name of another key than one of age.
	Name string `json:"name"`
	// At are files of creation rules, and encrypted files.
	At []string `json:"at"`
}

// EncryptionState is who can read the secrets of one side.
type EncryptionState struct {
	rules map[string]sops.Rules // by directory
	// files of creation rules that cannot be read, with their text
	broken map[string]string
	files  map[string][]string // the recipients of encrypted files
}

// ReadEncryption reads the creation rules and the recipients of all encrypted files of a tree.
func ReadEncryption(fsys fs.FS) EncryptionState {
	c := &checker{fs: fsys, rules: map[string]sops.Rules{}}
	s := EncryptionState{rules: c.rules, broken: map[string]string{}, files: map[string][]string{}}
	for _, f := range c.files() {
		if path.Base(f) == sops.RulesFile {
			text, err := fs.ReadFile(fsys, f)
			rs, bad := sops.ParseRules(text)
			if c.rules[path.Dir(f)] = rs; err != nil || bad != nil {
				s.broken[f] = string(text)
			}
			continue
		}
		if body, ok := c.read(f); ok {
			if format, encrypted := document.Detect(f, body); encrypted {
				if d, err := document.Parse(format, body); err == nil {
					s.files[f] = d.Metadata.Recipients()
				}
			}
		}
	}
	return s
}

// compareEncryption returns what head changes; nothing if one side is unknown. A recipient of an encrypted file is not
// new if base has it in the same file or its creation rule.
func compareEncryption(base, head EncryptionState) Readers {
	if base.rules == nil || head.rules == nil {
		return Readers{}
	}
	added := map[string][]string{}
	var out Readers
	for _, dir := range slices.Sorted(maps.Keys(head.rules)) {
		file := path.Join(dir, sops.RulesFile)
		for _, r := range head.rules[dir] {
			var had []string
			for _, old := range base.rules[dir] {
				if old.Selects() == r.Selects() {
					had = append(had, old.Keys()...)
				}
			}
			for _, name := range r.Keys() {
				if !slices.Contains(had, name) && !slices.Contains(added[name], file) {
					added[name] = append(added[name], file)
				}
			}
		}
	}
	before := checker{rules: base.rules}
	for _, file := range slices.Sorted(maps.Keys(head.files)) {
		rule, _ := before.rule(file)
		had := append(rule.Keys(), base.files[file]...)
		for _, name := range head.files[file] {
			if !slices.Contains(had, name) {
				added[name] = append(added[name], file)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		out.NewRecipients = append(out.NewRecipients, NewRecipient{name, added[name]})
	}
	out.CreationRules = ruleChanges(base, head)
	return out
}

// ruleChanges lists the rules that only one side has, or that stand in another order: the first one for a path counts.
func ruleChanges(base, head EncryptionState) (out []string) {
	all := maps.Clone(base.rules)
	maps.Copy(all, head.rules)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		file := path.Join(dir, sops.RulesFile)
		edits, ok := textdiff.Script(base.texts(dir), head.texts(dir))
		if !ok {
			out = append(out, file+": too many rules to be compared")
		}
		for _, e := range edits {
			if e.Sign != ' ' {
				out = append(out, fmt.Sprintf("%s: %c%s", file, e.Sign, e.Text))
			}
		}
	}
	return out
}

func (s EncryptionState) texts(dir string) []string {
	if text, is := s.broken[path.Join(dir, sops.RulesFile)]; is {
		return strings.Split("(invalid)\n"+strings.TrimSpace(text), "\n")
	}
	out := make([]string, len(s.rules[dir]))
	for i, r := range s.rules[dir] {
		out[i] = r.String()
	}
	return out
}
