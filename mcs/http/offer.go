package http

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"sync/atomic"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// Offer is what one pool serves until the next one takes its place: one rendered config, and its body in each version,
// made once. An offer never changes what it says, so any number of requests share it; make one with NewOffer.
type Offer struct {
	in     mcs.Input
	bodies map[mcs.Version]*body
}

// body is one complete answer, or why there is none.
type body struct {
	once  sync.Once
	made  atomic.Bool // once is over
	bytes []byte
	etag  string
	err   error
}

// NewOffer prepares to serve a rendered config. The config must not be changed afterwards.
func NewOffer(in mcs.Input) *Offer {
	o := &Offer{in: in, bodies: map[mcs.Version]*body{}}
	for _, v := range mcs.Versions() {
		o.bodies[v] = &body{}
	}
	return o
}

// Config is the name of the rendered config.
func (o *Offer) Config() string { return o.in.Rendered.Name }

// Commit is the revision whose content the rendered config has, or "" when it came from no repository.
func (o *Offer) Commit() string { return o.in.Rendered.Annotations[v1alpha1.RevisionAnnotation] }

// Prepare makes the newest version's body before anybody asks, and those of the versions that were asked of an earlier
// offer, which may be nil. It returns the error of the newest version's, which then no version can be served without.
func (o *Offer) Prepare(earlier *Offer) error {
	if earlier != nil {
		for v, b := range earlier.bodies {
			if b.made.Load() {
				o.body(v)
			}
		}
	}
	return o.body(mcs.Newest).err
}

// body returns the body in a version, made by the first who asks; others wait for that one.
func (o *Offer) body(v mcs.Version) *body {
	b := o.bodies[v]
	b.once.Do(func() {
		if b.bytes, b.err = mcs.Compose(o.in, v); b.err == nil {
			sum := sha256.Sum256(b.bytes)
			b.etag = `"` + hex.EncodeToString(sum[:16]) + `"`
		}
		b.made.Store(true)
	})
	return b
}
