package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Reader is a storage of git's objects.
type Reader interface {
	// EncodedObject returns an object of a type, or ErrObjectNotFound.
	EncodedObject(plumbing.ObjectType, plumbing.Hash) (plumbing.EncodedObject, error)
	// EncodedObjectSize returns the size of an object in bytes.
	EncodedObjectSize(plumbing.Hash) (int64, error)
	// HasEncodedObject returns an error unless the object exists.
	HasEncodedObject(plumbing.Hash) error
}

// ReadTree reads a tree object of git.
func ReadTree(store Reader, hash plumbing.Hash) (*object.Tree, error) {
	data, err := ReadObject(store, plumbing.TreeObject, hash, MaxTreeBytes)
	if err != nil {
		return nil, err
	}
	var t object.Tree
	if err := t.Decode(Memory(plumbing.TreeObject, data)); err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	return &t, nil
}

// MaxTreeBytes is the largest size of a tree object of git, in bytes.
const MaxTreeBytes = 32 << 20

// Memory returns an object with this content that exists only in memory.
func Memory(t plumbing.ObjectType, data []byte) plumbing.EncodedObject {
	o := &plumbing.MemoryObject{}
	o.SetType(t)
	_, _ = o.Write(data) // a write to memory never fails
	return o
}

// ReadObject reads an object that must have the type t, and at most limit bytes. ReadObject compares the hash of the
// content, because a loose object on disk can contain anything. A signature covers the files of a commit only through
// hashes, so ReadObject must compare them.
func ReadObject(store Reader, t plumbing.ObjectType, hash plumbing.Hash, limit int64) ([]byte, error) {
	o, err := store.EncodedObject(t, hash)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	// The buffer has its size from the beginning: one that grows would need more than twice the size of a large file.
	buffer := bytes.NewBuffer(make([]byte, 0, max(0, min(o.Size(), limit))+bytes.MinRead))
	_, err = buffer.ReadFrom(io.LimitReader(r, limit+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	data := buffer.Bytes()
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("object %s is larger than %d bytes", hash, limit)
	}
	if plumbing.ComputeHash(t, data) != hash {
		return nil, fault.NewRetry(v1alpha1.ReasonRepositoryDamaged,
			fmt.Errorf("object %s is damaged: its content has another hash", hash))
	}
	return data, nil
}
