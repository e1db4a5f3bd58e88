package git

import (
	"github.com/go-git/go-git/v5/plumbing"
)

// ObjectReader is a storage of git's objects.
type ObjectReader interface {
	// EncodedObject returns an object of a type, or ErrObjectNotFound.
	EncodedObject(plumbing.ObjectType, plumbing.Hash) (plumbing.EncodedObject, error)
	// EncodedObjectSize returns the size of an object in bytes.
	EncodedObjectSize(plumbing.Hash) (int64, error)
	// HasEncodedObject returns an error unless the object exists.
	HasEncodedObject(plumbing.Hash) error
}
