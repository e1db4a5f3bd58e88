package e2e

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// store FILE puts a file into the content store, chunk by chunk, as the controller does.
func (s *story) store(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("store FILE")
	}
	f, err := os.Open(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	sum, part := sha512.New(), make([]byte, contentstore.ChunkSize)
	var size int64
	var names []string
	for {
		n, err := io.ReadFull(f, part)
		if n > 0 {
			chunk, bad := contentstore.NewChunk(bytes.Clone(part[:n]))
			if bad == nil {
				chunk.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ContentChunk"}
				bad = s.createIn("contentchunks", chunk)
			}
			if bad != nil {
				return bad
			}
			sum.Write(part[:n]) //nolint:errcheck // it never fails
			size, names = size+int64(n), append(names, chunk.Name)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	whole := contentstore.NewContent("sha512-"+hex.EncodeToString(sum.Sum(nil)), size, names)
	whole.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Content"}
	return s.createIn("contents", whole)
}

// createIn creates an object, which may exist already.
func (s *story) createIn(resource string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	return poll(patience, func() (bool, error) {
		_, err := s.cluster.dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).Create(context.Background(),
			u, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating %s: %w", u.GetName(), err)
		}
		return true, nil
	})
}
