package mcs

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	old "github.com/coreos/ignition/config/v2_2/types"
	"github.com/coreos/ignition/config/validate"
	"github.com/coreos/ignition/config/validate/report"
)

// Permission bits that Ignition 3 gives where a config says none; Ignition 2 gives none.
const (
	fileMode      = 0o644
	directoryMode = 0o755
)

// sayOld writes a config of the newest version, which it changes, in version 2.2.0.
func sayOld(config map[string]any) (body []byte, unsayable []string, err error) {
	special := specialModes(config)
	t := translate2(config)
	known, err := recodeOld(config)
	if err != nil {
		return nil, nil, err
	}
	unsayable = append(t.unsayable, lost("", config, known)...)
	if unsayable = append(unsayable, special...); len(unsayable) > 0 {
		return nil, unsayable, nil
	}
	if body, err = json.Marshal(config); err != nil {
		return nil, nil, err
	}
	unsayable, err = refusedOld(body, t)
	return body, unsayable, err
}

// translation gives a config the shapes of version 2.2.0: each file names its file system, what is appended are files of
// their own, and file systems are formatted by their mount. It changes the tree it is given. What would mean something else
// to a machine is unsayable; what neither this nor the version's own types know is found by recodeOld.
type translation struct {
	unsayable []string
	// files and filesystems tell for each of the result which part of the config it comes from.
	files, filesystems []string
}

func translate2(config map[string]any) *translation {
	t := &translation{}
	head := object(config, "ignition")
	head["version"] = string(V2_2)
	t.resources("ignition.security.tls.certificateAuthorities", list(object(object(head, "security"), "tls"), "certificateAuthorities"))
	t.storage(object(config, "storage"))
	for i, u := range list(object(config, "systemd"), "units") {
		if u := fields(u); u["mask"] == false {
			t.say("systemd.units["+label(u, i)+"].mask", "it takes away no mask of the image")
		}
	}
	return t
}

func (t *translation) say(at, because string) {
	t.unsayable = append(t.unsayable, fmt.Sprintf("%s (%s)", at, because))
}

// only names the fields of a part that are none of those known, and takes them out.
func (t *translation) only(at string, part map[string]any, known ...string) {
	t.unsayable = append(t.unsayable, lost(at, part, pick(part, known))...)
	maps.DeleteFunc(part, func(key string, _ any) bool { return !slices.Contains(known, key) })
}

func (t *translation) storage(s map[string]any) {
	listed := map[string]bool{"/": true, "/etc": true, "/home": true, "/opt": true, "/root": true, "/srv": true, "/usr": true, "/usr/local": true, "/var": true, "/var/home": true, "/var/lib": true}
	for _, d := range list(s, "directories") {
		listed[path.Clean(text(fields(d), "path"))] = true
	}
	for i, d := range list(s, "directories") {
		t.directory("storage.directories["+label(d, i)+"]", fields(d), listed)
	}
	for _, l := range list(s, "links") {
		fields(l)["filesystem"] = "root"
	}
	var files []any
	for i, f := range list(s, "files") {
		files = append(files, t.file("storage.files["+label(f, i)+"]", fields(f))...)
	}
	if files != nil {
		s["files"] = files
	}
	for i, f := range list(s, "filesystems") {
		list(s, "filesystems")[i] = t.filesystem(i, fields(f))
	}
	for i, d := range list(s, "disks") {
		t.disk("storage.disks["+label(d, i)+"]", fields(d))
	}
}

// directory says the mode that version 3 gives by itself. Ignition 2 gives mode and owner to the parents too that it has
// to make, so those have to be listed or to be in every system.
func (t *translation) directory(at string, d map[string]any, listed map[string]bool) {
	d["filesystem"] = "root"
	if d["mode"] == nil {
		d["mode"] = json.Number(fmt.Sprint(directoryMode))
	}
	plain := d["mode"] == json.Number(fmt.Sprint(directoryMode)) && d["user"] == nil && d["group"] == nil
	if parent := path.Dir(path.Clean(text(d, "path"))); !plain && !listed[parent] {
		t.say(at, "its mode and owner would be those of its parents too; list "+parent+" as well")
	}
}

// file returns the files that one file of version 3 is: its contents, and each part that is appended.
func (t *translation) file(at string, f map[string]any) []any {
	contents, appended := object(f, "contents"), list(f, "append")
	t.resources(at+".append", appended)
	if contents["source"] == nil && len(appended) == 0 {
		appended = []any{map[string]any{"source": "data:,"}} // makes it where it is not there, and leaves it where it is
	}
	var out []any
	if contents["source"] != nil {
		t.resource(at+".contents", contents)
		t.files = append(t.files, at+".contents")
		out = append(out, oldFile(f, contents, false))
	} else if f["mode"] == nil {
		t.say(at, "a file that may be there already needs a mode")
	}
	for i, a := range appended {
		t.files = append(t.files, fmt.Sprintf("%s.append[%d]", at, i))
		out = append(out, oldFile(f, fields(a), true))
	}
	return out
}

// oldFile is a file of version 2: it has to say what is the other way round by itself, that it overwrites nothing.
func oldFile(f, contents map[string]any, appends bool) map[string]any {
	out := map[string]any{}
	for key, value := range f {
		out[key] = value
	}
	delete(out, "append")
	out["filesystem"], out["contents"] = "root", contents
	if out["overwrite"] == nil || appends {
		out["overwrite"] = false
	}
	if appends {
		// A mode that is not said stays: the contents before it have set one.
		delete(out, "overwrite")
		out["append"] = true
	} else if out["mode"] == nil {
		out["mode"] = json.Number(fmt.Sprint(fileMode))
	}
	return out
}

// filesystem says how to format a device. Ignition 2 mounts it for files that name it alone: not for the homes of users, and
// it labels nothing there for SELinux.
func (t *translation) filesystem(i int, f map[string]any) map[string]any {
	at := "storage.filesystems[" + label(f, i) + "]"
	if text(f, "path") != "" {
		t.say(at+".path", "it formats, and mounts nothing")
	}
	delete(f, "path")
	t.only(at, f, "device", "format", "label", "options", "uuid", "wipeFilesystem")
	t.filesystems = append(t.filesystems, at)
	return map[string]any{"name": fmt.Sprint("filesystem-", i), "mount": f}
}

// disk says the partitions of a disk that has no others. Their sizes are in sectors, which differ from disk to disk.
func (t *translation) disk(at string, d map[string]any) {
	for i, p := range list(d, "partitions") {
		p, at := fields(p), at+".partitions["+label(p, i)+"]"
		if d["wipeTable"] != true {
			t.say(at, "it keeps no partition that is there; set wipeTable")
		}
		for _, key := range []string{"sizeMiB", "startMiB"} {
			if n, ok := p[key].(json.Number); ok && n == "0" {
				delete(p, key) // the default
			}
		}
		t.only(at, p, "guid", "label", "number", "typeGuid")
	}
}

func (t *translation) resources(at string, all []any) {
	for i, r := range all {
		t.resource(fmt.Sprintf("%s[%d]", at, i), fields(r))
	}
}

func (t *translation) resource(at string, r map[string]any) {
	t.only(at, r, "compression", "source", "verification")
	if hash := text(object(r, "verification"), "hash"); hash != "" && !strings.HasPrefix(hash, "sha512-") {
		t.say(at+".verification.hash", "only sha512 is known")
	}
}

// recodeOld decodes into the types of version 2.2.0 and encodes again. These leave out what is false, zero or empty, which
// for all fields that they have means what saying nothing means; so they are asked with values that are not.
func recodeOld(config map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(filled(config))
	if err != nil {
		return nil, err
	}
	var types old.Config
	if err := json.Unmarshal(raw, &types); err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(types); err != nil {
		return nil, err
	}
	return tree(raw)
}

// filled is a tree with every false, zero or empty value replaced by another of its type.
func filled(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, v := range value {
			out[key] = filled(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = filled(v)
		}
		return out
	case bool:
		return true
	case string:
		return value + "-"
	case json.Number, int:
		return 1
	}
	return value
}

// refusedOld asks the validators of version 2.2.0's own parser, item by item, as they tell no places. The parser itself looks
// for the line of each value from the config's beginning, which takes minutes for a large one.
func refusedOld(body []byte, t *translation) ([]string, error) {
	var c old.Config
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	var found []string
	judge := func(at string, item any) {
		for _, e := range validate.ValidateWithoutSource(reflect.ValueOf(item)).Entries {
			if e.Kind == report.EntryError {
				found = append(found, fmt.Sprintf("%s (%s)", at, e.Message))
			}
		}
	}
	judge("ignition", c.Ignition)
	for i, f := range c.Storage.Files {
		judge(t.files[i], f)
	}
	for i, f := range c.Storage.Filesystems {
		judge(t.filesystems[i], f)
	}
	for _, d := range c.Storage.Disks {
		judge("storage.disks["+d.Device+"]", d)
	}
	for _, u := range c.Systemd.Units {
		judge("systemd.units["+u.Name+"]", u)
	}
	if len(found) == 0 {
		judge("config", c) // the rest is as in version 3, which has accepted it
	}
	return found, nil
}

// object is a field of an object that is one; an empty one where it is not there.
func object(o map[string]any, key string) map[string]any { return fields(o[key]) }

func fields(value any) map[string]any {
	if o, ok := value.(map[string]any); ok {
		return o
	}
	return map[string]any{}
}

func list(o map[string]any, key string) []any {
	l, _ := o[key].([]any)
	return l
}

func text(o map[string]any, key string) string {
	s, _ := o[key].(string)
	return s
}

// pick is an object with some of its fields.
func pick(o map[string]any, keys []string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if v, ok := o[key]; ok {
			out[key] = v
		}
	}
	return out
}
