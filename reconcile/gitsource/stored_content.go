package gitsource

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// storeContent stores a content in RevisionContent objects, unless these exist, and returns the digest of the content.
// Kubernetes deletes the RevisionContent objects together with the GitSource.
func storeContent(ctx context.Context, c client.Client, src *v1alpha1.GitSource,
	content revision.Content,
) (string, error) {
	parts, digest, err := revision.Encode(content)
	if err != nil {
		return "", err
	}
	for i, data := range parts {
		o := &v1alpha1.RevisionContent{ObjectMeta: metav1.ObjectMeta{
			Name: contentName(src.Name, digest, i), Labels: map[string]string{v1alpha1.SourceLabel: src.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "GitSource",
				Name: src.Name, UID: src.UID,
			}},
		}}
		o.Spec = v1alpha1.RevisionContentSpec{
			Source: src.Name, Digest: digest, Part: int32(i),
			Parts: int32(len(parts)), Data: data,
		}
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return "", fmt.Errorf("keeping the content of a revision, RevisionContent %q: %w", o.Name, err)
		}
	}
	return digest, nil
}

// errContentLost means that the RevisionContent objects of a digest are missing or incomplete.
var errContentLost = errors.New("the content of the revision is lost")

// loadContent reads a content that storeContent stored. loadContent returns errContentLost if a retry cannot help.
func loadContent(ctx context.Context, live client.Reader, src *v1alpha1.GitSource,
	digest string,
) (revision.Content, error) {
	var parts [][]byte
	for n := 1; len(parts) < n; {
		o := &v1alpha1.RevisionContent{}
		name := contentName(src.Name, digest, len(parts))
		if err := live.Get(ctx, client.ObjectKey{Name: name}, o); apierrors.IsNotFound(err) {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w: %w", name, errContentLost, err)
		} else if err != nil {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w", name, err)
		}
		if len(parts) > 0 && int(o.Spec.Parts) != n {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w: it has another number of parts "+
				"than the first one", name, errContentLost)
		}
		n, parts = int(o.Spec.Parts), append(parts, o.Spec.Data)
	}
	out, err := revision.Decode(parts, digest)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errContentLost, err)
	}
	return out, nil
}

// DeleteUnusedContents deletes the stored contents of a source that no restore can need any more.
func DeleteUnusedContents(ctx context.Context, c client.Client, live client.Reader, src *v1alpha1.GitSource) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RevisionContentList"))
	if err := live.List(ctx, list, client.MatchingLabels{v1alpha1.SourceLabel: src.Name}); err != nil {
		return fmt.Errorf("listing RevisionContents of GitSource %q: %w", src.Name, err)
	}
	keep := []string{src.Status.AppliedContent}
	if a := src.Status.Applying; a != nil {
		keep = append(keep, a.Base)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if isPartOf(o.Name, src.Name, keep) {
			continue
		}
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting RevisionContent %q: %w", o.Name, err)
		}
	}
	return nil
}

// isPartOf reports whether a RevisionContent is part of one of the contents.
func isPartOf(name, source string, digests []string) bool {
	for _, d := range digests {
		if d != "" && strings.HasPrefix(name, contentPrefix(source, d)) {
			return true
		}
	}
	return false
}

// contentName returns the name of the RevisionContent object with one part of a content.
func contentName(source, digest string, part int) string {
	return fmt.Sprintf("%s%d", contentPrefix(source, digest), part)
}

// contentPrefix returns the beginning of the names of the RevisionContent objects with all parts of a content.
func contentPrefix(source, digest string) string {
	hash := strings.TrimPrefix(digest, "sha256:")
	return fmt.Sprintf("%s-%s-", source, hash[:min(len(hash), 20)])
}
