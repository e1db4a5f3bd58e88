package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcs"
)

// contentDir is the directory of a Dir that has the large files of its configs. The name of each file is its hash,
// sha512-HEX, as `bunsen build --content` writes them.
const contentDir = "content"

// LargeFile opens the large file with a hash, and returns its size. The caller closes the file, whose contents are not
// verified.
func (d *Dir) LargeFile(hash string) (*os.File, int64, error) {
	if !machineconfig.IsStoredHash(hash) {
		return nil, 0, fmt.Errorf("reading a large file: %q is not sha512-HEX", mcs.SafeName(hash))
	}
	name := filepath.Join(d.path, contentDir, hash)
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("reading a large file (`bunsen build --content` writes it): %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("reading a large file: %s is not a regular file", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// missingFiles returns an error for each large file that a config names and the directory does not have.
func (d *Dir) missingFiles(pool string, mc *mcfgv1.MachineConfig) (bad []error) {
	for _, hash := range mcs.StoredHashes(mc) {
		f, _, err := d.LargeFile(hash)
		if err != nil {
			bad = append(bad, fmt.Errorf("config %s of pool %s: %w", mc.Name, pool, err))
			continue
		}
		f.Close() //nolint:errcheck,gosec // only opened
	}
	return bad
}

// largeFiles returns a text that changes with the names, sizes and times of the large files.
func (d *Dir) largeFiles() string {
	entries, err := os.ReadDir(filepath.Join(d.path, contentDir))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}
