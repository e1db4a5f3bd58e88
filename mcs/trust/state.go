package trust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Object is a ConfigMap with certificates, or a Secret with the pull secret.
type Object struct {
	// NAMESPACE/NAME for a ConfigMap, and "Secret NAMESPACE/NAME" for a Secret
	Name string
	// of a Secret; Version identifies its contents without a digest of them
	Secret  bool
	Version string
	// of v1alpha1.TrustLabel
	Kind string
	// of v1alpha1.TrustPoolsAnnotation
	Pools string
	// Of two objects with one path, the older one decides.
	Created time.Time
	Data    map[string]string
}

// Content is the last valid content of an object.
type Content struct {
	// that get the files; nil means all
	Pools []string `json:"pools,omitempty"`
	// in the order of their paths
	Files []v1alpha1.TrustFile `json:"files,omitempty"`
	// The server has never known valid content of the object.
	Unknown bool `json:"unknown,omitempty"`
}

// State has the content in force of each object, by name.
type State map[string]Content

// Next returns the content in force after objects were read. That of a valid object is its own, and that of an invalid
// one stays as before. Objects that are gone have none. The problems say what is wrong with each invalid object, and
// how to fix it; they contain no value.
func Next(have State, objects []Object, now time.Time) (State, []error) {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b Object) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	next, problems, owners := State{}, []error(nil), map[string][]Object{}
	for _, o := range objects {
		content, err := read(o, now)
		if err == nil {
			err = checkOwner(owners, o, content)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("reading %s: %w", o.kindAndName(), err))
			before, known := have[o.Name]
			if content = before; !known {
				content = Content{Unknown: true}
			}
		}
		next[o.Name] = content
		for _, f := range content.Files {
			owners[f.Path] = append(owners[f.Path], Object{
				Name: o.Name, Secret: o.Secret,
				Pools: strings.Join(content.Pools, ","),
			})
		}
	}
	return next, problems
}

// read names every invalid key in its error.
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

// registryOf returns HOST or HOST:PORT for a key of a ConfigMap, in which two dots stand for a colon, as in OpenShift.
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

func bundlePath(o Object, path string) (map[string]string, error) {
	if _, has := o.Data[v1alpha1.TrustBundleKey]; !has || len(o.Data) != 1 {
		return nil, fmt.Errorf("an object of kind %s needs the key %s and no other key", o.Kind,
			v1alpha1.TrustBundleKey)
	}
	return map[string]string{v1alpha1.TrustBundleKey: path}, nil
}

// checkBundle returns PEM certificates without other text, and when the first of them expires that has not expired yet.
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

func (o Object) kindAndName() string {
	if o.Secret {
		return o.Name
	}
	return "ConfigMap " + o.Name
}

// WithoutSecrets returns the state for a file on disk. Objects with secret contents are unknown there, so that nodes
// keep their files.
func (s State) WithoutSecrets() State {
	out := State{}
	for name, c := range s {
		if slices.ContainsFunc(c.Files, func(f v1alpha1.TrustFile) bool { return f.Secret }) {
			c.Files, c.Unknown = nil, true
		}
		out[name] = c
	}
	return out
}

// Retain adds the content before of objects that could not be read, whose names have one of the prefixes. Nodes keep
// the files of those that the server does not know.
func (s State) Retain(have State, prefixes []string) {
	for _, prefix := range prefixes {
		s[prefix+"*"] = Content{Unknown: true}
		for name, c := range have {
			if strings.HasPrefix(name, prefix) {
				s[name] = c
			}
		}
	}
}

// checkOwner refuses a path that an older object has for one of the same pools.
func checkOwner(owners map[string][]Object, o Object, c Content) error {
	for _, f := range c.Files {
		for _, older := range owners[f.Path] {
			pools, _ := poolsOf(older.Pools)
			if pools == nil || c.Pools == nil || slices.ContainsFunc(pools, func(p string) bool {
				return slices.Contains(c.Pools, p)
			}) {
				return fmt.Errorf("the older %s has %s for the same pools: add the contents to that object, or list "+
					"other pools in %s", older.kindAndName(), f.Path, v1alpha1.TrustPoolsAnnotation)
			}
		}
	}
	return nil
}

// For returns what a node in these pools trusts. Of two objects with one path, the first by name decides; Next allows
// this only for different pools of one node.
func (s State) For(pools []string) v1alpha1.NodeTrust {
	out := v1alpha1.NodeTrust{Files: []v1alpha1.TrustFile{}}
	seen := map[string]bool{}
	for _, pool := range append(slices.Clone(pools), "") {
		names := make([]string, 0, len(s))
		for name, c := range s {
			if pool == "" && c.Pools == nil || pool != "" && slices.Contains(c.Pools, pool) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if s[name].Unknown {
				out.Keep = append(out.Keep, name)
			}
			for _, f := range s[name].Files {
				if !seen[f.Path] {
					out.Files = append(out.Files, f)
				}
				seen[f.Path] = true
			}
		}
	}
	slices.SortFunc(out.Files, func(a, b v1alpha1.TrustFile) int { return strings.Compare(a.Path, b.Path) })
	out.Revision = revision(out)
	return out
}

// Expiring has a line with the object, the path and the time for each file with a certificate that expires within 30
// days, in the order of the paths and objects.
func (s State) Expiring(now time.Time) []string {
	var lines []string
	for name, c := range s {
		for _, f := range c.Files {
			if !f.Expires.IsZero() && f.Expires.Before(now.Add(v1alpha1.TrustExpiresSoon)) {
				lines = append(lines, fmt.Sprintf("%s: a certificate of ConfigMap %s expires at %s: add the one that "+
					"replaces it", f.Path, name, f.Expires.Format(time.RFC3339)))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// revision is the digest of the files and the objects to keep. Certificates are public, so a plain digest reveals
// nothing. Of a secret it has the version of the object only, because a node reports the revision.
func revision(t v1alpha1.NodeTrust) string {
	h := sha256.New()
	for _, f := range t.Files {
		contents := f.Contents
		if f.Secret {
			contents = f.Version
		}
		text, _ := json.Marshal([]any{f.Path, f.Mode, contents, f.From}) //nolint:errchkjson // strings and a number
		h.Write(append(text, '\n'))
	}
	text, _ := json.Marshal(t.Keep) //nolint:errchkjson // strings
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// Limits of one object.
const (
	maxBundleBytes = trustfile.MaxBytes
	maxRegistries  = 500
)

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
