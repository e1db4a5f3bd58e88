package canary

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const hush = "canary&hush/7f3a?"

func gzipped(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text)
	_ = z.Close()
	return b.Bytes()
}

func zlibbed(text []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(text)
	_ = z.Close()
	return b.Bytes()
}

func wrapped(text string, width int, with string) string {
	var lines []string
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return strings.Join(append(lines, text), with)
}

// around puts bytes between others, so that a form is found wherever it begins.
func around(data []byte) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(r.UintN(256))
		}
		return out
	}
	return bytes.Join([][]byte{noise(1000), []byte(` "x": "`), data, []byte(`" `), noise(1000)}, nil)
}

// hidings are all ways in which a value may hide, each with data that has it.
func hidings() map[string][]byte {
	std, raw, web := base64.StdEncoding, base64.RawStdEncoding, base64.RawURLEncoding
	text := []byte("password=" + hush + "\nuser=app and some more text of a file\n")
	sum256, sum512, sum1, sum5, sum384 := sha256.Sum256([]byte(hush)), sha512.Sum512([]byte(hush)),
		sha1.Sum([]byte(hush)), md5.Sum([]byte(hush)), sha512.Sum384([]byte(hush))
	whole := sha256.Sum256(text)
	quoted, _ := json.Marshal(string(text))
	twice, _ := json.Marshal(string(quoted))
	out := map[string][]byte{
		"plain":                               []byte(hush),
		"inside a JSON text":                  quoted,
		"inside a JSON text in a JSON text":   twice,
		"hex":                                 []byte(hex.EncodeToString([]byte(hush))),
		"hex in capitals":                     []byte(strings.ToUpper(hex.EncodeToString([]byte(hush)))),
		"the escapes of Go":                   []byte(strings.ReplaceAll(fmt.Sprintf("%q", hush), "&", `\x26`)),
		"a query of a URL":                    []byte(url.QueryEscape(hush)),
		"a path of a URL":                     []byte(url.PathEscape(hush)),
		"percent signs everywhere":            []byte(joined([]byte(hush), "%%%02X", "")),
		"the numbers of a slice of bytes":     fmt.Appendf(nil, "%v", text),
		"the numbers of a JSON array":         []byte("[" + joined(text, "%d", ",") + "]"),
		"UTF-16":                              []byte(strings.Join(strings.Split(hush, ""), "\x00") + "\x00"),
		"gzip":                                gzipped(text),
		"gzip in gzip":                        gzipped(gzipped(text)),
		"zlib, as git has it":                 zlibbed(text),
		"gzip that breaks off":                gzipped(append(text, bytes.Repeat([]byte("0123456789abcdef!"), 1000)...))[:90],
		"base64 of gzip":                      []byte(std.EncodeToString(gzipped(text))),
		"base64 for URLs of gzip":             []byte(web.EncodeToString(gzipped(text))),
		"gzip of base64 of gzip":              gzipped([]byte(std.EncodeToString(gzipped(text)))),
		"base64 of base64":                    []byte(std.EncodeToString([]byte(std.EncodeToString(text)))),
		"hex of gzip":                         []byte(hex.EncodeToString(gzipped(text))),
		"percent signs around base64 of gzip": []byte(url.QueryEscape(std.EncodeToString(gzipped(text)))),
		"base64 in lines":                     []byte(wrapped(std.EncodeToString(text), 8, "\n")),
		"base64 in lines of a JSON text":      []byte(wrapped(std.EncodeToString(text), 8, `\n`)),
		"base64 of gzip in lines of a JSON":   []byte(wrapped(std.EncodeToString(gzipped(text)), 64, `\n   `)),
		"SHA-256":                             sum256[:],
		"SHA-256 in hex":                      []byte(hex.EncodeToString(sum256[:])),
		"SHA-256 in base64":                   []byte(std.EncodeToString(sum256[:])),
		"SHA-512 in hex":                      []byte("sha512-" + hex.EncodeToString(sum512[:])),
		"SHA-512 in base64 for URLs":          []byte(web.EncodeToString(sum512[:])),
		"SHA-384":                             sum384[:],
		"SHA-1":                               []byte(hex.EncodeToString(sum1[:])),
		"MD5":                                 []byte(hex.EncodeToString(sum5[:])),
		"SHA-256 of the whole file in hex":    []byte(hex.EncodeToString(whole[:])),
		"SHA-256 in hex in gzip in base64":    []byte(raw.EncodeToString(gzipped([]byte("digest: " + hex.EncodeToString(sum256[:]))))),
	}
	for n := range 4 {
		out[fmt.Sprintf("base64 after %d bytes", n)] = []byte(std.EncodeToString(append(bytes.Repeat([]byte("x"), n),
			text...)))
		out[fmt.Sprintf("base64 for URLs after %d bytes", n)] = []byte(
			web.EncodeToString(append(bytes.Repeat([]byte("\xff"), n), text...)))
		out[fmt.Sprintf("base64 of gzip after %d characters", n)] = []byte(strings.Repeat("x", n) +
			raw.EncodeToString(gzipped(text)))
	}
	return out
}

func finder(t *testing.T) *Finder {
	t.Helper()
	text := []byte("password=" + hush + "\nuser=app and some more text of a file\n")
	f, err := New(Value{Name: "hush", Text: []byte(hush)}, Value{Name: "file", Text: text, Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEachHidingIsFound: a search that cannot fail proves nothing.
func TestEachHidingIsFound(t *testing.T) {
	f := finder(t)
	for hiding, data := range hidings() {
		t.Run(hiding, func(t *testing.T) {
			for _, in := range [][]byte{
				data, around(data),
				append(make([]byte, 10000), append(data, make([]byte, 10000)...)...),
			} {
				if found, err := f.In(in); err != nil || len(found) == 0 {
					t.Errorf("it is not found: %v, %v", found, err)
				}
			}
		})
	}
}

// TestNothingElseIsFound: a finding is always a leak.
func TestNothingElseIsFound(t *testing.T) {
	f := finder(t)
	other := strings.NewReplacer(hush, "another text?")
	text := []byte(other.Replace("password=" + hush + "\nuser=app\n"))
	for what, data := range map[string][]byte{
		"noise": around(nil), "nothing": nil, "another text": around(text),
		"another text in gzip": around(gzipped(text)),
		"half of the value":    []byte(hush[:9]), "zeros": make([]byte, 1<<20),
	} {
		if found, err := f.In(data); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
}

// TestTooManyCodings: what is not searched is an error.
func TestTooManyCodings(t *testing.T) {
	data := []byte(hush)
	for range deepest + 2 {
		data = gzipped(data)
	}
	if found, err := finder(t).In(data); err == nil || len(found) > 0 {
		t.Errorf("a value below too many codings is no error: %v", found)
	}
}

func TestValuesThatAreTooShort(t *testing.T) {
	if _, err := New(Value{Name: "short", Text: []byte("hush")}); err == nil {
		t.Error("a short value is found anywhere, and is allowed")
	}
	if _, err := New(); err == nil {
		t.Error("a finder without values is allowed")
	}
}

// TestTrees: files, names, links, archives; an allowed place needs its mode and a value.
func TestTrees(t *testing.T) {
	for sentence, c := range map[string]struct {
		file, link string
		data       []byte
		mode       os.FileMode
		allowed    string
		want       string
	}{
		"a file":                              {file: "a/b.log", data: []byte(hush), mode: 0o600, want: "a/b.log has hush (plain)"},
		"the name of a file":                  {file: "a/x-" + hex.EncodeToString([]byte(hush)), mode: 0o600, want: "the name of a/x-"},
		"the target of a link":                {link: "/nowhere/" + url.PathEscape(hush), want: "l has hush"},
		"an allowed file":                     {file: "a/b.log", data: []byte(hush), mode: 0o600, allowed: "a/*.log 0600 it is the input"},
		"an allowed file of another mode":     {file: "a/b.log", data: []byte(hush), mode: 0o644, allowed: "a/*.log 0600 it is the input", want: `has mode "0644", want 0600`},
		"an allowed file that has no value":   {file: "a/b.log", data: []byte("x"), mode: 0o600, allowed: "a/*.log 0600 it is the input", want: "no value is there"},
		"a file beside the allowed directory": {file: "b/b.log", data: []byte(hush), mode: 0o600, allowed: "a/* 0600 it is the input", want: "b/b.log has"},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "" {
				file := filepath.Join(dir, c.file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, c.data, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			if c.link != "" {
				if err := os.Symlink(c.link, filepath.Join(dir, "l")); err != nil {
					t.Fatal(err)
				}
			}
			allowed, err := ParseAllowed(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			r := NewReport(finder(t), allowed)
			r.AddTree(dir, "")
			err = r.Err()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the report is %v, want %q", err, c.want)
			}
		})
	}
	r := NewReport(finder(t), nil)
	if r.AddTree(filepath.Join(t.TempDir(), "file"), ""); r.Places != 0 {
		t.Error("a missing directory has places")
	}
}

func TestListsOfAllowedPlaces(t *testing.T) {
	for _, bad := range []string{"a/b 0600", "a/b 0600 short", "a/b 9 it is the input", "a/[ 0600 it is the input"} {
		if _, err := ParseAllowed(bad); err == nil {
			t.Errorf("%q is no line, and is allowed", bad)
		}
	}
}

// TestProcesses: a value in an argument or in the environment of a process is found, also of a process of a process.
func TestProcesses(t *testing.T) {
	for sentence, c := range map[string]struct {
		args []string
		env  string
		want string
	}{
		"an argument":                     {args: []string{"-c", "sleep 60; : $0", hush}, want: "process "},
		"the environment":                 {args: []string{"-c", "sleep 60"}, env: "PASSWORD=" + hush, want: "environment 0 has hush"},
		"the environment of a child":      {args: []string{"-c", "export P=$(printf %s \"$HALF\"7f3a?); env sleep 60; :"}, env: "HALF=canary&hush/", want: "has hush"},
		"nothing, in an ordinary process": {args: []string{"-c", "sleep 60"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := WatchProcesses()
			cmd := exec.Command("sh", c.args...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), c.env}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			limit := time.Now().Add(20 * time.Second)
			var err error
			for seen := false; !seen && time.Now().Before(limit); {
				p.look()
				r := NewReport(finder(t), nil)
				p.AddTo(r)
				err = r.Err()
				seen = c.want != "" && err != nil && strings.Contains(err.Error(), c.want) || c.want == "" &&
					r.Places > 1
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			p.Stop()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the report is %v, want %q", err, c.want)
			}
		})
	}
}
