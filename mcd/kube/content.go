package kube

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/fetch"
)

// download is a server's answer with a file of the content store, or a part of it.
type download struct {
	head fetch.Answer
	body io.ReadCloser
}

// Content requests a file of the content store from the machine-config-servers, one after the other, until one of them
// sends it. The function over returns what sends a request with a client. Content returns the answer of the server; the
// caller closes the body. If no server sends the file, the error has the reason of each.
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
	l.configs.servers.savePublished(ctx)
	return got.head, got.body, err
}

// isDownload reports whether an answer is about the bytes of a file.
func isDownload(status int) bool {
	return status == http.StatusOK || status == http.StatusPartialContent ||
		status == http.StatusRequestedRangeNotSatisfiable
}
