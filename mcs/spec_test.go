package mcs

import (
	"encoding/json"
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ign-converter/translate/v32tov31"
	"github.com/coreos/ign-converter/translate/v33tov32"
	"github.com/coreos/ign-converter/translate/v34tov33"
	"github.com/coreos/ign-converter/translate/v35tov34"
	"github.com/coreos/vcontext/report"
	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

func TestAFieldThatAnOlderVersionLacksIsNamed(t *testing.T) {
	for _, c := range []struct {
		config  string // beside ignition.version
		version Version
		want    string
	}{
		{`"storage":{"luks":[{"name":"root","device":"/dev/a","cex":{"enabled":true}}]}`, V3_4, "storage.luks[root].cex.enabled"},
		{`"storage":{"luks":[{"name":"root","device":"/dev/a","discard":true,"openOptions":["x"]}]}`, V3_3, "storage.luks[root].discard, storage.luks[root].openOptions"},
		{`"storage":{"luks":[{"name":"root","device":"/dev/a","clevis":{"tang":[{"url":"http://t","thumbprint":"x","advertisement":"{}"}]}}]}`, V3_3, "storage.luks[root].clevis.tang[0].advertisement"},
		{`"storage":{"directories":[{"path":"/d","mode":1023}],"files":[{"path":"/f","mode":2541}]}`, V3_3, "storage.directories[/d].mode 01777, storage.files[/f].mode 04755"},
		{`"storage":{"files":[{"path":"/f","contents":{"source":"arn:aws:s3:::b/k"}}]}`, V3_3, "storage.files[/f].contents.source (invalid url scheme)"},
		{`"kernelArguments":{"shouldExist":["a"],"shouldNotExist":["b","c"]}`, V3_2, "kernelArguments.shouldNotExist"},
		{`"storage":{"filesystems":[{"device":"/dev/a","format":"none"}]}`, V3_2, "storage.filesystems[/dev/a].format (invalid filesystem format)"},
		{`"storage":{"luks":[{"name":"root","device":"/dev/a"}]}`, V3_1, "storage.luks"},
		{`"passwd":{"users":[{"name":"u","shouldExist":false}],"groups":[{"name":"g","shouldExist":false}]}`, V3_1, "passwd.groups[g].shouldExist, passwd.users[u].shouldExist"},
		{`"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"sizeMiB":0,"resize":true}]}]}`, V3_1, "storage.disks[/dev/a].partitions[0].resize"},
		{`"storage":{"filesystems":[{"device":"/dev/a","path":"/var","format":"ext4","mountOptions":["ro"]}]}`, V3_0, "storage.filesystems[/var].mountOptions"},
		{`"storage":{"files":[{"path":"/f","contents":{"source":"https://a/b","httpHeaders":[{"name":"A","value":"b"}]}}]}`, V3_0, "storage.files[/f].contents.httpHeaders"},
	} {
		mc := rendered(`{"ignition":{"version":"3.5.0"},` + c.config + `}`)
		_, err := Compose(Input{Pool: "worker", Rendered: mc}, c.version)
		var unsayable *UnsupportedFieldsError
		if !errors.As(err, &unsayable) {
			t.Errorf("%s in %s: got %v", c.config, c.version, err)
			continue
		}
		if got := strings.Join(unsayable.Fields, ", "); got != c.want {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.config, c.version, got, c.want)
		}
		newer := specs[slices.Index(Versions(), c.version)+1].version
		if _, err := Compose(Input{Pool: "worker", Rendered: mc}, newer); err != nil {
			t.Errorf("%s in %s, which has the words: %v", c.config, newer, err)
		}
	}
}

func TestAFieldWithItsDefaultIsLeftOutWhereAnOlderVersionLacksIt(t *testing.T) {
	mc := rendered(`{"ignition":{"version":"3.5.0"},"passwd":{"users":[{"name":"u","shouldExist":true}]},
		"storage":{"disks":[{"device":"/dev/a","partitions":[{"number":1,"resize":false}]}]}}`)
	body, err := Compose(Input{Pool: "worker", Rendered: mc}, V3_0)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(body.Head); strings.Contains(text, "shouldExist") || strings.Contains(text, "resize") {
		t.Errorf("3.0.0 does not know what it is given: %s", text)
	}
}

// parts are what random configs are put together of; each is valid by itself and with all others.
var parts = map[string][]string{
	"files": {
		`{"path":"/etc/a","mode":420,"overwrite":true,"contents":{"source":"data:,a"}}`,
		`{"path":"/etc/b","mode":2541}`,
		`{"path":"/etc/c","append":[{"source":"data:;base64,YQ==","verification":{"hash":"sha256-ca978112ca1bbdcafac231b39a23dc4da786eff8147c4f72b9807785afee48bb"}}],"user":{"id":0},"group":{"name":"root"}}`,
		`{"path":"/etc/d","contents":{"source":"data:;base64,H4sIAAAAAAAAA0sEAEO+t+gBAAAA","compression":"gzip"}}`,
		`{"path":"/etc/ignition-machine-config-encapsulated.json"}`,
	},
	"directories": {`{"path":"/var/a","mode":493}`, `{"path":"/var/b","mode":1023}`},
	"links":       {`{"path":"/etc/l","target":"/etc/a","hard":false}`},
	"filesystems": {`{"device":"/dev/v","path":"/var","format":"xfs","wipeFilesystem":true}`, `{"device":"/dev/w","path":"/srv","format":"ext4","mountOptions":["ro"]}`},
	"raid":        {`{"name":"md","level":"raid1","devices":["/dev/x","/dev/y"]}`},
	"luks":        {`{"name":"r","device":"/dev/r","clevis":{"tpm2":true}}`, `{"name":"s","device":"/dev/s","discard":true}`, `{"name":"c","device":"/dev/c","cex":{"enabled":true}}`},
	"users":       {`{"name":"core","sshAuthorizedKeys":["ssh-ed25519 A"],"groups":["wheel"]}`, `{"name":"gone","shouldExist":false}`, `{"name":"here","shouldExist":true}`},
	"units":       {`{"name":"a.service","enabled":true,"contents":"[Unit]\nDescription=a<b&c>\n[Install]\nWantedBy=multi-user.target"}`, `{"name":"b.service","mask":true,"dropins":[{"name":"x.conf","contents":"[Service]"}]}`},
	"shouldExist": {`"quiet"`, `"a=b"`},
	"shouldNot":   {`"nosmt"`},
}

// random puts a rendered config together of some of the parts.
func random(r *rand.Rand) *mcfgv1.MachineConfig {
	some := func(kind string) string {
		var chosen []string
		for _, part := range parts[kind] {
			if r.Intn(6) == 0 {
				chosen = append(chosen, part)
			}
		}
		return "[" + strings.Join(chosen, ",") + "]"
	}
	mc := rendered(`{"ignition":{"version":"3.5.0"},"kernelArguments":{"shouldExist":` + some("shouldExist") +
		`,"shouldNotExist":` + some("shouldNot") +
		`},"passwd":{"users":` + some("users") + `},"systemd":{"units":` + some("units") + `},"storage":{"files":` +
		some("files") + `,"directories":` + some("directories") +
		`,"links":` + some("links") + `,"filesystems":` + some("filesystems") + `,"raid":` + some("raid") + `,"luks":` +
		some("luks") + `}}`)
	mc.Spec.KernelArguments = make([]string, 1, 4) // room to append into, for a Compose that would
	mc.Spec.KernelArguments[0] = "quiet"
	mc.Annotations = map[string]string{"bunsen.dev/revision": "main@sha1:01"}
	return mc
}

func TestWhateverIsServedHoldsForEveryConfig(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	served := map[Version]int{}
	for range 120 {
		mc := random(r)
		before := mc.DeepCopy()
		in := Input{Pool: "worker", Rendered: mc}
		newest, err := bytesOf(in, Newest)
		if err != nil {
			t.Fatalf("%s: %v", mc.Spec.Config.Raw, err)
		}
		for _, d := range specs[1:] { // 2.2.0 has tests of its own
			body, err := bytesOf(in, d.version)
			var unsayable *UnsupportedFieldsError
			if errors.As(err, &unsayable) {
				continue
			}
			if err != nil {
				t.Fatalf("%s in %s: %v", mc.Spec.Config.Raw, d.version, err)
			}
			served[d.version]++
			// Ignition warns of special modes in every version before 3.6; each other warning would be our mistake.
			rpt, err := d.parse(body)
			rpt.Entries = slices.DeleteFunc(rpt.Entries, func(e report.Entry) bool {
				return strings.HasPrefix(e.Message, "setuid/")
			})
			if err != nil || len(rpt.Entries) > 0 {
				t.Fatalf("the parser of %s says %v %s about\n%s", d.version, err, rpt, body)
			}
			if again, err := bytesOf(in, d.version); err != nil || string(again) != string(body) {
				t.Fatalf("composed twice, %s differs:\n%s\n%s", d.version, body, again)
			}
			if d.kernelArguments { // below, they move into the encapsulated config
				if diff := cmp.Diff(plain(t, newest), plain(t, body)); diff != "" {
					t.Fatalf("%s says something else than %s:\n%s", d.version, Newest, diff)
				}
			}
		}
		if diff := cmp.Diff(before, mc); diff != "" || mc.Spec.KernelArguments[:2][1] != "" {
			t.Fatalf("composing changed its input: %s", diff)
		}
	}
	for _, v := range Versions()[1:] {
		if served[v] < 10 {
			t.Errorf("only %d of the random configs could be said in %s: the test shows nothing", served[v], v)
		}
	}
}

// bytesOf is a body that has no room for a token.
func bytesOf(in Input, v Version) ([]byte, error) {
	body, err := Compose(in, v)
	return body.Head, err
}

// plain is a config as any JSON reader sees it, without its version and without fields that say the default.
func plain(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(body), `,"shouldExist":true`, "")), &m); err != nil {
		t.Fatal(err)
	}
	delete(m["ignition"].(map[string]any), "version")
	return m
}

// ign-converter translates step by step what it knows; where it has an answer, ours is the same.
func TestOlderVersionsAreWhatTheConverterOfTheIgnitionProjectMakes(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	compared := 0
	for range 120 {
		mc := random(r)
		newest, err := bytesOf(Input{Pool: "worker", Rendered: mc}, Newest)
		if err != nil {
			t.Fatal(err)
		}
		for v, theirs := range converted(t, newest) {
			d, _ := specOf(v)
			ours, unsayable, err := d.convert(newest)
			if err != nil {
				t.Fatal(err)
			}
			if len(unsayable) > 0 {
				// It lets Cex pass silently, and nothing else.
				if unsayable = slices.DeleteFunc(unsayable, func(f string) bool {
					return strings.HasSuffix(f, ".cex.enabled")
				}); len(unsayable) > 0 {
					t.Errorf("%s: the converter says what we cannot: %s", v, unsayable)
				}
				continue
			}
			compared++
			kept, err := d.recode(ours)
			if err != nil {
				t.Fatal(err)
			}
			if string(kept) != string(theirs) {
				t.Errorf("%s:\nours   %s\ntheirs %s", v, kept, theirs)
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d configs were compared", compared)
	}
}

// converted is what the converter makes of a config, as JSON by version, down to where it gives up.
func converted(t *testing.T, newest []byte) map[Version][]byte {
	t.Helper()
	all := map[Version][]byte{}
	put := func(v Version, config any) {
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		all[v] = raw
	}
	c35, _, err := ign.Parse(newest)
	if err != nil {
		t.Fatal(err)
	}
	c34, err := v35tov34.Translate(c35)
	if err != nil {
		return all
	}
	put(V3_4, c34)
	c33, err := v34tov33.Translate(c34)
	if err != nil {
		return all
	}
	put(V3_3, c33)
	c32, err := v33tov32.Translate(c33)
	if err != nil {
		return all
	}
	put(V3_2, c32)
	c31, err := v32tov31.Translate(c32)
	if err != nil {
		return all
	}
	put(V3_1, c31)
	return all
}

func BenchmarkCompose(b *testing.B) {
	file := `{"path":"/etc/%d","mode":420,"contents":{"source":"data:,` + strings.Repeat("x%0A", 250) + `"}}`
	var files []string
	for i := range 1000 {
		files = append(files, strings.ReplaceAll(file, "%d", string(rune('a'+i/26/26))+string(rune('a'+i/26%26))+
			string(rune('a'+i%26))))
	}
	mc := rendered(`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + strings.Join(files, ",") + `]}}`)
	for _, v := range []Version{V3_5, V3_2, V2_2} {
		b.Run(string(v), func(b *testing.B) {
			for b.Loop() {
				if _, err := Compose(Input{Pool: "worker", Rendered: mc}, v); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(mc.Spec.Config.Raw)))
		})
	}
}
