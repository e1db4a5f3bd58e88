package drift

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
	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

const (
	// ExportDir has the daemon's files about drift: its state, and a redacted difference for each path. Only root can
	// read them.
	ExportDir = host.StateDir + "/drift"
	// driftStatePath is the path of the file with the state between scans.
	driftStatePath = ExportDir + "/state.json"
)

// driftState is the data that the agent stores between drift scans, with the policies that it last read from the
// cluster.
type driftState struct {
	// Memory has the known differences and the recent repairs.
	Memory Memory `json:"memory"`
	// Policy is the drift policy and Rules is the disruption policy, as last read from the cluster.
	Policy Policy            `json:"policy"`
	Rules  disruption.Policy `json:"rules"`
	// Report is the report of the last scan.
	Report v1alpha1.Drift `json:"report"`
	// Diffs are the paths whose difference is written in Dir.
	Diffs []string `json:"diffs,omitempty"`
	// Accessed is true if a user has been logged in over SSH.
	Accessed bool `json:"accessed,omitempty"`
}

// loadDrift reads the drift state. Before the first scan, the default disruption policy applies and all drift degrades
// the node.
func loadDrift(files host.Files) (driftState, error) {
	k := driftState{Rules: disruption.Default()}
	text, err := files.Read(driftStatePath)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("reading the drift state: %w", err)
	}
	if json.Unmarshal(text, &k) != nil {
		// A power cut may have emptied the file, and the next scan rewrites it.
		return driftState{Rules: disruption.Default()}, nil
	}
	return k, nil
}

// saveDrift writes the drift state if it has changed.
func saveDrift(c Scanner, before, now driftState) error {
	was, err := json.Marshal(before)
	if err != nil {
		return fmt.Errorf("saving the drift state: %w", err)
	}
	is, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("saving the drift state: %w", err)
	}
	if bytes.Equal(was, is) {
		return nil
	}
	if err := writeDriftFile(c, driftStatePath, is); err != nil {
		return fmt.Errorf("saving the drift state: %w", err)
	}
	return nil
}

// writeDriftFile writes a file in Dir that only root can read.
func writeDriftFile(c Scanner, p string, contents []byte) error {
	for _, dir := range []string{host.StateDir, ExportDir} {
		is, err := c.Host.Files.Stat(dir)
		if err == nil && is.Kind == host.Absent {
			err = c.Host.Files.Mkdir(dir, host.Entry{Kind: host.Dir, Mode: 0o700})
		}
		if err != nil {
			return err
		}
	}
	return c.Host.Files.Write(p, host.Entry{Kind: host.File, Mode: 0o600}, contents)
}

// diffPath returns where the redacted difference of a path is stored.
func diffPath(p string) string {
	name := url.PathEscape(strings.TrimPrefix(p, "/"))
	if len(name) > 200 {
		name = name[:150] + "-" + string(host.DigestOf([]byte(p)))[:16]
	}
	return ExportDir + "/" + name + ".diff"
}

// hasDiff reports whether Dir has the difference of a result.
func hasDiff(v Result) bool { return path.IsAbs(v.Name) && v.Action != v1alpha1.DriftIgnore }

// announceDiffs saves the paths of the differences that are written next, so that a later scan removes them also if the
// daemon stops before it saves the rest. It returns all paths with a difference in Dir.
func announceDiffs(c Scanner, before driftState, s driftScan) []string {
	now := before
	now.Diffs = slices.Clone(before.Diffs)
	for _, v := range s.Results {
		if hasDiff(v) && !slices.Contains(now.Diffs, v.Name) {
			now.Diffs = append(now.Diffs, v.Name)
		}
	}
	if err := saveDrift(c, before, now); err != nil {
		c.Log.Warn("cannot save the drift state", "err", err)
	}
	return now.Diffs
}

// writeDiffs writes the redacted difference of each reported path and removes outdated files. The files are only for
// users, so writeDiffs logs a failed write and continues.
func writeDiffs(ctx context.Context, c Scanner, s driftScan, before []string) (written []string) {
	c.Host.Disk.Batch() // A batch needs only one flush for all files.
	defer func() {
		if err := c.Host.Disk.Flush(ctx); err != nil {
			c.Log.Warn("writing differences for people", "err", err)
		}
	}()
	for _, v := range s.Results {
		if !hasDiff(v) {
			continue
		}
		text := []byte(Diff(v, s.config, s.expected[v.Name], s.actual[v.Name]))
		if is, err := c.Host.Files.Read(diffPath(v.Name)); err == nil && bytes.Equal(is, text) {
			written = append(written, v.Name)
			continue
		}
		if err := writeDriftFile(c, diffPath(v.Name), text); err != nil {
			c.Log.Warn("writing a difference for people", "path", v.Name, "err", err)
			continue
		}
		written = append(written, v.Name)
	}
	for _, p := range before {
		if slices.Contains(written, p) {
			continue
		}
		if err := c.Host.Files.Remove(diffPath(p)); err != nil {
			c.Log.Warn("removing a difference that is no more", "path", p, "err", err)
		}
	}
	return written
}
