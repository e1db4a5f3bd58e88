package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// for the API server, before a start uses the cache
	startTimeout = 5 * time.Second
	// because other replicas wrote first
	maxAttempts = 10
	// A replica that does not know the CA waits so long for another one to restore a deleted Secret. Then it creates
	// another CA.
	missingCATimeout = 5 * syncInterval
)

// Secret says where all replicas store their certificates in a cluster.
type Secret struct {
	Namespace string
	// Name is that of the Secret with tls.crt and tls.key, as cert-manager and kubectl create it. One that a user
	// supplies stays as it is, and its ca.crt is used if there is one. If it is missing or empty, the server creates
	// the certificate.
	Name string
	// CA is the name of the Secret of the CA's certificate and key, and of the ConfigMap with the CA to trust.
	CA string
	// Hostnames and addresses that machines connect to, besides those of the loopback interface.
	Hostnames []string
	// URLs at which nodes reach this replica, such as `https://HOST:PORT`, for the ConfigMap with the CA.
	URLs []string
	// Cache is a directory for a start without an API server; empty: none. A CA that an earlier server without a Secret
	// created there is stored in the Secret.
	Cache string
}

// secretStore is for all replicas.
type secretStore struct {
	client typed.CoreV1Interface
	Secret
	names []string
	log   *slog.Logger
	// as this replica last read it; ca and caKey only
	knownCA material
	// when this replica first found the CA missing, without knowing it
	missingSince time.Time
}

// OpenSecret creates or reads certificates in Secrets. While the API server is unreachable, the cached one is used, and
// Run retries.
func OpenSecret(ctx context.Context, config *rest.Config, s Secret, log *slog.Logger) (*Certificates, error) {
	at, err := newSecretStore(config, s, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return at.open(ctx, time.Now()), nil
}

func newSecretStore(config *rest.Config, s Secret, log *slog.Logger) (*secretStore, error) {
	names, err := checkNames(s.Hostnames)
	if err != nil {
		return nil, err
	}
	client, err := typed.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client: %w", err)
	}
	return &secretStore{client: client, Secret: s, names: names, log: log}, nil
}

func (s *secretStore) open(ctx context.Context, now time.Time) *Certificates {
	c := &Certificates{store: s, log: s.log}
	s.adoptCachedCA()
	if err := c.Refresh(ctx, now); err != nil {
		s.log.Warn("reading the Secret of the certificate failed, will retry", "secret", s.fullName(s.Name), "error",
			err)
	}
	if c.current.Load() == nil {
		s.readCache(c)
	}
	return c
}

// sync repeats syncOnce as long as another replica writes first.
func (s *secretStore) sync(ctx context.Context, now time.Time) (*servingCert, error) {
	for range maxAttempts {
		out, err := s.syncOnce(ctx, now)
		if errors.Is(err, errChanged) {
			continue
		}
		if err == nil {
			err = s.publish(ctx, out)
		}
		return out, errors.Join(err, s.writeCache(out))
	}
	return nil, fmt.Errorf("writing Secret %s: other writers changed it %d times", s.fullName(s.Name), maxAttempts)
}

// syncOnce returns errChanged if another writer changed a Secret first.
func (s *secretStore) syncOnce(ctx context.Context, now time.Time) (*servingCert, error) {
	leaf, err := s.secret(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if isExternal(leaf, CertFile, CertKeyFile) {
		return secretCert(s.fullName(s.Name), leaf, false)
	}
	ca, err := s.secret(ctx, s.CA)
	if err != nil {
		return nil, err
	}
	have := material{
		ca: value(ca, CAFile), caKey: value(ca, CAKeyFile), cert: value(leaf, CertFile),
		key: value(leaf, CertKeyFile),
	}
	have.external = isExternal(ca, CAFile, CAKeyFile)
	if have.ca == nil && have.caKey == nil {
		if stop, err := s.handleMissingCA(ctx, &have, now); stop || err != nil {
			return currentCert(s.fullName(s.Name), leaf), err
		}
	}
	return s.renew(ctx, have, storedSecrets{ca, leaf}, now)
}

// isExternal reports whether a user wrote the keys of a Secret. Without these keys, it has no owner yet.
func isExternal(s *corev1.Secret, keys ...string) bool {
	if s == nil || !slices.ContainsFunc(keys, func(key string) bool { return len(s.Data[key]) > 0 }) {
		return false
	}
	return s.Annotations[issuedAnnotation] != digest(s, keys...)
}

// storedSecrets were read; nil for a missing one.
type storedSecrets struct{ ca, leaf *corev1.Secret }

// renew writes the changed Secrets, the CA first. After a failure, the current certificate stays in use.
func (s *secretStore) renew(ctx context.Context, have material, was storedSecrets,
	now time.Time,
) (*servingCert, error) {
	want, err := have.renewed(s.names, now)
	if err == nil && !have.external {
		_, err = s.put(ctx, was.ca, s.CA, corev1.SecretTypeOpaque, map[string][]byte{
			CAFile:    want.ca,
			CAKeyFile: want.caKey,
		})
	}
	leaf := was.leaf
	if err == nil {
		s.knownCA, s.missingSince = material{ca: want.ca, caKey: want.caKey}, time.Time{}
		leaf, err = s.put(ctx, was.leaf, s.Name, corev1.SecretTypeTLS, map[string][]byte{
			CAFile:   want.ca,
			CertFile: want.cert, CertKeyFile: want.key,
		})
	}
	if err != nil {
		return currentCert(s.fullName(s.Name), was.leaf), err
	}
	return secretCert(s.fullName(s.Name), leaf, true)
}

// handleMissingCA is for a missing Secret of the CA. A CA that this replica knows is copied to have. It returns stop if
// other replicas may know the CA, or while a certificate of it is still valid.
func (s *secretStore) handleMissingCA(ctx context.Context, have *material, now time.Time) (stop bool, err error) {
	published, err := s.published(ctx)
	if err != nil {
		return true, err
	}
	made := have.cert != nil || published // If made is true, a CA existed before, and machines may trust it.
	log := s.log.With("secret", s.fullName(s.CA))
	if s.knownCA.caKey != nil {
		have.ca, have.caKey = s.knownCA.ca, s.knownCA.caKey
		if made {
			log.Error("the Secret of the CA was deleted, and all pointer configs trust that CA: restoring it from " +
				"memory; make a copy of it")
		}
		return false, nil
	}
	if !made {
		return false, nil
	}
	if pair, err := tls.X509KeyPair(have.cert, have.key); err == nil && now.Before(pair.Leaf.NotAfter) {
		log.Error("the Secret of the CA was deleted: restore a copy before the certificate expires; "+
			"machines with a current pointer config trust no other CA", "until", pair.Leaf.NotAfter)
		return true, nil
	}
	if s.missingSince.IsZero() {
		s.missingSince = now
	}
	if rest := s.missingSince.Add(missingCATimeout).Sub(now); rest > 0 {
		return true, fmt.Errorf("Secret %s of the CA was deleted: the server creates another CA in %s unless a user "+
			"or another replica restores the Secret", s.fullName(s.CA), rest.Round(time.Second))
	}
	log.Error("the Secret of the CA was deleted and not restored: creating another CA; create new pointer configs, " +
		"because earlier ones do not trust it")
	return false, nil
}

func secretCert(at string, leaf *corev1.Secret, ours bool) (*servingCert, error) {
	m := material{ca: value(leaf, CAFile), cert: value(leaf, CertFile), key: value(leaf, CertKeyFile)}
	out, err := newServingCert(m, "Secret "+at, ours)
	if err != nil && !ours {
		err = fmt.Errorf("Secret %s is managed by a user: write a certificate and its key, or delete the Secret to "+
			"create one: %w", at, err)
	}
	return out, err
}

// currentCert stays in use after a failure; nil if there is none.
func currentCert(at string, leaf *corev1.Secret) *servingCert {
	out, err := secretCert(at, leaf, true)
	if err != nil {
		return nil // The caller already has an error to return.
	}
	return out
}

func (s *secretStore) fullName(name string) string { return s.Namespace + "/" + name }

// writeCache is for a start without an API server. The CA's key stays in its Secret.
func (s *secretStore) writeCache(out *servingCert) error {
	if out == nil || s.Cache == "" {
		return nil
	}
	at := dirStore{dir: s.Cache}
	err := os.MkdirAll(at.dir, 0o700)
	if err == nil {
		err = at.write(out.material)
	}
	if err == nil && out.material.ca == nil {
		if err = os.Remove(at.path(CAFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("caching the certificate: %w", err)
	}
	return nil
}

// readCache reads a certificate that is renewed only when the API server has become reachable.
func (s *secretStore) readCache(c *Certificates) {
	if s.Cache == "" {
		return
	}
	out, err := dirStore{dir: s.Cache}.servingCert(false)
	if err != nil {
		s.log.Warn("there is no certificate until the API server is reachable", "cache", s.Cache, "error", err)
		return
	}
	c.set(out)
}

// adoptCachedCA reads the CA that an earlier server created in the cache directory, so that its machines need no new
// pointer config when the Secret is created.
func (s *secretStore) adoptCachedCA() {
	if s.Cache == "" {
		return
	}
	m, err := dirStore{dir: s.Cache}.material()
	if err != nil || m.ca == nil || m.caKey == nil {
		return
	}
	key, err := parseKey(m.caKey)
	if err != nil {
		return
	}
	if cert, err := parseCertificate(m.ca); err == nil && keyMatches(key, cert) {
		s.knownCA = material{ca: m.ca, caKey: m.caKey}
	}
}

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
