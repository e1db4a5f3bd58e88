package sops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

const (
	// for one data key
	askTimeout = 5 * time.Second
	// of an answer, in bytes: a data key has 32, an error may be longer
	maxAnswer, maxHeaders = 1 << 10, 16 << 10
	// of a data key, in bytes; a part of one has one more
	keySize = 32
	// of data keys
	maxKnown = 10_000
	// Its package has no name.
	method = "http://keyservice/KeyService/Decrypt"
)

// KeyServiceClient asks a key service. Its methods may be called concurrently.
type KeyServiceClient struct {
	http *http.Client

	mu    sync.Mutex
	known map[digest][]byte // the data keys that the service decrypted
}

type digest [sha256.Size]byte

func digestOf(r document.Recipient) digest {
	return sha256.Sum256([]byte(r.String() + "\n" + r.Encrypted))
}

// NewKeyService prepares to ask the key service at an address, unix:///PATH or tcp://127.0.0.1:PORT, as sops's
// --keyservice. Other hosts are refused: the protocol has neither encryption nor authentication.
func NewKeyService(address string) (*KeyServiceClient, error) {
	network, at, err := parse(address)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		},
		Protocols: new(http.Protocols), MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
		DisableKeepAlives: true, // Data keys are asked for seldom, and the service may restart between.
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &KeyServiceClient{http: &http.Client{Transport: transport}, known: map[digest][]byte{}}, nil
}

func parse(address string) (network, at string, err error) {
	u, err := url.Parse(address)
	if err == nil && u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/") {
		return "unix", u.Path, nil
	}
	if err == nil && u.Scheme == "tcp" && u.Path == "" {
		if addr, err := netip.ParseAddrPort(u.Host); err == nil && addr.Addr().IsLoopback() && addr.Port() != 0 {
			return "tcp", u.Host, nil
		}
	}
	return "", "",
		fmt.Errorf("a key service is at unix:///PATH, or at tcp://127.0.0.1:PORT, not at %q: it has neither "+
			"encryption nor authentication, so it must run on this host", address)
}

// Round returns a function that decrypts the data keys of many files. It asks the service once for each until the
// context ends, and no more after a request without an answer. What the service decrypted in an earlier round is known.
func (c *KeyServiceClient) Round(ctx context.Context) func(document.Recipient) ([]byte, error) {
	var mu sync.Mutex
	failed := map[digest]error{}
	var away error
	return func(r document.Recipient) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		id := digestOf(r)
		if key := c.knownKey(id); key != nil {
			return key, nil
		}
		if err, had := failed[id]; had {
			return nil, err
		}
		if away == nil && ctx.Err() != nil {
			away = errors.New("there was no time to ask it; it is asked later")
		}
		if away != nil {
			return nil, away
		}
		key, err := c.decrypt(ctx, r)
		if err == nil {
			c.keep(id, key)
			return key, nil
		}
		failed[id] = err
		if answered := new(answeredError); !errors.As(err, &answered) {
			away = err
		}
		return nil, err
	}
}

func (c *KeyServiceClient) knownKey(id digest) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

// keep keeps a data key or a part of one, and no other answer: that may differ later.
func (c *KeyServiceClient) keep(id digest, key []byte) {
	if len(key) != keySize && len(key) != keySize+1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[id] = key
}

type answeredError struct{ message string }

func (e *answeredError) Error() string { return e.message }

// decrypt asks the service for one data key. The error is an answeredError unless the service did not answer.
func (c *KeyServiceClient) decrypt(ctx context.Context, r document.Recipient) ([]byte, error) {
	request, err := encodeRequest(r)
	if err != nil {
		return nil, &answeredError{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body := append([]byte{0}, binary.BigEndian.AppendUint32(nil, uint32(len(request)))...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, method, bytes.NewReader(append(body, request...)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := c.http.Do(req)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) {
			err = failed.Err // without the URL, which is no address
		}
		return nil, fmt.Errorf("it does not answer: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading its answer: %w", err)
	}
	if len(answer) > maxAnswer {
		return nil, &answeredError{fmt.Sprintf("its answer has more than %d bytes", maxAnswer)}
	}
	return readAnswer(resp, answer)
}

// unanswered are the codes of gRPC for a request without an answer: deadline exceeded and unavailable. The program sops
// has one code for everything that fails behind it.
var unanswered = map[string]bool{"4": true, "14": true}

// maxSaid limits the service's own text, in characters.
const maxSaid = 400

// foreign decodes the text of an error, which gRPC encodes as a URL.
func foreign(said string) string {
	if plain, err := url.PathUnescape(said); err == nil {
		said = plain
	}
	return safetext.Short(said, maxSaid)
}

func readAnswer(resp *http.Response, body []byte) ([]byte, error) {
	status, said := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // An answer without a body has them in its header.
		status, said = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	switch {
	case resp.StatusCode != http.StatusOK || status == "":
		return nil, &answeredError{fmt.Sprintf("it answers as no key service (HTTP status %d)", resp.StatusCode)}
	case unanswered[status]:
		return nil, fmt.Errorf("it is not available: %s", foreign(said))
	case status != "0":
		return nil, &answeredError{"it says: " + foreign(said)}
	case len(body) < 5 || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-5):
		return nil, &answeredError{errMalformed.Error()}
	}
	key, err := decodeAnswer(body[5:])
	if err != nil {
		return nil, &answeredError{err.Error()}
	}
	return key, nil
}
