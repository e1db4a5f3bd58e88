package garbage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// sweepContentsEvery is for checking the content store.
const sweepContentsEvery = 10 * time.Minute

// sweepContents deletes files of the content store that no config names, and writes lost ones again. It waits while a
// revision is partly applied, because the controller may restore the earlier one.
func (g *Controller) sweepContents(ctx context.Context, h render.Holders) error {
	now := g.Now()
	if !g.Contents.Exists() || now.Sub(g.swept) < sweepContentsEvery {
		return nil
	}
	for i := range h.Sources {
		if h.Sources[i].Status.Applying != nil {
			return nil
		}
	}
	g.swept = now
	named := render.NamedContents(h, now)
	if err := g.Contents.Collect(ctx, named); err != nil {
		return err
	}
	return g.restoreContents(ctx, h, g.Contents.Incomplete(ctx, named))
}

// restoreContents takes lost files of configs in use from their commits.
func (g *Controller) restoreContents(ctx context.Context, h render.Holders, lost map[string]bool) error {
	if len(lost) == 0 {
		return nil
	}
	for _, in := range withContents(h, lost) {
		pool := poolNamed(h.Pools, in.Pool)
		if pool == nil {
			continue
		}
		event := kube.Event{Object: pool, Warning: true, Action: "Collect"}
		mc, err := g.recreate(ctx, h, pool, in.Name)
		if err == nil {
			event.Reason = "ContentRestored"
			event.Note = fmt.Sprintf("large files of %s were deleted although %s; written again from %s", in.Name,
				in.For, kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]))
		} else {
			event.Reason = "ContentLost"
			event.Note = fmt.Sprintf("large files of %s were deleted although %s, and the controller cannot write "+
				"them again, so no new machine boots with it: %v. Push a commit that renders it, or another config",
				in.Name, in.For, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.Events.Send(event)
	}
	return nil
}

// withContents returns rendered configs in use that name the given files: for each file and pool the first by name,
// because thousands of configs of single nodes may name the same ones.
func withContents(h render.Holders, hashes map[string]bool) (all []render.Lost) {
	uses := h.Uses()
	type file struct{ hash, pool string }
	seen := map[file]bool{}
	byName := func(a, b mcfgv1.MachineConfig) int { return strings.Compare(a.Name, b.Name) }
	for _, mc := range slices.SortedFunc(slices.Values(h.Configs), byName) {
		owner := metav1.GetControllerOfNoCopy(&mc)
		if uses[mc.Name] == "" || owner == nil {
			continue
		}
		named, first := map[string]bool{}, false
		machineconfig.AddContentHashes(named, &mc)
		for hash := range named {
			f := file{hash, owner.Name}
			first = first || hashes[hash] && !seen[f]
			seen[f] = true
		}
		if first {
			all = append(all, render.Lost{Name: mc.Name, Pool: owner.Name, For: uses[mc.Name]})
		}
	}
	return all
}

// writeContents is for a config that is created again.
func (g *Controller) writeContents(ctx context.Context, res transpile.Result, rendered render.Rendered) error {
	all := slices.Concat(transpile.Contents(res.Fragments), rendered.Contents)
	var needed []machineconfig.LargeFile
	named := map[string]bool{}
	for _, f := range machineconfig.RemoteFiles(rendered.Config) {
		named[f.Hash] = true
	}
	for _, f := range all {
		if named[f.Hash] {
			needed = append(needed, f)
			delete(named, f.Hash)
		}
	}
	return g.Contents.Write(ctx, needed)
}
