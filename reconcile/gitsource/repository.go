package gitsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

// Repository is the repository of one GitSource. source/repository.Repository implements it.
type Repository interface {
	// List returns the refs of the repository, at least those that the spec needs, and when their listing began. The
	// listing may be that of another source with the same address and the same credentials.
	List(ctx context.Context, poll source.Poll) (source.Listing, error)
	// Evidence returns the objects of the commits that a commit adds to picked.Applied, and the relation of both
	// commits. It fetches no files.
	Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error)
	// Tree returns the files of a commit below the source's path, from the disk if the commit was fetched before.
	Tree(ctx context.Context, picked source.Picked) (source.Tree, error)
}

// Open creates a Repository without a request to the remote. Only a repository of OCI artifacts checks signatures
// itself.
type Open func(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (Repository, error)

// opened is a repository with the digest of the Secrets that its requests use, and with the policy for signatures; a
// nil policy requires none.
type opened struct {
	Repository
	secrets string
	policy  *verify.Policy
}

// repository connects to the repository of a source, with the Secrets that its spec names.
func (r *Controller) repository(ctx context.Context, src *v1alpha1.GitSource) (opened, error) {
	var secrets source.Secrets
	var policy *verify.Policy
	var err error
	if ref := src.Spec.SecretRef; ref != nil {
		if secrets.Credentials, err = r.readSecret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return opened{}, err
		}
	}
	if ref := src.Spec.ProxySecretRef; ref != nil {
		if secrets.Proxy, err = r.readSecret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return opened{}, err
		}
		if secrets.Proxy == nil {
			// An empty Secret of a proxy must be an error, and not lead to a direct connection.
			secrets.Proxy = map[string][]byte{}
		}
	}
	if v := src.Spec.Verify; v != nil {
		if secrets.Keys, err = r.readSecret(ctx, v.SecretRef.Name, v1alpha1.ReasonSignature); err != nil {
			return opened{}, err
		}
		if !source.IsArtifact(src.Spec) {
			required, err := verify.ParsePolicy(*v, src.Spec.Ref, secrets.Keys)
			if err != nil {
				return opened{}, err
			}
			policy = &required
		}
	}
	repo, err := r.Open(src.Spec, secrets)
	if err != nil {
		return opened{}, fault.Of(err, v1alpha1.ReasonInvalidSpec)
	}
	return opened{repo, digestOf(secrets), policy}, nil
}

// readSecret reads a Secret. The parameter reason is the reason of the returned failure.
func (r *Controller) readSecret(ctx context.Context, name, reason string) (map[string][]byte, error) {
	var s corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &s); err != nil {
		return nil, fault.NewRetry(reason, fmt.Errorf("reading Secret %s/%s: %w", r.Namespace, name, err))
	}
	return s.Data, nil
}

// digestOf identifies Secrets without storing them.
func digestOf(s source.Secrets) string {
	h := sha256.New()
	for _, data := range []map[string][]byte{s.Credentials, s.Keys, s.Proxy} {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(h, "%d:%s=%d:%s,", len(key), key, len(data[key]), data[key])
		}
		fmt.Fprint(h, ";")
	}
	return hex.EncodeToString(h.Sum(nil))
}
