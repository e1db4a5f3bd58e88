package main

import (
	"context"
	"io"
	"net/http"

	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/agent/contentsync"
	"github.com/bunsen-os/bunsen/mcd/agent/kube"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// fetcher returns what downloads the remote files of configs onto a machine. Files of the content store come from the servers of
// the cluster; the cluster is nil for a machine without one.
func fetcher(h host.Host, cluster *kube.Connection) *fetch.Fetcher {
	agent := "machine-config-daemon/" + versionText()
	var stored fetch.Stored
	if cluster != nil {
		stored = func(ctx context.Context, hash string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
			return cluster.Content(ctx, hash, headers, func(c *http.Client) fetch.Web { return download.Over(c, agent, download.Stall, download.Rate) })
		}
	}
	failures := download.NewFailures()
	return contentsync.Fetcher(h, func(a fetch.Access) fetch.Web {
		return fetch.WithStored(download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities, Logins: a.Logins, Mirrors: a.Mirrors, Failures: failures,
			Agent: agent, Stall: download.Stall, Rate: download.Rate,
		}), stored)
	})
}
