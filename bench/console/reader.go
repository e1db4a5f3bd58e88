package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"time"
)

// loaded is a page with its size on the wire and in full, and the time until its last byte.
type loaded struct {
	text  string
	bytes int
	took  time.Duration
}

// stream returns the path of the page's stream.
func (p loaded) stream() (string, error) {
	_, rest, found := strings.Cut(p.text, `sse-connect="`)
	path, _, ends := strings.Cut(rest, `"`)
	if !found || !ends {
		return "", errors.New("the page names no stream")
	}
	return html.UnescapeString(path), nil
}

// load reads a page.
func (b *browser) load(ctx context.Context, path string) (loaded, error) {
	began := time.Now()
	answer, err := b.get(ctx, path)
	if err != nil {
		return loaded{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(answer.Body)
	p := loaded{bytes: len(raw), took: time.Since(began)}
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", path, err)
	}
	text, err := io.ReadAll(unpacked(answer, strings.NewReader(string(raw))))
	p.text = string(text)
	return p, err
}

// unpacked returns the content of an answer.
func unpacked(answer *http.Response, r io.Reader) io.Reader {
	if answer.Header.Get("Content-Encoding") != "gzip" {
		return r
	}
	unzip, err := gzip.NewReader(r)
	if err != nil {
		return strings.NewReader(err.Error())
	}
	return unzip
}

// seen is the time at which a reader got a text.
type seen struct {
	text string
	at   time.Time
}

// reader reads one stream, and reports each event that it got.
type reader struct {
	got  chan seen
	stop func()
}

// open loads a page and reads its stream.
func (b *browser) open(ctx context.Context, path string) (*reader, error) {
	page, err := b.load(ctx, path)
	if err != nil {
		return nil, err
	}
	stream, err := page.stream()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	answer, err := b.get(ctx, stream)
	if err != nil {
		cancel()
		return nil, err
	}
	r := &reader{got: make(chan seen, 64), stop: cancel}
	go func() {
		defer close(r.got)
		defer answer.Body.Close() //nolint:errcheck // it was only read
		lines := bufio.NewScanner(unpacked(answer, answer.Body))
		lines.Buffer(nil, 64<<20)
		var text strings.Builder
		for lines.Scan() {
			line := lines.Text()
			if line != "" {
				text.WriteString(line)
				continue
			}
			select {
			case r.got <- seen{text.String(), time.Now()}:
			case <-ctx.Done():
				return
			}
			text.Reset()
		}
	}()
	return r, nil
}

// until returns when the reader got a text.
func (r *reader) until(ctx context.Context, text string) (time.Time, error) {
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %q on a stream: %w", text, context.Cause(ctx))
		case s, open := <-r.got:
			if !open {
				return time.Time{}, fmt.Errorf("waiting for %q on a stream: the stream ended", text)
			}
			if strings.Contains(s.text, text) {
				return s.at, nil
			}
		}
	}
}
