package document

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// branch is as SOPS stores it: keys in order, without empty fields. The recipients must be of age.
func (m Metadata) branch() Branch {
	values := map[string]any{
		"lastmodified": m.LastModified.UTC().Format(time.RFC3339), "mac": m.MAC, "version": m.Version,
	}
	for key, text := range map[string]string{
		"unencrypted_suffix": m.Rules.UnencryptedSuffix, "encrypted_suffix": m.Rules.EncryptedSuffix,
		"unencrypted_regex": m.Rules.UnencryptedRegex, "encrypted_regex": m.Rules.EncryptedRegex,
		"unencrypted_comment_regex": m.Rules.UnencryptedCommentRegex,
		"encrypted_comment_regex":   m.Rules.EncryptedCommentRegex,
	} {
		if text != "" {
			values[key] = text
		}
	}
	if m.Rules.MACOnlyEncrypted {
		values["mac_only_encrypted"] = true
	}
	if len(m.Groups) == 1 {
		values["age"] = ageList(m.Groups[0])
	} else {
		var groups []any
		for _, g := range m.Groups {
			groups = append(groups, Branch{{"age", ageList(g)}})
		}
		values["key_groups"], values["shamir_threshold"] = groups, m.Threshold
	}
	var out Branch
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, Item{key, values[key]})
	}
	return out
}

func ageList(group []Recipient) []any {
	var out []any
	for _, r := range group {
		out = append(out, Branch{{"enc", r.Encrypted}, {"recipient", r.Name}})
	}
	return out
}

func (d Document) embed() []Branch {
	metadata := d.Metadata.branch()
	if d.Format == Dotenv {
		metadata = flatten("sops_", metadata)
	} else {
		metadata = Branch{{"sops", metadata}}
	}
	var out []Branch
	for _, b := range d.Branches {
		out = append(out, slices.Concat(b, metadata))
	}
	return out
}

// mapSeparator and listSeparator are as in age__list_0__map_enc.
const mapSeparator, listSeparator = "__map_", "__list_"

func flatten(prefix string, b Branch) Branch {
	var out Branch
	for _, it := range b {
		out = appendFlat(out, prefix+it.Key.(string), it.Value)
	}
	return out
}

func appendFlat(out Branch, key string, v any) Branch {
	switch v := v.(type) {
	case Branch:
		return append(out, flatten(key+mapSeparator, v)...)
	case []any:
		for i, item := range v {
			out = appendFlat(out, key+listSeparator+strconv.Itoa(i), item)
		}
		return out
	}
	return append(out, Item{key, v})
}

// flatNode: the names of a list's children begin with NUL.
type flatNode struct {
	value    any
	names    []string
	children map[string]*flatNode
}

func (n *flatNode) child(name string) *flatNode {
	if c, ok := n.children[name]; ok {
		return c
	}
	if n.children == nil {
		n.children = map[string]*flatNode{}
	}
	c := &flatNode{}
	n.names, n.children[name] = append(n.names, name), c
	return c
}

func (n *flatNode) tree(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is too deeply nested")
	}
	if len(n.names) == 0 {
		return n.value, nil
	}
	var b Branch
	list := make([]any, len(n.names))
	isList := strings.HasPrefix(n.names[0], "\x00")
	for _, name := range n.names {
		v, err := n.children[name].tree(depth + 1)
		if err != nil {
			return nil, err
		}
		number, inList := strings.CutPrefix(name, "\x00")
		if inList != isList || n.value != nil {
			return nil, fmt.Errorf("%q is in a list and in a mapping", strings.TrimPrefix(name, "\x00"))
		}
		if !isList {
			b = append(b, Item{name, v})
			continue
		}
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(list) || list[i] != nil {
			return nil, errors.New("a list is incomplete")
		}
		list[i] = v
	}
	if isList {
		return list, nil
	}
	return b, nil
}
