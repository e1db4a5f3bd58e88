package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/mcs"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// between two reads, and for one
	readInterval, readTimeout = 10 * time.Second, 10 * time.Second
	// of the copy in the Cache
	stateKey = "trust"
)

// Cache stores the last valid content of the objects for the next start.
type Cache interface {
	// Get returns the contents under a key, and whether there are any.
	Get(key string) ([]byte, bool)
	// Put replaces the contents under a key.
	Put(key string, contents []byte) error
}

// Options of a Follower. All but Original are required.
type Options struct {
	Cache Cache
	// The error is an *mcs.NotForNodeError if the cluster does not have the node.
	Pools func(ctx context.Context, node string) ([]string, error)
	// the namespace of OpenShift's configuration, usually openshift-config; "" reads no objects there
	Original string
	// Log gets each problem of an object once.
	Log *slog.Logger
	Now func() time.Time
}

// Follower reads ConfigMaps and Secrets with v1alpha1.TrustLabel (list, in v1alpha1.ServerNamespace and
// v1alpha1.SecretsNamespace), and knows what nodes trust. Its methods may be called concurrently.
type Follower struct {
	Options
	sources []source

	mu       sync.Mutex
	state    State                // nil until it is known
	answers  map[string]answer    // by pools, for state
	pools    map[string]readPools // by node
	problems string               // those logged last
	expiring string               // the certificates near their end that were logged last
}

// NewFollower prepares to read an API server.
func NewFollower(config *rest.Config, o Options) (*Follower, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for trust: %w", err)
	}
	f := &Follower{
		Options: o, sources: sources(client, o.Original), answers: map[string]answer{},
		pools: map[string]readPools{},
	}
	if text, ok := o.Cache.Get(stateKey); ok {
		if err := json.Unmarshal(text, &f.state); err != nil {
			o.Log.Warn("ignoring an unreadable copy of what nodes trust", "error", err)
			f.state = nil
		}
	}
	return f, nil
}

// sources are the places that a server reads, also those in the namespace of OpenShift's configuration.
func sources(client typedcorev1.CoreV1Interface, original string) []source {
	labelled := metav1.ListOptions{LabelSelector: v1alpha1.TrustLabel}
	all := []source{
		{v1alpha1.ServerNamespace + "/", func(ctx context.Context) (objects []Object, err error) {
			list, err := client.ConfigMaps(v1alpha1.ServerNamespace).List(ctx, labelled)
			if err != nil {
				return nil, fmt.Errorf("reading the certificates that nodes trust: %w", err)
			}
			for i := range list.Items {
				objects = append(objects, ofConfigMap(&list.Items[i], list.Items[i].Labels[v1alpha1.TrustLabel]))
			}
			return objects, nil
		}},
		{"Secret " + v1alpha1.SecretsNamespace + "/", func(ctx context.Context) (objects []Object, err error) {
			list, err := client.Secrets(v1alpha1.SecretsNamespace).List(ctx, labelled)
			if err != nil {
				return nil, fmt.Errorf("reading the Secrets for nodes: %w", err)
			}
			for i := range list.Items {
				objects = append(objects, ofSecret(&list.Items[i], list.Items[i].Labels[v1alpha1.TrustLabel]))
			}
			return objects, nil
		}},
	}
	if original == "" {
		return all
	}
	return append(all,
		source{original + "/", func(ctx context.Context) ([]Object, error) {
			return originalConfigMaps(ctx, client, original)
		}},
		source{"Secret " + original + "/", func(ctx context.Context) ([]Object, error) {
			s, err := client.Secrets(original).Get(ctx, originalPullSecret, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("reading Secret %s/%s: %w", original, originalPullSecret, err)
			}
			return []Object{ofSecret(s, v1alpha1.TrustPullSecret)}, nil
		}},
	)
}

// originalConfigMaps reads the user's CA bundle of OpenShift, and the CAs of registries that its image configuration
// names.
func originalConfigMaps(ctx context.Context, client typedcorev1.CoreV1Interface,
	namespace string,
) (objects []Object, err error) {
	kinds := map[string]string{originalUserCA: v1alpha1.TrustUserCA}
	raw, err := client.RESTClient().Get().AbsPath(originalImages).Do(ctx).Raw()
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the image configuration %s: %w", originalImages, err)
	}
	var images struct {
		Spec struct {
			AdditionalTrustedCA struct {
				Name string `json:"name"`
			} `json:"additionalTrustedCA"`
		} `json:"spec"`
	}
	if err == nil {
		if err := json.Unmarshal(raw, &images); err != nil {
			return nil, fmt.Errorf("reading the image configuration %s: %w", originalImages, err)
		}
	}
	if name := images.Spec.AdditionalTrustedCA.Name; name != "" {
		kinds[name] = v1alpha1.TrustRegistryCA
	}
	for name, kind := range kinds {
		m, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
		}
		objects = append(objects, ofConfigMap(m, kind))
	}
	return objects, nil
}

func ofSecret(s *corev1.Secret, kind string) Object {
	o := Object{
		Name: "Secret " + s.Namespace + "/" + s.Name, Secret: true, Version: string(s.UID) + "/" + s.ResourceVersion,
		Kind: kind, Pools: s.Annotations[v1alpha1.TrustPoolsAnnotation], Created: s.CreationTimestamp.Time,
		Data: map[string]string{},
	}
	for key, value := range s.Data {
		o.Data[key] = string(value)
	}
	return o
}

// Run reads the objects until the context ends. The error is nil.
func (f *Follower) Run(ctx context.Context) error {
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for {
		if err := f.Read(ctx); err != nil && ctx.Err() == nil {
			f.logProblem(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Read reads the objects once. Those of a place that cannot be read stay as they are, and the error says why. After an
// error of every place, nothing changes.
func (f *Follower) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var objects []Object
	var unread []string
	var failures []error
	for _, place := range f.sources {
		read, err := place.read(ctx)
		if err != nil {
			unread, failures = append(unread, place.prefix), append(failures, err)
			continue
		}
		objects = append(objects, read...)
	}
	if len(unread) == len(f.sources) {
		return errors.Join(failures...)
	}
	f.mu.Lock()
	next, problems := Next(f.state, objects, f.Now())
	next.Retain(f.state, unread)
	if !reflect.DeepEqual(next, f.state) {
		f.answers = map[string]answer{}
	}
	f.state = next
	f.mu.Unlock()
	text, err := json.Marshal(next.WithoutSecrets())
	if err == nil {
		err = f.Cache.Put(stateKey, text)
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("storing the certificates that nodes trust for the next start: %w", err))
	}
	f.logProblem(errors.Join(append(failures, problems...)...))
	f.logExpiring(strings.Join(next.Expiring(f.Now()), "; "))
	return nil
}

// logExpiring logs certificates near their end, unless they were logged last.
func (f *Follower) logExpiring(lines string) {
	f.mu.Lock()
	same := lines == f.expiring
	f.expiring = lines
	f.mu.Unlock()
	if !same && lines != "" {
		f.Log.Warn("certificates that nodes trust expire soon", "certificates", lines)
	}
}

// logProblem logs a problem, or nil after it is gone, unless it is the one that was logged last.
func (f *Follower) logProblem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	same := text == f.problems
	f.problems = text
	f.mu.Unlock()
	switch {
	case same:
	case err == nil:
		f.Log.Info("all objects with certificates for nodes are valid")
	default:
		f.Log.Warn("the earlier certificates stay in force", "error", text)
	}
}

// poolsTime is how long a node's pools count for the answer that nothing has changed. One with contents is always for
// the pools of now.
const poolsTime = 5 * time.Minute

type readPools struct {
	pools []string
	at    time.Time
}

type answer struct {
	revision string
	text     []byte
}

// NodeTrust returns what a node trusts, a v1alpha1.NodeTrust in JSON, and its revision. The text is nil if the node
// knows it. The error is an *mcs.NotForNodeError if the node is in no pool, and wraps mcs.ErrAPIUnavailable or
// mcs.ErrNotSynced if its pools or the objects are not known.
func (f *Follower) NodeTrust(ctx context.Context, node, known string) ([]byte, string, error) {
	if known != "" && f.isUnchanged(node, known) {
		return nil, known, nil
	}
	pools, err := f.Pools(ctx, node)
	if err != nil {
		return nil, "", err
	}
	if len(pools) == 0 {
		return nil, "",
			&mcs.NotForNodeError{
				Node: node,
				Why:  errors.New("it is in no pool; label it for the pool that it belongs to"),
			}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil {
		return nil, "", fmt.Errorf("%w: reading the certificates that nodes trust: they were not read yet",
			mcs.ErrAPIUnavailable)
	}
	if len(f.pools) > maxNodes {
		f.pools = map[string]readPools{}
	}
	f.pools[node] = readPools{pools, f.Now()}
	a, err := f.answerLocked(pools)
	if err != nil || a.revision == known {
		return nil, a.revision, err
	}
	return a.text, a.revision, nil
}

// maxNodes limits the nodes whose pools are stored.
const maxNodes = 20000

// isUnchanged reports whether a node has the newest revision for its pools of a short time ago. It reads nothing.
func (f *Follower) isUnchanged(node, known string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	is, read := f.pools[node]
	if !read || f.state == nil || f.Now().Sub(is.at) > poolsTime {
		return false
	}
	a, err := f.answerLocked(is.pools)
	return err == nil && a.revision == known
}

// answerLocked computes each answer once. The caller holds mu.
func (f *Follower) answerLocked(pools []string) (answer, error) {
	key := strings.Join(pools, ",")
	if a, has := f.answers[key]; has {
		return a, nil
	}
	is := f.state.For(pools)
	text, err := json.Marshal(is)
	if err != nil {
		return answer{}, fmt.Errorf("encoding what nodes trust: %w", err)
	}
	a := answer{is.Revision, text}
	f.answers[key] = a
	return a, nil
}

// The objects of OpenShift, and the path of the object that names one of them.
const (
	originalUserCA     = "user-ca-bundle"
	originalPullSecret = "pull-secret" //nolint:gosec // a name
	originalImages     = "/apis/config.openshift.io/v1/images/cluster"
)

type source struct {
	// of the names of its objects
	prefix string
	read   func(ctx context.Context) ([]Object, error)
}

// ofConfigMap takes binary values too: they are no certificates, so the object is invalid.
func ofConfigMap(m *corev1.ConfigMap, kind string) Object {
	o := Object{
		Name: m.Namespace + "/" + m.Name, Kind: kind, Pools: m.Annotations[v1alpha1.TrustPoolsAnnotation],
		Created: m.CreationTimestamp.Time, Data: map[string]string{},
	}
	maps.Copy(o.Data, m.Data)
	for key, value := range m.BinaryData {
		o.Data[key] = string(value)
	}
	return o
}
