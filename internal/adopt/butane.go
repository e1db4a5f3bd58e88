package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// resources are the keys in an Ignition config whose values have contents.
var resources = map[string]bool{
	"storage.files.contents": true, "storage.files.append": true, "storage.luks.keyFile": true,
	"ignition.config.merge": true, "ignition.config.replace": true,
	"ignition.security.tls.certificateAuthorities": true,
}

// fixed are the paths in a config whose contents must keep their exact text. The reasons: a machine stores its first
// config unchanged, configs are merged by the text of a reference, and Butane encodes nested configs in its own way.
var fixed = map[string]bool{
	"storage.luks.keyFile": true, "ignition.config.merge": true, "ignition.config.replace": true,
	"ignition.security.tls.certificateAuthorities": true,
}

// order is the usual order of keys; others follow in lexical order.
var order = []string{
	"ignition", "kernelArguments", "passwd", "storage", "systemd",
	"disks", "raid", "luks", "filesystems", "directories", "files", "links", "groups", "users",
	"name", "path", "device", "number", "label", "format", "level", "devices", "target", "hard",
	"mode", "overwrite", "user", "group", "id", "uid", "gid", "enabled", "mask",
	"source", "compression", "verification", "contents", "append", "dropins", "shouldExist", "shouldNotExist",
}

func keysOf(v map[string]any) []string {
	keys := slices.Sorted(maps.Keys(v))
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	return keys
}

func rank(key string) int {
	if i := slices.Index(order, key); i >= 0 {
		return i
	}
	return len(order)
}

func snake(key string) string {
	key = strings.NewReplacer("sizeMiB", "size_mib", "startMiB", "start_mib").Replace(key)
	var b strings.Builder
	for _, r := range key {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// value converts a value of the Ignition config to Butane. The parameter at is its path without indices.
func (d *Document) value(v any, at string) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		if resources[at] {
			return d.resource(v, at)
		}
		return d.Mapping(v, at)
	case []any:
		n := Sequence()
		for _, item := range v {
			n.Content = append(n.Content, d.value(item, at))
		}
		return n
	case string:
		return String(v)
	case json.Number:
		if i, err := v.Int64(); err == nil && (at == "storage.files.mode" || at == "storage.directories.mode") {
			return octal(i)
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

func octal(mode int64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprintf("%04o", mode)}
}

// Mapping converts a mapping key by key.
func (d *Document) Mapping(v map[string]any, at string) *yaml.Node {
	if at == "storage.files" {
		d.file, _ = v["path"].(string)
		d.private = IsPrivate(d.file, modeOf(v))
		defer func() { d.file, d.private = "", false }()
	}
	if hash, _ := v["passwordHash"].(string); hash != "" {
		name, _ := v["name"].(string)
		d.Hashes = append(d.Hashes, name)
	}
	n := Mapping()
	for _, k := range keysOf(v) {
		here := strings.TrimPrefix(at+"."+k, ".")
		word, child := snake(k), (*yaml.Node)(nil)
		if text, ok := v[k].(string); ok &&
			(here == "systemd.units.contents" || here == "systemd.units.dropins.contents") {
			name, _ := v["name"].(string)
			word, child = d.unitText(text, name)
		} else {
			child = d.value(v[k], here)
		}
		n.Content = append(n.Content, Key(word), child)
	}
	return n
}

func modeOf(file map[string]any) *int {
	number, ok := file["mode"].(json.Number)
	mode, err := number.Int64()
	if !ok || err != nil {
		return nil
	}
	out := int(mode)
	return &out
}
