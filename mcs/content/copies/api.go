package copies

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// noRateLimit disables the client's own rate limit: a file has hundreds of chunks, and maxReads limits the reads.
const noRateLimit = -1

// api is the API server, with the rights of machine-config-server.
type api struct {
	client     rest.Interface
	registries Registries
}

// FromAPI returns the files of the content store of a cluster, whose contents may be in registries.
//
// Reads: Content, ContentChunk (get).
func FromAPI(config *rest.Config, registries Registries) (Stored, error) {
	a, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	a.registries = registries
	return a.file, nil
}

func newAPI(config *rest.Config) (*api, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("preparing the API client for the content store: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = noRateLimit
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for the content store: %w", err)
	}
	return &api{client: client}, nil
}

// get reads one object.
func (a *api) get(ctx context.Context, resource, name string, into runtime.Object) error {
	err := a.client.Get().Resource(resource).Name(name).Do(ctx).Into(into)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s %s: it does not exist, and the controller writes it with the next change of "+
			"the config", resource, name)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, name, err)
	}
	return nil
}

// file implements Stored.
func (a *api) file(ctx context.Context, hash string) (File, error) {
	is := &v1alpha1.Content{}
	if err := a.get(ctx, "contents", hash, is); err != nil {
		return File{}, err
	}
	if is.Name != hash {
		return File{}, fmt.Errorf("reading Content %s: the API server answers with %q", hash, is.Name)
	}
	if err := contentstore.Check(is); err != nil {
		return File{}, err
	}
	write := a.copy
	if is.Spec.Artifact != "" {
		write = a.writeArtifact
	}
	return File{
		Size: is.Spec.Size, Copy: func(ctx context.Context, to io.Writer) error { return write(ctx, is, to) },
		Mismatch: fmt.Errorf("reading Content %s: its chunks do not have the hash that is its name: delete it, and "+
			"the controller creates it again", hash),
	}, nil
}

// copy writes a file chunk by chunk, and verifies each chunk.
func (a *api) copy(ctx context.Context, is *v1alpha1.Content, to io.Writer) error {
	left := is.Spec.Size
	for _, name := range is.Spec.Chunks {
		plain, err := a.chunk(ctx, name)
		if err != nil {
			return err
		}
		if want := min(left, contentstore.ChunkSize); int64(len(plain)) != want {
			return fmt.Errorf("reading Content %s: its chunk %s has %d bytes instead of %d", is.Name, name, len(plain),
				want)
		}
		left -= int64(len(plain))
		if _, err := to.Write(plain); err != nil {
			return fmt.Errorf("writing a copy of Content %s: %w", is.Name, err)
		}
	}
	return nil
}

// chunk reads one chunk and verifies it.
func (a *api) chunk(ctx context.Context, name string) ([]byte, error) {
	is := &v1alpha1.ContentChunk{}
	if err := a.get(ctx, "contentchunks", name, is); err != nil {
		return nil, err
	}
	if is.Name != name {
		return nil, fmt.Errorf("reading ContentChunk %s: the API server answers with %q", name, is.Name)
	}
	return contentstore.Plain(is)
}
