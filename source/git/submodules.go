package git

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/source/git/objects"
)

const (
	// maxSubmodules is how many submodules one tree may have.
	maxSubmodules = 20
	// maxSubmoduleDepth limits how deep submodules may be nested in the repository of the source.
	maxSubmoduleDepth = 3
)

// submodules are the submodules of one tree. The tree above a submodule names the submodule's commit, so a signature of
// the source's commit covers all submodules.
type submodules struct {
	// the configuration of the source's repository; Bunsen reads its submodules with the same credentials and limits
	config Config
	count  int
}

// place says in which repository a walk is: in the repository of the source, or in that of a submodule.
type place struct {
	submodules *submodules // If submodules is nil, submodules are refused.
	address    source.Address
	root       plumbing.Hash // the root tree of the repository
	// the folder of the source's repository at which the source's tree begins; empty in a submodule
	folder string
	// the path in the source's tree at which the submodule's repository begins; empty in the repository of the source
	mount   string
	depth   int
	modules Modules // modules is nil until the file .gitmodules was read.
}

// allowSubmodules lets a walk read the submodules of a snapshot, if the configuration says so.
func (s *Snapshot) allowSubmodules(at *place) error {
	if s.submodules == nil {
		return nil
	}
	address, err := source.ParseURL(s.submodules.URL)
	if err != nil {
		return err
	}
	at.submodules, at.address = &submodules{config: *s.submodules}, address
	return nil
}

// pathOf turns a path in the source's tree into a path in the repository that the walk is in.
func (at *place) pathOf(p string) string {
	return path.Join(at.folder, strings.TrimPrefix(strings.TrimPrefix(p, at.mount), "/"))
}

// submodule puts the files of a submodule into the directory that has the submodule's name.
func (w *walk) submodule(p string, e object.TreeEntry, into *Directory) error {
	all := w.at.submodules
	if all == nil {
		w.inventory.RefuseTarget(p, source.SubmoduleWhy, e.Hash.String())
		return nil
	}
	address, err := w.addressOf(p)
	if err != nil {
		w.inventory.RefuseTarget(p, source.SubmoduleWhy+": "+err.Error(), e.Hash.String())
		return nil
	}
	if all.count++; all.count > maxSubmodules {
		return fault.NewStalled(v1alpha1.ReasonInvalidTree,
			fmt.Errorf("the tree has more than %d submodules: point the source's path at a smaller folder",
				maxSubmodules))
	}
	sub, err := all.fetch(w.ctx, w.at, address, e.Hash)
	if err != nil {
		return fmt.Errorf("reading the submodule %s: %w", p, err)
	}
	defer sub.Close()
	below := into.Below(e.Name)
	defer below.Close()
	inner := walk{
		ctx: w.ctx, store: sub.store, inventory: w.inventory, fileBytes: w.fileBytes,
		at: &place{submodules: all, address: address, root: sub.root, mount: p, depth: w.at.depth + 1},
	}
	return inner.folder(p, sub.root, below)
}

// addressOf returns the address of the submodule at a path of the tree. The error is the reason to refuse the
// submodule.
func (w *walk) addressOf(p string) (source.Address, error) {
	at := w.at
	if at.depth == maxSubmoduleDepth {
		return source.Address{}, fmt.Errorf("it is in %d other submodules, at most %d are allowed", maxSubmoduleDepth,
			maxSubmoduleDepth-1)
	}
	if at.modules == nil {
		modules, err := readModules(w.store, at.root)
		if err != nil {
			return source.Address{}, err
		}
		at.modules = modules
	}
	return at.modules.Address(at.address, at.pathOf(p))
}

// modulesEntry returns the entry of .gitmodules in a root folder; false if the folder has no such file.
func modulesEntry(store objects.Reader, root plumbing.Hash) (plumbing.Hash, bool, error) {
	t, err := objects.ReadTree(store, root)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	for _, e := range t.Entries {
		if e.Name == ModulesFile && (e.Mode == filemode.Regular || e.Mode == filemode.Deprecated ||
			e.Mode == filemode.Executable) {
			return e.Hash, true, nil
		}
	}
	return plumbing.ZeroHash, false, nil
}

// readModules reads the file .gitmodules of a root folder. readModules returns no modules if .gitmodules is a symbolic
// link.
func readModules(store objects.Reader, root plumbing.Hash) (Modules, error) {
	entry, ok, err := modulesEntry(store, root)
	if err != nil || !ok {
		return Modules{}, err
	}
	data, err := objects.ReadObject(store, plumbing.BlobObject, entry, MaxModulesBytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ModulesFile, err)
	}
	return ParseModules(data)
}

// fetch fetches one commit of a submodule. The folder of its objects belongs to this submodule alone, even if the same
// repository is also a source or a submodule of another source. So two fetches never wait for each other. The depth is
// part of the key, because a repository may contain itself: the fetch of the inner submodule would wait for the folder
// that the outer one holds.
func (s *submodules) fetch(ctx context.Context, above *place, address source.Address,
	commit plumbing.Hash,
) (*Snapshot, error) {
	c := s.config
	c.Identity = fmt.Sprintf("submodule %d of %s", above.depth+1,
		objects.Key(above.address.String(), c.Identity, c.Secret))
	c.URL, c.Verify = address.String(), nil
	r, err := New(c)
	if err != nil {
		return nil, err
	}
	sub, err := r.Fetch(ctx, source.Picked{Hash: commit.String()}, "")
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Reason == v1alpha1.ReasonRefNotFound {
		return nil, fault.NewRetry(f.Reason, fmt.Errorf("%w: push the commit of the submodule to %s, on a branch "+
			"or a tag", err, r.URL()))
	}
	return sub, err
}
