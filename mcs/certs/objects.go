package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// issuedAnnotation: a digest of the data that the server wrote; if it does not match, a user has changed the Secret and
// owns it
const issuedAnnotation = "bunsen.dev/issued"

// errChanged: another writer has changed the object since it was read.
var errChanged = errors.New("another writer changed the object")

// secret is nil if there is none.
func (s *secretStore) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	out, err := s.client.Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", s.fullName(name), err)
	}
	return out, nil
}

// put fails if the Secret has changed since have was read, which is nil if there was none. The same data is not written
// again.
func (s *secretStore) put(ctx context.Context, have *corev1.Secret, name string, kind corev1.SecretType,
	data map[string][]byte,
) (*corev1.Secret, error) {
	if have != nil && hasData(have, data) {
		return have, nil
	}
	next := have.DeepCopy()
	if next == nil {
		next = &corev1.Secret{Type: kind}
		next.Namespace, next.Name = s.Namespace, name
	}
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	maps.Copy(next.Data, data)
	setServerLabel(&next.ObjectMeta)
	next.Annotations[issuedAnnotation] = digest(next, keysOf(kind)...)
	var err error
	if have == nil {
		next, err = s.client.Secrets(s.Namespace).Create(ctx, next, metav1.CreateOptions{})
	} else {
		next, err = s.client.Secrets(s.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	return next, writeError("Secret "+s.fullName(name), err)
}

func hasData(s *corev1.Secret, data map[string][]byte) bool {
	for key, value := range data {
		if !bytes.Equal(s.Data[key], value) {
			return false
		}
	}
	return true
}

// keysOf returns the keys that the digest covers.
func keysOf(kind corev1.SecretType) []string {
	if kind == corev1.SecretTypeTLS {
		return []string{CertFile, CertKeyFile}
	}
	return []string{CAFile, CAKeyFile}
}

// writeError returns errChanged if another writer changed the object first.
func writeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errChanged
	}
	return fmt.Errorf("writing %s: %w", what, err)
}

func setServerLabel(o *metav1.ObjectMeta) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Labels[v1alpha1.ServerLabel] = v1alpha1.ServerComponent
}

func digest(s *corev1.Secret, keys ...string) string {
	h := sha256.New()
	for _, key := range keys {
		sum := sha256.Sum256(s.Data[key])
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func value(s *corev1.Secret, key string) []byte {
	if s == nil || len(s.Data[key]) == 0 {
		return nil
	}
	return s.Data[key]
}

// published reports whether the ConfigMap has a CA of the server.
func (s *secretStore) published(ctx context.Context) (bool, error) {
	is, err := s.configMap(ctx)
	return is != nil && is.Labels[v1alpha1.ServerLabel] == v1alpha1.ServerComponent && is.Data[CAFile] != "", err
}

// publish publishes in a ConfigMap the CA that machines have to trust, and the URLs of the servers for nodes. A CA that
// a user wrote there, and any other data, stays.
func (s *secretStore) publish(ctx context.Context, out *servingCert) error {
	if out == nil {
		return nil
	}
	is, err := s.configMap(ctx)
	if err != nil {
		return err
	}
	next := is.DeepCopy()
	if next == nil {
		next = &corev1.ConfigMap{}
		next.Namespace, next.Name = s.Namespace, s.CA
	}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	if ours := next.Data[CAFile] == "" || next.Labels[v1alpha1.ServerLabel] == v1alpha1.ServerComponent; ours &&
		next.Data[CAFile] != string(out.material.ca) {
		setServerLabel(&next.ObjectMeta)
		next.Data[CAFile] = string(out.material.ca)
	}
	if urls := withURLs(next.Data[v1alpha1.ServerURLsKey], s.URLs); urls != "" {
		next.Data[v1alpha1.ServerURLsKey] = urls
	}
	if is != nil && maps.Equal(is.Data, next.Data) {
		return nil
	}
	if is == nil {
		_, err = s.client.ConfigMaps(s.Namespace).Create(ctx, next, metav1.CreateOptions{})
	} else {
		_, err = s.client.ConfigMaps(s.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	if err = writeError("ConfigMap "+s.fullName(s.CA), err); errors.Is(err, errChanged) {
		return nil // On a conflict, either the other writer has published the same data, or the next sync publishes it.
	}
	return err
}

// maxURLs is for the ConfigMap.
const maxURLs = 32

// withURLs adds a replica's URLs, one a line. Those of other replicas stay, even of some that no longer run, because
// nodes try the next URL.
func withURLs(published string, own []string) string {
	all := strings.Fields(published)
	for _, url := range own {
		if !slices.Contains(all, url) && len(all) < maxURLs {
			all = append(all, url)
		}
	}
	return strings.Join(all, "\n")
}

func (s *secretStore) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	out, err := s.client.ConfigMaps(s.Namespace).Get(ctx, s.CA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", s.fullName(s.CA), err)
	}
	return out, nil
}
