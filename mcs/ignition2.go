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

// The permission bits that Ignition 3 sets if a config has no mode. Ignition 2 sets no permission bits in this case.
const (
	fileMode      = 0o644
	directoryMode = 0o755
)

// translation gives a config the structure of version 2.2.0: each file names its file system, appended contents are
// files of their own, and the field mount of a file system says how to format it. translation changes the tree.
// translation records fields that would have another effect on a machine as unsupported. recode22 finds other fields
// that the types of version 2.2.0 do not have.
type translation struct {
	fieldErrors []string
	// files and filesystems have, for each item of the result, the path of its origin in the config.
	files, filesystems []string
}

func (t *translation) unsupported(at, because string) {
	t.fieldErrors = append(t.fieldErrors, fmt.Sprintf("%s (%s)", at, because))
}

// only removes all fields of a part except the given known fields, and records the removed fields as unsupported.
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

// directory sets the mode of a directory that version 3 has by default. Ignition 2 also applies mode and owner to
// parent directories that it creates. So the config must list the parents, or they must exist in every system.
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

// file returns the files of version 2 for one file of version 3: its contents and each appended part.
func (t *translation) file(at string, f map[string]any) []any {
	contents, appended := object(f, "contents"), list(f, "append")
	t.resources(at+".append", appended)
	if contents["source"] == nil && len(appended) == 0 {
		// The empty part creates a missing file, and keeps an existing file.
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

// file22 returns a file of version 2. file22 sets overwrite explicitly, because the default in version 2 is the
// opposite of the default in version 3.
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
		// An appended part has no mode, so the file keeps the mode that the earlier contents have set.
		delete(out, "overwrite")
		out["append"] = true
	} else if out["mode"] == nil {
		out["mode"] = json.Number(fmt.Sprint(fileMode))
	}
	return out
}

// filesystem returns how to format a device. Ignition 2 mounts a file system only for files that name it. Ignition 2
// does not mount it for the homes of users, and sets no SELinux labels.
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

// disk translates the partitions of a disk that has no partitions yet. The sizes of partitions in version 2 are in
// sectors, whose size differs between disks.
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

// rejectedBy22 calls the validators of version 2.2.0 item by item, because the validators report no positions. The
// parser of version 2.2.0 would take minutes for a large config, because it searches the line of each value from the
// beginning.
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

// object returns a field that is an object, or an empty object.
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

// pick returns an object with some of its fields.
func pick(o map[string]any, keys []string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if v, ok := o[key]; ok {
			out[key] = v
		}
	}
	return out
}
