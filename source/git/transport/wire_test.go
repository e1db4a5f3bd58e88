package transport_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

// packet returns a packet as a server sends it.
func packet(text string) string {
	const digits = "0123456789abcdef"
	n := len(text) + 4
	return string([]byte{digits[n>>12&15], digits[n>>8&15], digits[n>>4&15], digits[n&15]}) + text
}

func TestRequests(t *testing.T) {
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"the refs with a prefix": {
			transport.RefsRequest([]string{"refs/heads/main"}),
			"0014command=ls-refs\n0011agent=bunsen\n0017object-format=sha1\n00010009peel\n000csymrefs\n000bunborn\n" +
				"001fref-prefix refs/heads/main\n0000",
		},
		"what is new in a commit": {
			transport.FetchRequest{
				Wants: []string{two}, Haves: []string{one}, Shallow: []string{one}, Depth: 1,
				Filter: transport.NoFiles, Thin: true,
			}.Request(),
			"0012command=fetch\n0011agent=bunsen\n0017object-format=sha1\n0001000ethin-pack\n0010no-progress\n" +
				"000eofs-delta\n0035shallow " + one + "\n000ddeepen 1\n0015filter blob:none\n0032want " + two +
				"\n0032have " + one + "\n0009done\n0000",
		},
		"the commits alone": {
			transport.FetchRequest{Wants: []string{two}, Haves: []string{one}, Filter: transport.CommitsOnly}.Request(),
			"0012command=fetch\n0011agent=bunsen\n0017object-format=sha1\n00010010no-progress\n000eofs-delta\n" +
				"0012filter tree:0\n0032want " + two + "\n0032have " + one + "\n0009done\n0000",
		},
	} {
		if diff := cmp.Diff(test.want, string(test.got)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestReadRefs(t *testing.T) {
	const main = "refs/heads/main"
	for name, test := range map[string]struct {
		answer string
		want   []source.Ref
		words  string
	}{
		"refs in any order": {
			packet(two+" refs/tags/v1 peeled:"+one+"\n") + packet(one+" "+main+"\n") +
				packet(one+" HEAD symref-target:"+main+"\n") + "0000",
			[]source.Ref{
				{Name: "HEAD", Hash: one, Target: main},
				{Name: main, Hash: one},
				{Name: "refs/tags/v1", Hash: two, Peeled: one},
			},
			"",
		},
		"an empty repository":         {packet("unborn HEAD symref-target:"+main+"\n") + "0000", nil, ""},
		"no refs":                     {"0000", nil, ""},
		"a branch without commits":    {packet("unborn HEAD symref-target:refs/heads/next\n") + packet(one+" "+main+"\n") + "0000", []source.Ref{{Name: "HEAD", Target: "refs/heads/next"}, {Name: main, Hash: one}}, ""},
		"an answer that ends":         {packet(one + " " + main + "\n"), nil, "unexpected EOF"},
		"a packet that ends":          {"0040" + one, nil, "unexpected EOF"},
		"an error of the server":      {packet("ERR not here\x1b[31m\n"), nil, `the server said "not here[31m"`},
		"a page of HTML":              {"<html><body>Log in</body></html>", nil, "packet 1: expected its length in four hex digits"},
		"a hash of SHA-256":           {packet(one+strings.Repeat("1", 24)+" "+main+"\n") + "0000", nil, "packet 1: expected a hash of SHA-1"},
		"a line without a name":       {packet(one+"\n") + "0000", nil, "packet 1: expected the hash and the name of a ref"},
		"a length that cannot be one": {"0003", nil, "packet 1: expected a length from 4"},
	} {
		got, err := transport.ReadRefs(strings.NewReader(test.answer))
		if test.words != "" {
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

func TestReadPack(t *testing.T) {
	head := packet("packfile\n")
	for name, test := range map[string]struct {
		answer, want, words string
	}{
		"a pack with progress":           {head + packet("\x02counting\n") + packet("\x01PA") + packet("\x01CK") + "0000", "PACK", ""},
		"after what the server skips":    {packet("acknowledgments\n") + packet("NAK\n") + "0001" + packet("shallow-info\n") + packet("shallow "+one+"\n") + "0001" + head + packet("\x01PACK") + "0000", "PACK", ""},
		"an error in the middle":         {head + packet("\x01PA") + packet("\x03out of memory\n") + "0000", "", `the server said "out of memory"`},
		"an end in the middle":           {head + packet("\x01PA"), "", "unexpected EOF"},
		"no pack":                        {packet("acknowledgments\n") + packet("NAK\n") + "0000", "", "the response has no pack"},
		"a packet of an unknown channel": {head + packet("\x09PA") + "0000", "", "packet 2: expected channel 1, 2 or 3"},
		"an empty packet":                {head + "0004" + "0000", "", "packet 2: expected a channel"},
		"a refusal":                      {packet("ERR upload-pack: not our ref " + one), "", "not our ref"},
	} {
		r, err := transport.ReadPack(strings.NewReader(test.answer))
		var got []byte
		if err == nil {
			got, err = io.ReadAll(r)
		}
		if test.words != "" {
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
			continue
		}
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestTheVersionIsReadAhead(t *testing.T) {
	const v2 = "000eversion 2\n"
	for name, test := range map[string]struct {
		answer string
		v2     bool
	}{
		"version 2":                             {v2 + packet("fetch=shallow filter\n") + "0000", true},
		"version 2 after the line of version 0": {"001e# service=git-upload-pack\n0000" + v2 + packet("fetch=shallow filter\n") + "0000", true},
		"version 0":                             {"001e# service=git-upload-pack\n0000" + packet(one+" HEAD\x00side-band-64k\n") + "0000", false},
		"nothing":                               {"", false},
	} {
		got, rest, err := transport.IsVersion2(strings.NewReader(test.answer))
		if err != nil || got != test.v2 {
			t.Errorf("%s: got %v, %v", name, got, err)
			continue
		}
		if !got {
			if all, err := io.ReadAll(rest); err != nil || string(all) != test.answer {
				t.Errorf("%s: the rest is %q, %v", name, all, err)
			}
			continue
		}
		c, err := transport.ReadCapabilities(rest)
		if err != nil || !c.Filters() || !c.Shallow() || c.ObjectFormat() != "sha1" {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
	}
}

// FuzzAnswers: whatever a server sends, reading ends with a result or an error.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(packet(one+" refs/heads/main\n") + "0000"))
	f.Add([]byte(packet("packfile\n") + packet("\x01PACK") + "0000"))
	f.Add([]byte("000eversion 2\n0000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		refs, err := transport.ReadRefs(bytes.NewReader(data))
		for _, r := range refs {
			if err != nil || r.Name == "" || len(r.Hash) != 40 && r.Hash != "" {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if r, err := transport.ReadPack(bytes.NewReader(data)); err == nil {
			if _, err := io.Copy(io.Discard, r); errors.Is(err, io.EOF) {
				t.Error("the end of the stream is an error")
			}
		}
		if v2, rest, err := transport.IsVersion2(bytes.NewReader(data)); err == nil && v2 {
			_, _ = transport.ReadCapabilities(rest)
		}
	})
}
