package mcs

import (
	"sync"

	"github.com/bunsen-os/bunsen/api/fault"
)

// maxContentBodies is how many bodies with grants a Config keeps: each version, encoding and address has one in an
// hour.
const maxContentBodies = 64

// contentFormat selects one response body of a config with files that machines read from the server.
type contentFormat struct {
	ServedFormat
	server  string
	ca      string
	expires int64
}

// anyAccess is the access with which Pools finds out whether a config with files that machines read from the server can
// be served. No machine gets such a body.
func anyAccess() *ContentAccess {
	return &ContentAccess{Server: "https://server.invalid", Grant: func(string) string { return "none" }}
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
func (c *ServedConfig) NeedsContent() bool { return c.needsContent }

// Servable returns why the config cannot be served to any machine, or nil.
func (c *ServedConfig) Servable() error { return c.newestError() }

// BodyWithContent returns the body for machines that read files from the server in one way. All machines with equal
// grants share the body.
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
