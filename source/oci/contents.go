package oci

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// ContentType is the type of artifacts with a large file.
const ContentType = "application/vnd.bunsen.content.v1"

// The limits of the time for a file, and for another request.
const (
	pushTimeout    = 10 * time.Minute
	requestTimeout = 30 * time.Second
)

// Contents stores large files in a repository of a registry. Each file is the only layer of an artifact.
type Contents struct {
	to     Target
	pusher *Publisher
}

// NewContents returns the files in a repository, such as registry.example.com/bunsen/content. Credentials go where
// those of NewPublisher go. NewContents sends no request.
func NewContents(repository string, login auth.CredentialFunc, transport http.RoundTripper) (*Contents, error) {
	a, err := source.ParseURL("oci://" + repository)
	if err != nil {
		return nil, err
	}
	at, err := referenceOf(a)
	if err != nil {
		return nil, err
	}
	to := Target{URL: a.String(), at: at, address: a}
	return &Contents{to, NewPublisher(to, login, transport)}, nil
}

// Push stores a file under the tag of its hash. The same file has the same manifest.
func (c *Contents) Push(ctx context.Context, f machineconfig.LargeFile) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	layer, err := layerOf(f)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: ContentType,
		Config:       ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	err = c.pushFile(ctx, f, layer)
	if err == nil {
		err = c.pusher.blob(ctx, ocispec.DescriptorEmptyJSON.Data)
	}
	if err == nil {
		err = c.pusher.manifest(ctx, manifest, machineconfig.ContentTag(f.Hash))
	}
	if err != nil {
		return c.explain(ctx, "pushing a file", err)
	}
	return nil
}

// layerOf reads a file and returns the layer with its bytes. It is an error if they do not have the hash and the size
// of the file.
func layerOf(f machineconfig.LargeFile) (ocispec.Descriptor, error) {
	file, err := f.Open()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	inRegistry, inConfig := sha256.New(), sha512.New()
	size, err := io.Copy(io.MultiWriter(inRegistry, inConfig), file)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("reading the file: %w", err)
	}
	if size != f.Size || fmt.Sprintf("sha512-%x", inConfig.Sum(nil)) != f.Hash {
		return ocispec.Descriptor{}, fault.NewRetry(v1alpha1.ReasonInvalidTree,
			errors.New("the file has changed since its hash was computed"))
	}
	return ocispec.Descriptor{
		MediaType: "application/octet-stream",
		Digest:    digest.Digest(fmt.Sprintf("sha256:%x", inRegistry.Sum(nil))), Size: size,
	}, nil
}

// pushFile pushes the bytes of a file, unless the repository has them.
func (c *Contents) pushFile(ctx context.Context, f machineconfig.LargeFile, layer ocispec.Descriptor) error {
	blobs := c.pusher.remote.repo.Blobs()
	if there, err := blobs.Exists(ctx, layer); err != nil || there {
		return err
	}
	file, err := f.Open()
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	return blobs.Push(ctx, layer, file)
}

// Has reports whether the repository has the file with a hash.
func (c *Contents) Has(ctx context.Context, hash string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	manifests := c.pusher.remote.repo.Manifests()
	found, err := manifests.Resolve(ctx, machineconfig.ContentTag(hash))
	if err == nil { // A registry may keep the tag of a deleted manifest.
		_, err = manifests.Resolve(ctx, found.Digest.String())
	}
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, c.explain(ctx, "looking for a file", err)
	}
	return true, nil
}

// Delete deletes the file with a hash. If the registry refuses that, the error has a method Refused that returns true.
func (c *Contents) Delete(ctx context.Context, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	manifests := c.pusher.remote.repo.Manifests()
	found, err := manifests.Resolve(ctx, machineconfig.ContentTag(hash))
	if err == nil {
		err = manifests.Delete(ctx, found)
	}
	var answer *errcode.ErrorResponse
	switch {
	case err == nil || isNotFound(err):
		return nil
	case errors.As(err, &answer) && answer.StatusCode >= 400 && answer.StatusCode < 500 &&
		answer.StatusCode != http.StatusTooManyRequests:
		return &keptError{fmt.Errorf("%s refuses to delete it (%d %s)", c.to.at.Registry, answer.StatusCode,
			http.StatusText(answer.StatusCode))}
	}
	return c.explain(ctx, "deleting a file", err)
}

// keptError says that an artifact stays in a registry.
type keptError struct{ error }

// Refused marks the error.
func (*keptError) Refused() bool { return true }

// explain returns an error of the registry without the registry's texts.
func (c *Contents) explain(ctx context.Context, doing string, err error) error {
	var answer *errcode.ErrorResponse
	var request *url.Error
	var known *fault.Error
	doing += " in " + c.to.URL
	switch {
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", doing, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: no answer in time", doing)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusForbidden), errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: the registry refuses the credentials, or needs some: check "+
			"--content-registry-credentials", doing)
	case errors.As(err, &answer):
		return fmt.Errorf("%s: the registry answers %d %s", doing, answer.StatusCode,
			http.StatusText(answer.StatusCode))
	case errors.As(err, &request):
		return fmt.Errorf("%s: %s", doing, source.Line(request.Err.Error()))
	}
	return fmt.Errorf("%s: %w", doing, err)
}
