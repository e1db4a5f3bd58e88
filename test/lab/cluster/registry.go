package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// registry serves images to containerd, read-only: the part of the OCI distribution specification that a pull needs.
// The name of a repository does not matter, because digests and tags name an image wherever it is.
type registry struct {
	mu    sync.Mutex
	tags  map[string]string // NAME:TAG to digest
	blobs map[string][]byte
	types map[string]string // media types of manifests
	// layouts are directories with blobs/sha256.
	layouts []string
}

func newRegistry() *registry {
	return &registry{tags: map[string]string{}, blobs: map[string][]byte{}, types: map[string]string{}}
}

// addLayout serves the blobs of an OCI image layout.
func (r *registry) addLayout(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.layouts = append(r.layouts, dir)
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// imageFile is a file of an image, or a symbolic link to Link.
type imageFile struct {
	Path, Link string
	Content    []byte
}

// addImage serves an image of files under names of the form NAME:TAG. config is the part of its configuration that a
// runtime reads.
func (r *registry) addImage(names []string, config map[string]any, files ...imageFile) error {
	var content, layer bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: 0o755, Size: int64(len(f.Content))}
		if f.Link != "" {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: f.Path, Linkname: f.Link, Mode: 0o777}
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.Content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	zipped, err := gzip.NewWriterLevel(&layer, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := zipped.Write(content.Bytes()); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	configText, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(content.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": r.add(configText, "application/vnd.oci.image.config.v1+json"),
		"layers": []descriptor{r.add(layer.Bytes(), "application/vnd.oci.image.layer.v1.tar+gzip")},
	})
	if err != nil {
		return err
	}
	d := r.add(manifest, "application/vnd.oci.image.manifest.v1+json")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.tags[name] = d.Digest
	}
	return nil
}

func (r *registry) add(blob []byte, mediaType string) descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := descriptor{mediaType, fmt.Sprintf("sha256:%x", sha256.Sum256(blob)), len(blob)}
	r.blobs[d.Digest], r.types[d.Digest] = blob, mediaType
	return d
}

// ServeHTTP answers /v2/, /v2/NAME/manifests/REFERENCE and /v2/NAME/blobs/DIGEST.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	if path == "" {
		return
	}
	parts := strings.Split(path, "/")
	if len(parts) < 3 {
		http.NotFound(w, request)
		return
	}
	name, kind, reference := parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1]
	r.mu.Lock()
	digest := reference
	if !strings.HasPrefix(reference, "sha256:") {
		digest = r.tags[name+":"+reference]
	}
	blob, mediaType, layouts := r.blobs[digest], r.types[digest], r.layouts
	r.mu.Unlock()
	if blob == nil {
		for _, dir := range layouts {
			if text, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256",
				filepath.Base(strings.TrimPrefix(digest, "sha256:")))); err == nil {
				blob = text
			}
		}
	}
	if digest == "" || blob == nil {
		http.NotFound(w, request)
		return
	}
	if kind == "manifests" && mediaType == "" {
		var of struct {
			MediaType string `json:"mediaType"`
		}
		if err := json.Unmarshal(blob, &of); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		mediaType = of.MediaType
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeContent(w, request, "", time.Time{}, bytes.NewReader(blob))
}
