package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcs"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pollInterval: short, because the files are few and local
const pollInterval = 3 * time.Second

// renderedName: the pool, and a hash of the content
var renderedName = regexp.MustCompile(`^rendered-(.+)-[0-9a-f]{32}$`)

var configType = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"}

// CheckName returns an error if the name of a rendered config does not match its content.
type CheckName func(pool string, rendered *mcfgv1.MachineConfig) error

// Dir serves the rendered configs in a directory.
//
// Its files have MachineConfigs as `bunsen build` prints them, as YAML or JSON, one or many in a file. A config is for
// the pool in its name, rendered-<pool>-<hash>. One with another name must be alone in its file, whose name is the
// pool. The directory content has the large files of the configs, named by their hashes.
type Dir struct {
	path  string
	check CheckName
	pools *mcs.Pools
	log   *slog.Logger

	digest string // digest is the digest of the files as they were last read.
}

// OpenDir fails if there is no such directory. Run reads its files.
func OpenDir(path string, check CheckName, pools *mcs.Pools, log *slog.Logger) (*Dir, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the directory of rendered configs: %w", err)
	}
	return &Dir{path: path, check: check, pools: pools, log: log}, nil
}

// Run serves the configs until the context ends, and follows changes. It logs the errors of the files once after each.
func (d *Dir) Run(ctx context.Context) {
	every(ctx, pollInterval, func() {
		if err := d.reload(); err != nil {
			d.log.Warn("serving the directory of rendered configs failed; what was served before stays", "folder",
				d.path, "pools", len(d.pools.Status()), "error", err)
		}
	})
}

// every begins at once.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// reload does nothing if no file has changed.
func (d *Dir) reload() error {
	all, digest, err := readFiles(d.path)
	if err != nil {
		digest, all = err.Error(), nil
	}
	digest += d.largeFiles()
	if digest == d.digest {
		return nil
	}
	d.digest = digest
	if err != nil {
		return err
	}
	configs, err := d.read(all)
	if err != nil {
		return err
	}
	return SetConfigs(d.pools, configs, d.log)
}

// read returns the configs by pool, or all errors at once.
func (d *Dir) read(all []file) (map[string]*mcfgv1.MachineConfig, error) {
	docs, bad := documents(all)
	for _, c := range all {
		// Another program is still writing it: the pool must not be removed.
		if len(bytes.TrimSpace(c.data)) == 0 {
			bad = append(bad, fmt.Errorf("%s: the file is empty: wait until it is copied, or remove it", c.name))
		}
	}
	alone := map[string]int{}
	for _, doc := range docs {
		alone[doc.file]++
	}
	configs, from := map[string]*mcfgv1.MachineConfig{}, map[string]string{}
	for _, doc := range docs {
		mc := &mcfgv1.MachineConfig{}
		err := decode(doc, configType, mc)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		pool, err := d.poolOf(doc, mc, alone[doc.file] == 1)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", doc.position(), err))
			continue
		}
		if other := configs[pool]; other != nil {
			bad = append(bad, fmt.Errorf("%s: %s is for pool %s, and so is %s of %s: remove one", doc.position(),
				mc.Name, pool, other.Name, from[pool]))
			continue
		}
		configs[pool], from[pool] = mc, doc.position()
		bad = append(bad, d.missingFiles(pool, mc)...)
	}
	if len(bad) == 0 && len(configs) == 0 {
		return nil, fmt.Errorf("there is no rendered config: create one with `bunsen build --pool worker > %s`",
			filepath.Join(d.path, "worker.yaml"))
	}
	return configs, errors.Join(bad...)
}

// poolOf checks that the content matches the name.
func (d *Dir) poolOf(doc document, mc *mcfgv1.MachineConfig, alone bool) (string, error) {
	if mc.Name == "" {
		return "", errors.New("the MachineConfig has no name: set metadata.name, which identifies the config of a " +
			"machine")
	}
	if m := renderedName.FindStringSubmatch(mc.Name); m != nil {
		if err := d.check(m[1], mc); err != nil {
			return "", err
		}
		return m[1], nil
	}
	if !alone {
		return "", fmt.Errorf("the name %s contains no pool, as rendered-<pool>-<hash> does: put it alone into a "+
			"file named after the pool", mc.Name)
	}
	base := filepath.Base(doc.file)
	return strings.TrimSuffix(base, filepath.Ext(base)), nil
}

// SetConfigs serves exactly the given configs, by pool, and removes all other pools. Then the pools count as synced.
// The error joins the problems of configs that cannot be served; their pools keep the previous one. No other code may
// change the pools.
func SetConfigs(pools *mcs.Pools, configs map[string]*mcfgv1.MachineConfig, log *slog.Logger) error {
	before := pools.Status()
	var bad []error
	for _, pool := range slices.Sorted(maps.Keys(configs)) {
		rendered := configs[pool]
		if err := pools.Set(pool, rendered); err != nil {
			bad = append(bad, fmt.Errorf("serving config %s to pool %s: %w", rendered.Name, pool, err))
		} else if before[pool].Config != rendered.Name {
			log.Info("serving", "pool", pool, "config", rendered.Name, "commit",
				rendered.Annotations[v1alpha1.RevisionAnnotation])
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(before)) {
		if configs[pool] == nil {
			log.Info("the pool was removed", "pool", pool)
			pools.Remove(pool)
		}
	}
	pools.SetSynced()
	return errors.Join(bad...)
}

// contentDir: the large files of the configs, each named by its hash, sha512-HEX, as `bunsen build --content` writes
// them
const contentDir = "content"

// LargeFile opens the large file with a hash, and returns its size. The caller closes it. The contents are not
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

// missingFiles has an error for each large file that a config names and the directory does not have.
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

// largeFiles changes with the names, sizes and times of the large files.
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
