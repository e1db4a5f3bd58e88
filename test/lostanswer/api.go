package lostanswer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Loss says what a client gets in place of an answer.
type Loss int

// The values of Loss.
const (
	// Nothing is lost: the client gets the answer.
	Nothing Loss = iota
	// HangUp closes the connection.
	HangUp
	// TimeOut is the answer of an API server that gave up waiting for etcd.
	TimeOut
)

// Write is a request that changes something.
type Write struct {
	// N is the number of the write, from 1.
	N int
	// Method and Path are those of the request.
	Method, Path string
}

type lossKey struct{}

var errLost = errors.New("the answer is lost")

// NewAPI starts a proxy in front of an API server, which acts with the identity of a config, and returns the config of
// a client of the proxy. The proxy calls lose for each write except a dry run. It delivers the write, waits until the
// API server has answered, and then loses the answer as lose says.
func NewAPI(t testing.TB, to *rest.Config, lose func(Write) Loss) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(to)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(to.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // Watches send their events at once.
		ModifyResponse: func(res *http.Response) error {
			switch loss, _ := res.Request.Context().Value(lossKey{}).(Loss); loss {
			case HangUp:
				return errLost
			case TimeOut:
				return timeOut(res)
			}
			return nil
		},
		// A panic with this value closes the connection without an answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	var writes atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWrite(r) {
			loss := lose(Write{int(writes.Add(1)), r.Method, r.URL.Path})
			r = r.WithContext(context.WithValue(r.Context(), lossKey{}, loss))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // Watches last until then.
		server.Close()
	})
	return &rest.Config{Host: server.URL, QPS: -1}
}

// isWrite reports whether a request may change an object. Reviews of rights are no objects.
func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !r.URL.Query().Has("dryRun")
}

// timeOut replaces an answer by that of an API server that gave up.
func timeOut(res *http.Response) error {
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	status := apierrors.NewTimeoutError("request did not complete within requested timeout", 0).Status()
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	res.StatusCode, res.Body = http.StatusGatewayTimeout, io.NopCloser(bytes.NewReader(text))
	res.ContentLength = int64(len(text))
	res.Header = http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(text))},
	}
	return nil
}
