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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// issuedAnnotation on a Secret that we wrote is a digest of what we wrote: where it fits no more, somebody else wrote after
// us, and the Secret is theirs.
const issuedAnnotation = "bunsen.dev/issued"

// errMoved says that an object was written by somebody else since it was read.
var errMoved = errors.New("somebody else was faster")

// secret reads a Secret; nil where there is none.
func (s *secrets) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	out, err := s.client.Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", s.where(name), err)
	}
	return out, nil
}

// put writes a Secret of ours, as it was read: have is nil where there was none. One that says the same stays as it is.
func (s *secrets) put(ctx context.Context, have *corev1.Secret, name string, kind corev1.SecretType, data map[string][]byte) (*corev1.Secret, error) {
	if have != nil && holds(have, data) {
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
	mark(&next.ObjectMeta)
	next.Annotations[issuedAnnotation] = digest(next, keysOf(kind)...)
	var err error
	if have == nil {
		next, err = s.client.Secrets(s.Namespace).Create(ctx, next, metav1.CreateOptions{})
	} else {
		next, err = s.client.Secrets(s.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	return next, written("Secret "+s.where(name), err)
}

// holds tells whether a Secret has these values, whatever it has beside them.
func holds(s *corev1.Secret, data map[string][]byte) bool {
	for key, value := range data {
		if !bytes.Equal(s.Data[key], value) {
			return false
		}
	}
	return true
}

// keysOf are the keys of a Secret that say whose it is.
func keysOf(kind corev1.SecretType) []string {
	if kind == corev1.SecretTypeTLS {
		return []string{CertFile, CertKeyFile}
	}
	return []string{CAFile, CAKeyFile}
}

// written makes errMoved of what the API server says about a write that came too late.
func written(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errMoved
	}
	return fmt.Errorf("writing %s: %w", what, err)
}

func mark(o *metav1.ObjectMeta) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Labels[v1alpha1.ServerLabel] = v1alpha1.ServerComponent
}

// theirs tells whether somebody else wrote these keys of a Secret. One that has none of them is nobody's yet.
func theirs(s *corev1.Secret, keys ...string) bool {
	if s == nil || !slices.ContainsFunc(keys, func(key string) bool { return len(s.Data[key]) > 0 }) {
		return false
	}
	return s.Annotations[issuedAnnotation] != digest(s, keys...)
}

func digest(s *corev1.Secret, keys ...string) string {
	h := sha256.New()
	for _, key := range keys {
		sum := sha256.Sum256(s.Data[key])
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// value is a key's value, nil where there is none.
func value(s *corev1.Secret, key string) []byte {
	if s == nil || len(s.Data[key]) == 0 {
		return nil
	}
	return s.Data[key]
}

// published tells whether anybody was told to believe a CA of ours.
func (s *secrets) published(ctx context.Context) (bool, error) {
	is, err := s.configMap(ctx)
	return is != nil && is.Labels[v1alpha1.ServerLabel] == v1alpha1.ServerComponent && is.Data[CAFile] != "", err
}

// publish says in a ConfigMap whom machines have to believe. Where somebody else has said it there, it stays; what else
// is there stays always.
func (s *secrets) publish(ctx context.Context, out *shown) error {
	if out == nil {
		return nil
	}
	is, err := s.configMap(ctx)
	if err != nil {
		return err
	}
	if is != nil && (is.Data[CAFile] == string(out.what.ca) || is.Data[CAFile] != "" && is.Labels[v1alpha1.ServerLabel] != v1alpha1.ServerComponent) {
		return nil
	}
	next := is.DeepCopy()
	if next == nil {
		next = &corev1.ConfigMap{}
		next.Namespace, next.Name = s.Namespace, s.CA
	}
	mark(&next.ObjectMeta)
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[CAFile] = string(out.what.ca)
	if is == nil {
		_, err = s.client.ConfigMaps(s.Namespace).Create(ctx, next, metav1.CreateOptions{})
	} else {
		_, err = s.client.ConfigMaps(s.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	}
	if err = written("ConfigMap "+s.where(s.CA), err); errors.Is(err, errMoved) {
		return nil // whoever was faster says the same, or the next look does
	}
	return err
}

func (s *secrets) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	out, err := s.client.ConfigMaps(s.Namespace).Get(ctx, s.CA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", s.where(s.CA), err)
	}
	return out, nil
}
