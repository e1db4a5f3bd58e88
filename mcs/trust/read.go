package trust

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Limits of one object.
const (
	maxBundleBytes = trustfile.MaxBytes
	maxRegistries  = 500
)

// read returns the content of an object. The error names every invalid key.
func read(o Object, now time.Time) (c Content, err error) {
	defer fault.Recover(&err) // One object must not end the server.
	pools, err := poolsOf(o.Pools)
	if err != nil {
		return Content{}, err
	}
	paths, err := pathsOf(o)
	errs := []error{err}
	c = Content{Pools: pools}
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		f := v1alpha1.TrustFile{Path: paths[key], Mode: 0o644, From: o.Name}
		var err error
		if o.Secret {
			f.Mode, f.Secret, f.Contents, f.Version = 0o600, true, o.Data[key], o.Version
			err = trustfile.Check(f)
		} else {
			f.Contents, f.Expires, err = checkBundle(o.Data[key], now)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", key, err))
			continue
		}
		c.Files = append(c.Files, f)
	}
	slices.SortFunc(c.Files, func(a, b v1alpha1.TrustFile) int { return strings.Compare(a.Path, b.Path) })
	return c, errors.Join(errs...)
}

// validPool matches the names of pools.
var validPool = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// poolsOf reads a list of pools; nil means all.
func poolsOf(text string) ([]string, error) {
	if text == "" || text == "*" {
		return nil, nil
	}
	var pools []string
	for pool := range strings.SplitSeq(text, ",") {
		if pool = strings.TrimSpace(pool); !validPool.MatchString(pool) {
			return nil, fmt.Errorf("annotation %s: %q is not the name of a pool: list names with commas between "+
				"them, or write * for all pools", v1alpha1.TrustPoolsAnnotation, pool)
		}
		pools = append(pools, pool)
	}
	slices.Sort(pools)
	return slices.Compact(pools), nil
}

// pathsOf returns the path on the node for each key of an object.
func pathsOf(o Object) (map[string]string, error) {
	if o.Secret {
		return pullSecretPath(o)
	}
	switch o.Kind {
	case v1alpha1.TrustPullSecret:
		return nil, fmt.Errorf("label %s: a pull secret in a ConfigMap is not secret: delete the ConfigMap, revoke "+
			"the credentials, and create a Secret in %s", v1alpha1.TrustLabel, v1alpha1.SecretsNamespace)
	case v1alpha1.TrustUserCA:
		return bundlePath(o, trustfile.UserCAPath)
	case v1alpha1.TrustKubeletCA:
		return bundlePath(o, trustfile.KubeletCAPath)
	case v1alpha1.TrustCloudCA:
		return bundlePath(o, trustfile.CloudCAPath)
	case v1alpha1.TrustRegistryCA:
		return registryPaths(o)
	}
	return nil, fmt.Errorf("label %s: %q is not a kind of trust: use %s, %s, %s or %s", v1alpha1.TrustLabel, o.Kind,
		v1alpha1.TrustUserCA, v1alpha1.TrustKubeletCA, v1alpha1.TrustCloudCA, v1alpha1.TrustRegistryCA)
}

// pullSecretPath returns the path of a Secret's key.
func pullSecretPath(o Object) (map[string]string, error) {
	if o.Kind != v1alpha1.TrustPullSecret {
		return nil, fmt.Errorf("label %s: %q is not a kind of trust for a Secret: use %s, or a ConfigMap in %s for "+
			"certificates", v1alpha1.TrustLabel, o.Kind, v1alpha1.TrustPullSecret, v1alpha1.ServerNamespace)
	}
	if _, has := o.Data[v1alpha1.PullSecretKey]; !has || len(o.Data) != 1 {
		return nil, fmt.Errorf("it needs the key %s and no other key: create it with kubectl create secret "+
			"docker-registry, or with --type=kubernetes.io/dockerconfigjson", v1alpha1.PullSecretKey)
	}
	return map[string]string{v1alpha1.PullSecretKey: trustfile.PullSecretPath}, nil
}

// bundlePath returns the path of an object that has one bundle.
func bundlePath(o Object, path string) (map[string]string, error) {
	if _, has := o.Data[v1alpha1.TrustBundleKey]; !has || len(o.Data) != 1 {
		return nil, fmt.Errorf("an object of kind %s needs the key %s and no other key", o.Kind,
			v1alpha1.TrustBundleKey)
	}
	return map[string]string{v1alpha1.TrustBundleKey: path}, nil
}

// registryPaths returns the path of each registry's certificates.
func registryPaths(o Object) (map[string]string, error) {
	switch n := len(o.Data); {
	case n == 0:
		return nil, errors.New("it has no registry: add a key such as registry.example.com, or " +
			"registry.example.com..5000 for a port")
	case n > maxRegistries:
		return nil, fmt.Errorf("it has %d registries, more than %d: divide them among several objects", n,
			maxRegistries)
	}
	paths := map[string]string{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		host, err := registryOf(key)
		if err != nil {
			errs = append(errs, fmt.Errorf("key %q: %w", key, err))
			continue
		}
		paths[key] = path.Join(trustfile.RegistriesDir, host, trustfile.RegistryFile)
	}
	return paths, errors.Join(errs...)
}

// registryOf returns HOST or HOST:PORT for a key of a ConfigMap. A key cannot have a colon, so two dots stand for it,
// as in OpenShift.
func registryOf(key string) (string, error) {
	host, port, hasPort := strings.Cut(key, "..")
	if strings.Contains(host, ":") || !trustfile.ValidRegistry(host) {
		return "", errors.New("it is not a registry: use a DNS name in lower case or an IPv4 address, such as " +
			"registry.example.com")
	}
	if !hasPort {
		return host, nil
	}
	if registry := host + ":" + port; trustfile.ValidRegistry(registry) {
		return registry, nil
	}
	return "", fmt.Errorf("%q is not a port: use a number from 1 to 65535, such as registry.example.com..5000", port)
}

// checkBundle checks PEM certificates. It returns them without other text, and when the first of them expires that has
// not expired yet.
func checkBundle(text string, now time.Time) (string, time.Time, error) {
	if len(text) > maxBundleBytes {
		return "", time.Time{}, fmt.Errorf("it is longer than %d KiB: remove certificates that no node needs",
			maxBundleBytes>>10)
	}
	all, err := trustfile.Certificates([]byte(text))
	if err != nil {
		return "", time.Time{}, err
	}
	var first time.Time
	for _, c := range all {
		if end := c.NotAfter.UTC(); !end.Before(now) && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	if first.IsZero() {
		return "", time.Time{}, errors.New("all of its certificates have expired: add the certificates that " +
			"replace them")
	}
	return trustfile.PEM(all...), first, nil
}
