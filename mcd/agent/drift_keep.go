package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

const (
	// DriftDir has what the daemon knows about drift, for root only: its memory, and a redacted difference for each path.
	DriftDir = host.StateDir + "/drift"
	// driftState is the memory.
	driftState = DriftDir + "/state.json"
)

// kept is what the lookout knows from one look to the next, and what the cluster said last.
type kept struct {
	// Memory of what differs and of repairs.
	Memory drift.Memory `json:"memory"`
	// Policy on drift and Rules about what changes cost, as the cluster said them last.
	Policy drift.Policy  `json:"policy"`
	Rules  policy.Policy `json:"rules"`
	// Report of the last look.
	Report v1alpha1.Drift `json:"report"`
	// Diffs are the paths whose difference is written in DriftDir.
	Diffs []string `json:"diffs,omitempty"`
	// Accessed: somebody was logged in over SSH.
	Accessed bool `json:"accessed,omitempty"`
}

// load reads it; before the first look, the default rules count and everything degrades.
func (l lookout) load() (kept, error) { return loadDrift(l.a.Host.Files) }

func loadDrift(files host.Files) (kept, error) {
	k := kept{Rules: policy.Default()}
	text, err := files.Read(driftState)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("reading what is known about drift: %w", err)
	}
	if json.Unmarshal(text, &k) != nil {
		return kept{Rules: policy.Default()}, nil // a power cut may have emptied it: it is found out again
	}
	return k, nil
}

// save keeps it durably, where it says something new.
func (l lookout) save(before, now kept) error {
	was, err := json.Marshal(before)
	if err != nil {
		return fmt.Errorf("keeping what is known about drift: %w", err)
	}
	is, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("keeping what is known about drift: %w", err)
	}
	if bytes.Equal(was, is) {
		return nil
	}
	if err := l.write(driftState, is); err != nil {
		return fmt.Errorf("keeping what is known about drift: %w", err)
	}
	return nil
}

// write writes a file for root only.
func (l lookout) write(p string, contents []byte) error {
	for _, dir := range []string{host.StateDir, DriftDir} {
		is, err := l.a.Host.Files.Stat(dir)
		if err == nil && is.Kind == host.Absent {
			err = l.a.Host.Files.Mkdir(dir, host.Entry{Kind: host.Dir, Mode: 0o700})
		}
		if err != nil {
			return err
		}
	}
	return l.a.Host.Files.Write(p, host.Entry{Kind: host.File, Mode: 0o600}, contents)
}

// diffPath is where the redacted difference of a path is.
func diffPath(p string) string {
	name := url.PathEscape(strings.TrimPrefix(p, "/"))
	if len(name) > 200 {
		name = name[:150] + "-" + string(host.DigestOf([]byte(p)))[:16]
	}
	return DriftDir + "/" + name + ".diff"
}

// diffs writes the redacted difference of each path that is reported, and removes those of others. They are for people: one
// that cannot be written is logged, and changes nothing.
func (l lookout) diffs(ctx context.Context, s sight, before []string) (written []string) {
	l.a.Host.Disk.Batch() // thousands cost about as much as one
	defer func() {
		if err := l.a.Host.Disk.Flush(ctx); err != nil {
			l.a.Log.Warn("writing differences for people", "err", err)
		}
	}()
	for _, v := range s.Verdicts {
		if !path.IsAbs(v.Name) || v.Action == v1alpha1.DriftIgnore {
			continue
		}
		text := []byte(drift.Diff(v, s.config, s.expected[v.Name], s.actual[v.Name]))
		if is, err := l.a.Host.Files.Read(diffPath(v.Name)); err == nil && bytes.Equal(is, text) {
			written = append(written, v.Name)
			continue
		}
		if err := l.write(diffPath(v.Name), text); err != nil {
			l.a.Log.Warn("writing a difference for people", "path", v.Name, "err", err)
			continue
		}
		written = append(written, v.Name)
	}
	for _, p := range before {
		if slices.Contains(written, p) {
			continue
		}
		if err := l.a.Host.Files.Remove(diffPath(p)); err != nil {
			l.a.Log.Warn("removing a difference that is no more", "path", p, "err", err)
		}
	}
	return written
}
