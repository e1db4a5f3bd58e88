package lsp

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/internal/sops"
	sopsdocument "github.com/bunsen-os/bunsen/internal/sops/document"
)

// encryption returns for whom the creation rule of a file encrypts it; false if the nearest rules cannot be read, or
// name keys of others than age. Rules further up never count in their place: they could name other people.
func (s *snapshot) encryption(file string) (sops.Policy, bool) {
	for dir := path.Dir(file); s != nil; dir = path.Dir(dir) {
		rules := path.Join(dir, sops.RulesFile)
		if !s.hasEntry(rules) {
			if dir == "." {
				break
			}
			continue
		}
		all, err := sops.ParseRules([]byte(s.text(rules)))
		if err != nil {
			break
		}
		below := file
		if dir != "." {
			below = strings.TrimPrefix(file, dir+"/")
		}
		rule, ok := all.For(below)
		return sops.Policy{Groups: rule.Groups, Threshold: rule.Threshold, Rules: rule.Values},
			ok && len(rule.Groups) > 0 && len(rule.Foreign) == 0
	}
	return sops.Policy{}, false
}

// hasEntry reports whether the tree has anything at a path, also a link or a directory.
func (s *snapshot) hasEntry(at string) bool {
	if _, has := s.tree.Entries[at]; has {
		return true
	}
	for name := range s.tree.Entries {
		if strings.HasPrefix(name, at+"/") {
			return true
		}
	}
	return false
}

// encrypt encrypts a text for the public keys that the repository names for its file.
func (s *snapshot) encrypt(file, text string, with sops.Writer) (string, error) {
	policy, ok := s.encryption(file)
	if !ok {
		return "", fmt.Errorf("encrypting %s: no creation rule of the repository names its age keys", file)
	}
	if _, is := sopsdocument.Detect(file, []byte(text)); is {
		return "", errors.New("encrypting " + file + ": it is encrypted already")
	}
	out, err := with.Encrypt(string(sopsdocument.FormatOf(file)), []byte(text), policy)
	if err != nil {
		return "", fmt.Errorf("encrypting %s: %w", file, err)
	}
	return string(out), nil
}
