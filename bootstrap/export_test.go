package bootstrap

import "context"

// Follower is a run whose looks a test makes one by one.
type Follower struct{ f follower }

// Follow begins a run as Run does: with what the disk has.
func (r *Repository) Follow(ctx context.Context, apply Apply) (*Follower, error) {
	f := &Follower{follower{repo: r, apply: apply, last: lastGood(r.config.Last)}}
	return f, f.f.resume(ctx)
}

// Look looks once, and logs as Run does.
func (f *Follower) Look(ctx context.Context) error {
	err := f.f.look(ctx)
	f.f.tell(err)
	return err
}

// Pick finds the commit that a ref's text leads to.
var Pick = Ref.pick
