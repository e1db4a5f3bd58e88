package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

const (
	// the kind of each file and the version of its format
	cacheHeader = "bunsen-cache 1 "
	// the end of the name of a complete file, and the beginning of that of a file that is still written
	cacheSuffix, cacheTempPrefix = ".kept", ".new-"
)

// That of a pool's config is a prefix and the pool's name.
const (
	poolPrefix   = "pool-"
	configPrefix = "config-"
	nodesKey     = "nodes"
	tokensKey    = "tokens"
	kubeletCAKey = "kubelet-ca"
)

// Cache stores data from the API server in files of one directory, for the next start. Each key has the contents of the
// last Put, or none. Other users cannot read the files. Nil stores nothing. All methods may be called concurrently,
// except two writes of the same key.
type Cache struct {
	dir string
	log *slog.Logger
	// before each step of a write; tests simulate crashes in it
	step func(string)
}

// OpenCache creates a missing directory, and removes incomplete files that a crash left. Two processes must not use the
// same directory.
func OpenCache(dir string, log *slog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the cache directory: %w", err)
	}
	c := &Cache{dir: dir, log: log, step: func(string) {}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the cache directory: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), cacheTempPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("removing an incomplete file from the cache: %w", err)
		}
	}
	return c, nil
}

// validKey: a part of a file name
var validKey = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func (c *Cache) path(key string) (string, error) {
	if !validKey.MatchString(key) {
		return "", fmt.Errorf("%q is not a valid cache key", key)
	}
	return filepath.Join(c.dir, key+cacheSuffix), nil
}

// cacheDigest includes the key, so that a renamed file does not match.
func cacheDigest(key string, contents []byte) string {
	sum := sha256.New()
	sum.Write([]byte(key + "\n"))
	sum.Write(contents)
	return hex.EncodeToString(sum.Sum(nil))
}

// Put replaces the contents under a key. After it returned nil, they survive a power loss. If the process ends before
// that, the next one finds the earlier contents or all of the new.
func (c *Cache) Put(key string, contents []byte) error {
	if c == nil {
		return nil
	}
	path, err := c.path(key)
	if err != nil {
		return err
	}
	text := append([]byte(cacheHeader+cacheDigest(key, contents)+"\n"), contents...)
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, text) {
		return nil // Put does not write unchanged contents again, to spare the disk.
	}
	if err := c.write(path, text); err != nil {
		return fmt.Errorf("writing %s to the cache: %w", key, err)
	}
	return nil
}

func (c *Cache) write(path string, text []byte) error {
	c.step("create")
	f, err := os.CreateTemp(c.dir, cacheTempPrefix) // CreateTemp sets the mode 0600.
	if err != nil {
		return err
	}
	c.step("write")
	_, err = f.Write(text)
	c.step("flush")
	err = errors.Join(err, f.Sync())
	c.step("close")
	err = errors.Join(err, f.Close())
	if err == nil {
		c.step("rename")
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	c.step("flush the directory")
	return c.syncDir()
}

func (c *Cache) syncDir() error {
	d, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get returns the contents under a key. It logs a damaged file and treats it as missing.
func (c *Cache) Get(key string) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	path, err := c.path(key)
	if err != nil {
		return nil, false
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err == nil {
		rest, hasHeader := bytes.CutPrefix(text, []byte(cacheHeader))
		sum, contents, hasDigest := bytes.Cut(rest, []byte("\n"))
		switch {
		case !hasHeader || !hasDigest:
			err = errors.New("unrecognized file header")
		case string(sum) != cacheDigest(key, contents):
			err = errors.New("the contents do not match the digest")
		default:
			return contents, true
		}
	}
	c.log.Warn("ignoring a damaged cache file", "file", path, "error", err)
	return nil, false
}

// Remove removes a key. A missing key is not an error.
func (c *Cache) Remove(key string) error {
	if c == nil {
		return nil
	}
	path, err := c.path(key)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = c.syncDir()
	}
	if err != nil {
		return fmt.Errorf("removing %s from the cache: %w", key, err)
	}
	return nil
}

// Keys lists the keys in order, including keys of damaged files.
func (c *Cache) Keys() []string {
	if c == nil {
		return nil
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		c.log.Warn("reading the cache directory", "error", err)
	}
	var keys []string
	for _, e := range entries {
		if key, ok := strings.CutSuffix(e.Name(), cacheSuffix); ok && validKey.MatchString(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// readJSON reports whether it decoded the contents under a key. It logs what it cannot decode.
func (c *Cache) readJSON(key string, into any) bool {
	raw, ok := c.Get(key)
	if !ok {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		c.log.Warn("ignoring an unreadable cache entry", "key", key, "error", err)
		return false
	}
	return true
}

// configs were served last, by pool.
func (c *Cache) configs() map[string]*mcfgv1.MachineConfig {
	configs := map[string]*mcfgv1.MachineConfig{}
	for _, key := range c.Keys() {
		config := &mcfgv1.MachineConfig{}
		if pool, ok := strings.CutPrefix(key, poolPrefix); ok && c.readJSON(key, config) && config.Name != "" {
			configs[pool] = config
		}
	}
	return configs
}

// tokens were known last, by id.
func (c *Cache) tokens() map[string]*v1alpha1.ProvisioningToken {
	known := map[string]*v1alpha1.ProvisioningToken{}
	var all []v1alpha1.ProvisioningToken
	if c.readJSON(tokensKey, &all) {
		for i := range all {
			known[all[i].Name] = &all[i]
		}
	}
	return known
}

// nodePools are by node, as found last.
func (c *Cache) nodePools() map[string][]string {
	known := map[string][]string{}
	if !c.readJSON(nodesKey, &known) {
		return map[string][]string{}
	}
	return known
}

// caPollInterval is for the CA of the API server's clients.
const caPollInterval = time.Minute

// Here every API server publishes the CA of its clients.
const (
	clientCAMap = "extension-apiserver-authentication"
	clientCAKey = "client-ca-file"
)

// readKubeletCA passes a changed CA of the API server's clients to KubeletCA and NodeCA. New kubelets trust it, and it
// signs the kubelets' certificates. It returns false if new kubelets need the CA and it cannot be read: then the server
// serves no config.
func (c *Cluster) readKubeletCA(ctx context.Context) bool {
	if c.KubeletCA == nil && c.NodeCA == nil {
		return true
	}
	ca, err := c.clientCA(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		c.Log.Warn("reading the CA of the API server's clients failed: new kubelets need it (or set --kubelet-ca), "+
			"and nodes authenticate by it", "error", err)
		return c.KubeletCA == nil
	case err != nil:
		return false
	case bytes.Equal(ca, c.ca):
		return true
	}
	if err := c.Cache.Put(kubeletCAKey, ca); err != nil {
		c.Log.Warn("caching the kubelets' CA failed", "error", err)
	}
	c.setCA(ca)
	return true
}

func (c *Cluster) setCA(ca []byte) {
	c.ca = ca
	if c.NodeCA != nil {
		c.NodeCA(ca)
	}
	if c.KubeletCA != nil {
		c.KubeletCA(ca)
	}
}

func (c *Cluster) followKubeletCA(ctx context.Context) {
	if c.KubeletCA == nil && c.NodeCA == nil {
		return
	}
	tick := time.NewTicker(caPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.readKubeletCA(ctx)
		}
	}
}

func (c *Cluster) clientCA(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	read := &corev1.ConfigMap{}
	if err := c.api.core.Get().Namespace(metav1.NamespaceSystem).Resource("configmaps").Name(clientCAMap).Do(ctx).
		Into(read); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, clientCAMap, err)
	}
	ca := read.Data[clientCAKey]
	if ca == "" {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: it has no %s", metav1.NamespaceSystem, clientCAMap,
			clientCAKey)
	}
	return []byte(ca), nil
}
