package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"
)

const (
	// shortest interval between two looks at a remote, as the controller has it.
	shortest = 5 * time.Second
	// firstPause is between two tries where the remote does not answer; it doubles up to the interval.
	firstPause = 5 * time.Second
	// touchEvery is how often the tree in force is asked for, so that the store does not take it for forgotten.
	touchEvery = 24 * time.Hour
	// shownProblems of one commit are logged; Read has them all.
	shownProblems = 20
)

// Apply takes over the configs of a commit, by pool. After an error the commit is tried again.
type Apply func(pools map[string]*mcfgv1.MachineConfig) error

// Run follows the repository until the context ends: first it applies the last good commit, if the disk has it, then it
// looks at the remote, and again after each interval. What fails leaves the last good commit in force, and is logged once.
func (r *Repository) Run(ctx context.Context, interval time.Duration, apply Apply) {
	f := follower{repo: r, apply: apply, last: lastGood(r.config.Last)}
	if err := f.resume(ctx); err != nil {
		r.config.Log.Warn("the last good commit cannot be taken from the disk; the remote is asked", "error", err)
	}
	interval = max(interval, shortest)
	for pause := firstPause; ctx.Err() == nil; {
		err := f.look(ctx)
		if ctx.Err() != nil {
			return
		}
		f.tell(err)
		wait := source.NextPoll(interval, r.url+f.taken.Picked.Hash)
		if err != nil && fault.Of(err, "").Kind != fault.Stalled {
			wait = min(pause, wait)
			pause = min(2*pause, interval) // a remote that is away for days is not asked the faster for it
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// follower is one run over a repository.
type follower struct {
	repo  *Repository
	apply Apply
	last  lastGood

	taken   good      // in force; the zero value before the first
	touched time.Time // when its tree was last asked for
	refused good      // the newest commit, where it is bad: the same commit stays bad
	because error     // what is wrong with it
	said    string    // the failure that was logged last
}

// look brings what is in force up to what the remote says.
func (f *follower) look(ctx context.Context) error {
	from, trust, err := f.repo.connect()
	if err != nil {
		return err
	}
	picked, err := f.repo.pick(ctx, from)
	if err != nil {
		return err
	}
	want := f.asked(trust, picked)
	if fresh := want != f.taken && want != f.refused; fresh || f.repo.now().Sub(f.touched) >= touchEvery {
		err = f.touch(ctx, from, trust)
	}
	switch want {
	case f.taken:
		return err
	case f.refused:
		return f.because
	}
	rendering, err := f.repo.fetch(ctx, from, picked)
	if bad := new(BadCommit); errors.As(err, &bad) {
		f.refused, f.because = want, err
	}
	if err != nil {
		return err
	}
	return f.take(want, rendering)
}

// asked is a commit as it is asked for now.
func (f *follower) asked(trust string, picked source.Picked) good {
	picked.FullName = "" // another way to the same commit
	return good{URL: f.repo.url, Ref: f.repo.config.Ref, Path: f.repo.config.Path, Trust: trust, Picked: picked}
}

// touch asks for the tree of the commit in force: before another one is fetched, and once in a while, so that the disk does
// not drop it for being old, and a restart finds it.
func (f *follower) touch(ctx context.Context, from Remote, trust string) error {
	if f.taken == (good{}) || f.taken.Trust != trust {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := from.Tree(ctx, f.taken.Picked); err != nil {
		return fmt.Errorf("keeping the commit in force on disk: %w", err)
	}
	f.touched = f.repo.now()
	return nil
}

// take puts a commit in force, and writes down that it is the last good one.
func (f *follower) take(g good, rendering Rendering) error {
	if err := f.apply(rendering.Pools); err != nil {
		return fmt.Errorf("applying %s: %w", g.Picked.Revision().Short(), err)
	}
	if err := f.last.write(g); err != nil {
		return err
	}
	f.taken, f.touched, f.refused, f.because = g, f.repo.now(), good{}, nil
	c, log := rendering.Commit, f.repo.config.Log
	log.Info("a commit is in force", "commit", c.Revision, "subject", c.Subject, "author", c.Author, "pools", len(rendering.Pools))
	for _, w := range rendering.Warnings {
		log.Warn("the commit has a warning", "commit", c.Revision, "warning", w)
	}
	return nil
}

// resume puts the last good commit in force, if the disk has it and it is an answer to what is asked for now. Where its
// tree is gone the remote is asked for it.
func (f *follower) resume(ctx context.Context) error {
	g, ok, err := f.last.read()
	if err != nil || !ok {
		return err
	}
	from, trust, err := f.repo.connect()
	if err != nil || g != f.asked(trust, g.Picked) {
		return err
	}
	rendering, err := f.repo.fetch(ctx, from, g.Picked)
	if err != nil {
		return err
	}
	return f.take(g, rendering)
}

// tell logs a failure when it is another one than last time, and that it is over.
func (f *follower) tell(err error) {
	log, stays := f.repo.config.Log, f.taken.Picked.Revision().String()
	switch {
	case err == nil && f.said != "":
		f.said = ""
		log.Info("the repository is followed again", "repository", f.repo.url, "commit", stays)
		return
	case err == nil || err.Error() == f.said:
		return
	case stays == "":
		stays = "nothing: there was no good commit yet"
	}
	f.said = err.Error()
	bad := new(BadCommit)
	if !errors.As(err, &bad) {
		log.Warn("the repository cannot be followed", "repository", f.repo.url, "error", err, "in force", stays)
		return
	}
	c := bad.Commit
	log.Warn("the newest commit is bad, nothing of it is taken", "commit", c.Revision, "subject", c.Subject, "author", c.Author,
		"problems", len(bad.Problems), "in force", stays)
	for _, p := range bad.Problems[:min(len(bad.Problems), shownProblems)] {
		log.Warn("in the bad commit", "commit", c.Revision, "problem", p)
	}
}
