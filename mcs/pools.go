package mcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// The reasons why a pool serves no config.
var (
	// ErrUnknownPool says that no pool has the requested name.
	ErrUnknownPool = errors.New("there is no such pool")
	// ErrNothingRendered says that the pool exists, but that no config has been rendered for the pool yet.
	ErrNothingRendered = errors.New("nothing is rendered for this pool yet")
	// ErrNoRecord: a config is rendered, but the controller has not recorded which one the pool's nodes run
	// successfully.
	ErrNoRecord = errors.New("the controller has not recorded yet which config the pool's nodes run")
	// ErrNotSynced says that the server has just started and has not read the pools yet.
	ErrNotSynced = errors.New("the server has not read the pools yet")
)

// Pools stores the config that each pool serves, until another one replaces it, also while the API server is
// unreachable. NewPools creates it. All methods may be called concurrently: writers wait for each other, but readers
// never wait for the creation of a body.
type Pools struct {
	writing sync.Mutex     // writing allows one change at a time, including the creation of bodies.
	extra   Extra          // extra is guarded by writing.
	content *ContentAccess // content is nil if the server has no content store. It is guarded by writing.

	own *lru.Cache[string, *ServedConfig] // own are configs of single nodes, by pool and name.

	mu                      sync.RWMutex
	pools                   map[string]pool
	read                    ReadConfig
	partial, synced, cutOff bool
}

type pool struct {
	config  *ServedConfig         // config is the served config; nil: the pool exists and has nothing to serve.
	wanted  *mcfgv1.MachineConfig // wanted is the config that was last set, which may differ from the served config.
	problem string                // problem is why the pool does not serve the wanted config; empty if it does.
}

// unavailableError is why a pool has nothing to serve.
type unavailableError string

// Error returns the reason.
func (e unavailableError) Error() string { return string(e) }

// Is reports whether target is ErrNothingRendered, so that the machine retries.
func (e unavailableError) Is(target error) bool { return target == ErrNothingRendered }

// NewPools returns a Pools without any pool, which is not ready.
func NewPools() *Pools {
	return &Pools{pools: map[string]pool{}, own: newCache[string, *ServedConfig](maxNodeConfigs)}
}

// maxNodeConfigs limits configs of single nodes: a machine boots once, so they are only for machines that boot at the
// same time or try again.
const maxNodeConfigs = 128

// ReadConfig reads a rendered config of the pools, as JSON.
type ReadConfig func(name string) ([]byte, error)

// SetReader sets how Pools reads the configs of single nodes. Without a reader, their machines have to retry.
func (p *Pools) SetReader(read ReadConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = read
}

// NodeConfig returns the config for the machine of a node: its own, or without one, or without the name of a node, that
// of the pool. If its own cannot be read, the machine has to retry, because that of the pool is not for its node. The
// errors are those of Config.
func (p *Pools) NodeConfig(pool, node string) (*ServedConfig, error) {
	config, err := p.Config(pool)
	if err != nil || node == "" {
		return config, err
	}
	if _, own := config.nodes.Nodes[node]; !own {
		return config, nil
	}
	name := config.nodes.Of(node)
	marked := secretPathsOf(config.input.Rendered)
	key := strings.Join(append([]string{pool, name}, marked...), "\n")
	if known, ok := p.own.Get(key); ok {
		return known, nil
	}
	p.mu.RLock()
	read := p.read
	p.mu.RUnlock()
	if read == nil {
		return nil, unavailableError("this server cannot read the config of node " + node + ": a server without a " +
			"cluster needs --from-git for it")
	}
	rendered := &mcfgv1.MachineConfig{}
	raw, err := read(name)
	if err == nil {
		err = json.Unmarshal(raw, rendered)
	}
	if err == nil {
		err = machineconfig.CheckName(pool, rendered, rendered.Spec)
	}
	if err == nil && rendered.Name != name {
		err = fmt.Errorf("it is the config %s", rendered.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: reading the config of node %s: %w", ErrNothingRendered, node, err)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	rendered = WithSecretPaths(rendered, secretmask.Join(marked))
	own := newConfig(Input{Pool: pool, Rendered: rendered, Extra: p.extra, Content: p.content})
	p.own.Add(key, own)
	return own, nil
}

// Config returns the config that a pool serves. The error is ErrUnknownPool, ErrNotSynced or ErrNothingRendered, the
// last maybe with the reason of SetUnavailable.
func (p *Pools) Config(name string) (*ServedConfig, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	now, known := p.pools[name]
	switch {
	case now.config != nil:
		return now.config, nil
	case now.problem != "":
		return nil, unavailableError(now.problem)
	case !p.synced:
		return nil, ErrNotSynced
	case known:
		return nil, ErrNothingRendered
	}
	return nil, ErrUnknownPool
}

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

// Name returns the name of the rendered config.
func (c *ServedConfig) Name() string { return c.name }

// Commit returns the revision that the rendered config comes from, or "" if it comes from no repository.
func (c *ServedConfig) Commit() string {
	return c.input.Rendered.Annotations[v1alpha1.RevisionAnnotation]
}

// NeedsContent reports whether machines read files of the config from the server, and so need a ContentAccess.
func (c *ServedConfig) NeedsContent() bool { return c.needsContent }

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

// Set serves a rendered config in its pool as soon as its first bodies are created, and until then the previous one. Do
// not change the config after the call. Nil records that the pool exists and has nothing to serve. After an error,
// which says why the config cannot be served, the pool serves the previous one, or returns the error to each request.
func (p *Pools) Set(name string, rendered *mcfgv1.MachineConfig) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if rendered == nil {
		p.setPool(name, pool{})
		return nil
	}
	last := p.all()[name]
	if last.config != nil && last.problem == "" && isSame(last.wanted, rendered) {
		return nil
	}
	if last.config == nil {
		p.setPool(name, pool{problem: last.problem}) // The pool exists, so a machine retries instead of giving up.
	}
	next, err := p.replace(name, pool{config: last.config, wanted: rendered})
	p.setPool(name, next)
	return err
}

// replace returns the pool with the wanted config and the current extra, or with its served config and the problem.
func (p *Pools) replace(name string, now pool) (pool, error) {
	next := newConfig(Input{Pool: name, Rendered: now.wanted, Extra: p.extra, Content: p.content})
	err := next.prepare(now.config)
	if err == nil {
		return pool{config: next, wanted: now.wanted}, nil
	}
	now.problem = err.Error()
	if now.config == nil || now.config.Servable() != nil {
		now.config = next // The pool has no earlier config, so each request gets the error of the new config.
	}
	return now, err
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

// isSame reports whether two rendered configs have the same bodies. The names are not enough: one identifies the
// content only if it contains a hash.
func isSame(a, b *mcfgv1.MachineConfig) bool {
	return a.Name == b.Name &&
		a.Annotations[v1alpha1.RevisionAnnotation] == b.Annotations[v1alpha1.RevisionAnnotation] &&
		a.Annotations[v1alpha1.NodeConfigsAnnotation] == b.Annotations[v1alpha1.NodeConfigsAnnotation] &&
		a.Annotations[v1alpha1.SecretPathsAnnotation] == b.Annotations[v1alpha1.SecretPathsAnnotation] &&
		reflect.DeepEqual(a.Spec, b.Spec)
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

// SetExtra changes the files that the server adds to each config, and creates all configs again. Do not change extra
// after the call. The errors name the pools that keep their previous config.
func (p *Pools) SetExtra(extra Extra) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.extra = extra
	p.own.Purge()
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(p.all())) {
		now := p.all()[name]
		if now.wanted == nil {
			continue
		}
		next, err := p.replace(name, now)
		if err != nil {
			bad = append(bad, fmt.Errorf("creating the response bodies of pool %s: %w", name, err))
			next.config = p.withExtra(next.config)
		}
		p.setPool(name, next)
	}
	return errors.Join(bad...)
}

// withExtra returns a config with the current extra, or unchanged if that cannot be served.
func (p *Pools) withExtra(config *ServedConfig) *ServedConfig {
	in := config.input
	in.Extra = p.extra
	next := newConfig(in)
	if next.name, next.nodes = config.name, config.nodes; next.prepare(config) == nil {
		return next
	}
	return config
}

// SetUnavailable records that a pool exists and has nothing to serve, with the reason for clients.
func (p *Pools) SetUnavailable(name, reason string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.setPool(name, pool{problem: reason})
}

// Remove removes a pool.
func (p *Pools) Remove(name string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pools, name)
}

// SetSynced records that every pool was set once. After this call, a pool that was not set does not exist.
func (p *Pools) SetSynced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = true
}

// SetPartial lets the pools set so far be served, although there may be more. A client of a missing pool has to retry.
func (p *Pools) SetPartial() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = true
}

// SetCutOff records whether the API server has not answered for a long time. The server still serves the pools.
func (p *Pools) SetCutOff(cutOff bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff = cutOff
}

// Started reports whether SetSynced or SetPartial was called.
func (p *Pools) Started() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.partial || p.synced
}

// Ready reports whether the server has started, unless it is cut off from the API server.
func (p *Pools) Ready() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return (p.partial || p.synced) && !p.cutOff
}

// Synced reports whether SetSynced was called.
func (p *Pools) Synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.synced
}

// Status returns the config that each pool serves, by the name of the pool.
func (p *Pools) Status() map[string]v1alpha1.ServedPool {
	all := map[string]v1alpha1.ServedPool{}
	for name, now := range p.all() {
		status := v1alpha1.ServedPool{Problem: now.problem}
		switch {
		case now.config != nil && now.config.Servable() == nil:
			status.Config = now.config.Name()
		case now.problem == "":
			status.Problem = ErrNothingRendered.Error()
		}
		all[name] = status
	}
	return all
}

func (p *Pools) all() map[string]pool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return maps.Clone(p.pools)
}

func (p *Pools) setPool(name string, now pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pools[name] = now
}

// ConfigToServe returns the rendered config that a new machine of a pool boots. The parameter choice is
// v1alpha1.ServeHealthy or ServeNewest; the pool's own annotation overrides it. ServeHealthy selects the last config
// with which the whole pool was healthy, or without one the newest, because its first machine must boot some config.
// ServeNewest selects the config of the current rollout. A config whose rollout was halted or reverted is never
// selected.
//
// A pool that the controller has just created again has no record yet, and its newest config may have failed on nodes.
// So it serves nothing until the controller has evaluated the nodes. A pool that no controller rendered needs no
// record.
//
// Without a name, why says what the machine has to wait for. With one, it is the part of the pool that could not be
// read, and name is the safer choice.
func ConfigToServe(pool mcfgv1.MachineConfigPool, choice string) (name string, why error) {
	choice, odd := serveChoice(pool, choice)
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return serveWithoutRecord(pool, errors.Join(odd, err))
	}
	newest, healthy := pool.Spec.Configuration.Name, record.Healthy
	if record.Config == "" {
		healthy = pool.Status.Configuration.Name
		if _, rendered := pool.Annotations[v1alpha1.TargetAnnotation]; rendered && healthy == "" && newest != "" &&
			choice != v1alpha1.ServeNewest {
			return "", errors.Join(odd, ErrNoRecord)
		}
	}
	bad := failedConfig(record)
	order := []string{healthy, newest}
	if choice == v1alpha1.ServeNewest {
		order = []string{newest, healthy}
	}
	for _, name := range order {
		if name != "" && name != bad {
			return name, odd
		}
	}
	if slices.Contains(order, bad) && bad != "" {
		return "", errors.Join(odd, fmt.Errorf("the rollout of %s was %s, and the pool was never well with another "+
			"config: commit a better one, or `bunsen retry pool/%s`", bad, verdictTexts[record.Verdict], pool.Name))
	}
	return "", errors.Join(odd, ErrNothingRendered)
}

// FailedRolloutConfig returns the config whose rollout was halted or reverted, which no new machine may boot; "" if
// there is none, or if the pool's record cannot be read.
func FailedRolloutConfig(pool mcfgv1.MachineConfigPool) string {
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return ""
	}
	return failedConfig(record)
}

func failedConfig(record v1alpha1.RolloutRecord) string {
	// the pool was healthy with the config, and failed with new secrets
	if record.Verdict == "" || record.ChangesSecrets() {
		return ""
	}
	return record.Config
}

// verdictTexts are about the end of a rollout.
var verdictTexts = map[v1alpha1.RolloutVerdict]string{
	v1alpha1.RolloutHalted:   "halted",
	v1alpha1.RolloutReverted: "taken back",
}

// serveChoice returns the pool's own choice, or else the server's. An unknown one counts as ServeHealthy.
func serveChoice(pool mcfgv1.MachineConfigPool, choice string) (string, error) {
	own, ok := pool.Annotations[v1alpha1.ServeAnnotation]
	switch {
	case !ok:
		return choice, nil
	case own == v1alpha1.ServeHealthy, own == v1alpha1.ServeNewest:
		return own, nil
	}
	return v1alpha1.ServeHealthy, fmt.Errorf("annotation %s is %q, and counts as %q: it can be %q or %q",
		v1alpha1.ServeAnnotation, own, v1alpha1.ServeHealthy, v1alpha1.ServeHealthy, v1alpha1.ServeNewest)
}

// serveWithoutRecord is for a record that cannot be read. The rollout of the newest config may have been halted, so
// only the last one that the whole pool ran is served.
func serveWithoutRecord(pool mcfgv1.MachineConfigPool, err error) (string, error) {
	ran := pool.Status.Configuration.Name
	if ran == "" {
		return "", fmt.Errorf("whether the rollout was halted is not known, and no config that the whole pool "+
			"ran is: %w", err)
	}
	return ran, err
}
