package sops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// RulesFile is the name of the file with creation rules. It applies to its directory and everything below.
const RulesFile = ".sops.yaml"

// Rule says how files are encrypted.
type Rule struct {
	// relative to the directory of the rules; nil selects all
	Path *regexp.Regexp
	// of age keys; one group is an ordinary list of recipients
	Groups [][]string
	// how many groups decrypt a file together; 0 is all
	Threshold int
	Values    document.Rules
	// the kinds of keys that Bunsen cannot use, and these keys
	Foreign, Others []string
}

// Selects is the expression for paths, or "" for a rule that selects all.
func (r Rule) Selects() string {
	if r.Path == nil {
		return ""
	}
	return r.Path.String()
}

// Keys returns the keys of all kinds, sorted, each once.
func (r Rule) Keys() []string {
	out := append(r.Recipients(), r.Others...)
	slices.Sort(out)
	return slices.Compact(out)
}

// String returns all that the rule says, in one line.
func (r Rule) String() string {
	text := "all files"
	if r.Path != nil {
		text = fmt.Sprintf("path_regex %q", r.Path)
	}
	for _, g := range r.Groups {
		text += "; for " + strings.Join(g, ", ")
	}
	if len(r.Others) > 0 {
		text += "; for " + strings.Join(r.Others, ", ")
	}
	if r.Threshold != 0 {
		text += fmt.Sprintf("; shamir_threshold %d", r.Threshold)
	}
	for _, rule := range (document.Metadata{Rules: r.Values}).RuleTexts() {
		text += "; " + rule
	}
	return text
}

// Recipients returns the age keys of all groups, sorted, each once.
func (r Rule) Recipients() []string {
	out := slices.Concat(r.Groups...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Rules are the creation rules of a file, in its order.
type Rules []Rule

// For returns the first rule for a path.
func (rs Rules) For(path string) (Rule, bool) {
	for _, r := range rs {
		if r.Path == nil || r.Path.MatchString(path) {
			return r, true
		}
	}
	return Rule{}, false
}

// names may be one text with commas.
type names []string

// UnmarshalYAML reads a list or a text.
func (n *names) UnmarshalYAML(v *yaml.Node) error {
	var list []string
	if v.Kind == yaml.ScalarNode {
		list = strings.Split(v.Value, ",")
	} else if err := v.Decode(&list); err != nil {
		return err
	}
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	return nil
}

type group struct {
	Age     names                `yaml:"age"`
	Foreign map[string]yaml.Node `yaml:",inline"`
}

type entry struct {
	PathRegex               string               `yaml:"path_regex"`
	Age                     names                `yaml:"age"`
	KeyGroups               []group              `yaml:"key_groups"`
	Threshold               int                  `yaml:"shamir_threshold"`
	UnencryptedSuffix       string               `yaml:"unencrypted_suffix"`
	EncryptedSuffix         string               `yaml:"encrypted_suffix"`
	UnencryptedRegex        string               `yaml:"unencrypted_regex"`
	EncryptedRegex          string               `yaml:"encrypted_regex"`
	UnencryptedCommentRegex string               `yaml:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string               `yaml:"encrypted_comment_regex"`
	MACOnlyEncrypted        bool                 `yaml:"mac_only_encrypted"`
	Others                  map[string]yaml.Node `yaml:",inline"`
}

// ParseRules reads the creation rules of a file. It reports all problems.
func ParseRules(text []byte) (Rules, error) {
	var in struct {
		CreationRules []entry `yaml:"creation_rules"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&in); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the creation rules: %w", err)
	}
	var out Rules
	var problems []error
	for i, e := range in.CreationRules {
		r, err := e.rule()
		if err != nil {
			problems = append(problems, fmt.Errorf("creation rule %d: %w", i+1, err))
		}
		out = append(out, r)
	}
	return out, errors.Join(problems...)
}

func (e entry) rule() (Rule, error) {
	r := Rule{Threshold: e.Threshold}
	var problems []error
	if e.PathRegex != "" {
		var err error
		if r.Path, err = regexp.Compile(e.PathRegex); err != nil {
			problems = append(problems, fmt.Errorf("path_regex: %w", err))
		}
	}
	if len(e.Age) > 0 {
		r.Groups = append(r.Groups, e.Age)
	}
	for _, g := range e.KeyGroups {
		if len(g.Age) > 0 {
			r.Groups = append(r.Groups, g.Age)
		}
		for kind, keys := range g.Foreign {
			r.addForeign(kind, keys)
		}
	}
	for _, kind := range []string{"pgp", "kms", "gcp_kms", "azure_keyvault", "hc_vault_transit_uri", "hckms"} {
		if keys, ok := e.Others[kind]; ok {
			r.addForeign(kind, keys)
		}
	}
	slices.Sort(r.Others)
	slices.Sort(r.Foreign)
	r.Foreign = slices.Compact(r.Foreign)
	for _, name := range r.Recipients() {
		if !strings.HasPrefix(name, "age1") && !strings.HasPrefix(name, "ssh-") {
			problems = append(problems, fmt.Errorf("age: %q is no public key; it begins with age1", name))
		}
	}
	if r.Threshold < 0 || r.Threshold > max(1, len(r.Groups)) {
		problems = append(problems, fmt.Errorf("shamir_threshold %d is larger than the number of key groups, %d",
			r.Threshold, len(r.Groups)))
	}
	var err error
	r.Values, err = document.Rules{
		UnencryptedSuffix: e.UnencryptedSuffix, EncryptedSuffix: e.EncryptedSuffix,
		UnencryptedRegex: e.UnencryptedRegex, EncryptedRegex: e.EncryptedRegex,
		UnencryptedCommentRegex: e.UnencryptedCommentRegex, EncryptedCommentRegex: e.EncryptedCommentRegex,
		MACOnlyEncrypted: e.MACOnlyEncrypted,
	}.Compile()
	return r, errors.Join(append(problems, err)...)
}

func (r *Rule) addForeign(kind string, keys yaml.Node) {
	r.Foreign = append(r.Foreign, kind)
	list := names{}
	if list.UnmarshalYAML(&keys) != nil { // a list of mappings, such as in a key group
		list = nil
		for _, n := range keys.Content {
			var words []string
			for i := 1; i < len(n.Content); i += 2 {
				words = append(words, n.Content[i-1].Value+" "+n.Content[i].Value)
			}
			list = append(list, strings.Join(words, " "))
		}
	}
	for _, name := range list {
		r.Others = append(r.Others, kind+" "+name)
	}
}
