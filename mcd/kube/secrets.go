package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

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
