package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lookEvery is the time between two looks at files. They are few and local.
const lookEvery = 3 * time.Second

// renderedName is the name that rendering gives: the pool, and a hash of the content.
var renderedName = regexp.MustCompile(`^rendered-(.+)-[0-9a-f]{32}$`)

// configType is what a Dir holds.
var configType = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"}

// Check tells what is wrong with a rendered config's name: it promises the content.
type Check func(pool string, rendered *mcfgv1.MachineConfig) error

// Dir offers the rendered configs of a folder.
//
// Its files are MachineConfig objects as `bunsen build` prints them, as YAML or JSON, one or many in a file. A config is for
// the pool that its name says, rendered-<pool>-<hash>; one of another name, alone in its file, for the pool that the file is
// called by.
type Dir struct {
	path   string
	check  Check
	offers *Offers
	log    *slog.Logger

	digest string // of the files that were looked at last
}

// OpenDir prepares to offer what a folder holds. The error says that there is no such folder; whether its files are good
// shows with the first look of Run.
func OpenDir(path string, check Check, offers *Offers, log *slog.Logger) (*Dir, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the folder of rendered configs: %w", err)
	}
	return &Dir{path: path, check: check, offers: offers, log: log}, nil
}

// Run looks at the folder until the context ends. What is bad with it is logged once for each state of its files.
func (d *Dir) Run(ctx context.Context) {
	every(ctx, lookEvery, func() {
		if err := d.look(); err != nil {
			d.log.Warn("the folder of rendered configs is not taken as it is", "folder", d.path, "error", err, "in force", d.offers.inForce())
		}
	})
}

// every calls look at once and then again and again, until the context ends.
func every(ctx context.Context, pause time.Duration, look func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for ctx.Err() == nil {
		look()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// look offers the folder's configs if anything in it has changed, good or bad, since the last look.
func (d *Dir) look() error {
	all, digest, err := gather(d.path)
	if err != nil {
		digest, all = err.Error(), nil
	}
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
	return d.offers.Set(configs)
}

// read makes configs of files, by pool. All that is wrong is told at once.
func (d *Dir) read(all []content) (map[string]*mcfgv1.MachineConfig, error) {
	docs, bad := documents(all)
	for _, c := range all {
		if len(bytes.TrimSpace(c.data)) == 0 { // its pool is not gone: it is not there yet
			bad = append(bad, fmt.Errorf("%s: the file is empty: it is being copied, or take it away", c.name))
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
			bad = append(bad, fmt.Errorf("%s: %w", doc.at(), err))
			continue
		}
		if other := configs[pool]; other != nil {
			bad = append(bad, fmt.Errorf("%s: %s is for pool %s, and so is %s of %s: leave the one that new machines shall boot", doc.at(), mc.Name, pool, other.Name, from[pool]))
			continue
		}
		configs[pool], from[pool] = mc, doc.at()
	}
	if len(bad) == 0 && len(configs) == 0 {
		return nil, fmt.Errorf("no rendered config is there: write one with `bunsen build --pool worker > %s`", filepath.Join(d.path, "worker.yaml"))
	}
	return configs, errors.Join(bad...)
}

// poolOf says whose config it is, and that it is what its name says.
func (d *Dir) poolOf(doc document, mc *mcfgv1.MachineConfig, alone bool) (string, error) {
	if mc.Name == "" {
		return "", errors.New("the MachineConfig has no name: metadata.name says which config a machine has")
	}
	if m := renderedName.FindStringSubmatch(mc.Name); m != nil {
		if err := d.check(m[1], mc); err != nil {
			return "", err
		}
		return m[1], nil
	}
	if !alone {
		return "", fmt.Errorf("the name %s tells no pool, as rendered-<pool>-<hash> does: keep it in a file of its own that is called by the pool", mc.Name)
	}
	base := filepath.Base(doc.file)
	return strings.TrimSuffix(base, filepath.Ext(base)), nil
}
