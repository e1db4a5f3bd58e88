package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/images"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// fetcher returns what downloads the remote files of configs onto a machine. Files of the content store come from
// stored, which is nil for a machine that has none.
func fetcher(h host.Host, stored fetch.Stored) *fetch.Fetcher {
	failures := download.NewFailures()
	return fetch.NewFetcher(h, func(a fetch.Access) fetch.Web {
		return fetch.WithStored(download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities, Logins: a.Logins, Mirrors: a.Mirrors, Failures: failures,
			Agent: userAgent(), Stall: download.Stall, Rate: download.Rate,
		}), stored)
	})
}

func userAgent() string { return "machine-config-daemon/" + versionText() }

// storedInCluster requests files of the content store from the servers of the cluster.
func storedInCluster(cluster *kube.Connection) fetch.Stored {
	return func(ctx context.Context, hash string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
		return cluster.Content(ctx, hash, headers, func(c *http.Client) fetch.Web {
			return download.Over(c, userAgent(), download.Stall, download.Rate)
		})
	}
}

// storedIn reads files of the content store from a directory, in which each file has its hash as its name. It returns
// nil for an empty name. The hash of what it reads is verified as that of a download is.
func storedIn(dir string) fetch.Stored {
	if dir == "" {
		return nil
	}
	return func(_ context.Context, hash string, _ map[string]string) (fetch.Answer, io.ReadCloser, error) {
		f, err := os.Open(filepath.Join(dir, hash))
		if err != nil {
			return fetch.Answer{}, nil, fmt.Errorf("reading --content (`bunsen build --content` writes it): %w", err)
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("reading --content: %s is not a regular file", f.Name())
		}
		if err != nil {
			f.Close() //nolint:errcheck,gosec // only read
			return fetch.Answer{}, nil, err
		}
		return fetch.Answer{Status: http.StatusOK, Length: info.Size()}, f, nil
	}
}

// containerRuntime returns the container runtime of a machine; nil if the host has no files of a machine. The lock is
// that of the agent. A simulated host has a runtime only if its root has crictl.
func containerRuntime(h host.Host, dir string, simulated bool, lock func() func()) *linux.Runtime {
	root, is := h.Files.(*files.Root)
	if !is {
		return nil
	}
	r := &linux.Runtime{Root: root, Dir: dir, Units: h.Units, Lock: lock, Simulated: simulated}
	if simulated && !r.HasCrictl() {
		return nil
	}
	return r
}

// pinImages pulls and pins the images of the node's PinnedImageSets in the background until the context ends. The
// result fires for the agent when the Node has changed.
func pinImages(ctx context.Context, r *linux.Runtime, cluster *kube.Connection, events *kube.Recorder,
	log *slog.Logger,
) <-chan struct{} {
	changed := cluster.Watch(ctx, log)
	if r == nil {
		return changed
	}
	agent, own := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			for _, c := range []chan struct{}{agent, own} {
				select {
				case c <- struct{}{}:
				default:
				}
			}
		}
	}()
	s := &images.Syncer{
		Cluster: cluster, Runtime: r, Log: log, Changed: own, Now: time.Now,
		Sets: cluster.PinnedImageSets, Publish: cluster.ReportImages,
		Event: func(problem string) { events.Event(report.EventPullFailed, problem) },
	}
	go s.Run(ctx)
	return agent
}
