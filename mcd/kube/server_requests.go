package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/report"
)

const (
	// fetchLimit is how long one request to a machine-config-server may take; connectLimit is the limit for its
	// connection.
	fetchLimit, connectLimit = 30 * time.Second, 5 * time.Second
	// largestConfig is the maximum size of an answer after decompression.
	largestConfig = 32 << 20
	// longestRefusal is the maximum number of characters of a server's refusal in a message.
	longestRefusal = 200
)

// errNoCertificate reports that a kubeconfig has no client certificate, which identifies the node to a server.
var errNoCertificate = errors.New("the kubeconfig has no client certificate, which the machine-config-server asks for")

// serverError is the reason why one machine-config-server did not serve a config.
type serverError struct {
	url string
	// code is the HTTP status; 0 if there was no answer.
	code int
	// why is the reason on one line, without unsafe characters.
	why string
	// cause is the error of the connection; nil if there was an answer.
	cause error
}

// Error names the server.
func (e *serverError) Error() string {
	switch e.code {
	case http.StatusOK:
		return fmt.Sprintf("%s gives no usable answer: %s", e.url, e.why)
	case 0:
		return fmt.Sprintf("%s does not answer: %s", e.url, e.why)
	}
	return fmt.Sprintf("%s answers %d %s: %s", e.url, e.code, http.StatusText(e.code), e.why)
}

// Unwrap returns the error of the connection.
func (e *serverError) Unwrap() error { return e.cause }

// isRetryable reports whether another server, or the same server later, may serve the config. For example, a server
// that has not read a new CA yet answers 401.
func (e *serverError) isRetryable() bool { return e.code != http.StatusForbidden }

// answer is a server's answer with a status of success.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// request is a node's request to a server.
type request struct {
	// path is the path of the URL. known is the revision that the node has; it is "" if the node has none.
	path, known string
	// most is the maximum size of the answer.
	most int64
}

// errNoSuchConfig is the error if a server reports that a config does not exist.
var errNoSuchConfig = errors.New("the server does not have the config")

// send sends a request to one server. send returns a *serverError, or errNoSuchConfig.
func send(ctx context.Context, client *http.Client, server, agent string, ask request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	fail := func(code int, why string, cause error) (answer, error) {
		return answer{}, &serverError{url: server, code: code, why: oneLine(why), cause: cause}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+ask.path, nil)
	if err != nil {
		return fail(0, err.Error(), err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", agent)
	if ask.known != "" {
		r.Header.Set("If-None-Match", strconv.Quote(ask.known))
	}
	got, err := client.Do(r)
	if err != nil {
		return fail(0, withoutURL(err).Error(), err)
	}
	defer got.Body.Close() //nolint:errcheck // only read
	if got.StatusCode == http.StatusNotModified && ask.known != "" {
		return answer{code: got.StatusCode, header: got.Header}, nil
	}
	if got.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(got.Body, 4*longestRefusal))
		if err != nil {
			return fail(0, err.Error(), err)
		}
		return answer{}, responseError(got, server, string(text))
	}
	text, err := io.ReadAll(io.LimitReader(got.Body, ask.most+1))
	if err != nil {
		return fail(0, "reading the answer: "+withoutURL(err).Error(), err)
	}
	if int64(len(text)) > ask.most {
		return fail(got.StatusCode, fmt.Sprintf("it is larger than %d MiB", ask.most>>20), nil)
	}
	return answer{got.StatusCode, got.Header, text}, nil
}

// responseError returns the error for a response without content.
func responseError(answer *http.Response, server, text string) error {
	if answer.StatusCode == http.StatusNotFound {
		if answer.Header.Get(v1alpha1.ReasonHeader) == v1alpha1.ReasonNoSuchConfig {
			return errNoSuchConfig
		}
		text = "it does not serve this to nodes; update the machine-config-server"
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" {
		text = "no reason given"
	}
	return &serverError{url: server, code: answer.StatusCode, why: oneLine(text)}
}

// oneLine converts an untrusted text to one short line without hidden characters.
func oneLine(text string) string { return safetext.Short(text, longestRefusal) }

// withoutURL returns the reason of a failed request, without the method and the URL.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// largestTrust is the maximum size of an answer: JSON escapes every line end of a certificate.
const largestTrust = 2 * trustfile.MaxTotalBytes

// Trust implements trust.Source. It requests from the machine-config-servers what the node gets beside its config.
// The content is not checked.
func (l *Connection) Trust(ctx context.Context, known string) (*v1alpha1.NodeTrust, error) {
	return ask(ctx, l.configs, func(client *http.Client, server, agent string) (*v1alpha1.NodeTrust, error) {
		got, err := send(ctx, client, server, agent, request{
			path: v1alpha1.NodeTrustPath, known: known,
			most: largestTrust,
		})
		if err != nil || got.code == http.StatusNotModified {
			return nil, err
		}
		is := new(v1alpha1.NodeTrust)
		if json.Unmarshal(got.body, is) != nil {
			return nil, &serverError{url: server, code: got.code, why: "it is not a NodeTrust in JSON"}
		}
		return is, nil
	})
}

// largestSecrets is the maximum size of an answer: JSON has the contents in base64.
const largestSecrets = 2 * v1alpha1.MaxSecretBytes

// Secrets implements secrets.Source. It requests the secrets of a rendered config from the machine-config-servers.
// The API server never has them.
func (l *Connection) Secrets(ctx context.Context, config string) (v1alpha1.NodeSecrets, error) {
	got, err := ask(ctx, l.configs, func(client *http.Client, server, agent string) (v1alpha1.NodeSecrets, error) {
		var is v1alpha1.NodeSecrets
		got, err := send(ctx, client, server, agent, request{
			path: v1alpha1.NodeSecretsPath + url.PathEscape(config),
			most: largestSecrets,
		})
		if err == nil && json.Unmarshal(got.body, &is) != nil { // The decoder's error may have contents.
			err = &serverError{url: server, code: got.code, why: "it is not a NodeSecrets in JSON"}
		}
		return is, err
	})
	l.configs.servers.savePublished(ctx)
	var failed *serverError
	if errors.Is(err, errNoSuchConfig) || errors.As(err, &failed) && !failed.isRetryable() {
		err = fmt.Errorf("%w: %w", report.ErrNoSecrets, err)
	}
	return got, err
}

// download is a server's answer with a file of the content store, or a part of it.
type download struct {
	head fetch.Answer
	body io.ReadCloser
}

// Content requests a file of the content store from the machine-config-servers, one after the other, until one of them
// sends it. The function over returns what sends a request with a client. Content returns the answer of the server; the
// caller closes the body. If no server sends the file, the error has the reason of each. Content saves nothing, because
// a download in the background calls it without the lock of the machine; the agent's next read of a config saves.
func (l *Connection) Content(ctx context.Context, hash string, headers map[string]string,
	over func(*http.Client) fetch.Web,
) (fetch.Answer, io.ReadCloser, error) {
	got, err := ask(ctx, l.configs, func(client *http.Client, server, _ string) (download, error) {
		address := strings.TrimSuffix(server, "/") + v1alpha1.NodeContentPath + hash
		head, body, err := over(client).Get(ctx, address, headers)
		if err != nil {
			return download{}, &serverError{url: server, why: oneLine(err.Error()), cause: err}
		}
		if isDownload(head.Status) {
			return download{head, body}, nil
		}
		defer body.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(io.LimitReader(body, 4*longestRefusal))
		if err != nil {
			return download{}, &serverError{url: server, why: oneLine(err.Error()), cause: err}
		}
		return download{}, responseError(&http.Response{StatusCode: head.Status}, server, string(text))
	})
	return got.head, got.body, err
}

// isDownload reports whether an answer is about the bytes of a file.
func isDownload(status int) bool {
	return status == http.StatusOK || status == http.StatusPartialContent ||
		status == http.StatusRequestedRangeNotSatisfiable
}
