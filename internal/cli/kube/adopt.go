package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/cli"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Adoption is one run of the verb drift adopt.
type Adoption struct {
	Target
	From, Dir string
	Secret    bool
}

// Adopt creates the files of the repository.
func (a *Adoption) Adopt(ctx context.Context, args []string) (r adopt.Repository, note string, err error) {
	c, err := a.Connect()
	if err != nil {
		return r, "", err
	}
	row, err := FindDrift(ctx, c, args)
	if err != nil {
		return r, "", err
	}
	d := adopt.Drift{Node: row.Node, Config: row.Config, Item: row.DriftItem}
	if strings.HasPrefix(row.Name, "/") {
		if note, err = a.readPath(ctx, c, &d); err != nil {
			return r, "", err
		}
	}
	opts := adopt.Options{}
	if a.Dir == "" {
		opts.MaxInline, opts.InDocument = 1<<20, true
	}
	r, findings, err := adopt.ImportDrift(d, opts)
	if err != nil {
		return r, "", cli.Invalid(err)
	}
	for _, f := range findings {
		if f.Warning && note == "" {
			note = f.Message
		}
	}
	return r, note, nil
}

// readPath reads the content on the node at a path, and the units of its config. The note warns if an export is about
// another config.
func (a *Adoption) readPath(ctx context.Context, c client.Client, d *adopt.Drift) (note string, err error) {
	x, err := a.export(ctx, c, d)
	if err != nil {
		return "", err
	}
	if (x.Secret || d.Item.Secret) && !a.Secret {
		return "", cli.Invalid(fmt.Errorf("adopting %s: its contents are secret, and every reader of the repository "+
			"could read them; encrypt them there, or write them anyway with --secret", x.Path))
	}
	if x.Config != d.Config {
		note = fmt.Sprintf("the export is from %s, and the node is in %s now", fleet.ShortRendered(x.Config),
			fleet.ShortRendered(d.Config))
	}
	d.Export = x
	d.Units, err = unitsOf(ctx, c, d.Config)
	return note, err
}

// export reads the content from a file or from the node itself.
func (a *Adoption) export(ctx context.Context, c client.Client, d *adopt.Drift) (x v1alpha1.DriftExport, err error) {
	text, from := []byte(nil), a.From
	command := []string{"drift", "export", d.Item.Name}
	if a.From != "" {
		if text, err = os.ReadFile(a.From); err != nil {
			return x, cli.Invalid(fmt.Errorf("reading what the node has: %w", err))
		}
	} else {
		from = "the answer of node/" + d.Node
		var manual string
		if text, manual, err = a.Target.runOnNode(ctx, c, d.Node, command...); err != nil {
			return x, cli.Unreachable(fmt.Errorf("adopting %s: %w; name the file that this creates with --from. Run "+
				"it %s > drift.json", d.Item.Name, err, manual))
		}
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return x, cli.Invalid(fmt.Errorf("reading %s: it is not what `machine-config-daemon drift export` prints: %w",
			from, err))
	}
	if x.Path != d.Item.Name {
		return x, cli.Invalid(fmt.Errorf("reading %s: it is about %q, not %q", from, x.Path, d.Item.Name))
	}
	return x, nil
}

func unitsOf(ctx context.Context, c client.Client, name string) (units []string, err error) {
	var mc mcfgv1.MachineConfig
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &mc); err != nil {
		return nil, ReadErrorFor(ConfigViewerRole, "MachineConfig "+name, err)
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return nil, cli.Invalid(fmt.Errorf("reading MachineConfig %s: %w", name, err))
	}
	for _, u := range machineconfig.Flattened(config).Ignition.Systemd.Units {
		units = append(units, u.Name)
	}
	return units, nil
}

// Write writes the files below the repository, and replaces none. A single file without a repository is printed.
func (a *Adoption) Write(w io.Writer, r adopt.Repository) error {
	names := slices.Sorted(maps.Keys(r.Files))
	if a.Dir == "" {
		if len(names) != 1 {
			return cli.Invalid(errors.New("the contents are no text and become a file of their own: name the " +
				"repository with --out"))
		}
		_, err := fmt.Fprintf(w, "# %s\n%s", names[0], r.Files[names[0]])
		return err
	}
	root, err := os.OpenRoot(a.Dir)
	if err != nil {
		return cli.Invalid(fmt.Errorf("opening the repository: %w", err))
	}
	defer root.Close() //nolint:errcheck // each file was closed
	for _, name := range names {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return cli.Invalid(fmt.Errorf("writing %s: it is there already; move its lines to where they belong, or "+
				"remove it", name))
		}
		if err == nil {
			_, err = f.Write(r.Files[name])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return cli.Invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		fmt.Fprintln(w, name) //nolint:errcheck // the file is written
	}
	_, err = fmt.Fprintf(w, "next: bunsen diff, then a pull request\n")
	return err
}
