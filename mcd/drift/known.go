package drift

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

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
