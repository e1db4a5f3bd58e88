package process

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/images"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// Attached is what an agent has beside its config: what runs until the context ends, and what the caller closes.
type Attached struct {
	// Config lacks what only the daemon of a real host has.
	Config agent.Config
	// Changed fires when the Node has changed.
	Changed <-chan struct{}
	watcher *linux.Watcher
}

// Close ends the watch of the files.
func (a *Attached) Close() {
	if a.watcher != nil {
		a.watcher.Close() //nolint:errcheck,gosec // the process ends
	}
}

// Attach starts what runs beside the agent of a host: the heartbeat, the requests for certificates, the watch of its
// files and the pulls of images. The report lacks what follows from the host. The function etcd is nil for a host that
// has none.
func (o *Options) Attach(ctx context.Context, h host.Host, cluster *kube.Connection, report v1alpha1.DaemonReport,
	simulated bool, etcd func(context.Context) *v1alpha1.EtcdReport, log *slog.Logger,
) *Attached {
	trusted := trust.NewSyncer(h, cluster, o.TrustInterval, log)
	go trusted.Run(ctx)
	events := cluster.NewRecorder(ctx, log)
	a := &Attached{Config: agent.Config{
		Node: o.Node, Cluster: cluster, Host: h, Log: log, Events: events,
		Status: cluster.NewStatusPublisher(ctx, log), Trust: trusted,
		Fetch: fetch.NewSyncer(Fetcher(h, o.storedInCluster(cluster), o.Version), h.OS),
	}}
	root, hasFiles := h.Files.(*files.Root)
	if hasFiles {
		if a.watcher = watchFiles(root, log); a.watcher != nil {
			a.Config.Drift = a.watcher
		}
	}
	images := o.containerRuntime(root, h.Units, simulated, a.Config.Fetch.Lock)
	report.Version, report.FetchesAhead, report.PinsImages = o.Version, true, images != nil
	cluster.Heartbeat(ctx, report, etcd, log)
	a.Changed = pinImages(ctx, images, cluster, events, log)
	return a
}

// watchFiles returns a watcher of a machine's files. If the kernel allows no watcher, watchFiles logs this and returns
// nil. The daemon then finds drift only by its periodic scan.
func watchFiles(root *files.Root, log *slog.Logger) *linux.Watcher {
	watcher, err := linux.NewWatcher(root)
	if err != nil {
		log.Warn("file changes are not watched, so drift is found by the periodic scan only", "err", err)
		return nil
	}
	return watcher
}

// Fetcher returns what downloads the remote files of configs onto a machine. Files of the content store come from
// stored, which is nil for a machine that has none.
func Fetcher(h host.Host, stored fetch.Stored, version string) *fetch.Fetcher {
	failures := download.NewFailures()
	return fetch.NewFetcher(h, func(a fetch.Access) fetch.Web {
		return fetch.WithStored(download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities, Logins: a.Logins, Mirrors: a.Mirrors, Failures: failures,
			Agent: userAgent(version), Stall: download.Stall, Rate: download.Rate,
		}), stored)
	})
}

// storedInCluster requests files of the content store from the servers of the cluster.
func (o *Options) storedInCluster(cluster *kube.Connection) fetch.Stored {
	return func(ctx context.Context, hash string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
		return cluster.Content(ctx, hash, headers, func(c *http.Client) fetch.Web {
			return download.Over(c, userAgent(o.Version), download.Stall, download.Rate)
		})
	}
}

// containerRuntime returns the container runtime of a machine; nil if the host has no files of a machine. The lock is
// that of the agent. A simulated host has a runtime only if its root has crictl.
func (o *Options) containerRuntime(root *files.Root, units host.Units, simulated bool,
	lock func() func(),
) *linux.Runtime {
	if root == nil {
		return nil
	}
	r := &linux.Runtime{Root: root, Dir: o.Root, Units: units, Lock: lock, Simulated: simulated}
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
