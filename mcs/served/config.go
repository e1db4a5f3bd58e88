package served

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// Format selects one response body of a config.
type Format struct {
	// Version is the Ignition version of the body.
	Version mcs.Version
	// Gzip is true for a compressed body.
	Gzip bool
	// Withhold is true for a body without secrets.
	Withhold bool
}

// Config is the config that one pool serves: one rendered config, and its body in each format. The content of a Config
// never changes, so any number of requests share it. Pools creates Configs.
type Config struct {
	// name is the name of the rendered config. nodes are the configs of single nodes.
	name  string
	nodes v1alpha1.NodeConfigs
	input mcs.Input
	// check returns an error for content that no machine may boot.
	check  func() error
	mu     sync.Mutex
	bodies map[Format]func() (Body, error) // Each function creates its body on the first call.
	// withContent are the bodies of configs with files that machines read from the server. These bodies have grants.
	withContent map[contentFormat]func() (Body, error)
	// needsContent is true if machines with the config read files from the server.
	needsContent bool
}

func newConfig(in mcs.Input) *Config {
	c := &Config{}
	if in.Rendered != nil {
		c.name = in.Rendered.Name
	}
	in.Rendered, c.nodes = asBase(in.Rendered)
	c.needsContent, c.withContent = in.Rendered != nil && mcs.NeedsServer(in.Rendered),
		map[contentFormat]func() (Body, error){}
	c.input, c.bodies, c.check = in, map[Format]func() (Body, error){},
		sync.OnceValue(func() error { return check(in.Rendered) })
	return c
}

// check repeats the checks that every config passes before it is rendered, because the server does not trust the author
// of the rendered config.
func check(rendered *mcfgv1.MachineConfig) error {
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil // Compose reports this error.
	}
	if bad := machineconfig.Check(config); len(bad) > 0 {
		return fmt.Errorf("checking config %s: %w", rendered.Name, errors.Join(bad...))
	}
	return nil
}

// Name returns the name of the rendered config.
func (c *Config) Name() string { return c.name }

// Commit returns the revision that the rendered config comes from, or "" if it comes from no repository.
func (c *Config) Commit() string { return c.input.Rendered.Annotations[v1alpha1.RevisionAnnotation] }

// Body returns the body in a format. The first call for a format creates the body, and concurrent calls wait for the
// first call. Errors are those of mcs.Compose.
func (c *Config) Body(f Format) (Body, error) {
	c.mu.Lock()
	body := c.bodies[f]
	if body == nil {
		body = sync.OnceValues(func() (Body, error) { return c.create(f) })
		c.bodies[f] = body
	}
	c.mu.Unlock()
	return body()
}

// create composes a body. create makes a gzip body by compressing the plain body. If no secret is withheld, the formats
// with and without Withhold share one body.
func (c *Config) create(f Format) (body Body, err error) {
	defer fault.Recover(&err) // The config of one pool must not end the server.
	if f.Gzip {
		plain, err := c.Body(Format{Version: f.Version, Withhold: f.Withhold})
		if err != nil {
			return Body{}, err
		}
		return compress(plain), nil
	}
	if err := c.check(); err != nil {
		return Body{}, err
	}
	in := c.input
	in.Withhold = f.Withhold
	composed, err := mcs.Compose(in, f.Version)
	if err != nil {
		return Body{}, err
	}
	if f.Withhold && len(composed.Withheld) == 0 {
		return c.Body(Format{Version: f.Version})
	}
	return withETag(Body{Body: composed}), nil
}

// BodyWithSecrets returns a body with resolved contents, for one machine. BodyWithSecrets creates the body for each
// call, because the contents of secrets change while the config's name stays. The format must not withhold secrets. The
// parameter access is nil if the config needs none.
func (c *Config) BodyWithSecrets(f Format, resolved mcs.Secrets,
	access *mcs.ContentAccess,
) (body Body, err error) {
	defer fault.Recover(&err)
	if err := c.check(); err != nil {
		return Body{}, err
	}
	in := c.input
	in.Secrets = &resolved
	if access != nil {
		in.Content = access
	}
	composed, err := mcs.Compose(in, f.Version)
	if err != nil {
		return Body{}, err
	}
	if body = withETag(Body{Body: composed}); f.Gzip {
		return compress(body), nil
	}
	return body, nil
}

// prepare creates bodies before a request needs them: those of the newest version, and those in the formats that
// clients requested from the previous config, which may be nil. prepare returns the result of newestError.
func (c *Config) prepare(previous *Config) error {
	formats := []Format{{Version: mcs.Newest, Withhold: true}}
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

// newestError returns why the config cannot be served in the newest version, or nil. A config that cannot be served in
// the newest version cannot be served in any version.
func (c *Config) newestError() error {
	_, err := c.Body(Format{Version: mcs.Newest})
	return err
}
