package mcs

import (
	"fmt"
	"maps"
	"slices"
	"sync"

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
	check  func() error
	mu     sync.Mutex
	bodies map[ServedFormat]func() (ServedBody, error) // Each function creates its body on the first call.
	// for files that machines read from the server; with grants
	withContent map[contentFormat]func() (ServedBody, error)
	// Machines with the config read files from the server.
	needsContent bool
}

func newConfig(in Input) *ServedConfig {
	c := &ServedConfig{}
	if in.Rendered != nil {
		c.name = in.Rendered.Name
	}
	in.Rendered, c.nodes = asBase(in.Rendered)
	c.needsContent, c.withContent = in.Rendered != nil && NeedsServer(in.Rendered),
		map[contentFormat]func() (ServedBody, error){}
	c.input, c.bodies, c.check = in, map[ServedFormat]func() (ServedBody, error){},
		sync.OnceValue(func() error { return check(in.Rendered) })
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

// Body returns the body in a format. The first call creates it, and concurrent ones wait. Errors are those of Compose.
func (c *ServedConfig) Body(f ServedFormat) (ServedBody, error) {
	c.mu.Lock()
	body := c.bodies[f]
	if body == nil {
		body = sync.OnceValues(func() (ServedBody, error) { return c.create(f) })
		c.bodies[f] = body
	}
	c.mu.Unlock()
	return body()
}

// create composes a body, or compresses the plain one. If no secret is withheld, the formats with and without Withhold
// share one.
func (c *ServedConfig) create(f ServedFormat) (body ServedBody, err error) {
	defer fault.Recover(&err) // The config of one pool must not end the server.
	if f.Gzip {
		plain, err := c.Body(ServedFormat{Version: f.Version, Withhold: f.Withhold})
		if err != nil {
			return ServedBody{}, err
		}
		return compress(plain), nil
	}
	if err := c.check(); err != nil {
		return ServedBody{}, err
	}
	in := c.input
	in.Withhold = f.Withhold
	composed, err := Compose(in, f.Version)
	if err != nil {
		return ServedBody{}, err
	}
	if f.Withhold && len(composed.Withheld) == 0 {
		return c.Body(ServedFormat{Version: f.Version})
	}
	return withETag(ServedBody{Body: composed}), nil
}

// BodyWithSecrets returns a body with resolved contents, for one machine; a new one for each call, because secrets
// change while the config's name stays. The format must not withhold secrets. The access is nil if the config needs
// none.
func (c *ServedConfig) BodyWithSecrets(f ServedFormat, resolved Secrets,
	access *ContentAccess,
) (body ServedBody, err error) {
	defer fault.Recover(&err)
	if err := c.check(); err != nil {
		return ServedBody{}, err
	}
	in := c.input
	in.Secrets = &resolved
	if access != nil {
		in.Content = access
	}
	composed, err := Compose(in, f.Version)
	if err != nil {
		return ServedBody{}, err
	}
	if body = withETag(ServedBody{Body: composed}); f.Gzip {
		return compress(body), nil
	}
	return body, nil
}

// prepare creates bodies before a request needs them: those of the newest version, and of the formats that clients
// requested from the previous config, which may be nil. It returns newestError.
func (c *ServedConfig) prepare(previous *ServedConfig) error {
	formats := []ServedFormat{{Version: Newest, Withhold: true}}
	if previous != nil {
		previous.mu.Lock()
		formats = slices.AppendSeq(formats, maps.Keys(previous.bodies))
		previous.mu.Unlock()
	}
	for _, f := range formats {
		_, _ = c.Body(f) // Each request gets this error later.
	}
	return c.newestError()
}

// newestError returns why the config cannot be served in the newest version, and so in none, or nil.
func (c *ServedConfig) newestError() error {
	_, err := c.Body(ServedFormat{Version: Newest})
	return err
}

// maxContentBodies limits the bodies with grants: each version, encoding and address has one in an hour.
const maxContentBodies = 64

// contentFormat selects a body with files that machines read from the server.
type contentFormat struct {
	ServedFormat
	server  string
	ca      string
	expires int64
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

// NeedsContent reports whether machines read files of the config from the server. Its body has grants, from
// BodyWithContent or BodyWithSecrets.
func (c *ServedConfig) NeedsContent() bool { return c.needsContent }

// Servable returns why the config cannot be served to any machine, or nil.
func (c *ServedConfig) Servable() error { return c.newestError() }

// BodyWithContent returns the body for machines that read files from the server in one way. Those with equal grants
// share it.
func (c *ServedConfig) BodyWithContent(f ServedFormat, access ContentAccess) (ServedBody, error) {
	key := contentFormat{f, access.Server, string(access.CA), access.Expires.Unix()}
	c.mu.Lock()
	body := c.withContent[key]
	if body == nil {
		if len(c.withContent) >= maxContentBodies {
			clear(c.withContent)
		}
		body = sync.OnceValues(func() (ServedBody, error) { return c.createWithContent(f, access) })
		c.withContent[key] = body
	}
	c.mu.Unlock()
	return body()
}

func (c *ServedConfig) createWithContent(f ServedFormat, access ContentAccess) (body ServedBody, err error) {
	defer fault.Recover(&err)
	if err := c.check(); err != nil {
		return ServedBody{}, err
	}
	in := c.input
	in.Withhold, in.Content = f.Withhold, &access
	composed, err := Compose(in, f.Version)
	if err != nil {
		return ServedBody{}, err
	}
	if body = withETag(ServedBody{Body: composed}); f.Gzip {
		return compress(body), nil
	}
	return body, nil
}
