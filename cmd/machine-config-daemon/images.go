package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/images"
	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/report"
)

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
