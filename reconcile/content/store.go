package content

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// after a config last named an artifact
	keep = time.Hour
	// for an answer that the registry has a file; the next sweep asks again
	trusted = keep / 4
)

// Registry stores files in a repository of an OCI registry, under the tags of their hashes.
type Registry interface {
	// Push stores a file. It is an error if the bytes do not have the hash and the size of the file.
	Push(ctx context.Context, f machineconfig.LargeFile) error
	// Has reports whether the repository has the file with a hash.
	Has(ctx context.Context, hash string) (bool, error)
	// Delete deletes the file with a hash. If the registry does not allow that, the error has a method Refused that
	// returns true.
	Delete(ctx context.Context, hash string) error
}

// refused is an error of a registry that keeps an artifact, whatever happens.
type refused interface{ Refused() bool }

// Store is the content store of a cluster. The zero value, without a Registry, refuses every file.
type Store struct {
	Registry Registry
	// the manager's cache
	Client client.Reader
	Now    func() time.Time

	// locked while an artifact is written or deleted, so that a writer does not rely on one that is being deleted
	mu sync.Mutex
	// when a config or a writer last needed each file, and when the registry last had it
	needed, checked map[string]time.Time
	kept            sync.Once
}

// Exists reports whether the cluster has a content store.
func (s *Store) Exists() bool { return s != nil && s.Registry != nil }

// Write stores each file that the registry lacks. Each then stays for an hour, also if nothing names it yet.
func (s *Store) Write(ctx context.Context, files []machineconfig.LargeFile) error {
	for _, f := range files {
		if !s.Exists() {
			return fault.NewStalled(v1alpha1.ReasonInvalidTree, fmt.Errorf("%s does not fit into a MachineConfig: %w",
				f.Path, machineconfig.ErrNoContentStore))
		}
		if err := s.write(ctx, f); err != nil {
			return fmt.Errorf("storing %s in the content store, file %s: %w", f.Path, f.Hash, err)
		}
	}
	return nil
}

// write counts a file that a MachineConfig names as there while the registry is away.
func (s *Store) write(ctx context.Context, f machineconfig.LargeFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there, err := s.has(ctx, f.Hash)
	if err != nil {
		named, readErr := s.isNamed(ctx, f.Hash)
		if readErr != nil || !named {
			return errors.Join(err, readErr)
		}
		there = true
	}
	if !there {
		if err := s.Registry.Push(ctx, f); err != nil {
			return err
		}
		s.checked[f.Hash] = s.Now()
	}
	s.needed[f.Hash] = s.Now()
	return nil
}

// has needs mu.
func (s *Store) has(ctx context.Context, hash string) (bool, error) {
	if s.needed == nil {
		s.needed, s.checked = map[string]time.Time{}, map[string]time.Time{}
	}
	if at, ok := s.checked[hash]; ok && s.Now().Sub(at) < trusted {
		return true, nil
	}
	there, err := s.Registry.Has(ctx, hash)
	if there && err == nil {
		s.checked[hash] = s.Now()
	}
	return there, err
}

// isNamed reports whether a MachineConfig names a file. None is written before its files.
func (s *Store) isNamed(ctx context.Context, hash string) (bool, error) {
	var all mcfgv1.MachineConfigList
	if err := s.Client.List(ctx, &all); err != nil {
		return false, fmt.Errorf("listing MachineConfigs: %w", err)
	}
	named := map[string]bool{}
	for i := range all.Items {
		machineconfig.AddContentHashes(named, &all.Items[i])
	}
	return named[hash], nil
}

// Require returns the hashes of files that the registry does not have, and keeps the others for an hour. While the
// registry is away, a file counts as there: the nodes that need it wait.
func (s *Store) Require(ctx context.Context, hashes []string) (missing []string) {
	if !s.Exists() {
		return hashes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hash := range hashes {
		if there, err := s.has(ctx, hash); err == nil && !there {
			missing = append(missing, hash)
			continue
		}
		s.needed[hash] = s.Now()
	}
	return missing
}

// Incomplete returns the hashes of the argument whose files the registry has lost. While it is away, it has lost none.
func (s *Store) Incomplete(ctx context.Context, hashes map[string]bool) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.checked)
	lost := map[string]bool{}
	for hash := range hashes {
		if there, err := s.has(ctx, hash); err == nil && !there {
			lost[hash] = true
		}
	}
	return lost
}

// Collect deletes the files that a config of this cluster named, and that none names since an hour. named has the
// hashes of those that configs name now. What an earlier process did not delete stays.
func (s *Store) Collect(ctx context.Context, named map[string]bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.needed == nil {
		s.needed, s.checked = map[string]time.Time{}, map[string]time.Time{}
	}
	now := s.Now()
	for hash := range named {
		s.needed[hash] = now
	}
	var bad []error
	for hash, at := range s.needed {
		if now.Sub(at) < keep {
			continue
		}
		delete(s.checked, hash)
		if err := s.delete(ctx, hash); err != nil {
			bad = append(bad, fmt.Errorf("deleting file %s, which no config names: %w", hash, err))
			continue
		}
		delete(s.needed, hash)
	}
	return errors.Join(bad...)
}

// delete reports once that the registry keeps a file.
func (s *Store) delete(ctx context.Context, hash string) error {
	err := s.Registry.Delete(ctx, hash)
	var keeps refused
	if err == nil || !errors.As(err, &keeps) || !keeps.Refused() {
		return err
	}
	s.kept.Do(func() {
		log.FromContext(ctx).Info("the registry keeps a large file that no config names any more: delete it there; "+
			"this is reported once, and more may stay", "hash", hash, "reason", err.Error())
	})
	return nil
}
