package sops_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

var (
	now    = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	writer = sops.Writer{Random: rand.Reader, Now: now}
)

// examples has one file of each format, as SOPS itself writes it.
var examples = map[string]string{
	"yaml":   "# head\nusers:\n    # inline\n    - name: a\n      password: \"1\"\n    - null\nport: 5432\nratio: 0.5\nuse: true\nempty: \"\"\nnotes_unencrypted: seen\n# foot\n",
	"json":   "{\n\t\"a\": \"b\",\n\t\"list\": [\n\t\t1,\n\t\t{\n\t\t\t\"c\": null\n\t\t}\n\t],\n\t\"big\": 9007199254740993\n}\n",
	"dotenv": "# head\nUSER=me\nKEY=one\\ntwo\n",
	"binary": "\x00\xff any bytes\n",
}

func newKey(t testing.TB) (*age.X25519Identity, string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id, id.Recipient().String()
}

func encrypt(t testing.TB, format, text string, p sops.Policy) []byte {
	t.Helper()
	out, err := writer.Encrypt(format, []byte(text), p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decrypt(t testing.TB, format string, body []byte, ids ...age.Identity) string {
	t.Helper()
	out, err := sops.Decrypt(format, body, ids...)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return string(out)
}

// A file that is encrypted and decrypted has the same text. The ciphertext contains no value.
func TestEveryFormatRoundTrips(t *testing.T) {
	id, to := newKey(t)
	other, _ := newKey(t)
	for format, text := range examples {
		body := encrypt(t, format, text, sops.Policy{Groups: [][]string{{to}}})
		if got := decrypt(t, format, body, other, id); got != text {
			t.Errorf("%s: got %q, want %q", format, got, text)
		}
		if found, ok := document.Detect("a."+format, body); !ok || string(found) != format {
			t.Errorf("%s: detected as %q, %v", format, found, ok)
		}
		for _, word := range []string{"head", "inline", "5432", "two", "bytes", "a=b"} {
			if bytes.Contains(body, []byte(word)) {
				t.Errorf("%s: the ciphertext contains %q", format, word)
			}
		}
		if _, ok := document.Detect("a."+format, []byte(text)); ok {
			t.Errorf("%s: the plain file is detected as encrypted", format)
		}
	}
}

// Key groups need as many keys as the threshold says. The error says what is missing.
func TestKeyGroupsNeedTheirThreshold(t *testing.T) {
	a, toA := newKey(t)
	b, toB := newKey(t)
	c, toC := newKey(t)
	body := encrypt(t, "yaml", "a: 1\n", sops.Policy{Groups: [][]string{{toA}, {toB}, {toC}}, Threshold: 2})
	for _, ids := range [][]age.Identity{{a, b}, {b, c}, {c, a}, {a, b, c}} {
		if got := decrypt(t, "yaml", body, ids...); got != "a: 1\n" {
			t.Errorf("got %q", got)
		}
	}
	_, err := sops.Decrypt("yaml", body, b)
	var missing *sops.MissingKeyError
	if !errors.As(err, &missing) || missing.Needed != 2 || missing.Opened != 1 || !strings.Contains(err.Error(), toA) ||
		!strings.Contains(err.Error(), toB) {
		t.Errorf("got %v", err)
	}
}

// Damaged, foreign and hostile files are refused, each with its reason and without a value.
func TestBadFilesAreRefused(t *testing.T) {
	id, to := newKey(t)
	other, toOther := newKey(t)
	p := sops.Policy{Groups: [][]string{{to}}}
	good := string(encrypt(t, "yaml", "hunter2: hunter2value\nb: 2\nc_unencrypted: x\n", p))
	lines := strings.Split(good, "\n")
	swapped := strings.Join(append([]string{
		"hunter2:" + strings.TrimPrefix(lines[1], "b:"),
		"b:" + strings.TrimPrefix(lines[0], "hunter2:"),
	}, lines[2:]...), "\n")
	for name, c := range map[string]struct {
		format, body, want string
		ids                []age.Identity
	}{
		"a key of another recipient":   {"yaml", good, "is encrypted for " + to + ", and Bunsen has the age keys of " + toOther, []age.Identity{other}},
		"no key":                       {"yaml", good, "Bunsen has no age key", nil},
		"a value moved to another key": {"yaml", swapped, "the value of hunter2: it was changed", []age.Identity{id}},
		"a removed value":              {"yaml", strings.Join(lines[1:], "\n"), "authentication code does not match", []age.Identity{id}},
		"a changed clear value":        {"yaml", strings.Replace(good, "c_unencrypted: x", "c_unencrypted: y", 1), "authentication code does not match", []age.Identity{id}},
		"a changed time":               {"yaml", strings.Replace(good, "2026-01-02", "2026-01-03", 1), "authentication code", []age.Identity{id}},
		"a clear value":                {"yaml", strings.Replace(good, lines[1], "b: 2", 1), "b: in clear text", []age.Identity{id}},
		"a truncated file":             {"yaml", good[:len(good)/2], "", []age.Identity{id}},
		"truncated JSON":               {"json", `{"a":"ENC[AES256_GCM,data:","sops":{"mac":`, "ends in the middle", []age.Identity{id}},
		"a plain file":                 {"yaml", "a: 1\n", "is not encrypted", []age.Identity{id}},
		"an empty file":                {"yaml", "", "is empty", []age.Identity{id}},
		"a dotenv key twice":           {"dotenv", "A=1\nA=2\nsops_mac=x\n", `"A" occurs twice`, []age.Identity{id}},
		"a YAML key twice":             {"yaml", "a: 1\na: 2\nsops: {}\n", "occurs twice", []age.Identity{id}},
		"an INI file":                  {"ini", "[a]\nb = 1\n", "encrypt it as binary", []age.Identity{id}},
		"an unknown format":            {"toml", good, "unknown format", []age.Identity{id}},
		"a bomb of aliases":            {"yaml", "a: &a [x,x]\nb: &b [*a,*a]\nsops: {}\n", "YAML alias *a", []age.Identity{id}},
		"a deep file":                  {"json", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "levels", []age.Identity{id}},
		"a huge file":                  {"yaml", "a: " + strings.Repeat("x", document.MaxSize), "at most", []age.Identity{id}},
		"a key twice":                  {"json", `{"a":1,"a":2,"sops":{}}`, `"a" occurs twice`, []age.Identity{id}},
		"a damaged data key":           {"yaml", strings.Replace(good, "-----BEGIN AGE ENCRYPTED FILE-----\n", "-----BEGIN AGE ENCRYPTED FILE-----\nAAAA", 1), "", []age.Identity{id}},
	} {
		_, err := sops.Decrypt(c.format, []byte(c.body), c.ids...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2value") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// broken is a source of random bytes, and an identity, in which a library panics.
type broken struct{}

func (broken) Read([]byte) (int, error)             { panic("hunter2") }
func (broken) Unwrap([]*age.Stanza) ([]byte, error) { panic("hunter2") }

// A panic in a library is an error of that file, without the values that the panic may show.
func TestAPanicIsAnErrorOfTheFile(t *testing.T) {
	_, to := newKey(t)
	p := sops.Policy{Groups: [][]string{{to}}}
	body := encrypt(t, "yaml", "a: 1\n", p)
	bad := sops.Writer{Random: broken{}, Now: now}
	for name, do := range map[string]func() ([]byte, error){
		"decrypt": func() ([]byte, error) { return sops.Decrypt("yaml", body, broken{}) },
		"encrypt": func() ([]byte, error) { return bad.Encrypt("yaml", []byte("a: 1\n"), p) },
		"replace": func() ([]byte, error) { return writer.Replace("yaml", body, []byte("a: 1\n"), broken{}) },
		"rotate":  func() ([]byte, error) { return writer.Rotate("yaml", body, p, broken{}) },
	} {
		if _, err := do(); err == nil || !strings.Contains(err.Error(), "library fail") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// What would have another value after it was encrypted and decrypted is refused, not changed.
func TestWhatSOPSWouldChangeIsRefused(t *testing.T) {
	_, to := newKey(t)
	for name, tc := range map[string]struct{ format, text, want string }{
		"a number that JSON rounds": {"json", `{"a": 12345678901234567890}`, "too large"},
		"a number that YAML rounds": {"yaml", "a: 123456789012345678901234567890\n", "too large"},
		"a tag of a program":        {"yaml", "a: !vault x\n", "line 1: the tag !vault: SOPS would lose it"},
		"the tag of a set":          {"yaml", "a: !!set {b: null}\n", "line 1: the tag !!set: SOPS would lose it"},
		"an unknown tag of a key":   {"yaml", "b: 1\n!!0 :\n", "line 2: the tag !!0: SOPS would lose it"},
	} {
		_, err := writer.Encrypt(tc.format, []byte(tc.text), sops.Policy{Groups: [][]string{{to}}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// An edit changes the ciphertext of changed values only. A rotation changes all, and the old key cannot read it.
func TestEditsAndRotations(t *testing.T) {
	id, to := newKey(t)
	second, toSecond := newKey(t)
	body := encrypt(t, "yaml", "a: 1\nb: 2\n", sops.Policy{Groups: [][]string{{to}}})
	edited, err := writer.Replace("yaml", body, []byte("a: 1\nb: 3\nc: 4\n"), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := decrypt(t, "yaml", edited, id); got != "a: 1\nb: 3\nc: 4\n" {
		t.Errorf("got %q", got)
	}
	before, after := values(t, body), values(t, edited)
	if before["a"] != after["a"] || before["b"] == after["b"] {
		t.Errorf("before %v, after %v", before, after)
	}
	rotated, err := writer.Rotate("yaml", edited, sops.Policy{Groups: [][]string{{toSecond}}}, id)
	if err != nil {
		t.Fatal(err)
	}
	if got := decrypt(t, "yaml", rotated, second); got != "a: 1\nb: 3\nc: 4\n" ||
		values(t, rotated)["a"] == after["a"] {
		t.Errorf("got %q", got)
	}
	if _, err := sops.Decrypt("yaml", rotated, id); err == nil {
		t.Error("the removed key still decrypts the file")
	}
}

func values(t *testing.T, body []byte) map[string]string {
	t.Helper()
	d, err := document.Parse(document.YAML, body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range d.Entries() {
		out[e.Name] = e.Text
	}
	return out
}
