package sops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// meaning reads a plain file with another reader than the one under test: what a program on the node would see.
func meaning(format string, body []byte) any {
	switch format {
	case "yaml":
		var all []any
		for d := yaml.NewDecoder(bytes.NewReader(body)); ; {
			var v any
			if err := d.Decode(&v); err != nil {
				return all
			}
			all = append(all, floats(v))
		}
	case "json":
		var v any
		_ = json.Unmarshal(body, &v)
		return v
	case "dotenv":
		var lines []string
		for line := range strings.SplitSeq(string(body), "\n") {
			if line != "" {
				lines = append(lines, line)
			}
		}
		return lines
	}
	return string(body)
}

// floats writes all numbers in one way: SOPS writes 1.0 as 1.
func floats(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

// roundTrip encrypts and decrypts what the fuzzer writes: the result is an error, or means the same as before.
func roundTrip(f *testing.F, format string, more ...string) {
	id, to := newKey(f)
	for _, text := range append(more, examples[format]) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := writer.Encrypt(format, body, sops.Policy{Groups: [][]string{{to}}})
		if err != nil {
			return
		}
		back, err := sops.Decrypt(format, out, id)
		if err != nil {
			t.Fatalf("%v\n%q\n%s", err, body, out)
		}
		if was, is := meaning(format, body), meaning(format, back); !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q: %#v, %#v", body, back, was, is)
		}
	})
}

func FuzzYAMLRoundTrip(f *testing.F) {
	roundTrip(f, "yaml", "a: &x [1, 2]\nb: *x\n", "a: |\n  #\n  x\n---\nb: 2020-01-01\n", "#\n# x\n#\na: {}\n")
}
func FuzzJSONRoundTrip(f *testing.F)   { roundTrip(f, "json", `{"a":{"":[[],{}]},"b":1e3}`) }
func FuzzDotenvRoundTrip(f *testing.F) { roundTrip(f, "dotenv", "A=\n#\n#x\nB=\\n\r\n") }
func FuzzBinaryRoundTrip(f *testing.F) {
	roundTrip(f, "binary", "", "[sops]\n", "#\n# Settings\n#\n[main]\n")
}

// mutate decrypts an encrypted file in which the fuzzer replaced some bytes. The result is an error, or the values are
// those of the file, in their order: this is what the authentication code promises, and all that it promises.
func mutate(f *testing.F, format string) {
	id, to := newKey(f)
	body := encrypt(f, format, examples[format], sops.Policy{Groups: [][]string{{to}}})
	want := authenticated(f, format, []byte(decrypt(f, format, body, id)))
	f.Add(0, 0, []byte("# x\n#\n"))
	f.Add(0, 0, []byte("REQUIRE=\n"))
	f.Add(0, 3, []byte{})
	f.Add(len(body)/2, 1, []byte{0xff, '\n'})
	f.Add(0, len(body), body)
	f.Fuzz(func(t *testing.T, at, cut int, put []byte) {
		if at < 0 || at > len(body) || cut < 0 || cut > len(body)-at {
			return
		}
		changed := bytes.Join([][]byte{body[:at], body[at+cut:]}, put)
		_, _ = document.Detect("a."+format, changed)
		plain, err := sops.Decrypt(format, changed, id)
		if err != nil {
			return
		}
		if got := authenticated(t, format, plain); got != want {
			t.Fatalf("%q decrypts, and its values are %q instead of %q", changed, got, want)
		}
	})
}

// authenticated returns the values of a plain file, joined in their order, as the authentication code covers them.
func authenticated(t testing.TB, format string, plain []byte) string {
	t.Helper()
	d, err := document.ParsePlain(document.Format(format), plain)
	if err != nil {
		t.Fatalf("a decrypted file cannot be read: %v\n%q", err, plain)
	}
	var out strings.Builder
	_ = d.Walk(func(l document.Leaf) (any, error) {
		if _, isComment := l.Value.(document.Comment); !isComment {
			fmt.Fprint(&out, l.Value)
		}
		return l.Value, nil
	})
	return out.String()
}

func FuzzYAMLMutated(f *testing.F)   { mutate(f, "yaml") }
func FuzzJSONMutated(f *testing.F)   { mutate(f, "json") }
func FuzzDotenvMutated(f *testing.F) { mutate(f, "dotenv") }
func FuzzBinaryMutated(f *testing.F) { mutate(f, "binary") }
