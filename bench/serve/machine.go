package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The times of Ignition 2.27 (internal/resource/http.go).
const (
	firstBackoff  = 200 * time.Millisecond
	longestWait   = 5 * time.Second
	headerTimeout = 10 * time.Second
	dialTimeout   = 30 * time.Second
)

// accept is the header Accept of Ignition 2.27.
const accept = "application/vnd.coreos.ignition+json;version=3.6.0, */*;q=0.1"

// boot is the result of one machine.
type boot struct {
	took    time.Duration
	retries int
	err     error
}

// machine is one machine at its first boot.
type machine struct {
	url, token, digest string
	from               net.Addr
	tls                *tls.Config
}

// boot fetches the config like Ignition. It repeats the request while there is no response, or one with a status of 500
// and above. It fails for any other error, and does not repeat a request after the body has begun.
func (m machine) boot(ctx context.Context) (b boot) {
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout, LocalAddr: m.from}).DialContext,
		TLSClientConfig: m.tls, TLSHandshakeTimeout: headerTimeout, ResponseHeaderTimeout: headerTimeout,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	begun := time.Now()
	defer func() { b.took = time.Since(begun) }()
	for wait := firstBackoff; ; wait = min(2*wait, longestWait) {
		answer, err := m.ask(ctx, client)
		if err == nil && answer.StatusCode < 500 {
			b.err = m.read(answer)
			return b
		}
		if err == nil {
			_ = answer.Body.Close() // Ignition ignores it too
		}
		b.retries++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			b.err = fmt.Errorf("giving up: %w", ctx.Err())
			return b
		}
	}
}

func (m machine) ask(ctx context.Context, client *http.Client) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"User-Agent": {"Ignition/2.27.0"}, "Accept": {accept}, "Accept-Encoding": {"identity"}}
	if m.token != "" {
		request.Header.Set("Authorization", "Bearer "+m.token)
	}
	return client.Do(request)
}

// read reads the body and checks whether it is complete.
func (m machine) read(answer *http.Response) error {
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	sum := sha256.New()
	if n, err := io.Copy(sum, answer.Body); err != nil {
		return fmt.Errorf("reading the config: %w after %d bytes", err, n)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != m.digest {
		return fmt.Errorf("the config has digest %s, want %s", got, m.digest)
	}
	return nil
}
