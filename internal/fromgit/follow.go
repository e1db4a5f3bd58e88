package fromgit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

const (
	// minInterval is the shortest interval between two polls of a remote, as in the controller.
	minInterval = 5 * time.Second
	// minBackoff is the first wait after a failed poll. Each further wait is twice as long, up to the interval.
	minBackoff = 5 * time.Second
	// touchEvery is how often the follower reads the applied tree, so that the store does not remove it as unused.
	touchEvery = 24 * time.Hour
	// shownProblems is the number of a commit's problems that are logged.
	shownProblems = 20
)

// Apply applies the configs of a commit, by pool. After an error the follower tries the commit again.
type Apply func(pools map[string]*mcfgv1.MachineConfig) error

// Run follows the repository until the context ends. First it applies the last good commit, if the disk has it. Then it
// polls the remote after each interval. After an error, the last good commit stays applied. Run logs each error once.
func (r *Repository) Run(ctx context.Context, interval time.Duration, apply Apply) {
	f := follower{repo: r, apply: apply, last: lastGood(r.config.Last)}
	if err := f.resume(ctx); err != nil {
		r.config.Log.Warn("cannot apply the last good commit from the disk; polling the remote", "error", err)
	}
	interval = max(interval, minInterval)
	for backoff := minBackoff; ctx.Err() == nil; {
		err := f.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		f.logResult(err)
		wait := source.NextPoll(interval, r.url+f.applied.Picked.Hash)
		if err != nil && fault.Of(err, "").Kind != fault.Stalled {
			wait = min(backoff, wait)
			backoff = min(2*backoff, interval)
		} else {
			backoff = minBackoff
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

	// applied is the commit that follower applied last. It is zero before the first commit is applied.
	applied   good
	touched   time.Time // touched is the time at which the tree of the applied commit was last read.
	refused   good      // refused is the newest commit if it has problems. follower does not render this commit again.
	refusal   error     // refusal has the problems of the commit refused.
	lastError string    // lastError is the last error that follower logged.
}

// poll applies the newest commit of the remote, if it is not applied.
func (f *follower) poll(ctx context.Context) error {
	from, trust, err := f.repo.connect()
	if err != nil {
		return err
	}
	picked, err := f.repo.pick(ctx, from)
	if err != nil {
		return err
	}
	want := f.request(trust, picked)
	if isNew := want != f.applied && want != f.refused; isNew || f.repo.now().Sub(f.touched) >= touchEvery {
		err = f.touch(ctx, from, trust)
	}
	switch want {
	case f.applied:
		return err
	case f.refused:
		return f.refusal
	}
	rendering, err := f.repo.fetch(ctx, from, picked)
	if bad := new(BadCommit); errors.As(err, &bad) {
		f.refused, f.refusal = want, err
	}
	if err != nil {
		return err
	}
	return f.applyCommit(want, rendering)
}

// request returns a commit with the parameters that select it.
func (f *follower) request(trust string, picked source.Picked) good {
	picked.FullName = "" // Several refs can point at one commit.
	return good{URL: f.repo.url, Ref: f.repo.config.Ref, Path: f.repo.config.Path, Trust: trust, Picked: picked}
}

// touch reads the tree of the applied commit, so that the store keeps it for a restart.
func (f *follower) touch(ctx context.Context, from Remote, trust string) error {
	if f.applied == (good{}) || f.applied.Trust != trust {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := from.Tree(ctx, f.applied.Picked); err != nil {
		return fmt.Errorf("keeping the applied commit on disk: %w", err)
	}
	f.touched = f.repo.now()
	return nil
}

// applyCommit applies a commit, and stores it as the last good one.
func (f *follower) applyCommit(g good, rendering Rendering) error {
	// First, because a machine may ask for its own config at once. After an error, some pools serve the commit before.
	if was := f.repo.applied.Swap(&rendering); was != nil && was.Commit != rendering.Commit {
		f.repo.before.Store(was)
	}
	if err := f.apply(rendering.Pools); err != nil {
		return fmt.Errorf("applying %s: %w", g.Picked.Revision().Short(), err)
	}
	if err := f.last.write(g); err != nil {
		return err
	}
	f.applied, f.touched, f.refused, f.refusal = g, f.repo.now(), good{}, nil
	c, log := rendering.Commit, f.repo.config.Log
	log.Info("commit applied", "commit", c.Revision, "subject", c.Subject, "author", c.Author, "pools",
		len(rendering.Pools))
	for _, w := range rendering.Warnings {
		log.Warn("the commit has a warning", "commit", c.Revision, "warning", w)
	}
	return nil
}

// resume applies the last good commit, if the disk has it and the parameters that selected it are unchanged. resume
// fetches the tree again if the store has removed it.
func (f *follower) resume(ctx context.Context) error {
	g, ok, err := f.last.read()
	if err != nil || !ok {
		return err
	}
	from, trust, err := f.repo.connect()
	if err != nil || g != f.request(trust, g.Picked) {
		return err
	}
	rendering, err := f.repo.fetch(ctx, from, g.Picked)
	if err != nil {
		return err
	}
	return f.applyCommit(g, rendering)
}

// logResult logs an error that differs from the last one, and the first success after an error.
func (f *follower) logResult(err error) {
	log, applied := f.repo.config.Log, f.applied.Picked.Revision().String()
	switch {
	case err == nil && f.lastError != "":
		f.lastError = ""
		log.Info("polling the repository succeeds again", "repository", f.repo.url, "commit", applied)
		return
	case err == nil || err.Error() == f.lastError:
		return
	case applied == "":
		applied = "nothing: there was no good commit yet"
	}
	f.lastError = err.Error()
	bad := new(BadCommit)
	if !errors.As(err, &bad) {
		log.Warn("cannot poll the repository", "repository", f.repo.url, "error", err, "applied", applied)
		return
	}
	c := bad.Commit
	log.Warn("the newest commit has problems and is not applied", "commit", c.Revision, "subject", c.Subject, "author",
		c.Author,
		"problems", len(bad.Problems), "applied", applied)
	for _, p := range bad.Problems[:min(len(bad.Problems), shownProblems)] {
		log.Warn("problem in the newest commit", "commit", c.Revision, "problem", p)
	}
}

// good is an applied commit and the parameters that selected it. A server with other parameters selects another commit.
type good struct {
	URL, Ref, Path, Trust string
	Picked                source.Picked
}

// lastGood is the file that stores the last applied commit.
type lastGood string

// read returns the commit; ok is false if there is none.
func (l lastGood) read() (g good, ok bool, err error) {
	raw, err := os.ReadFile(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return good{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &g)
	}
	if err != nil {
		return good{}, false, fmt.Errorf("reading the last good commit from %s: %w", string(l), err)
	}
	return g, true, nil
}

// write replaces the file. After a crash, the file contains the new commit or the previous one.
func (l lastGood) write(g good) error {
	raw, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	temporary := string(l) + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, string(l))
	}
	if err != nil {
		return fmt.Errorf("writing the last good commit: %w", err)
	}
	return nil
}
