package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/trust"
)

const (
	// readInterval is how often the objects are read, and readTimeout is how long a read may take.
	readInterval, readTimeout = 10 * time.Second, 10 * time.Second
	// stateKey is the key of the copy in the Cache.
	stateKey = "trust"
)

// Cache stores the last valid content of the objects for the next start.
type Cache interface {
	// Get returns the contents under a key, and whether there are any.
	Get(key string) ([]byte, bool)
	// Put replaces the contents under a key.
	Put(key string, contents []byte) error
}

// Options of a Follower. All are required.
type Options struct {
	// Cache stores the content in force.
	Cache Cache
	// Pools returns the pools of a node. The error is an *mcs.NotForNodeError if the cluster does not have the node.
	Pools func(ctx context.Context, node string) ([]string, error)
	// Log gets each problem of an object once.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Follower reads ConfigMaps with v1alpha1.TrustLabel (list, in v1alpha1.ServerNamespace), and knows what nodes trust. Its
// methods may be called concurrently.
type Follower struct {
	Options
	maps typedcorev1.ConfigMapInterface

	mu       sync.Mutex
	state    trust.State // nil until it is known
	problems string      // those logged last
	expiring string      // the certificates near their end that were logged last
}

// New prepares to read an API server.
func New(config *rest.Config, o Options) (*Follower, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for trust: %w", err)
	}
	f := &Follower{Options: o, maps: client.ConfigMaps(v1alpha1.ServerNamespace)}
	if text, ok := o.Cache.Get(stateKey); ok {
		if err := json.Unmarshal(text, &f.state); err != nil {
			o.Log.Warn("ignoring an unreadable copy of what nodes trust", "error", err)
			f.state = nil
		}
	}
	return f, nil
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

// Read reads the objects once. After an error, the content in force does not change.
func (f *Follower) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := f.maps.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.TrustLabel})
	if err != nil {
		return fmt.Errorf("reading the certificates that nodes trust: %w", err)
	}
	objects := make([]trust.Object, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, objectOf(&list.Items[i]))
	}
	f.mu.Lock()
	next, problems := trust.Next(f.state, objects, f.Now())
	f.state = next
	f.mu.Unlock()
	text, err := json.Marshal(next)
	if err == nil {
		err = f.Cache.Put(stateKey, text)
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("storing the certificates that nodes trust for the next start: %w", err))
	}
	f.logProblem(errors.Join(problems...))
	f.logExpiring(strings.Join(next.Expiring(f.Now()), "; "))
	return nil
}

// logExpiring logs the certificates near their end, unless they are those that were logged last.
func (f *Follower) logExpiring(lines string) {
	f.mu.Lock()
	same := lines == f.expiring
	f.expiring = lines
	f.mu.Unlock()
	if !same && lines != "" {
		f.Log.Warn("certificates that nodes trust expire soon", "certificates", lines)
	}
}

// objectOf reads a ConfigMap. Binary values are values too: they are no certificates, so the object is invalid.
func objectOf(m *corev1.ConfigMap) trust.Object {
	o := trust.Object{
		Name: m.Namespace + "/" + m.Name, Kind: m.Labels[v1alpha1.TrustLabel], Pools: m.Annotations[v1alpha1.TrustPoolsAnnotation],
		Created: m.CreationTimestamp.Time, Data: map[string]string{},
	}
	for key, value := range m.Data {
		o.Data[key] = value
	}
	for key, value := range m.BinaryData {
		o.Data[key] = string(value)
	}
	return o
}

// logProblem logs a problem, unless it is the one that was logged last. Nil means that there is no problem any more.
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

// NodeTrust returns what a node trusts, a v1alpha1.NodeTrust in JSON. The error is an *mcs.NotForNodeError if the node is
// in no pool. It wraps mcs.ErrAPIUnavailable or mcs.ErrNotSynced if the node's pools or the objects are not known.
func (f *Follower) NodeTrust(ctx context.Context, node string) ([]byte, error) {
	pools, err := f.Pools(ctx, node)
	if err != nil {
		return nil, err
	}
	if len(pools) == 0 {
		return nil, &mcs.NotForNodeError{Node: node, Why: errors.New("it is in no pool; label it for the pool that it belongs to")}
	}
	f.mu.Lock()
	state := f.state
	f.mu.Unlock()
	if state == nil {
		return nil, fmt.Errorf("%w: reading the certificates that nodes trust: they were not read yet", mcs.ErrAPIUnavailable)
	}
	return json.Marshal(state.For(pools))
}
