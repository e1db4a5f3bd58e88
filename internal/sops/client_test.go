package sops

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

func TestAnAddressIsOnThisHost(t *testing.T) {
	for address, ok := range map[string]bool{
		"unix:///run/sops/keys.sock": true, "tcp://127.0.0.1:5000": true, "tcp://[::1]:5000": true,
		"tcp://10.0.0.1:5000": false, "tcp://0.0.0.0:5000": false, "tcp://keys.example.com:5000": false,
		"tcp://localhost:5000": false, "tcp://127.0.0.1": false, "unix://run/x": false, "": false,
		"https://127.0.0.1:5000": false, "tcp://127.0.0.1:0": false, "tcp://127.0.0.1:5000/x": false,
	} {
		if _, err := NewKeyService(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// serve is a server of HTTP/2 at a socket, which answers with a handler.
func serve(t *testing.T, handler http.HandlerFunc) *KeyServiceClient {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := NewKeyService("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer writes an answer of gRPC. The declared size is that of the message unless it is given.
func answer(w http.ResponseWriter, message, status, said string) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	if message != "" {
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	}
	w.Header().Set("Grpc-Status", status)
	w.Header().Set("Grpc-Message", said)
}

const key32 = "0123456789abcdef0123456789abcdef"

func recipient(name string) document.Recipient {
	return document.Recipient{Kind: "pgp", Name: name, Encrypted: "enc"}
}

func TestAnswers(t *testing.T) {
	for because, c := range map[string]struct {
		answer http.HandlerFunc
		want   string // the plaintext, or the end of the error
	}{
		"a data key": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, string(message{}.add(1, key32)), "0", "")
		}, key32},
		"a field of a later version": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, string(message{}.add(2, "x").add(1, key32).add(3, "y")), "0", "")
		}, key32},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { answer(w, "", "0", "") }, "its answer is malformed"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, "", "2", "no%20secret key%0A\u202e"+strings.Repeat("x", 1000))
		}, "x…"},
		"an error without a body, in the header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Grpc-Message", "Unknown key type")
		}, "it says: Unknown key type"},
		"a service that stops": {func(w http.ResponseWriter, _ *http.Request) { answer(w, "", "14", "stopping") }, "it is not available: stopping"},
		"a web server":         {http.NotFound, "it answers as no key service (HTTP status 404)"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, string(message{}.add(1, strings.Repeat("x", 2000))), "0", "")
		}, "its answer has more than 1024 bytes"},
		"a number in place of a text": {func(w http.ResponseWriter, _ *http.Request) { answer(w, "\x08\x01", "0", "") }, "malformed"},
		"a size beyond the end":       {func(w http.ResponseWriter, _ *http.Request) { answer(w, "\x0a\x20x", "0", "") }, "malformed"},
		"a size beyond all numbers": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "0", "")
		}, "malformed"},
		"a compressed message": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = io.WriteString(w, "\x01\x00\x00\x00\x01x")
			w.Header().Set("Grpc-Status", "0")
		}, "malformed"},
	} {
		got, err := serve(t, c.answer).Round(t.Context())(recipient("x"))
		if err == nil && string(got) != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) ||
			err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "\u202e")) {
			t.Errorf("%s: %q, %v", because, got, err)
		}
	}
}

// TestARoundAsksForEachDataKeyOnce counts requests: what failed is asked again in the next round, and what succeeded
// is known. After a request without an answer, a round asks no more.
func TestARoundAsksForEachDataKeyOnce(t *testing.T) {
	requests, status := 0, "2"
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/KeyService/Decrypt" || r.Header.Get("Te") != "trailers" ||
			r.Header.Get("Content-Type") != "application/grpc" || len(body) < 5 {
			t.Errorf("asked %s %v", r.URL, r.Header)
		}
		if strings.Contains(string(body), "good") {
			answer(w, string(message{}.add(1, key32)), "0", "")
			return
		}
		answer(w, "", status, "bad")
	})
	for round := range 2 {
		ask := c.Round(t.Context())
		for range 3 {
			if key, err := ask(recipient("good")); err != nil || string(key) != key32 {
				t.Fatal(key, err)
			}
			if _, err := ask(recipient("bad")); err == nil {
				t.Fatal("a data key of nowhere")
			}
		}
		if want := 2 + round; requests != want {
			t.Errorf("round %d: %d requests, want %d", round, requests, want)
		}
	}
	requests, status = 0, "14"
	ask := c.Round(t.Context())
	for i := range 10 {
		if _, err := ask(recipient(fmt.Sprint("away", i))); err == nil ||
			!strings.Contains(err.Error(), "it is not available") {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Round(ended)(recipient("late")); err == nil || !strings.Contains(err.Error(), "it is asked later") {
		t.Error(err)
	}
	if key, err := c.Round(ended)(recipient("good")); err != nil || string(key) != key32 {
		t.Errorf("a known data key after the end of the time: %q, %v", key, err)
	}
	if requests != 1 {
		t.Errorf("%d requests to a service that is away", requests)
	}
	gone, err := NewKeyService("unix://" + filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Round(t.Context())(recipient("x")); err == nil || !strings.HasPrefix(err.Error(),
		"it does not answer: dial unix") {
		t.Error(err)
	}
}
