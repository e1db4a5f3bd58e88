package mcs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func written(t *testing.T, b ServedBody, token string) []byte {
	t.Helper()
	var out bytes.Buffer
	n, err := b.WriteTo(&out, token)
	if err != nil || n != int64(out.Len()) || out.Len() != b.Len() {
		t.Fatalf("%v: %d bytes were sent, %d were said to be, and the body has %d", err, out.Len(), n, b.Len())
	}
	return out.Bytes()
}

func unzipped(t *testing.T, zipped []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false) // one member: some clients read no second
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("reading what was zipped: %v", err)
	}
	if rest, err := r.Read(make([]byte, 1)); rest != 0 || err != io.EOF {
		t.Errorf("there is more after the member: %d, %v", rest, err)
	}
	return plain
}

func TestUnzippedItIsWhatIsSentUnzipped(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	text := func() []byte {
		b := make([]byte, r.Intn(3)*r.Intn(60000))
		for i := range b {
			b[i] = "abcdefgh %\"{}\x00\xff"[r.Intn(1+r.Intn(15))]
		}
		return b
	}
	for range 60 {
		plain := ServedBody{Body: Body{Head: text()}}
		token := ""
		if r.Intn(4) > 0 {
			plain.Tail = text()
			token = fmt.Sprintf("%06x.%016x", r.Intn(1<<24), r.Uint64())
		}
		zipped := compress(plain)
		if zipped.NeedsBootstrapToken() != plain.NeedsBootstrapToken() {
			t.Fatal("compression changes whether the body needs a token")
		}
		if got := unzipped(t, written(t, zipped, token)); !bytes.Equal(got, written(t, plain, token)) {
			t.Fatalf("head %d, tail %d: %d bytes came back", len(plain.Head), len(plain.Tail), len(got))
		}
	}
}

func FuzzCompress(f *testing.F) {
	f.Add([]byte("head"), []byte("tail"), true)
	f.Add([]byte(""), []byte(""), true)
	f.Add([]byte("all"), []byte(nil), false)
	f.Fuzz(func(t *testing.T, head, tail []byte, joins bool) {
		plain, token := ServedBody{Body: Body{Head: head}}, ""
		if joins {
			plain.Tail, token = append([]byte{}, tail...), machineToken
		}
		if got := unzipped(t, written(t, compress(plain), token)); !bytes.Equal(got, written(t, plain, token)) {
			t.Errorf("%q came back", got)
		}
	})
}

// What people and machines unpack with.
func TestOtherProgramsReadWhatIsZipped(t *testing.T) {
	plain := ServedBody{Body: Body{
		Head: bytes.Repeat([]byte("head "), 9000),
		Tail: bytes.Repeat([]byte("tail "), 9000),
	}}
	want, zipped := written(t, plain, machineToken), written(t, compress(plain), machineToken)
	if _, err := exec.LookPath("gzip"); err != nil {
		t.Log("no gzip here")
	} else {
		cmd := exec.Command("gzip", "-dc")
		cmd.Stdin = bytes.NewReader(zipped)
		if got, err := cmd.Output(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("gzip -dc: %v, %d bytes", err, len(got))
		}
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl here")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !AcceptsGzip(r.Header.Get("Accept-Encoding")) {
			t.Errorf("curl --compressed sends %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped)
	}))
	defer server.Close()
	if got, err := exec.Command("curl", "-sS", "--noproxy", "*", "--compressed", server.URL).Output(); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("curl --compressed: %v, %d bytes", err, len(got))
	}
}

func TestATokenThatIsNoneIsNotSent(t *testing.T) {
	joins := withETag(ServedBody{Body: Body{Head: []byte("head"), Tail: []byte("tail")}})
	alone := withETag(ServedBody{Body: Body{Head: []byte("head")}})
	for _, c := range []struct {
		because string
		body    ServedBody
		token   string
	}{
		{"none where there is room for one", joins, ""},
		{"one too short", joins, machineToken[1:]},
		{"one too long", joins, machineToken + "0"},
		{"one that ends a text", joins, `abcdef.0123456789abcde"`},
		{"one where there is no room for it", alone, machineToken},
	} {
		for _, b := range []ServedBody{c.body, compress(c.body)} {
			var out bytes.Buffer
			if n, err := b.WriteTo(&out, c.token); err == nil || n != 0 || out.Len() != 0 {
				t.Errorf("%s: %v, and %q was sent", c.because, err, out.String())
			} else if c.token != "" && strings.Contains(err.Error(), c.token) {
				t.Errorf("%s: the error shows it: %v", c.because, err)
			}
		}
	}
}

// An answer costs nothing of the body's size: a storm of machines is served from the same bytes.
func BenchmarkWriteTo(b *testing.B) {
	half := bytes.Repeat([]byte(`{"path":"/etc/something","mode":420},`), 1<<19/37)
	plain := withETag(ServedBody{Body: Body{Head: half, Tail: half}})
	for _, c := range []struct {
		name string
		body ServedBody
	}{{"plain", plain}, {"zipped", compress(plain)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(c.body.Len()))
			for b.Loop() {
				if _, err := c.body.WriteTo(io.Discard, machineToken); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnAnswerAllocatesNothingOfTheBodysSize(t *testing.T) {
	half := bytes.Repeat([]byte("x"), 1<<20)
	plain := withETag(ServedBody{Body: Body{Head: half, Tail: half}})
	for _, body := range []ServedBody{plain, compress(plain)} {
		const times = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			if _, err := body.WriteTo(io.Discard, machineToken); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 4096 {
			t.Errorf("%d bytes are allocated for an answer of %d", got, body.Len())
		}
	}
}
