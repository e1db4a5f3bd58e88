package mcs

import (
	"fmt"
	"maps"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ServedFormat selects one response body of a config.
type ServedFormat struct {
	Version  Version
	Gzip     bool
	Withhold bool
}

// ServedConfig is what one pool serves: one rendered config, and its body in each format. It never changes, so any
// number of requests share it. Pools creates it.
type ServedConfig struct {
	// of the rendered config, and the configs of single nodes
	name  string
	nodes v1alpha1.NodeConfigs
	input Input
	// an error for content that no machine may boot
	check func() error
	// those that were requested last; each function creates its body on the first call
	bodies *lru.Cache[bodyKey, func() (ServedBody, error)]
	// Machines with the config read files from the server.
	needsContent bool
}

// maxBodies limits the bodies of a config: each version, encoding and secrecy has one, and each address from which
// machines read files has one of each in an hour.
const maxBodies = 96

// bodyKey selects a body. The fields besides the format are for files that machines read from the server.
type bodyKey struct {
	ServedFormat
	server  string
	ca      string
	expires int64
}

func newConfig(in Input) *ServedConfig {
	c := &ServedConfig{}
	if in.Rendered != nil {
		c.name = in.Rendered.Name
	}
	in.Rendered, c.nodes = asBase(in.Rendered)
	c.needsContent = in.Rendered != nil && NeedsServer(in.Rendered)
	c.input, c.check = in, sync.OnceValue(func() error { return check(in.Rendered) })
	c.bodies = newCache[bodyKey, func() (ServedBody, error)](maxBodies)
	return c
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // The only possible error is a size that is not positive.
	}
	return c
}

// asBase returns a rendered config of a pool as a machine gets it, with the configs of single nodes. A machine without
// its own runs the content under the name of that content.
func asBase(rendered *mcfgv1.MachineConfig) (*mcfgv1.MachineConfig, v1alpha1.NodeConfigs) {
	if rendered == nil {
		return nil, v1alpha1.NodeConfigs{}
	}
	nodes, err := v1alpha1.ParseNodeConfigs(rendered.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil || nodes.IsZero() {
		return rendered, v1alpha1.NodeConfigs{}
	}
	base := *rendered
	base.Name, base.Annotations = nodes.Base, maps.Clone(rendered.Annotations)
	delete(base.Annotations, v1alpha1.NodeConfigsAnnotation)
	return &base, nodes
}

// check repeats the checks from before the rendering, because the server does not trust the author of the rendered
// config.
func check(rendered *mcfgv1.MachineConfig) error {
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil // Compose reports this error.
	}
	if bad := machineconfig.Check(config); len(bad) > 0 {
		return fmt.Errorf("checking config %s: %w", rendered.Name, bad.Err())
	}
	return nil
}

// Name returns the name of the rendered config.
func (c *ServedConfig) Name() string { return c.name }

// Commit returns the revision that the rendered config comes from, or "" if it comes from no repository.
func (c *ServedConfig) Commit() string {
	return c.input.Rendered.Annotations[v1alpha1.RevisionAnnotation]
}

// Body returns the body in a format, for machines that read files from the server in one way; the access is nil if they
// read none. Those with equal grants share it. The first call creates it, and concurrent ones wait. Errors are those of
// Compose.
func (c *ServedConfig) Body(f ServedFormat, access *ContentAccess) (ServedBody, error) {
	key := bodyKey{ServedFormat: f}
	if access != nil {
		key.server, key.ca, key.expires = access.Server, string(access.CA), access.Expires.Unix()
	}
	body, ok := c.bodies.Get(key)
	if !ok {
		body = sync.OnceValues(func() (ServedBody, error) { return c.create(f, access) })
		if first, isKnown, _ := c.bodies.PeekOrAdd(key, body); isKnown {
			body = first // of a concurrent call
		}
	}
	return body()
}

// create composes a body, or compresses the plain one. If no secret is withheld, the formats with and without Withhold
// share one.
func (c *ServedConfig) create(f ServedFormat, access *ContentAccess) (body ServedBody, err error) {
	defer fault.Recover(&err) // The config of one pool must not end the server.
	if f.Gzip {
		plain, err := c.Body(ServedFormat{Version: f.Version, Withhold: f.Withhold}, access)
		if err != nil {
			return ServedBody{}, err
		}
		return compress(plain), nil
	}
	body, err = c.compose(f, nil, access)
	if err == nil && f.Withhold && len(body.Withheld) == 0 {
		return c.Body(ServedFormat{Version: f.Version}, access)
	}
	return body, err
}

// BodyWithSecrets is Body with resolved contents, for one machine; a new one for each call, because secrets change
// while the config's name stays. The format must not withhold secrets.
func (c *ServedConfig) BodyWithSecrets(f ServedFormat, resolved Secrets,
	access *ContentAccess,
) (body ServedBody, err error) {
	defer fault.Recover(&err)
	if body, err = c.compose(f, &resolved, access); err == nil && f.Gzip {
		body = compress(body)
	}
	return body, err
}

// compose returns a plain body.
func (c *ServedConfig) compose(f ServedFormat, resolved *Secrets, access *ContentAccess) (ServedBody, error) {
	if err := c.check(); err != nil {
		return ServedBody{}, err
	}
	in := c.input
	in.Withhold, in.Secrets = f.Withhold, resolved
	if access != nil {
		in.Content = access
	}
	composed, err := Compose(in, f.Version)
	if err != nil {
		return ServedBody{}, err
	}
	return withETag(ServedBody{Body: composed}), nil
}

// prepare creates bodies before a request needs them: those of the newest version, and of the formats that clients
// requested from the previous config, which may be nil. It returns the error of Servable.
func (c *ServedConfig) prepare(previous *ServedConfig) error {
	formats := []ServedFormat{{Version: Newest, Withhold: true}}
	if previous != nil {
		for _, key := range previous.bodies.Keys() {
			if key.server == "" {
				formats = append(formats, key.ServedFormat)
			}
		}
	}
	for _, f := range formats {
		_, _ = c.Body(f, nil) // Each request gets this error later.
	}
	return c.Servable()
}

// Servable returns why the config cannot be served in the newest version, and so in none, or nil.
func (c *ServedConfig) Servable() error {
	_, err := c.Body(ServedFormat{Version: Newest}, nil)
	return err
}

// anyAccess is for finding out whether a config with files on the server can be served. No machine gets such a body.
func anyAccess() *ContentAccess {
	return &ContentAccess{Server: "https://server.invalid", Grant: func(string) string { return "none" }}
}

// SetContentStore lets machines read files of the content store and of registries from the server of the pools. Before,
// a config with such files cannot be served. Call it before the first Set.
func (p *Pools) SetContentStore() {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.content = anyAccess()
}

// NeedsContent reports whether machines read files of the config from the server, and so need a ContentAccess.
func (c *ServedConfig) NeedsContent() bool { return c.needsContent }
