package fromgit

import "context"

// Read polls the remote once, and renders the commit. Errors are the source's faults, and *BadCommit.
func (r *Repository) Read(ctx context.Context) (Rendering, error) {
	from, _, err := r.connect()
	if err != nil {
		return Rendering{}, err
	}
	picked, err := r.pick(ctx, from)
	if err != nil {
		return Rendering{}, err
	}
	return r.fetch(ctx, from, picked)
}

// Follower is a run in which a test polls.
type Follower struct{ f follower }

// Follow begins a run as Run does: with the last good commit on disk.
func (r *Repository) Follow(ctx context.Context, apply Apply) (*Follower, error) {
	f := &Follower{follower{repo: r, apply: apply, last: lastGood(r.config.Last)}}
	return f, f.f.resume(ctx)
}

// Poll polls once, and logs as Run does.
func (f *Follower) Poll(ctx context.Context) error {
	err := f.f.poll(ctx)
	f.f.logResult(err)
	return err
}

// Pick finds the commit of a ref.
var Pick = Ref.pick
