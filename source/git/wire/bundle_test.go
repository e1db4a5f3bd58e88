package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/wire"
)

const (
	version2 = "# v2 git bundle\n"
	version3 = "# v3 git bundle\n"
)

func TestTheHeaderOfABundle(t *testing.T) {
	main, other := source.Ref{Name: "refs/heads/main", Hash: one}, source.Ref{Name: "refs/heads/other", Hash: two}
	headMain := source.Ref{Name: "HEAD", Hash: one, Target: "refs/heads/main"}
	for name, test := range map[string]struct {
		header string
		want   wire.Bundle
	}{
		"one branch":                 {version2 + one + " refs/heads/main\n\n", wire.Bundle{Refs: []source.Ref{headMain, main}}},
		"version 3":                  {version3 + "@object-format=sha1\n" + one + " refs/heads/main\n\n", wire.Bundle{Refs: []source.Ref{headMain, main}}},
		"HEAD and its branch":        {version2 + one + " refs/heads/main\n" + two + " refs/heads/other\n" + one + " HEAD\n\n", wire.Bundle{Refs: []source.Ref{headMain, main, other}}},
		"two branches":               {version2 + two + " refs/heads/other\n" + one + " refs/heads/main\n\n", wire.Bundle{Refs: []source.Ref{main, other}}},
		"a HEAD that is two":         {version2 + one + " refs/heads/a\n" + one + " refs/heads/b\n" + one + " HEAD\n\n", wire.Bundle{Refs: []source.Ref{{Name: "HEAD", Hash: one}, {Name: "refs/heads/a", Hash: one}, {Name: "refs/heads/b", Hash: one}}}},
		"a prerequisite":             {version2 + "-" + two + " its subject: - @ é\n" + one + " refs/heads/main\n\n", wire.Bundle{Prerequisites: []string{two}, Refs: []source.Ref{headMain, main}}},
		"a prerequisite, no subject": {version2 + "-" + two + "\n" + one + " refs/tags/v1\n\n", wire.Bundle{Prerequisites: []string{two}, Refs: []source.Ref{{Name: "refs/tags/v1", Hash: one}}}},
		"nothing":                    {version2 + "\n", wire.Bundle{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(test.header + "PACK\n\nrest"))
			got, err := wire.ReadBundle(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if rest, err := io.ReadAll(r); err != nil || string(rest) != "PACK\n\nrest" {
				t.Errorf("the pack is %q, %v", rest, err)
			}
		})
	}
}

func TestWhatIsNoBundle(t *testing.T) {
	const sha256 = one + "111111111111111111111111"
	for name, test := range map[string]struct{ header, words string }{
		"nothing":                 {"", "not a git bundle"},
		"another file":            {"root:$6$S3CR3T:19000:0:99999:7:::\n", "not a git bundle"},
		"version 4":               {"# v4 git bundle\n\n", "not a git bundle"},
		"no end":                  {version2 + one + " refs/heads/main\n", "not a git bundle"},
		"half a line":             {version2 + one[:20], "not a git bundle"},
		"no hash":                 {version2 + "S3CR3T refs/heads/main\n\n", "not a git bundle"},
		"an upper-case hash":      {version2 + strings.Repeat("A", 40) + " refs/heads/main\n\n", "not a git bundle"},
		"no name":                 {version2 + one + "\n\n", "not a git bundle"},
		"a name of no ref":        {version2 + one + " ../../etc/S3CR3T\n\n", "not a git bundle"},
		"a control character":     {version2 + one + " refs/heads/\x1b[2J\n\n", "not a git bundle"},
		"two names":               {version2 + one + " refs/heads/a refs/heads/b\n\n", "not a git bundle"},
		"a ref twice":             {version2 + one + " refs/heads/a\n" + two + " refs/heads/a\n\n", "twice"},
		"a capability in 2":       {version2 + "@object-format=sha1\n\n", "not a git bundle"},
		"a filter":                {version3 + "@object-format=sha1\n@filter=blob:none\n" + one + " refs/heads/main\n\n", "without --filter"},
		"SHA-256":                 {version3 + "@object-format=sha256\n" + sha256 + " refs/heads/main\n\n", "SHA-256 object names"},
		"SHA-256 in version 2":    {version2 + sha256 + " refs/heads/main\n\n", "SHA-256 object names"},
		"another capability":      {version3 + "@S3CR3T\n\n", "a capability that is not supported"},
		"a capability after refs": {version3 + one + " refs/heads/main\n@filter=blob:none\n\n", "not a git bundle"},
		"a long line":             {version2 + one + " refs/heads/" + strings.Repeat("a", 1<<17) + "\n\n", "too large"},
		"a bad prerequisite":      {version2 + "-S3CR3T\n\n", "not a git bundle"},
		"long refs": {version2 + func() string {
			var b bytes.Buffer
			for i := range 300 {
				fmt.Fprintf(&b, "%s refs/tags/%d%s\n", one, i, strings.Repeat("a", 60_000))
			}
			return b.String()
		}() + "\n", "too large"},
		"many refs": {version2 + func() string {
			var b bytes.Buffer
			for i := range 60_000 {
				fmt.Fprintf(&b, "%s refs/tags/v%d\n", one, i)
			}
			return b.String()
		}() + "\n", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.ReadBundle(bufio.NewReaderSize(strings.NewReader(test.header), 1<<16))
			if err == nil || !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), "S3CR3T") {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}

func FuzzReadBundle(f *testing.F) {
	f.Add([]byte(version2 + "-" + two + " x\n" + one + " refs/heads/main\n\nPACK"))
	f.Add([]byte(version3 + "@object-format=sha1\n" + one + " HEAD\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := wire.ReadBundle(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		for _, r := range b.Refs {
			if len(r.Hash) != 40 || strings.ContainsAny(r.Name, "\n \x1b\x00") {
				t.Errorf("read the ref %q", r)
			}
		}
	})
}
