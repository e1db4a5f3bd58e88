package contents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// keep is how long an object stays that nothing names, after its creation or its last renewal.
	keep = time.Hour
	// renewAfter is the age from which a writer renews an object. A younger object outlives the writer's next writes.
	renewAfter = keep / 4
	// maxWrite is how long a writer may take from its first chunk to the Content, so that no chunk gets too old
	// meanwhile.
	maxWrite = keep / 2
)

// Registry stores files in a repository of an OCI registry.
type Registry interface {
	// Push stores a file, and returns its address oci://REGISTRY/NAME@sha256:HEX. The same file has the same address.
	// It is an error if the bytes do not have the hash and the size of the file.
	Push(ctx context.Context, f contentstore.File) (address string, err error)
	// Has reports whether the repository has an artifact. An address in another repository is an error.
	Has(ctx context.Context, address string) (bool, error)
	// Delete deletes an artifact. If the registry does not allow that, the error has a method Refused that returns
	// true.
	Delete(ctx context.Context, address string) error
}

// refused is an error of a registry that keeps an artifact, whatever happens.
type refused interface{ Refused() bool }

// Store is the content store of a cluster.
type Store struct {
	// Registry gets the bytes of new files; nil for chunks in the cluster.
	Registry Registry
	// ReportKept is called at most once: the registry keeps the artifact of a deleted Content. If ReportKept is nil, it
	// is not called.
	ReportKept func(o client.Object, reason error)
	// Client writes.
	Client client.Client
	// Live reads from the API server. The manager's cache would keep the chunks of all files in memory.
	Live client.Reader
	// Now is the clock.
	Now func() time.Time

	// artifacts is locked while an artifact is written or deleted, so that a writer does not rely on one that is being
	// deleted.
	artifacts sync.Mutex
	kept      sync.Once
}

// Write stores each file that the content store lacks, and renews the others. After Write, each file stays for an hour,
// also if nothing names it yet.
func (s *Store) Write(ctx context.Context, files []contentstore.File) error {
	if len(files) == 0 {
		return nil
	}
	known, err := s.chunks(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := s.write(ctx, f, known); err != nil {
			return fmt.Errorf("storing %s in the content store, Content %s: %w", f.Path, f.Hash, err)
		}
	}
	return nil
}

// write stores one file. The argument known has the names of the chunks on the cluster.
func (s *Store) write(ctx context.Context, f contentstore.File, known map[string]bool) error {
	if s.Registry != nil {
		s.artifacts.Lock()
		defer s.artifacts.Unlock()
	}
	live := &v1alpha1.Content{}
	err := s.Live.Get(ctx, client.ObjectKey{Name: f.Hash}, live)
	switch {
	case apierrors.IsNotFound(err):
		return s.create(ctx, f)
	case err != nil:
		return err
	case s.isComplete(ctx, live, f.Size, known):
	case contentstore.Check(live) != nil || live.Spec.Size != f.Size || s.Registry != nil && live.Spec.Artifact == "":
		// It is wrong, or new files have another place. The name of the Content is the hash of the file, so it is
		// created again.
		if err := s.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
		return s.create(ctx, f)
	default: // A user deleted its bytes.
		if err := s.create(ctx, f); err != nil {
			return err
		}
	}
	if renewed, err := s.renew(ctx, live, &v1alpha1.Content{}); err != nil || renewed {
		return err
	}
	return s.create(ctx, f) // The object was deleted since the read.
}

// isComplete reports whether a Content has a size, and the cluster has its chunks, or the registry its artifact. While
// the registry is away, an artifact counts as there.
func (s *Store) isComplete(ctx context.Context, c *v1alpha1.Content, size int64, known map[string]bool) bool {
	if contentstore.Check(c) != nil || c.Spec.Size != size {
		return false
	}
	if c.Spec.Artifact != "" && s.Registry != nil {
		there, err := s.Registry.Has(ctx, c.Spec.Artifact)
		return there || err != nil
	}
	for _, name := range c.Spec.Chunks {
		if !known[name] {
			return false
		}
	}
	return true
}

// create writes the bytes of a file, and then its Content.
func (s *Store) create(ctx context.Context, f contentstore.File) error {
	if s.Registry == nil {
		return s.createChunks(ctx, f)
	}
	address, err := s.Registry.Push(ctx, f)
	if err != nil {
		return err
	}
	if err := s.Client.Create(ctx, contentstore.NewArtifactContent(f.Hash, f.Size, address)); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// createChunks writes the chunks of a file, and then its Content.
func (s *Store) createChunks(ctx context.Context, f contentstore.File) error {
	begun := s.Now()
	file, err := f.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	content, err := contentstore.Split(file, func(chunk *v1alpha1.ContentChunk) error {
		return s.createChunk(ctx, chunk)
	})
	if err != nil {
		return err
	}
	if content.Name != f.Hash || content.Spec.Size != f.Size {
		return fault.NewRetry(v1alpha1.ReasonInvalidTree,
			errors.New("the file has changed since its hash was computed"))
	}
	if s.Now().Sub(begun) > maxWrite {
		return fmt.Errorf("writing the chunks took longer than %s, so it begins again", maxWrite)
	}
	if err := s.Client.Create(ctx, content); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// maxAttempts is how often a chunk is created that another writer deletes meanwhile.
const maxAttempts = 3

// createChunk writes a chunk. If the chunk exists, createChunk compares its bytes, and renews it.
func (s *Store) createChunk(ctx context.Context, chunk *v1alpha1.ContentChunk) error {
	for range maxAttempts {
		err := s.Client.Create(ctx, chunk.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		live := &v1alpha1.ContentChunk{}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(chunk), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		if _, err := contentstore.Plain(live); err != nil { // A user created it with other bytes.
			if err := s.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(
				err) != nil {
				return err
			}
			continue
		}
		if renewed, err := s.renew(ctx, live, &v1alpha1.ContentChunk{}); renewed || err != nil {
			return err
		}
	}
	return fmt.Errorf("writing ContentChunk %s: it was deleted meanwhile", chunk.Name)
}

// renew records on an old object that a writer needs it. renew returns false if the object is gone. The argument empty
// is an object of the same kind.
func (s *Store) renew(ctx context.Context, live, empty client.Object) (bool, error) {
	now := s.Now()
	if now.Sub(lastNeeded(live)) < renewAfter {
		return true, nil
	}
	empty.SetName(live.GetName())
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, live.GetUID(), v1alpha1.NeededAtAnnotation,
		now.UTC().Format(time.RFC3339))
	err := s.Client.Patch(ctx, empty, client.RawPatch("application/merge-patch+json", []byte(patch)))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("renewing %s: %w", live.GetName(), err)
	}
	return true, nil
}

// Require renews the files with the given hashes, and returns those that the content store does not have.
func (s *Store) Require(ctx context.Context, hashes []string) (missing []string, err error) {
	for _, hash := range hashes {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Content"))
		err := s.Live.Get(ctx, client.ObjectKey{Name: hash}, live)
		there := err == nil
		if there {
			there, err = s.renew(ctx, live, &v1alpha1.Content{})
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Content %s: %w", hash, err)
		}
		if !there {
			missing = append(missing, hash)
		}
	}
	return missing, nil
}

// Incomplete returns the hashes of the argument whose Content is missing or invalid, or lacks a chunk. Only users cause
// that.
func (s *Store) Incomplete(ctx context.Context, hashes map[string]bool) (map[string]bool, error) {
	lost := maps.Clone(hashes)
	if len(lost) == 0 {
		return nil, nil
	}
	chunks, err := s.chunks(ctx)
	if err != nil {
		return nil, err
	}
	var contents v1alpha1.ContentList
	if err := s.Live.List(ctx, &contents); err != nil {
		return nil, fmt.Errorf("listing Contents: %w", err)
	}
	for i := range contents.Items {
		if c := &contents.Items[i]; lost[c.Name] && s.isComplete(ctx, c, c.Spec.Size, chunks) {
			delete(lost, c.Name)
		}
	}
	return lost, nil
}

// chunks returns the names of the chunks on the cluster.
func (s *Store) chunks(ctx context.Context) (map[string]bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContentChunkList"))
	if err := s.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ContentChunks: %w", err)
	}
	names := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return names, nil
}

// lastNeeded returns when a writer created or renewed an object. An invalid time does not count.
func lastNeeded(o metav1.Object) time.Time {
	at := o.GetCreationTimestamp().Time
	if renewed, err := time.Parse(time.RFC3339, o.GetAnnotations()[v1alpha1.NeededAtAnnotation]); err == nil &&
		renewed.After(at) {
		return renewed
	}
	return at
}

// Collect deletes old contents that the argument named does not have, and then the old chunks that no Content names. It
// returns the hashes of the deleted contents.
func (s *Store) Collect(ctx context.Context, named map[string]bool) (deleted []string, err error) {
	var contents v1alpha1.ContentList
	if err := s.Live.List(ctx, &contents); err != nil {
		return nil, fmt.Errorf("listing Contents for garbage: %w", err)
	}
	var bad []error
	for i := range contents.Items {
		if o := &contents.Items[i]; !named[o.Name] {
			gone, err := s.deleteContent(ctx, o)
			bad = append(bad, err)
			if gone {
				deleted = append(deleted, o.Name)
			}
		}
	}
	return deleted, errors.Join(append(bad, s.collectChunks(ctx))...)
}

// deleteContent deletes an old Content, and before it its artifact. After a crash between both, the next sweep deletes
// the Content, or a writer that needs the file pushes the artifact again.
func (s *Store) deleteContent(ctx context.Context, c *v1alpha1.Content) (bool, error) {
	if c.Spec.Artifact == "" || s.Now().Sub(lastNeeded(c)) < keep {
		return s.delete(ctx, c, &v1alpha1.Content{})
	}
	s.artifacts.Lock()
	defer s.artifacts.Unlock()
	live := &v1alpha1.Content{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(c), live); err != nil ||
		live.ResourceVersion != c.ResourceVersion {
		return false, client.IgnoreNotFound(err)
	}
	if err := s.deleteArtifact(ctx, c); err != nil {
		return false, fmt.Errorf("deleting the artifact of Content %s, which nothing names: %w", c.Name, err)
	}
	return s.delete(ctx, c, &v1alpha1.Content{})
}

// errOtherPlace says that no registry is configured any more.
var errOtherPlace = errors.New("the controller has no --content-registry any more")

// deleteArtifact deletes the artifact of a Content. If the registry keeps it, deleteArtifact reports that once.
func (s *Store) deleteArtifact(ctx context.Context, c *v1alpha1.Content) error {
	err := errOtherPlace
	if s.Registry != nil {
		err = s.Registry.Delete(ctx, c.Spec.Artifact)
	}
	var keeps refused
	if err == nil || !errors.Is(err, errOtherPlace) && !(errors.As(err, &keeps) && keeps.Refused()) {
		return err
	}
	if s.ReportKept != nil {
		s.kept.Do(func() { s.ReportKept(c, err) })
	}
	return nil
}

// collectChunks lists the chunks before the Contents. A writer that needs an old chunk renews it before it creates its
// Content. So either the list has the Content, or the deletion names an old version of the chunk.
func (s *Store) collectChunks(ctx context.Context) error {
	chunks := &metav1.PartialObjectMetadataList{}
	chunks.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContentChunkList"))
	if err := s.Live.List(ctx, chunks); err != nil {
		return fmt.Errorf("listing ContentChunks for garbage: %w", err)
	}
	if len(chunks.Items) == 0 {
		return nil
	}
	var contents v1alpha1.ContentList
	if err := s.Live.List(ctx, &contents); err != nil {
		return fmt.Errorf("listing Contents for garbage: %w", err)
	}
	named := map[string]bool{}
	for i := range contents.Items {
		for _, name := range contents.Items[i].Spec.Chunks {
			named[name] = true
		}
	}
	for i := range chunks.Items {
		if o := &chunks.Items[i]; !named[o.Name] {
			if _, err := s.delete(ctx, o, &v1alpha1.ContentChunk{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete deletes an object that no writer needed for an hour, unless a writer renewed it since it was read.
func (s *Store) delete(ctx context.Context, o, empty client.Object) (bool, error) {
	if s.Now().Sub(lastNeeded(o)) < keep {
		return false, nil
	}
	empty.SetName(o.GetName())
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := s.Client.Delete(ctx, empty, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("deleting %s, which nothing names: %w", o.GetName(), err)
	}
	return true, nil
}
