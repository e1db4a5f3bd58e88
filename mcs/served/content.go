package served

import (
	"sync"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcs"
)

// maxContentBodies is how many bodies with grants a Config keeps: each version, encoding and address has one in an
// hour.
const maxContentBodies = 64

// contentFormat selects one response body of a config with files that machines read from the server.
type contentFormat struct {
	Format
	server  string
	ca      string
	expires int64
}

// anyAccess is the access with which Pools finds out whether a config with files that machines read from the server can
// be served. No machine gets such a body.
func anyAccess() *mcs.ContentAccess {
	return &mcs.ContentAccess{Server: "https://server.invalid", Grant: func(string) string { return "none" }}
}

// SetContentStore records that machines read files of the content store and of registries from the server of the pools.
// Before that, a config with such files cannot be served. Call it before the first Set.
func SetContentStore(p *Pools) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.content = anyAccess()
}

// NeedsContent reports whether the config has files that machines read from the server. A body of such a config has
// grants, so callers use BodyWithContent or BodyWithSecrets.
func (c *Config) NeedsContent() bool { return c.needsContent }

// Servable returns why the config cannot be served to any machine, or nil.
func (c *Config) Servable() error { return c.newestError() }

// BodyWithContent returns the body for machines that read files from the server in one way. All machines with equal
// grants share the body.
func (c *Config) BodyWithContent(f Format, access mcs.ContentAccess) (Body, error) {
	key := contentFormat{f, access.Server, string(access.CA), access.Expires.Unix()}
	c.mu.Lock()
	body := c.withContent[key]
	if body == nil {
		if len(c.withContent) >= maxContentBodies {
			clear(c.withContent)
		}
		body = sync.OnceValues(func() (Body, error) { return c.createWithContent(f, access) })
		c.withContent[key] = body
	}
	c.mu.Unlock()
	return body()
}

func (c *Config) createWithContent(f Format, access mcs.ContentAccess) (body Body, err error) {
	defer fault.Recover(&err)
	if err := c.check(); err != nil {
		return Body{}, err
	}
	in := c.input
	in.Withhold, in.Content = f.Withhold, &access
	composed, err := mcs.Compose(in, f.Version)
	if err != nil {
		return Body{}, err
	}
	if body = withETag(Body{Body: composed}); f.Gzip {
		return compress(body), nil
	}
	return body, nil
}
