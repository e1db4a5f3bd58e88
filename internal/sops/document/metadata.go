package document

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Recipient is one holder of a key that can read a file, or a part of its data key.
type Recipient struct {
	// the list in SOPS's metadata: "age", "pgp", "kms" and others
	Kind string
	// the public key or the name of the key, in several words if need be: where it is, and what a key service uses for
	// it, such as a role
	Name string
	// the data key, or a part of it
	Encrypted string
}

// String returns the name with its kind, except for age, whose names show the kind.
func (r Recipient) String() string {
	if r.Kind == "age" {
		return r.Name
	}
	return r.Kind + " " + r.Name
}

// Metadata is what SOPS stores beside the values of a file.
type Metadata struct {
	// each with one part of the data key if there are several
	Groups [][]Recipient
	// the number of parts that give the data key
	Threshold    int
	Rules        Rules
	MAC          string
	LastModified time.Time
	Version      string
}

// Recipients returns the recipients of all groups, sorted, each once.
func (m Metadata) Recipients() []string {
	var out []string
	for _, g := range m.Groups {
		for _, r := range g {
			out = append(out, r.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// RuleTexts returns the rules by which values are encrypted, and how many key groups decrypt the file together. Nothing
// authenticates them.
func (m Metadata) RuleTexts() []string {
	var out []string
	for _, it := range m.branch() {
		switch text := fmt.Sprint(it.Value); it.Key {
		case "lastmodified", "mac", "version", "age", "key_groups":
		default:
			if it.Key != "shamir_threshold" || len(m.Groups) > 1 {
				out = append(out, fmt.Sprint(it.Key)+": "+text)
			}
		}
	}
	for i, g := range m.Groups {
		if len(m.Groups) > 1 {
			names := make([]string, len(g))
			for k, r := range g {
				names[k] = r.String()
			}
			out = append(out, fmt.Sprintf("key group %d: %s", i+1, strings.Join(names, ", ")))
		}
	}
	return out
}

// recipientNames: the fields that make up the name, by kind
var recipientNames = map[string][]string{
	"age": {"recipient"}, "pgp": {"fp"}, "kms": {"arn"}, "gcp_kms": {"resource_id"},
	"azure_kv": {"vault_url", "name", "version"}, "hc_vault": {"vault_address", "engine_path", "key_name"},
	"hckms": {"key_id"},
}

// IsKind reports whether SOPS has recipients of a kind.
func IsKind(kind string) bool { return recipientNames[kind] != nil }

// They follow the ARN in the name of a key of AWS. An entry of the context is encoded as in a URL.
const (
	roleWord    = "role="
	profileWord = "profile="
	contextWord = "context:"
)

// Key is a recipient in the terms of a key service.
type Key struct {
	// Fields in the order of the metadata: one for most kinds; the address, name and version of a key of Azure; the
	// address, path and name of one of Vault.
	Fields []string
	// of a key of AWS
	Role, Profile string
	Context       map[string]string
}

// Key returns what the name says.
func (r Recipient) Key() Key {
	fields := recipientNames[r.Kind]
	if len(fields) == 1 && r.Kind != "kms" {
		return Key{Fields: []string{r.Name}}
	}
	words := strings.Split(r.Name, " ")
	k := Key{Fields: make([]string, len(fields)), Context: map[string]string{}}
	for _, word := range words[copy(k.Fields, words):] {
		if role, is := strings.CutPrefix(word, roleWord); is {
			k.Role = role
		} else if profile, is := strings.CutPrefix(word, profileWord); is {
			k.Profile = profile
		} else if entry, is := strings.CutPrefix(word, contextWord); is {
			of, _ := url.ParseQuery(entry) // name wrote it
			for key := range of {
				k.Context[key] = of.Get(key)
			}
		}
	}
	return k
}

// name returns the name of a recipient. Equal names are the same key, asked in the same way: no field of several words
// has a space.
func (f *fields) name(kind string) string {
	var words []string
	for _, field := range recipientNames[kind] {
		words = append(words, f.text(field))
	}
	if kind == "kms" {
		for _, option := range []struct{ word, field string }{{roleWord, "role"}, {profileWord, "aws_profile"}} {
			if value := f.text(option.field); value != "" {
				words = append(words, option.word+value)
			}
		}
		if context, ok := f.branch.get("context").(Branch); ok {
			in := fields{branch: context}
			var entries []string
			for _, it := range context {
				key, _ := it.Key.(string)
				entries = append(entries, contextWord+url.Values{key: {in.text(key)}}.Encode())
			}
			slices.Sort(entries)
			words = append(words, entries...)
			f.problems = append(f.problems, in.problems...)
		}
	}
	for _, word := range words {
		if (len(words) > 1 || kind == "kms") && strings.ContainsFunc(word, unicode.IsSpace) {
			f.problem("a key of %s has a space in its name", kind)
		}
	}
	return strings.TrimRight(strings.Join(words, " "), " ")
}

// fields collects problems.
type fields struct {
	branch   Branch
	problems []error
}

func (f *fields) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf(format, args...))
}

func (b Branch) get(key string) any {
	for _, it := range b {
		if it.Key == key {
			return it.Value
		}
	}
	return nil
}

func (f *fields) text(key string) string {
	switch v := f.branch.get(key).(type) {
	case nil:
		return ""
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return v.Format(time.RFC3339)
	default:
		f.problem("`%s` is no text", key)
		return ""
	}
}

func (f *fields) number(key string) int {
	text := f.text(key)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		f.problem("`%s` is no number", key)
	}
	return n
}

func (f *fields) list(key string) []Branch {
	var out []Branch
	l, _ := f.branch.get(key).([]any)
	for _, item := range l {
		if b, ok := item.(Branch); ok {
			out = append(out, b)
		}
	}
	return out
}

func (f *fields) group(b Branch) []Recipient {
	var out []Recipient
	in := fields{branch: b}
	for _, it := range b {
		kind, _ := it.Key.(string)
		for _, r := range in.list(kind) {
			one := fields{branch: r}
			if IsKind(kind) {
				out = append(out, Recipient{kind, one.name(kind), one.text("enc")})
			}
			f.problems = append(f.problems, one.problems...)
		}
	}
	slices.SortStableFunc(out, func(a, b Recipient) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}
