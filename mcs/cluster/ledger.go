package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// ledger counts the uses of tokens that have so many. A use counts once it is written over the very version of the token
// that was judged, so that replicas that race have one winner. Uses of one token that come while a write is under way are
// written together with the next, so that a storm of machines with one token takes few writes.
type ledger struct {
	write func(context.Context, *v1alpha1.ProvisioningToken, v1alpha1.ProvisioningTokenStatus) (*v1alpha1.ProvisioningToken, error)
	read  func(context.Context, string) (*v1alpha1.ProvisioningToken, error)
	now   func() time.Time

	mu    sync.Mutex
	lines map[string][]*use // by token; there while somebody writes it
}

// use is one use that waits to be counted.
type use struct {
	by    v1alpha1.TokenUse
	taken bool       // its write is under way; guarded by the ledger's mu
	done  chan error // has room for the answer
}

// use counts one, or says why not: a *token.Refusal, or what keeps it from being written.
func (l *ledger) use(ctx context.Context, known *v1alpha1.ProvisioningToken, by v1alpha1.TokenUse) error {
	u := &use{by: by, done: make(chan error, 1)}
	l.mu.Lock()
	line, busy := l.lines[known.Name]
	l.lines[known.Name] = append(line, u)
	l.mu.Unlock()
	if !busy {
		go l.work(context.WithoutCancel(ctx), known)
	}
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
	}
	if l.withdraw(known.Name, u) {
		return ctx.Err()
	}
	return <-u.done // its write is under way, and soon over: who was counted shall know it
}

// withdraw takes a use off its line, so that whoever asks again finds it uncounted; false where it is too late for that.
func (l *ledger) withdraw(id string, u *use) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.taken {
		return false
	}
	l.lines[id] = slices.DeleteFunc(l.lines[id], func(other *use) bool { return other == u })
	return true
}

// work writes the uses of one token until none waits.
func (l *ledger) work(ctx context.Context, known *v1alpha1.ProvisioningToken) {
	for {
		l.mu.Lock()
		waiting := l.lines[known.Name]
		if len(waiting) == 0 {
			delete(l.lines, known.Name)
			l.mu.Unlock()
			return
		}
		l.lines[known.Name] = nil
		for _, u := range waiting {
			u.taken = true
		}
		l.mu.Unlock()
		soon, cancel := context.WithTimeout(ctx, patience)
		next, answers, err := l.count(soon, known, waiting)
		cancel()
		for i, u := range waiting {
			if err != nil {
				u.done <- err
				continue
			}
			u.done <- answers[i]
		}
		if err == nil {
			known = next
		}
	}
}

// count writes some uses at once, and answers each. An error is one of all of them.
func (l *ledger) count(ctx context.Context, known *v1alpha1.ProvisioningToken, waiting []*use) (*v1alpha1.ProvisioningToken, []error, error) {
	for {
		judged := known.DeepCopy()
		answers, granted := make([]error, len(waiting)), 0
		for i, u := range waiting {
			if answers[i] = token.Spent(judged, l.now()); answers[i] == nil {
				judged.Status = token.Count(judged.Status, u.by)
				granted++
			}
		}
		if granted == 0 {
			return known, answers, nil
		}
		next, err := l.write(ctx, known, judged.Status)
		switch {
		case err == nil:
			return next, answers, nil
		case errors.Is(err, errConflict):
			next, err = l.read(ctx, known.Name)
		}
		if errors.Is(err, errGone) {
			return nil, nil, &token.Refusal{ID: known.Name, Reason: token.Unknown}
		}
		if err != nil {
			return nil, nil, err
		}
		known = next
	}
}
