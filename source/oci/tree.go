package oci

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

const (
	maxManifest   = 1 << 20
	maxSignatures = 50
)

// Tree puts the files of an artifact below path into a directory. With keys, Tree checks the signature before it
// fetches a file. The tree has the same digest as a git tree with the same files.
//
// Errors are faults: those of List; SignatureMissing; PathNotFound; InvalidTree for an artifact that is damaged, too
// large or of another kind.
func (r *Remote) Tree(ctx context.Context, picked source.Picked, path string,
	into source.Destination,
) (source.Tree, error) {
	doing := fmt.Sprintf("fetching %s from %s", picked.Revision().Short(), r.url)
	folder, err := source.CleanPath(path)
	if err != nil {
		return source.Tree{}, err
	}
	manifest, err := r.manifest(ctx, "sha256:"+picked.Hash)
	if err != nil {
		return source.Tree{}, explain(ctx, doing, err)
	}
	commit := describe(manifest, picked, r.url)
	if r.keys != nil {
		if commit.Signer, err = r.signer(ctx, picked.Hash); err != nil {
			return source.Tree{}, explain(ctx, doing, err)
		}
	}
	layer, err := contentOf(manifest)
	if err != nil {
		return source.Tree{}, explain(ctx, doing, err)
	}
	root, err := os.OpenRoot(into.Dir)
	if err != nil {
		return source.Tree{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer root.Close()
	inventory, err := r.unpack(ctx, layer, ArchiveReader{
		Folder: folder, At: picked.Revision(), Limits: r.limits,
		Into: directory{root},
	})
	if err != nil {
		return source.Tree{}, explain(ctx, doing, err)
	}
	return source.Tree{
		Commit: commit, Root: into.Dir, FS: os.DirFS(into.Dir),
		Digest: inventory.Digest(), Refused: inventory.Refused(), Entries: inventory.Entries(),
	}, nil
}

// manifest reads the manifest at a tag or digest. If the reference is a digest, manifest checks that the content has
// this digest.
func (r *Remote) manifest(ctx context.Context, reference string) (ocispec.Manifest, error) {
	found, body, err := r.repo.FetchReference(ctx, reference)
	if err != nil {
		return ocispec.Manifest{}, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, maxManifest+1))
	if err != nil {
		return ocispec.Manifest{}, err
	}
	want := found.Digest.String()
	if strings.HasPrefix(reference, "sha256:") {
		want = reference
	}
	if sum := sha256.Sum256(raw); "sha256:"+hex.EncodeToString(sum[:]) != want {
		return ocispec.Manifest{}, fault.NewRetry(v1alpha1.ReasonInvalidTree,
			errors.New("the manifest is damaged: its content has another digest"))
	}
	return parseManifest(raw)
}

// parseManifest reads the manifest of one artifact.
func parseManifest(raw []byte) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, invalid("the manifest is not JSON: push the artifact again")
	}
	if m.MediaType == ocispec.MediaTypeImageIndex || bytes.Contains(raw, []byte(`"manifests"`)) && len(m.Layers) == 0 {
		return m, invalid("the tag names an index of several artifacts: push one artifact, or write the digest of " +
			"one into ref.digest")
	}
	return m, nil
}

// contentOf returns the layer of an artifact that contains the files.
func contentOf(m ocispec.Manifest) (ocispec.Descriptor, error) {
	if len(m.Layers) != 1 {
		return ocispec.Descriptor{}, invalid("the artifact has %d layers, not one: push the folder as one tar.gz",
			len(m.Layers))
	}
	layer := m.Layers[0]
	if layer.Digest.Validate() != nil || layer.Digest.Algorithm() != digest.SHA256 || layer.Size < 0 {
		return layer, invalid("the layer of the artifact has no SHA-256: push the artifact again")
	}
	if !strings.Contains(layer.MediaType, "tar") || strings.HasSuffix(layer.MediaType, "zstd") {
		return layer, invalid("the layer of the artifact is of type %q: push the folder as tar.gz",
			source.Line(layer.MediaType))
	}
	return layer, nil
}

// unpack reads the files of a layer. unpack compares the digest at the end, so nobody may use the files after an error.
func (r *Remote) unpack(ctx context.Context, layer ocispec.Descriptor, into ArchiveReader) (*source.Inventory, error) {
	if layer.Size > r.limits.Bytes {
		return nil, invalid("the artifact has %d bytes, at most %d: leave out what is not configuration", layer.Size,
			r.limits.Bytes)
	}
	body, err := r.repo.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	sum := sha256.New()
	raw := io.TeeReader(io.LimitReader(body, layer.Size+1), sum)
	files := raw
	if strings.HasSuffix(layer.MediaType, "gzip") {
		zipped, err := gzip.NewReader(raw)
		if err != nil {
			return nil, damaged(ctx, err)
		}
		files = zipped
	}
	inventory, err := into.Read(ctx, files)
	var known *fault.Error
	if err != nil && !errors.As(err, &known) {
		return nil, damaged(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, raw); err != nil { // The digest covers the bytes after the archive too.
		return nil, err
	}
	if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != layer.Digest.String() {
		return nil, fault.NewRetry(v1alpha1.ReasonInvalidTree,
			errors.New("the layer is damaged: its content has another digest"))
	}
	return inventory, nil
}

// damaged returns the error for an archive that cannot be read. The fault is Retry, because another download may be
// complete.
func damaged(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fault.NewRetry(v1alpha1.ReasonInvalidTree, fmt.Errorf("the layer is damaged or incomplete: %w", err))
}

// signatureTag returns the tag under which cosign stores the signatures of an artifact.
func signatureTag(hash string) string { return "sha256-" + hash + ".sig" }

// signer returns the name of the key that signed an artifact.
func (r *Remote) signer(ctx context.Context, hash string) (string, error) {
	missing := func(why string) error {
		return fault.NewStalled(v1alpha1.ReasonSignature,
			fmt.Errorf("%s: sign it with one of the keys %s, as cosign sign --key does", why,
				strings.Join(r.keys.Names(), ", ")))
	}
	m, err := r.manifest(ctx, signatureTag(hash))
	if isNotFound(err) {
		return "", missing("the artifact is not signed")
	}
	if err != nil {
		return "", err
	}
	var why []string
	for _, layer := range m.Layers[:min(len(m.Layers), maxSignatures)] {
		if layer.MediaType != StatementType || layer.Size > MaxStatement ||
			layer.Digest.Validate() != nil {
			continue
		}
		text, err := r.blob(ctx, layer)
		if err != nil {
			return "", err
		}
		signer, err := r.keys.Signer(text, layer.Annotations[SignatureAnnotation], "sha256:"+hash)
		if err == nil {
			return signer, nil
		}
		why = append(why, err.Error())
	}
	return "", missing("no signature of the artifact is valid (" + cmp.Or(strings.Join(why[:min(len(why), 3)], "; "),
		"there is none") + ")")
}

// blob reads a small blob.
func (r *Remote) blob(ctx context.Context, at ocispec.Descriptor) ([]byte, error) {
	body, err := r.repo.Blobs().Fetch(ctx, at)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, MaxStatement+1))
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// describe returns the commit that the annotations of an artifact name.
func describe(m ocispec.Manifest, p source.Picked, url string) source.Commit {
	note := func(key string) string { return source.Line(m.Annotations[key]) }
	subject := cmp.Or(note(ocispec.AnnotationDescription), note(ocispec.AnnotationTitle), "artifact")
	if from := note(ocispec.AnnotationRevision); from != "" {
		subject = source.Line(subject + " (git " + from + ")")
	}
	created, _ := time.Parse(time.RFC3339, m.Annotations[ocispec.AnnotationCreated])
	return source.Commit{
		URL: url, Ref: p.Ref, Hash: p.Hash,
		Author: cmp.Or(note(ocispec.AnnotationAuthors), note(ocispec.AnnotationSource)), Subject: subject,
		Time: source.CommitTime(created),
	}
}

// directory writes the files of an archive below a directory.
type directory struct{ *os.Root }

// Write creates a file, 0644 or 0755.
func (d directory) Write(p string, executable bool, content []byte) error {
	if err := d.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := d.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(mode), f.Close()) // The umask may have removed bits of the mode at creation.
}
