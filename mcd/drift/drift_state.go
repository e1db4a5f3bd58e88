package drift

import (
	"bytes"
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
	"github.com/bunsen-os/bunsen/mcd/plan"
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

// save writes the drift state if it has changed.
func (c Scanner) save(before, now driftState) error {
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
	if err := c.writeFile(driftStatePath, is); err != nil {
		return fmt.Errorf("saving the drift state: %w", err)
	}
	return nil
}

// writeFile writes a file in Dir that only root can read.
func (c Scanner) writeFile(p string, contents []byte) error {
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

// ErrNoDrift reports that the daemon's last drift scan found no drift at a path.
var ErrNoDrift = errors.New("it has not drifted, as far as the daemon has seen")

// KnownDrift returns the report of the last drift scan on this machine. The daemon may be running. The report is empty
// before the first scan.
func KnownDrift(files host.Files) (v1alpha1.Drift, error) {
	known, err := loadDrift(files)
	return known.Report, err
}

// DiffFound returns the redacted difference of a path as text, or ErrNoDrift.
func DiffFound(files host.Files, path string) (string, error) {
	text, err := files.Read(diffPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, ErrNoDrift)
	}
	return string(text), err
}

// ExportDiffs returns the present state of a path that has drifted, including its contents; or ErrNoDrift. Export
// exports only paths that the config manages.
func ExportDiffs(files host.Files, path string) (v1alpha1.DriftExport, error) {
	known, err := loadDrift(files)
	if err != nil {
		return v1alpha1.DriftExport{}, err
	}
	at := slices.IndexFunc(known.Report.Items, func(it v1alpha1.DriftItem) bool {
		return it.Name == path && it.Actual != nil
	})
	if at < 0 {
		return v1alpha1.DriftExport{}, fmt.Errorf("%s: %w", path, ErrNoDrift)
	}
	is, err := files.Stat(path)
	if err != nil {
		return v1alpha1.DriftExport{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	out := v1alpha1.DriftExport{
		Path: path, Config: known.Report.Config, Type: string(is.Kind),
		UID: int64(is.Owner.UID), GID: int64(is.Owner.GID), Target: is.Target,
	}
	if is.Kind == host.File || is.Kind == host.Dir {
		mode := int32(is.Mode) //nolint:gosec // at most 07777
		out.Mode = &mode
	}
	if is.Kind == host.File {
		if out.Contents, err = files.Read(path); err != nil {
			return v1alpha1.DriftExport{}, fmt.Errorf("reading %s: %w", path, err)
		}
		out.Secret = known.Report.Items[at].Secret ||
			IsSecret(Item{Name: path, Step: plan.Step{Before: host.Value{Entry: is}}}, nil)
	}
	return out, nil
}
