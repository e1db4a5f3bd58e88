package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// wire is one session with git-upload-pack.
type wire interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// wired is a repository that Bunsen reads over a network protocol.
type wired struct {
	dial      func(ctx context.Context) (wire, error)
	packBytes int64
}

func (w wired) list(ctx context.Context) ([]source.Ref, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	adv, err := conn.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return refsOf(adv), nil
}

// refsOf returns the refs of an advertisement, HEAD first.
func refsOf(adv *packp.AdvRefs) []source.Ref {
	refs := make([]source.Ref, 0, len(adv.References)+1)
	for name, hash := range adv.References {
		r := source.Ref{Name: name, Hash: hash.String()}
		if peeled, ok := adv.Peeled[name]; ok {
			r.Peeled = peeled.String()
		}
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b source.Ref) int { return strings.Compare(a.Name, b.Name) })
	if adv.Head == nil {
		return refs
	}
	head := source.Ref{Name: "HEAD", Hash: adv.Head.String()}
	for _, s := range adv.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(s, "HEAD:"); ok {
			head.Target = target
		}
	}
	if head.Target == "" {
		head.Target = guessHead(refs, head.Hash)
	}
	return slices.Insert(refs, 0, head)
}

// guessHead returns HEAD's branch for an old server that does not send it. It returns main or master if that branch has
// HEAD's commit.
func guessHead(refs []source.Ref, hash string) string {
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if slices.ContainsFunc(refs, func(r source.Ref) bool { return r.Name == name && r.Hash == hash }) {
			return name
		}
	}
	return ""
}

// fetch requests only the one commit. A server may refuse that because no ref points at the commit. fetch then requests
// the history of the ref.
func (w wired) fetch(ctx context.Context, p source.Picked) (ObjectReader, error) {
	want := plumbing.NewHash(p.Hash)
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	adv, err := conn.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, commitNotFound(p, "the repository is empty")
	}
	if err != nil {
		return nil, err
	}
	store, err := w.pack(ctx, conn, adv, []plumbing.Hash{want}, 1)
	if err == nil {
		return store, nil
	}
	if ctx.Err() != nil || fault.Of(err, "").Kind == fault.Stalled || isTip(adv, want) {
		return nil, err
	}
	return w.fetchHistory(ctx, p)
}

// fetchHistory fetches the history of the picked ref, which must contain the commit. If the ref does not exist, it fetches all
// branches and tags.
func (w wired) fetchHistory(ctx context.Context, p source.Picked) (ObjectReader, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	adv, err := conn.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, err
	}
	var wants []plumbing.Hash
	if hash, ok := adv.References[p.FullName]; ok {
		wants = []plumbing.Hash{hash}
	} else {
		for name, hash := range adv.References {
			if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
				wants = append(wants, hash)
			}
		}
		plumbing.HashesSort(wants)
		wants = slices.Compact(wants)
	}
	if len(wants) == 0 {
		return nil, commitNotFound(p, "the repository has no branch and no tag")
	}
	store, err := w.pack(ctx, conn, adv, wants, 0)
	if err != nil {
		return nil, err
	}
	if store.HasEncodedObject(plumbing.NewHash(p.Hash)) != nil {
		store.Close()
		return nil, commitNotFound(p, "no branch or tag of the server contains it")
	}
	return store, nil
}

// commitNotFound returns a Retry fault for a commit that was listed, because the next listing fixes it. For a pinned
// commit it returns a Stalled fault.
func commitNotFound(p source.Picked, reason string) error {
	err := fmt.Errorf("commit %s cannot be fetched: %s", p.Hash, reason)
	if p.Ref == "" {
		return fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return fault.NewRetry(v1alpha1.ReasonRefNotFound, err)
}

// isTip reports whether a ref points at the commit.
func isTip(adv *packp.AdvRefs, want plumbing.Hash) bool {
	return slices.Contains(slices.Collect(maps.Values(adv.References)), want)
}

// pack requests objects and unpacks them. Depth 0 is the whole history.
func (w wired) pack(ctx context.Context, conn wire, adv *packp.AdvRefs, wants []plumbing.Hash, depth int) (*packed, error) {
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	req.Wants = wants
	if depth > 0 && adv.Capabilities.Supports(capability.Shallow) {
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
		req.Depth = packp.DepthCommits(depth)
	}
	if adv.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	res, err := conn.UploadPack(ctx, req)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	var stream io.Reader = res
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		stream = sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		stream = sideband.NewDemuxer(sideband.Sideband, res)
	}
	return unpack(ctx, stream, w.packBytes)
}
