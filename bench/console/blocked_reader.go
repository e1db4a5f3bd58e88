package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// blockedReader is a connection whose stream the bench does not read.
type blockedReader struct{ net.Conn }

// smallBuffer is the receive buffer of such a connection, so that the console soon cannot write.
const smallBuffer = 64 << 10

// blockedReader loads a page, and opens its stream on a connection that it does not read.
func (b *browser) blockedReader(ctx context.Context, path string) (*blockedReader, error) {
	page, err := b.load(ctx, path)
	if err != nil {
		return nil, err
	}
	stream, err := page.stream()
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(b.base)
	if err != nil {
		return nil, err
	}
	raw, err := net.Dial("tcp4", base.Host)
	if err != nil {
		return nil, err
	}
	if err := raw.(*net.TCPConn).SetReadBuffer(smallBuffer); err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // loopback
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+stream, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range b.client.Jar.Cookies(base) {
		r.AddCookie(c)
	}
	if err := r.Write(conn); err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	return &blockedReader{conn}, nil
}

// state reads what the connection still has, and says whether the console had closed it.
func (d *blockedReader) state() string {
	n, buffer := 0, make([]byte, 1<<20)
	for {
		if err := d.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err.Error()
		}
		got, err := d.Read(buffer)
		n += got
		switch {
		case err != nil && strings.Contains(err.Error(), "timeout"):
			return fmt.Sprintf("the console still had it open; %d KB were in its buffers", n/1000)
		case err != nil:
			return fmt.Sprintf("the console had closed it; %d KB were in its buffers", n/1000)
		}
	}
}
