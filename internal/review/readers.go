package review

import "github.com/bunsen-os/bunsen/internal/review/encryption"

// Readers are the changes of who can read the secrets of a repository.
type Readers = encryption.Changes

// WithReaders adds the changes of who can read the secrets.
func (c Comparison) WithReaders(changes Readers) Comparison {
	c.Readers = changes
	return c
}
