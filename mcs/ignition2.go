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

// Ignition 3 sets these if a config has no mode, and Ignition 2 sets none.
const (
	fileMode      = 0o644
	directoryMode = 0o755
)

// translation gives a config the structure of version 2.2.0: each file names its file system, appended contents are
// files of their own, and the field mount of a file system says how to format it. It changes the tree. Fields that
// would have another effect on a machine are recorded as unsupported. recode22 finds others that the types of version
// 2.2.0 do not have.
type translation struct {
	fieldErrors []string
	// for each item of the result, its path in the config
	files, filesystems []string
}

func (t *translation) unsupported(at, because string) {
	t.fieldErrors = append(t.fieldErrors, fmt.Sprintf("%s (%s)", at, because))
}

// only removes all but the known fields of a part, and records them as unsupported.
func (t *translation) only(at string, part map[string]any, known ...string) {
	t.fieldErrors = append(t.fieldErrors, missingFields(at, part, pick(part, known))...)
	maps.DeleteFunc(part, func(key string, _ any) bool { return !slices.Contains(known, key) })
}

func (t *translation) storage(s map[string]any) {
	listed := map[string]bool{
		"/": true, "/etc": true, "/home": true, "/opt": true, "/root": true, "/srv": true,
		"/usr": true, "/usr/local": true, "/var": true, "/var/home": true, "/var/lib": true,
	}
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

// directory sets the mode that version 3 has by default. Ignition 2 also applies mode and owner to parents that it
// creates, so these must be listed, or exist in every system.
func (t *translation) directory(at string, d map[string]any, listed map[string]bool) {
	d["filesystem"] = "root"
	if d["mode"] == nil {
		d["mode"] = json.Number(fmt.Sprint(directoryMode))
	}
	plain := d["mode"] == json.Number(fmt.Sprint(directoryMode)) && d["user"] == nil && d["group"] == nil
	if parent := path.Dir(path.Clean(text(d, "path"))); !plain && !listed[parent] {
		t.unsupported(at, "its mode and owner would be those of its parents too; list "+parent+" as well")
	}
}

// file returns a file of version 2 for the contents and for each appended part.
func (t *translation) file(at string, f map[string]any) []any {
	contents, appended := object(f, "contents"), list(f, "append")
	t.resources(at+".append", appended)
	if contents["source"] == nil && len(appended) == 0 {
		// It creates a missing file, and keeps an existing one.
		appended = []any{map[string]any{"source": "data:,"}}
	}
	var out []any
	if contents["source"] != nil {
		t.resource(at+".contents", contents)
		t.files = append(t.files, at+".contents")
		out = append(out, file22(f, contents, false))
	} else if f["mode"] == nil {
		t.unsupported(at, "a file that may be there already needs a mode")
	}
	for i, a := range appended {
		t.files = append(t.files, fmt.Sprintf("%s.append[%d]", at, i))
		out = append(out, file22(f, fields(a), true))
	}
	return out
}

// file22 sets overwrite explicitly, because its defaults in versions 2 and 3 are opposite.
func file22(f, contents map[string]any, appends bool) map[string]any {
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
		// Without a mode, the file keeps that of the earlier contents.
		delete(out, "overwrite")
		out["append"] = true
	} else if out["mode"] == nil {
		out["mode"] = json.Number(fmt.Sprint(fileMode))
	}
	return out
}

// filesystem returns how to format a device. Ignition 2 mounts a file system only for files that name it, not for the
// homes of users, and sets no SELinux labels.
func (t *translation) filesystem(i int, f map[string]any) map[string]any {
	at := "storage.filesystems[" + label(f, i) + "]"
	if text(f, "path") != "" {
		t.unsupported(at+".path", "it formats, and mounts nothing")
	}
	delete(f, "path")
	t.only(at, f, "device", "format", "label", "options", "uuid", "wipeFilesystem")
	t.filesystems = append(t.filesystems, at)
	return map[string]any{"name": fmt.Sprint("filesystem-", i), "mount": f}
}

// disk translates the partitions of a disk that has none yet. In version 2, sizes are in sectors, whose size differs
// between disks.
func (t *translation) disk(at string, d map[string]any) {
	for i, p := range list(d, "partitions") {
		p, at := fields(p), at+".partitions["+label(p, i)+"]"
		if d["wipeTable"] != true {
			t.unsupported(at, "it keeps no partition that is there; set wipeTable")
		}
		for _, key := range []string{"sizeMiB", "startMiB"} {
			if n, ok := p[key].(json.Number); ok && n == "0" {
				delete(p, key) // The value 0 is the default.
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
		t.unsupported(at+".verification.hash", "only sha512 is known")
	}
}

// rejectedBy22 calls the validators of version 2.2.0 item by item, because they report no positions. The parser would
// take minutes for a large config, because it searches the line of each value from the beginning.
func rejectedBy22(body []byte, t *translation) ([]string, error) {
	var c old.Config
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	var found []string
	validateItem := func(at string, item any) {
		for _, e := range validate.ValidateWithoutSource(reflect.ValueOf(item)).Entries {
			if e.Kind == report.EntryError {
				found = append(found, fmt.Sprintf("%s (%s)", at, e.Message))
			}
		}
	}
	validateItem("ignition", c.Ignition)
	for i, f := range c.Storage.Files {
		validateItem(t.files[i], f)
	}
	for i, f := range c.Storage.Filesystems {
		validateItem(t.filesystems[i], f)
	}
	for _, d := range c.Storage.Disks {
		validateItem("storage.disks["+d.Device+"]", d)
	}
	for _, u := range c.Systemd.Units {
		validateItem("systemd.units["+u.Name+"]", u)
	}
	if len(found) == 0 {
		validateItem("config", c) // All other fields are the same in version 3, whose parser has accepted them.
	}
	return found, nil
}

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

func pick(o map[string]any, keys []string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if v, ok := o[key]; ok {
			out[key] = v
		}
	}
	return out
}

// convertTo22 changes the config.
func convertTo22(config map[string]any) (body []byte, unsupported []string, err error) {
	special := specialModes(config)
	t := translateTo22(config)
	known, err := recode22(config)
	if err != nil {
		return nil, nil, err
	}
	unsupported = append(t.fieldErrors, missingFields("", config, known)...)
	if unsupported = append(unsupported, special...); len(unsupported) > 0 {
		return nil, unsupported, nil
	}
	if body, err = json.Marshal(config); err != nil {
		return nil, nil, err
	}
	unsupported, err = rejectedBy22(body, t)
	return body, unsupported, err
}

func translateTo22(config map[string]any) *translation {
	t := &translation{}
	head := object(config, "ignition")
	head["version"] = string(V2_2)
	t.resources("ignition.security.tls.certificateAuthorities", list(object(object(head, "security"), "tls"),
		"certificateAuthorities"))
	t.storage(object(config, "storage"))
	for i, u := range list(object(config, "systemd"), "units") {
		if u := fields(u); u["mask"] == false {
			t.unsupported("systemd.units["+label(u, i)+"].mask", "it takes away no mask of the image")
		}
	}
	return t
}

// recode22 goes through the types of version 2.2.0. These omit false, zero and empty values, which mean the same as no
// field, so such values are replaced first.
func recode22(config map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(withoutZeros(config))
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

// withoutZeros replaces every false, zero or empty value by another of its type.
func withoutZeros(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, v := range value {
			out[key] = withoutZeros(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = withoutZeros(v)
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
