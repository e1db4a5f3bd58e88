package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

var tokenType = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProvisioningToken"}

// Tokens are the provisioning tokens of a file, or of a directory of such files. It counts their uses in another
// directory, which only one process at a time may use. Create it with OpenTokens, and close it. All methods may be
// called concurrently.
type Tokens struct {
	path    string
	usesDir *usesDir
	log     *slog.Logger
	now     func() time.Time

	digest  string // digest is the digest of the files as they were last read. Only Run's goroutine uses it.
	mu      sync.RWMutex
	entries map[string]tokenEntry // entries has the tokens by id.
}

type tokenEntry struct {
	token *v1alpha1.ProvisioningToken
	uses  *tokenUses
}

// OpenTokens reads tokens, and opens the directory of their uses, which it creates if it is missing. Invalid files are
// an error; if they become invalid later, Run only logs that, and the last valid tokens stay in use.
func OpenTokens(path, usesDir string, log *slog.Logger, now func() time.Time) (*Tokens, error) {
	b, err := openUsesDir(usesDir)
	if err != nil {
		return nil, err
	}
	t := &Tokens{path: path, usesDir: b, log: log, now: now}
	if err := t.reload(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading provisioning tokens: %w", err), b.close())
	}
	return t, nil
}

func openUsesDir(dir string) (*usesDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of token uses: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of token uses: %w", err)
	}
	if err := lockFile(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("opening the directory of token uses %s: another process uses it; run one server "+
				"for a token", dir)
		}
		return nil, fmt.Errorf("locking the directory of token uses %s: %w", dir, err)
	}
	d := &usesDir{dir: dir, lock: lock, uses: map[usesKey]*tokenUses{}}
	d.batches.Write = d.writeBatch
	return d, nil
}

// Run reads the files again when they change, and writes the uses of unlimited tokens, until the context ends.
func (t *Tokens) Run(ctx context.Context) {
	every(ctx, pollInterval, func() {
		if err := t.reload(); err != nil {
			t.log.Warn("reading provisioning tokens failed; the previous ones stay in use", "file", t.path, "error",
				err)
		}
		t.write()
	})
}

// write writes the uses of unlimited tokens. After a failure, the next attempt follows after the next use.
func (t *Tokens) write() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, k := range t.entries {
		if err := t.usesDir.flush(k.uses); err != nil {
			t.log.Warn("writing the uses of an unlimited provisioning token failed", "token", id, "error", err)
		}
	}
}

// Close writes the remaining uses and closes the directory. After Close, the caller must not call another method.
func (t *Tokens) Close() error {
	t.usesDir.batches.Wait() // Wait for running writes, so that the uses in them are not written again.
	t.write()
	return t.usesDir.close()
}

func (t *Tokens) reload() error {
	all, digest, err := readFiles(t.path)
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
	known := map[string]tokenEntry{}
	for _, p := range tokens {
		c := t.usesDir.open(p.Name, p.Spec.Hash)
		if c.readErr != nil {
			t.log.Warn("the uses of a provisioning token cannot be read: if they are limited, the token is not accepted", "token", p.Name, "error", c.readErr)
		}
		c.raise(p.Status) // The token may have been used in a cluster before.
		known[p.Name] = tokenEntry{p, c}
	}
	t.mu.Lock()
	t.entries = known
	t.mu.Unlock()
	t.log.Info("read the provisioning tokens", "file", t.path, "number", len(known))
	return nil
}

// Token returns a token by its id, with its uses up to now, or nil.
func (t *Tokens) Token(id string) *v1alpha1.ProvisioningToken {
	k, ok := t.find(id)
	if !ok {
		return nil
	}
	out := *k.token
	out.Status = k.uses.snapshot()
	return &out
}

func (t *Tokens) find(id string) (tokenEntry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k, ok := t.entries[id]
	return k, ok
}

// Use counts one use of a token. With a limited number, it returns nil after the use is on disk. A crash may lose a
// use, but never grants one twice. The error is a *join.InvalidError if no use is left or the token was removed; any
// other means that the use cannot be counted now.
func (t *Tokens) Use(ctx context.Context, id string, use v1alpha1.TokenUse) error {
	known := t.Token(id)
	if err := join.CheckUsable(known, t.now()); err != nil {
		return err
	}
	k, ok := t.find(id)
	switch {
	case !ok: // The token was removed after the check.
		return &join.InvalidError{ID: id, Reason: join.Unknown}
	case known.Spec.Uses == 0:
		k.uses.add(use)
		return nil
	}
	err := t.usesDir.count(ctx, k.uses, known.Spec.Uses, use)
	if invalid := (*join.InvalidError)(nil); err == nil || errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("counting a use of token %s: %w", id, err)
}

// TokenDocument returns the YAML document of a token, without the fields that an API server sets.
func TokenDocument(t *v1alpha1.ProvisioningToken) ([]byte, error) {
	out, err := yaml.Marshal(struct {
		APIVersion string                         `json:"apiVersion"`
		Kind       string                         `json:"kind"`
		Metadata   map[string]string              `json:"metadata"`
		Spec       v1alpha1.ProvisioningTokenSpec `json:"spec"`
	}{t.APIVersion, t.Kind, map[string]string{"name": t.Name}, t.Spec})
	if err != nil {
		return nil, fmt.Errorf("writing the token's object: %w", err)
	}
	return out, nil
}

// AppendToken adds a token to a file, which it creates if it is missing, and does not change if the server would refuse
// it.
func AppendToken(name string, t *v1alpha1.ProvisioningToken) (err error) {
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return fmt.Errorf("%s:1: no token was added: the file is JSON, and tokens are added as YAML; name another file",
			name)
	}
	if _, err := readTokens([]file{{name, data}}); err != nil {
		return fmt.Errorf("no token was added; fix the file first:\n%w", err)
	}
	document, err := TokenDocument(t)
	if err != nil {
		return err
	}
	separator := "---\n"
	if len(data) > 0 {
		separator = "\n---\n" // The last line of the file may have no line break.
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = f.Write(append([]byte(separator), document...))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

var tokenHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readTokens returns all errors at once. An empty file has no tokens, so the server accepts none any more.
func readTokens(all []file) (out []*v1alpha1.ProvisioningToken, err error) {
	docs, bad := documents(all)
	from := map[string]string{}
	for _, doc := range docs {
		p := &v1alpha1.ProvisioningToken{}
		if err := decode(doc, tokenType, p); err != nil {
			bad = append(bad, err)
			continue
		}
		for _, problem := range validate(p) {
			bad = append(bad, fmt.Errorf("%s: %w", doc.position(), problem))
		}
		if other, twice := from[p.Name]; twice {
			bad = append(bad, fmt.Errorf("%s: token %s is also in %s: remove one", doc.position(), p.Name, other))
			continue
		}
		from[p.Name] = doc.position()
		out = append(out, p)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return out, nil
}

// validate finds what the API server would refuse.
func validate(p *v1alpha1.ProvisioningToken) (bad []error) {
	const again = "use the object that `bunsen token create --offline` prints"
	if !join.IsID(p.Name) {
		bad = append(bad, fmt.Errorf("the name %q is not a token id of ten characters of a-z and 2-7: %s", p.Name,
			again))
	}
	if !tokenHash.MatchString(p.Spec.Hash) {
		bad = append(bad, fmt.Errorf("spec.hash of token %s is not 64 hexadecimal digits in lower case: %s", p.Name,
			again))
	}
	if p.Spec.Pool == "" {
		bad = append(bad, fmt.Errorf("token %s has no pool: set spec.pool", p.Name))
	}
	if p.Spec.Expires.IsZero() {
		bad = append(bad, fmt.Errorf("token %s does not expire: set spec.expires, such as 2026-01-31T12:00:00Z",
			p.Name))
	}
	if p.Spec.Uses < 0 {
		bad = append(bad, fmt.Errorf("token %s: spec.uses is %d: set 0 for any number, or 1 and more for a limit",
			p.Name, p.Spec.Uses))
	}
	return bad
}
