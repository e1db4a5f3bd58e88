package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/source/access"
)

// Target is a tag in a repository of a registry, to which a user pushes.
type Target struct {
	// URL is oci://host/name, and Tag the tag.
	URL, Tag string
	at       registry.Reference
	address  source.Address
}

var tagForm = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// ParseTarget reads oci://host/name:tag. The error is a Stalled InvalidSpec fault.
func ParseTarget(raw string) (Target, error) {
	wrong := func(format string, args ...any) (Target, error) {
		return Target{}, fault.NewStalled(v1alpha1.ReasonInvalidSpec, fmt.Errorf(format, args...))
	}
	slash := strings.LastIndex(raw, "/")
	name, tag, hasTag := strings.Cut(raw[slash+1:], ":")
	if !strings.HasPrefix(raw, "oci://") || strings.Contains(name+tag, "@") {
		return wrong("%q is not a tag in a registry: write oci://host/name:tag", source.Redact(raw))
	}
	a, err := source.ParseURL(raw[:slash+1] + name)
	if err != nil {
		return Target{}, err
	}
	if !hasTag || !tagForm.MatchString(tag) {
		return wrong(
			"%q names no tag: write %s:latest, or another tag of letters, digits, dots, dashes and underscores",
			source.Line(raw), a.String())
	}
	at, err := referenceOf(a)
	return Target{URL: a.String(), Tag: tag, at: at, address: a}, err
}

// referenceOf returns the address in the library's type. The error is a Stalled InvalidSpec fault.
func referenceOf(a source.Address) (registry.Reference, error) {
	at := registry.Reference{Registry: a.Host, Repository: strings.TrimPrefix(a.Path, "/")}
	if a.Port != "" {
		at.Registry += ":" + a.Port
	}
	if err := errors.Join(at.ValidateRegistry(), at.ValidateRepository()); err != nil {
		return at, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
			fmt.Errorf("url %q names no repository of a registry: write oci://host/name", a.String()))
	}
	return at, nil
}

// Publisher pushes artifacts to a repository of a registry.
type Publisher struct {
	to     Target
	remote *Remote
}

// NewPublisher returns a publisher with a user's own credentials. The parameter login returns the credentials for a
// registry. The publisher sends them only to the registry and to the token service that the registry names, over https,
// and never to the target of a redirect. NewPublisher sends no request.
func NewPublisher(to Target, login auth.CredentialFunc, transport http.RoundTripper) *Publisher {
	client := &auth.Client{
		Client: (&guard{
			base: transport, registry: to.at.Host(), anyTokenService: true,
			to: access.RecipientsOf(to.address, nil),
		}).client(),
		Credential: func(ctx context.Context, host string) (auth.Credential, error) {
			if host != to.at.Host() {
				return auth.EmptyCredential, nil
			}
			return login(ctx, host)
		},
		Cache: auth.NewCache(),
	}
	repo := &remote.Repository{Client: client, Reference: to.at, MaxMetadataBytes: maxManifest}
	return &Publisher{to: to, remote: &Remote{url: to.URL, repo: repo}}
}

// Push stores an artifact, signs it if there is a key, and moves the tag to it, in this order. So a program that
// follows the tag never finds an artifact without its signature. Errors are faults: AuthenticationFailed, or
// RepositoryUnreachable.
func (p *Publisher) Push(ctx context.Context, a Artifact, key *PrivateKey) error {
	if err := p.push(ctx, a, key); err != nil {
		return explainPush(ctx, "pushing to "+p.to.URL+":"+p.to.Tag, err)
	}
	return nil
}

func (p *Publisher) push(ctx context.Context, a Artifact, key *PrivateKey) error {
	for _, content := range [][]byte{a.layer, ocispec.DescriptorEmptyJSON.Data} {
		if err := p.blob(ctx, content); err != nil {
			return err
		}
	}
	if err := p.manifest(ctx, a.manifest, a.Digest()); err != nil {
		return err
	}
	if key != nil {
		if err := p.sign(ctx, a.Digest(), *key); err != nil {
			return err
		}
	}
	return p.manifest(ctx, a.manifest, p.to.Tag)
}

// blob pushes a blob that the repository does not have.
func (p *Publisher) blob(ctx context.Context, content []byte) error {
	at := ocispec.Descriptor{
		MediaType: "application/octet-stream", Digest: digest.FromBytes(content),
		Size: int64(len(content)),
	}
	there, err := p.remote.repo.Blobs().Exists(ctx, at)
	if err != nil || there {
		return err
	}
	return p.remote.repo.Blobs().Push(ctx, at, bytes.NewReader(content))
}

// manifest pushes a manifest to a tag or to its digest.
func (p *Publisher) manifest(ctx context.Context, content []byte, reference string) error {
	at := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(content),
		Size: int64(len(content)),
	}
	return p.remote.repo.Manifests().PushReference(ctx, at, bytes.NewReader(content), reference)
}

// sign adds a signature to an artifact's signatures, in the form that cosign writes.
func (p *Publisher) sign(ctx context.Context, of string, key PrivateKey) error {
	text, signature, err := key.Sign(p.to.at.Registry+"/"+p.to.at.Repository, of)
	if err != nil {
		return err
	}
	tag := signatureTag(strings.TrimPrefix(of, "sha256:"))
	found, err := p.remote.manifest(ctx, tag)
	if err != nil && !isNotFound(err) {
		return err
	}
	own := ocispec.Descriptor{
		MediaType: StatementType, Digest: digest.FromBytes(text), Size: int64(len(text)),
		Annotations: map[string]string{SignatureAnnotation: signature},
	}
	// The new signature comes first, because programs check only a limited number of signatures.
	layers := []ocispec.Descriptor{own}
	for _, other := range found.Layers {
		if other.Annotations[SignatureAnnotation] != signature {
			layers = append(layers, other)
		}
	}
	config, manifest, err := signatureManifest(layers[:min(len(layers), maxSignatures)])
	if err != nil {
		return err
	}
	for _, content := range [][]byte{text, config} {
		if err := p.blob(ctx, content); err != nil {
			return err
		}
	}
	return p.manifest(ctx, manifest, tag)
}

// signatureManifest returns the image that cosign stores signatures in: its config and its manifest.
func signatureManifest(layers []ocispec.Descriptor) (config, manifest []byte, err error) {
	var image ocispec.Image
	image.RootFS.Type = "layers"
	for _, layer := range layers {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, layer.Digest)
	}
	if config, err = json.Marshal(image); err != nil {
		return nil, nil, fmt.Errorf("writing the signature: %w", err)
	}
	manifest, err = json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config),
			Size: int64(len(config)),
		},
		Layers: slices.Clip(layers),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("writing the signature: %w", err)
	}
	return config, manifest, nil
}

// explainPush returns an error of a push as a fault. The advice in the fault is for a user at a command line, who has
// no Secret.
func explainPush(ctx context.Context, doing string, err error) error {
	refused := func(advice string) error {
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s", doing, advice))
	}
	var answer *errcode.ErrorResponse
	var other *hostError
	code := 0
	if errors.As(err, &answer) {
		code = answer.StatusCode
	}
	switch {
	case ctx.Err() == nil && access.CertificateAdvice(err) != "":
		return refused("the registry's certificate is not trusted, has expired or is for other names: correct it, or " +
			"name its authority with --ca-file")
	case errors.Is(err, auth.ErrBasicCredentialNotFound) || code == http.StatusUnauthorized:
		return refused("the registry requires credentials, or rejects these: log in with docker login, or set " +
			"BUNSEN_REGISTRY_USERNAME and BUNSEN_REGISTRY_PASSWORD")
	case errors.As(err, &other):
		return refused("the registry redirects an upload to " + other.host + ", which gets no credentials: name that " +
			"host in the URL if you trust it")
	case code == http.StatusForbidden:
		return refused("the registry refuses these credentials: they need the right to push (403 Forbidden)")
	case code == http.StatusTooManyRequests:
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry limits requests: try again later (429 Too Many Requests)", doing))
	case isNotFound(err):
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry has no such repository: create it there, or correct its name", doing))
	}
	return explain(ctx, doing, err)
}
