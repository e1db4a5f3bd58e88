package lfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/files"
	"github.com/bunsen-os/bunsen/source/git/lfs/batch"
)

// maxFiles is how many pointers of Git LFS a tree may have.
const maxFiles = 1000

// Checkout replaces the pointers in the files of one tree by their contents. A nil Checkout replaces nothing.
type Checkout struct {
	client    *Client
	inventory *source.Inventory
	count     int
	order     []batch.Pointer
	waiting   map[batch.Pointer][]File
}

// File is an entry of a tree.
type File struct {
	// Path of the file in the tree, with slashes.
	Path string
	// Mode on disk, 0644 or 0755.
	Mode os.FileMode
}

// Checkout begins a tree; c may be nil, and then the Checkout is nil too.
func (c *Client) Checkout(inventory *source.Inventory) *Checkout {
	if c == nil {
		return nil
	}
	return &Checkout{client: c, inventory: inventory, waiting: map[batch.Pointer][]File{}}
}

// Take takes a file of a directory if it is a pointer. Take adds the size of the pointer's content to the inventory. If
// the file of the earlier tree has this content, Take links that file; otherwise Finish writes the content. Take
// returns false for every other file. Errors are Stalled InvalidTree faults: too many pointers, or too large contents.
func (c *Checkout) Take(f File, content []byte, into *files.Directory) (bool, error) {
	if c == nil || !batch.IsPointer(content) {
		return false, nil
	}
	p, err := batch.ParsePointer(content)
	if err != nil {
		c.inventory.Refuse(f.Path, "invalid Git LFS pointer: "+err.Error())
		return true, nil
	}
	if c.count++; c.count > maxFiles {
		return true, fault.NewStalled(v1alpha1.ReasonInvalidTree,
			fmt.Errorf("more than %d files are in Git LFS: point the source's path at a smaller folder", maxFiles))
	}
	if err := c.inventory.Admit(f.Path, p.Size); err != nil {
		return true, err
	}
	name := path.Base(f.Path)
	data, same := into.UnchangedContent(name, f.Mode, p.Size, p.Holds)
	if !same && p.Size > 0 {
		if len(c.waiting[p]) == 0 {
			c.order = append(c.order, p)
		}
		c.waiting[p] = append(c.waiting[p], f)
		return true, nil
	}
	if !p.Holds(data) {
		c.inventory.Refuse(f.Path, "invalid Git LFS pointer: an empty file has another SHA-256")
		return true, nil
	}
	if !c.inventory.Add(f.Path, f.Mode&0o100 != 0, data) || same && into.Link(name) {
		return true, nil
	}
	return true, written(f, into.Write(name, f.Mode, data))
}

// Finish downloads the contents of the pointers and writes them below the top of the tree. Errors are faults, except
// those of the disk.
func (c *Checkout) Finish(ctx context.Context, top *files.Directory) error {
	if c == nil || len(c.order) == 0 {
		return nil
	}
	return c.client.fetch(ctx, c.order, func(p batch.Pointer, data []byte) error {
		var failed []error
		for _, f := range c.waiting[p] {
			if c.inventory.Add(f.Path, f.Mode&0o100 != 0, data) {
				failed = append(failed, written(f, top.WriteBelow(f.Path, f.Mode, data)))
			}
		}
		return errors.Join(failed...)
	})
}

func written(f File, err error) error {
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	return nil
}
