package butane

import (
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// leftOver are keys of Ignition 2 and Container Linux Configs, with what to write instead.
var leftOver = map[string]string{
	"filesystem": "it belongs to Ignition 2 and Container Linux Configs: remove it, and write the whole path",
	"remote":     "it belongs to Container Linux Configs: write source",
	"networkd":   "it belongs to Ignition 2 and Container Linux Configs: write the units as files below /etc/systemd/network",
	"enable":     "it belongs to Ignition 2: write enabled",
	"create":     "it belongs to Ignition 2: write its keys beside the name",
	"etcd":       "it belongs to Container Linux Configs: write a unit of systemd",
	"flannel":    "it belongs to Container Linux Configs: write a unit of systemd",
	"docker":     "it belongs to Container Linux Configs: write a drop-in of docker.service",
	"locksmith":  "it belongs to Container Linux Configs: write /etc/flatcar/update.conf as a file",
	"update":     "it belongs to Container Linux Configs: write /etc/flatcar/update.conf as a file",
}

// meant guesses what an unknown key below a path stands for.
func (d dialect) meant(at, typo string, here *shape) string {
	if instead := leftOver[typo]; instead != "" {
		return "; " + instead
	}
	if since := d.knownFrom(at, typo); since != "" {
		return "; it is known from " + d.variant + " " + since + " on"
	}
	var near []string
	for _, m := range here.members {
		near = append(near, m.name)
	}
	if best := message.Closest(typo, near); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	keys := map[string]bool{}
	keysOf(reflect.TypeOf(d.config()), keys, map[reflect.Type]bool{})
	switch best := message.Closest(typo, slices.Sorted(maps.Keys(keys))); best {
	case "":
		return "; check its spelling and its indentation"
	case typo:
		return "; it belongs elsewhere, check its indentation"
	default:
		return fmt.Sprintf("; did you mean %q? It belongs elsewhere, so check the indentation too", best)
	}
}

// knownFrom is the first later version of the variant that has a key at a path, or "".
func (d dialect) knownFrom(at, key string) string {
	later := false
	for _, other := range dialects {
		if other.variant != d.variant {
			continue
		}
		if later {
			if s := other.shapeAt(at); s != nil && slices.ContainsFunc(s.members, func(m member) bool { return m.name == key }) {
				return other.version
			}
		}
		later = later || other.version == d.version
	}
	return ""
}

// shapeAt is the shape of what stands at a path of such a document, or nil.
func (d dialect) shapeAt(at string) *shape {
	s := shapeOf(reflect.TypeOf(d.config()), yamlTag)
	for _, key := range strings.Split(at, ".")[1:] {
		for s.kind == reflect.Pointer {
			s = s.elem
		}
		if _, err := strconv.Atoi(key); err == nil && s.kind == reflect.Slice {
			s = s.elem
			continue
		}
		i := slices.IndexFunc(s.members, func(m member) bool { return m.name == key })
		if i < 0 {
			return nil
		}
		s = s.members[i].shape
	}
	for s.kind == reflect.Pointer {
		s = s.elem
	}
	return s
}

var cannotUnmarshal = regexp.MustCompile("^cannot unmarshal !!([a-z]+) (?s:.*)into ([^ ]+)$")

// mistyped says what belongs at a path where a value of another type stands. It does not quote the value.
func (d dialect) mistyped(at, text string) string {
	m := cannotUnmarshal.FindStringSubmatch(text)
	s := d.shapeAt(at)
	if m == nil || s == nil {
		return text
	}
	key := at[strings.LastIndexByte(at, '.')+1:]
	if _, err := strconv.Atoi(key); err == nil {
		key = "an item of this list"
	}
	is := map[string]string{"str": "a text", "int": "a number", "float": "a number", "bool": "true or false", "seq": "a list", "map": "a mapping", "timestamp": "a date"}[m[1]]
	switch s.kind {
	case reflect.Int:
		if strings.HasSuffix(key, "mode") {
			return fmt.Sprintf("%s is a number, and this is %s: write it like 0644, without quotes", key, is)
		}
		return fmt.Sprintf("%s is a number, and this is %s: write the digits without quotes", key, is)
	case reflect.Bool:
		return fmt.Sprintf("%s is true or false, and this is %s", key, is)
	case reflect.Slice:
		return fmt.Sprintf("%s is a list, and this is %s: begin each item with `- `", key, is)
	case reflect.Struct:
		var names []string
		for _, m := range s.members {
			names = append(names, m.name)
		}
		return fmt.Sprintf("%s is a mapping, and this is %s: write its keys below it: %s", key, is, strings.Join(names, ", "))
	default:
		return fmt.Sprintf("%s is a text, and this is %s: put it in quotation marks", key, is)
	}
}

// blockLine returns where a line of a text is that begins at a place of the repository. It keeps the lines of the files that it reads.
func blockLine(fsys fs.FS, files map[string][]string, at origin.Pos, text string, line int) origin.Pos {
	lines, known := files[at.File]
	if !known && fsys != nil {
		if src, err := fs.ReadFile(fsys, at.File); err == nil {
			lines = strings.Split(string(src), "\n")
		}
		files[at.File] = lines
	}
	return unit.Place(lines, at, text, line)
}
