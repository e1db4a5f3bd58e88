package kube

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

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
