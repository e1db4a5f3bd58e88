package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// tokenType is what a file of tokens holds.
var tokenType = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"}

// Tokens are those of a file, or of a folder of such files, with their uses counted in a folder of their own. One process
// at a time counts there. Make one with OpenTokens and close it. All methods may be called at once.
type Tokens struct {
	path string
	book *book
	log  *slog.Logger
	now  func() time.Time

	digest string // of the files that were looked at last; only Run's goroutine has it
	mu     sync.RWMutex
	known  map[string]kept // by id
}

// kept is a token and its count.
type kept struct {
	token *v1alpha1.ProvisioningToken
	count *count
}

// OpenTokens reads tokens and takes the folder of counts, which is made where it is not there. What is wrong with the files
// is an error here; later it is logged, and the last good tokens stay.
func OpenTokens(path, countsDir string, log *slog.Logger, now func() time.Time) (*Tokens, error) {
	b, err := openBook(countsDir)
	if err != nil {
		return nil, err
	}
	t := &Tokens{path: path, book: b, log: log, now: now}
	if err := t.look(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading provisioning tokens: %w", err), b.close())
	}
	return t, nil
}

// Run takes up what changes in the files, and writes down uses that nobody waits for, until the context ends.
func (t *Tokens) Run(ctx context.Context) {
	every(ctx, lookEvery, func() {
		if err := t.look(); err != nil {
			t.log.Warn("the provisioning tokens are not taken as they are: those of before stay", "file", t.path, "error", err)
		}
		t.write()
	})
}

// write writes down the uses of tokens that nobody counts strictly. What fails is tried again with the next use.
func (t *Tokens) write() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, k := range t.known {
		if err := k.count.flush(t.book); err != nil {
			t.log.Warn("writing down the uses of a provisioning token, whose number is not limited", "token", id, "error", err)
		}
	}
}

// Close writes down what is not yet, and gives up the folder of counts. Nothing may be used afterwards.
func (t *Tokens) Close() error {
	t.book.writes.Wait() // what is under way is not written a second time
	t.write()
	return t.book.close()
}

// look reads the files if anything in them has changed, good or bad, since the last look.
func (t *Tokens) look() error {
	all, digest, err := gather(t.path)
	if err != nil {
		digest = err.Error()
	}
	if digest == t.digest {
		return nil
	}
	t.digest = digest
	if err != nil {
		return err
	}
	tokens, err := readTokens(all)
	if err != nil {
		return err
	}
	known := map[string]kept{}
	for _, p := range tokens {
		c := t.book.open(p.Name, p.Spec.Hash)
		if c.broken != nil {
			t.log.Warn("a provisioning token's uses are not known: if their number is limited, none is granted", "token", p.Name, "error", c.broken)
		}
		c.atLeast(p.Status) // as of a token that served in a cluster before
		known[p.Name] = kept{p, c}
	}
	t.mu.Lock()
	t.known = known
	t.mu.Unlock()
	t.log.Info("provisioning tokens are read", "file", t.path, "number", len(known))
	return nil
}

// Token returns what is known of the token of an id, with its uses up to now; nil where there is none.
func (t *Tokens) Token(id string) *v1alpha1.ProvisioningToken {
	k, ok := t.find(id)
	if !ok {
		return nil
	}
	out := *k.token
	out.Status = k.count.status()
	return &out
}

func (t *Tokens) find(id string) (kept, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k, ok := t.known[id]
	return k, ok
}

// Use counts one use of a token. Where its number is limited, nil says that the use is on disk, and that it was one of those
// that are left; a crash may lose a use, and never gives one twice. The error is a *token.Refusal where none is left, or the
// token is gone meanwhile; any other says that it cannot be counted now.
func (t *Tokens) Use(ctx context.Context, id string, use v1alpha1.TokenUse) error {
	known := t.Token(id)
	if err := token.Spent(known, t.now()); err != nil {
		return err
	}
	k, ok := t.find(id)
	switch {
	case !ok: // taken away just now
		return &token.Refusal{ID: id, Reason: token.Unknown}
	case known.Spec.Uses == 0:
		k.count.note(use)
		return nil
	}
	counted, err := k.count.take(ctx, t.book, known.Spec.Uses, use)
	switch {
	case err != nil:
		return fmt.Errorf("counting a use of token %s: %w", id, err)
	case !counted:
		return &token.Refusal{ID: id, Reason: token.UsedUp}
	}
	return nil
}
