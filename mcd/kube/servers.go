package kube

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// serversInterval is the interval at which the daemon reads the servers' addresses again.
	serversInterval = 5 * time.Minute
	// maxServers is the maximum number of URLs that the daemon tries.
	maxServers = 8
	// publishedIn names the ConfigMap in which the servers publish their addresses.
	publishedIn = "ConfigMap " + v1alpha1.ServerNamespace + "/" + v1alpha1.ServerConfigMap
)

// ServerOptions configure how a daemon finds the machine-config-servers. With the zero value, the daemon finds the
// servers through the API server and saves nothing.
type ServerOptions struct {
	// URLs replace the URLs that the servers publish. CA reads a CA as PEM that replaces the published CA. Either may
	// be nil.
	URLs []string
	CA   func() ([]byte, error)
	// Load and Save store the published addresses and CA, for a daemon that starts during an API outage. Either may be
	// nil. Load returns nil if nothing was saved.
	Load func() ([]byte, error)
	Save func(ctx context.Context, text []byte) error
	// Log gets a line when the daemon starts to read configs from another source. Log may be nil.
	Log *slog.Logger
}

// published has the data that the servers publish: their addresses and their CA.
type published struct {
	// Server is the URL that an administrator set. URLs are the URLs that the servers set.
	Server string   `json:"server,omitempty"`
	URLs   []string `json:"urls,omitempty"`
	// CA has certificates as PEM.
	CA string `json:"ca,omitempty"`
}

// servers finds the machine-config-servers of the cluster. servers is safe for use by several goroutines.
type servers struct {
	ServerOptions
	cluster *Connection

	mu sync.Mutex
	// known is the result of the last read; nil before the first read. read is the time of the last read. problem is
	// why the last read failed.
	known   *published
	read    time.Time
	problem error
	// saved is the last argument of Save.
	saved []byte
}

// endpoints returns the URLs of the servers in the order to try them, and the CA to trust. If the parameter fresh is
// true, endpoints reads them again, even if the last read was a moment ago.
func (s *servers) endpoints(ctx context.Context, fresh bool) ([]string, *x509.CertPool, error) {
	known, problem := published{}, error(nil)
	if len(s.URLs) == 0 || s.CA == nil {
		known, problem = s.readPublished(ctx, fresh)
	}
	urls, ca := s.URLs, []byte(known.CA)
	if len(urls) == 0 {
		var err error
		if urls, err = known.orderedURLs(s.cluster.lastName()); err != nil && problem == nil {
			problem = err
		}
	}
	if s.CA != nil {
		var err error
		if ca, err = s.CA(); err != nil {
			return nil, nil, fmt.Errorf("reading the CA of the machine-config-server: %w", err)
		}
	}
	switch {
	case len(urls) == 0 && problem != nil:
		return nil, nil, fmt.Errorf("no machine-config-server is known: %w", problem)
	case len(urls) == 0:
		return nil, nil, fmt.Errorf("no machine-config-server is known: %s has no URL", publishedIn)
	}
	pool := x509.NewCertPool()
	switch {
	case pool.AppendCertsFromPEM(ca):
	case s.CA != nil:
		return nil, nil, errors.New("the file of --server-ca has no certificate")
	case problem != nil:
		return nil, nil, fmt.Errorf("the CA of the machine-config-server is not known: %w", problem)
	default:
		return nil, nil, fmt.Errorf("the CA of the machine-config-server is not known: %s has no certificate under %s",
			publishedIn, v1alpha1.ServerCAKey)
	}
	return urls, pool, nil
}

// readPublished returns the published addresses and CA: from a recent read, from a new read, or from the saved file.
func (s *servers) readPublished(ctx context.Context, fresh bool) (published, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = s.loadSaved()
	}
	if !fresh && time.Since(s.read) < serversInterval {
		return *s.known, s.problem
	}
	is, err := withClient(s.cluster, func(k *Client) (published, error) { return k.published(ctx) })
	s.read, s.problem = time.Now(), err
	switch {
	case err == nil:
		s.known = &is
	case apierrors.IsNotFound(err):
		s.known, s.problem = &published{}, fmt.Errorf("there is no %s", publishedIn)
	case isForbidden(err):
		s.problem = fmt.Errorf("the node may not read %s; apply config/rbac", publishedIn)
	default:
		s.read = time.Time{} // The zero time lets the next request read again.
	}
	if s.known.CA == "" && !isForbidden(err) {
		s.read = time.Time{} // the first server of a new cluster publishes it soon
	}
	return *s.known, s.problem
}

// loadSaved returns the saved addresses and CA; the zero value if they cannot be read.
func (s *servers) loadSaved() *published {
	known := new(published)
	if s.Load == nil {
		return known
	}
	text, err := s.Load()
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, known)
	}
	if err != nil {
		s.logger().Debug("cannot read the saved addresses of the machine-config-servers", "err", err)
		return new(published)
	}
	s.saved = text
	return known
}

// savePublished saves the addresses and the CA of the last read, if they have changed. Save writes the disk of the
// machine, so only reads of the agent, which holds the lock of the machine, call savePublished.
func (s *servers) savePublished(ctx context.Context) {
	if s.Save == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || reflect.DeepEqual(*s.known, published{}) {
		return
	}
	text, err := json.Marshal(s.known)
	if err == nil && !slices.Equal(text, s.saved) {
		if err = s.Save(ctx, text); err == nil {
			s.saved = text
		}
	}
	if err != nil {
		s.logger().Warn("cannot save the addresses of the machine-config-servers", "err", err)
	}
}

// logger returns the log. If the options have no log, logger returns a log that discards all lines.
func (s *servers) logger() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// orderedURLs returns the URLs in the order in which a node tries them. The administrator's URL is first. The node's
// name determines which of the other URLs is next, so that nodes spread over the servers. The error names the last text
// that is not a server URL.
func (p published) orderedURLs(node string) (urls []string, err error) {
	others := slices.Clone(p.URLs)
	if n := len(others); n > 0 {
		h := fnv.New32a()
		h.Write([]byte(node)) //nolint:errcheck // it never fails
		at := int(h.Sum32() % uint32(n))
		others = slices.Concat(others[at:], others[:at])
	}
	for _, text := range append([]string{strings.TrimSpace(p.Server)}, others...) {
		if text == "" || slices.Contains(urls, text) || len(urls) == maxServers {
			continue
		}
		if wrong := CheckServerURL(text); wrong != nil {
			err = fmt.Errorf("%s: %w", publishedIn, wrong)
			continue
		}
		urls = append(urls, text)
	}
	return urls, err
}

// CheckServerURL returns an error if a text is not the URL of a machine-config-server.
func CheckServerURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%q is not the URL of a machine-config-server; want https://HOST:PORT", oneLine(text))
	}
	return nil
}

// published reads the ConfigMap with the published addresses and CA.
func (k *Client) published(ctx context.Context) (published, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	object, err := k.objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(
		v1alpha1.ServerNamespace).
		Get(ctx, v1alpha1.ServerConfigMap, metav1.GetOptions{})
	if err != nil {
		return published{}, markUnreachable(err)
	}
	text, err := object.MarshalJSON()
	var is corev1.ConfigMap
	if err = errors.Join(err, json.Unmarshal(text, &is)); err != nil {
		return published{}, fmt.Errorf("reading %s: %w", publishedIn, err)
	}
	return published{
		Server: is.Data[v1alpha1.ServerURLKey], URLs: strings.Fields(is.Data[v1alpha1.ServerURLsKey]),
		CA: is.Data[v1alpha1.ServerCAKey],
	}, nil
}
