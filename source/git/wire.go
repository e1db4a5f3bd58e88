package git

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// wire is one conversation with git-upload-pack.
type wire interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// wired is a repository behind a wire.
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
	return listed(adv), nil
}

// listed turns an advertisement into refs, HEAD first.
func listed(adv *packp.AdvRefs) []source.Ref {
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
		head.Target = guess(refs, head.Hash)
	}
	return slices.Insert(refs, 0, head)
}

// guess names HEAD's branch for a server too old to tell: main or master, if HEAD's commit is theirs.
func guess(refs []source.Ref, hash string) string {
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if slices.ContainsFunc(refs, func(r source.Ref) bool { return r.Name == name && r.Hash == hash }) {
			return name
		}
	}
	return ""
}

// fetch asks for the one commit; a server that refuses, because no ref points at it now, is asked for the ref's history.
func (w wired) fetch(ctx context.Context, p source.Picked) (objects, error) {
	want := plumbing.NewHash(p.Hash)
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	adv, err := conn.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, gone(p, "the repository is empty")
	}
	if err != nil {
		return nil, err
	}
	store, err := w.pack(ctx, conn, adv, []plumbing.Hash{want}, 1)
	if err == nil {
		return store, nil
	}
	if ctx.Err() != nil || fault.Of(err, "").Kind == fault.Stalled || tip(adv, want) {
		return nil, err
	}
	return w.history(ctx, p)
}

// history fetches all of the picked ref, or of all branches and tags if it is not there, to find the commit in it.
func (w wired) history(ctx context.Context, p source.Picked) (objects, error) {
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
		return nil, gone(p, "the repository has no branch and no tag")
	}
	store, err := w.pack(ctx, conn, adv, wants, 0)
	if err != nil {
		return nil, err
	}
	if store.HasEncodedObject(plumbing.NewHash(p.Hash)) != nil {
		store.Close()
		return nil, gone(p, "no history that the server gives out contains it")
	}
	return store, nil
}

// gone is a commit that is not there. One that was listed a moment ago will be listed anew; a pinned one needs a person.
func gone(p source.Picked, why string) error {
	err := fmt.Errorf("commit %s is not to be had: %s", p.Hash, why)
	if p.Ref == "" {
		return fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return fault.NewRetry(v1alpha1.ReasonRefNotFound, err)
}

func tip(adv *packp.AdvRefs, want plumbing.Hash) bool {
	for _, hash := range adv.References {
		if hash == want {
			return true
		}
	}
	return false
}

// pack requests objects and unpacks them; depth 0 is all history.
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
