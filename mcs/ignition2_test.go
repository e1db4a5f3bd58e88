package mcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ign-converter/translate/v24tov31"
	"github.com/coreos/ign-converter/translate/v31tov22"
	v22 "github.com/coreos/ignition/config/v2_2"
	old "github.com/coreos/ignition/config/v2_2/types"
	v23 "github.com/coreos/ignition/config/v2_3"
	v24 "github.com/coreos/ignition/config/v2_4"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v31types "github.com/coreos/ignition/v2/config/v3_1/types"
	"github.com/google/go-cmp/cmp"
)

func TestAFieldThatVersion2LacksIsNamedWhereItIs(t *testing.T) {
	for _, c := range []struct{ because, config, want string }{
		{"types that 3.2 brought", `"storage":{"luks":[{"name":"root","device":"/dev/a"}]}`, "storage.luks"},
		{"arguments that the image has", `"kernelArguments":{"shouldNotExist":["b"]}`, "kernelArguments.shouldNotExist"},
		{"proxies", `"ignition":{"version":"3.5.0","proxy":{"httpProxy":"http://p","noProxy":["a"]}}`, "ignition.proxy.httpProxy, ignition.proxy.noProxy"},
		{"a compressed authority", `"ignition":{"version":"3.5.0","security":{"tls":{"certificateAuthorities":[{"source":"https://a/b","compression":"gzip","httpHeaders":[{"name":"A","value":"b"}]}]}}}`, "ignition.security.tls.certificateAuthorities[0].httpHeaders, ignition.security.tls.certificateAuthorities[0].compression"},
		{
			"a header of a file's source, in both kinds of it",
			`"storage":{"files":[{"path":"/f","contents":{"source":"https://a/b","httpHeaders":[{"name":"A","value":"b"}]},"append":[{"source":"https://a/b","httpHeaders":[{"name":"A","value":"b"}]}]}]}`,
			"storage.files[/f].append[0].httpHeaders, storage.files[/f].contents.httpHeaders",
		},
		{"digests other than SHA-512", `"storage":{"files":[{"path":"/f","contents":{"source":"data:,a","verification":{"hash":"sha256-ca978112ca1bbdcafac231b39a23dc4da786eff8147c4f72b9807785afee48bb"}}}]}`, "storage.files[/f].contents.verification.hash (only sha512 is known)"},
		{"a source that only its parser refuses", `"storage":{"files":[{"path":"/e"},{"path":"/f","mode":420,"append":[{"source":"data:,a"},{"source":"arn:aws:s3:::b/k"}]}]}`, "storage.files[/e] (a file that may be there already needs a mode)"},
		{"a source that only its parser refuses", `"storage":{"files":[{"path":"/e","mode":420},{"path":"/f","mode":420,"append":[{"source":"data:,a"},{"source":"arn:aws:s3:::b/k"}]}]}`, "storage.files[/f].append[1] (invalid url scheme)"},
		{"a format that only its parser refuses", `"storage":{"filesystems":[{"device":"/dev/a","format":"ext4"},{"device":"/dev/b","format":"none"}]}`, "storage.filesystems[/dev/b] (invalid filesystem format)"},
		{"file systems that a machine shall have mounted", `"storage":{"filesystems":[{"device":"/dev/a","path":"/var","format":"ext4","mountOptions":["ro"]}]}`, "storage.filesystems[/var].path (it formats, and mounts nothing), storage.filesystems[/var].mountOptions"},
		{"sizes in MiB", `"storage":{"disks":[{"device":"/dev/a","wipeTable":true,"partitions":[{"label":"x","number":1,"sizeMiB":5,"startMiB":0}]}]}`, "storage.disks[/dev/a].partitions[0].sizeMiB"},
		{"partitions that are kept", `"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"resize":true,"shouldExist":false}]}]}`, "storage.disks[/dev/a].partitions[0] (it keeps no partition that is there; set wipeTable), storage.disks[/dev/a].partitions[0].resize, storage.disks[/dev/a].partitions[0].shouldExist"},
		{"users that shall be gone", `"passwd":{"users":[{"name":"u","shouldExist":false}]}`, "passwd.users[u].shouldExist"},
		{"units of the image that shall not be masked", `"systemd":{"units":[{"name":"a.service","mask":false}]}`, "systemd.units[a.service].mask (it takes away no mask of the image)"},
		{
			"directories whose parents would be like them",
			`"storage":{"directories":[{"path":"/var/a/b","mode":448},{"path":"/var/c/d","user":{"id":7}},{"path":"/var/e","mode":448},{"path":"/var/e/f","mode":448},{"path":"/srv/x/y","mode":493}]}`,
			"storage.directories[/var/a/b] (its mode and owner would be those of its parents too; list /var/a as " +
				"well), storage.directories[/var/c/d] (its mode and owner would be those of its parents too; list " +
				"/var/c as well)",
		},
		{"special modes, which it drops", `"storage":{"files":[{"path":"/f","mode":2541,"contents":{"source":"data:,"}}]}`, "storage.files[/f].mode 04755"},
	} {
		config := `{"ignition":{"version":"3.5.0"},` + c.config + `}`
		if strings.HasPrefix(c.config, `"ignition"`) {
			config = "{" + c.config + "}"
		}
		_, err := Compose(Input{Pool: "worker", Rendered: rendered(config)}, V2_2)
		var unsayable *UnsupportedFieldsError
		if !errors.As(err, &unsayable) {
			t.Errorf("%s: got %v", c.because, err)
			continue
		}
		if got := strings.Join(unsayable.Fields, ", "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.because, got, c.want)
		}
	}
}

// Ignition 0.35 reads a missing mode as 0, refuses to append with overwrite, and writes over what is there unless told.
func TestWhatVersion2HasTheOtherWayRoundIsSaid(t *testing.T) {
	config := compose2(t,
		`"storage":{"directories":[{"path":"/var/d"}],"links":[{"path":"/etc/l","target":"/x"}],"files":[
		{"path":"/a","contents":{"source":"data:,a"},"append":[{"source":"data:,b"}]},
		{"path":"/b","overwrite":true,"mode":384,"contents":{"source":"data:,b"}},
		{"path":"/c","mode":384}]}`)
	type file struct {
		path, source string
		mode         int
		over, append bool
	}
	var got []file
	for _, f := range config.Storage.Files[:len(config.Storage.Files)-2] {
		one := file{f.Path, f.Contents.Source, -1, f.Overwrite == nil || *f.Overwrite, f.Append}
		if f.Mode != nil {
			one.mode = *f.Mode
		}
		if f.Filesystem != "root" || f.Append && f.Overwrite != nil {
			t.Errorf("%s is on file system %q, with overwrite %v", f.Path, f.Filesystem, f.Overwrite)
		}
		got = append(got, one)
	}
	want := []file{
		{"/a", "data:,a", 0o644, false, false},
		{"/a", "data:,b", -1, true, true},
		{"/b", "data:,b", 0o600, true, false},
		{"/c", "data:,", 0o600, true, true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(file{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if d := config.Storage.Directories[0]; d.Filesystem != "root" || *d.Mode != 0o755 {
		t.Errorf("the directory: %+v", d)
	}
	if l := config.Storage.Links[0]; l.Filesystem != "root" || l.Target != "/x" {
		t.Errorf("the link: %+v", l)
	}
}

// compose2 is what a machine with Ignition 0.35 reads of a config, whose parser has nothing to say.
func compose2(t *testing.T, config string) old.Config {
	t.Helper()
	body, err := bytesOf(Input{Pool: "worker", Rendered: rendered(`{"ignition":{"version":"3.5.0"},` + config + `}`)},
		V2_2)
	if err != nil {
		t.Fatal(err)
	}
	return parse2(t, body)
}

func parse2(t *testing.T, body []byte) old.Config {
	t.Helper()
	config, rpt, err := v22.Parse(body)
	for _, e := range rpt.Entries {
		// What is appended may have no mode: it keeps that of the contents before.
		if err != nil || !strings.HasPrefix(e.Message, "permissions unset") {
			t.Errorf("%s", e)
		}
	}
	if err != nil {
		t.Fatalf("the parser of 2.2.0 says %v about\n%s", err, body)
	}
	return config
}

// Where the Ignition project's own converters go both ways, the way back from what is served is where it came from.
func TestWhatIsServedInVersion2MeansWhatItMeantInVersion3(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	served := 0
	for range 400 {
		mc := random(r)
		in := Input{Pool: "worker", Rendered: mc}
		body, err := bytesOf(in, V2_2)
		var unsayable *UnsupportedFieldsError
		if errors.As(err, &unsayable) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", mc.Spec.Config.Raw, err)
		}
		served++
		newer, err := bytesOf(in, V3_0)
		if err != nil {
			t.Fatalf("%s cannot be said in 3.0.0, and is in 2.2.0: %v", mc.Spec.Config.Raw, err)
		}
		want, _, err := v31.ParseCompatibleVersion(newer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(inventory(t, want), inventory(t, back(t, parse2(t, body)))); diff != "" {
			t.Fatalf("-3.0.0 +2.2.0 and back\n%s", diff)
		}
	}
	if served < 40 {
		t.Errorf("only %d of the random configs could be said: the test shows nothing", served)
	}
}

// back reads a config of version 2.2 as one of 3.1. What is appended has one entry there, which the converter cannot
// make.
func back(t *testing.T, config old.Config) v31types.Config {
	t.Helper()
	var appended []old.File
	config.Storage.Files = slices.DeleteFunc(slices.Clone(config.Storage.Files), func(f old.File) bool {
		if f.Append {
			appended = append(appended, f)
		}
		return f.Append
	})
	newer, err := v24tov31.Translate(v24.Translate(v23.Translate(config)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range appended {
		i := slices.IndexFunc(newer.Storage.Files, func(g v31types.File) bool { return g.Path == f.Path })
		if i < 0 {
			alone, err := v24tov31.Translate(v24.Translate(v23.Translate(old.Config{
				Ignition: config.Ignition, Storage: old.Storage{Files: []old.File{f}},
			})), nil)
			if err != nil {
				t.Fatal(err)
			}
			file := alone.Storage.Files[0]
			if len(file.Append) == 1 && *file.Append[0].Source == "data:," {
				file.Append = nil // it only makes the file
			}
			newer.Storage.Files = append(newer.Storage.Files, file)
			continue
		}
		source, zip := f.Contents.Source, f.Contents.Compression
		newer.Storage.Files[i].Append = append(newer.Storage.Files[i].Append, v31types.Resource{
			Source:      &source,
			Compression: &zip,
		})
	}
	return newer
}

// inventory is all that a config says, one line each, without what says the default.
func inventory(t *testing.T, config v31types.Config) []string {
	t.Helper()
	for i := range config.Storage.Files {
		f := &config.Storage.Files[i]
		if f.Mode == nil && f.Contents.Source != nil {
			mode := 0o644
			f.Mode = &mode
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	all, err := tree(raw)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	var walk func(at string, value any)
	walk = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, v := range value {
				walk(joinPath(at, key), v)
			}
		case []any:
			for i, v := range value {
				walk(at+"["+label(v, i)+"]", v)
			}
		default:
			if v := reflect.ValueOf(value); value != nil && !v.IsZero() {
				lines = append(lines, fmt.Sprintf("%s = %v", at, value))
			}
		}
	}
	walk("", all)
	slices.Sort(lines)
	return lines
}

// ign-converter is less strict than we are; where we both have an answer, ours differs by what it gets wrong alone:
// modes that version 2 reads as 0, and overwrite in what is appended, which Ignition 0.35 refuses at boot.
func TestVersion2IsWhatTheConverterOfTheIgnitionProjectMakes(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	compared := 0
	for range 200 {
		in := Input{Pool: "worker", Rendered: random(r)}
		body, err := bytesOf(in, V2_2)
		if err != nil {
			continue
		}
		newer, err := bytesOf(in, V3_0)
		if err != nil {
			t.Fatal(err)
		}
		config, _, err := v31.ParseCompatibleVersion(newer)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := v31tov22.Translate(config)
		if err != nil {
			t.Errorf("we say what the converter cannot: %v\n%s", err, newer)
			continue
		}
		compared++
		ours := parse2(t, body)
		corrected(&theirs, ours)
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("-theirs +ours\n%s", diff)
		}
	}
	if compared < 30 {
		t.Errorf("only %d configs were compared", compared)
	}
}

func corrected(theirs *old.Config, ours old.Config) {
	mode := func(m **int, value int) {
		if *m == nil {
			*m = &value
		}
	}
	for i := range theirs.Storage.Directories {
		mode(&theirs.Storage.Directories[i].Mode, 0o755)
	}
	for i := range theirs.Storage.Files {
		if f := &theirs.Storage.Files[i]; f.Append {
			f.Overwrite = nil
		} else {
			mode(&f.Mode, 0o644)
		}
	}
	// Files that only have to be there: it drops them.
	for i, f := range ours.Storage.Files {
		if f.Append && f.Contents.Source == "data:," {
			theirs.Storage.Files = slices.Insert(theirs.Storage.Files, i, f)
		}
	}
	for i := range theirs.Storage.Filesystems {
		theirs.Storage.Filesystems[i].Name = ours.Storage.Filesystems[i].Name // internal to Ignition
	}
}

func FuzzIgnition2(f *testing.F) {
	for _, seed := range []string{
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/a","mode":420,"append":[{"source":"data:,x"}]}]}}`,
		`{"ignition":{"version":"3.5.0"},"storage":{"disks":[{"device":"/dev/a","wipeTable":true,"partitions":[{"number":0,"label":"","sizeMiB":0}]}],"filesystems":[{"device":"/dev/a","format":"swap","label":""}]}}`,
		`{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"a.service","enabled":false,"contents":"","dropins":[{"name":"b.conf"}]}]},"passwd":{"groups":[{"name":"g","passwordHash":""}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		mc := rendered(string(config))
		if _, err := Compose(Input{Rendered: mc}, V3_1); err != nil {
			return
		}
		body, err := bytesOf(Input{Rendered: mc}, V2_2)
		var unsayable *UnsupportedFieldsError
		switch {
		case errors.As(err, &unsayable):
		case err != nil:
			t.Errorf("%s can be said in 3.1.0, and in 2.2.0 is wrong: %v", config, err)
		default:
			if _, rpt, err := v22.Parse(body); err != nil {
				t.Errorf("the parser of 2.2.0 says %v %s about\n%s", err, rpt, body)
			}
		}
	})
}
