package batch

import (
	"fmt"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for repository, want := range map[string]string{
		"https://host/a/b":     "https://host/a/b.git/info/lfs/objects/batch",
		"https://host/a/b.git": "https://host/a/b.git/info/lfs/objects/batch",
	} {
		if got := Address(repository); got != want {
			t.Errorf("%s: %s", repository, got)
		}
	}
}

// FuzzPointer: a pointer has one form, so whatever is read as one is written the same.
func FuzzPointer(f *testing.F) {
	f.Add(fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%064x\nsize 7\n", 5))
	f.Fuzz(func(t *testing.T, content string) {
		p, err := ParsePointer([]byte(content))
		if err != nil {
			return
		}
		if again := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", p.Hex(),
			p.Size); again != content || p.Size < 0 || !IsPointer([]byte(content)) {
			t.Errorf("%q is read as %q", content, again)
		}
	})
}

// FuzzParseAnswer: each place of an answer is an object that was requested, over https, and no error has text of the
// answer.
func FuzzParseAnswer(f *testing.F) {
	p := Pointer{Size: 7}
	f.Add(`{"objects":[{"oid":"` + p.Hex() +
		`","size":7,"actions":{"download":{"href":"https://a/b","header":{"A":"b"}}}}]}`)
	f.Add(`{"transfer":"MARK","objects":[{"oid":"` + p.Hex() + `","size":7,"error":{"code":1,"message":"MARK"}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		places, err := ParseAnswer([]byte(body), []Pointer{p})
		if err != nil {
			if strings.Contains(err.Error(), "MARK") {
				t.Errorf("the error has text of the answer: %v", err)
			}
			return
		}
		for oid, place := range places {
			if oid != p.Hex() || place.URL.Scheme != "https" || place.URL.User != nil || place.URL.Host == "" {
				t.Errorf("%s at %v", oid, place.URL)
			}
			for name, value := range place.Header {
				if strings.ContainsAny(name+value, "\r\n\x00") {
					t.Errorf("header %q: %q", name, value)
				}
			}
		}
	})
}
