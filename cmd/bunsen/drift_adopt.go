package main

import (
	"bytes"
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
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/adopt"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// adopting is one call of drift adopt.
type adopting struct {
	target
	from, dir string
	secret    bool
}

func driftAdoptCommand() *cobra.Command {
	var a adopting
	cmd := &cobra.Command{
		Use: "adopt node/NAME PATH", Short: "Write what a node has as Butane, for a pull request",
		Long: `Write a Butane document that makes a node's change the config: contents, mode and owner as the node has them now. The
document comes late in the node's pool, so that it wins over the one that sets the path today; better move its lines there
and delete it (bunsen explain PATH says where). Nothing is changed on the cluster or the node.

Contents come from the daemon's pod on the node, or from a file that this printed there:
  machine-config-daemon drift export PATH

Exit codes: 0 written, 2 invalid input or no such drift, 3 cluster or node out of reach.`,
		Example: `  bunsen drift adopt node/worker-07 /etc/chrony.conf
  bunsen drift adopt node/worker-07 /etc/chrony.conf -o ~/os-config
  bunsen drift adopt node/worker-07 /etc/chrony.conf --from chrony.json -o ~/os-config`,
		Args: onePath("adopt"), ValidArgsFunction: a.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			repository, note, err := a.adopt(cmd.Context(), args)
			if err != nil {
				return err
			}
			if note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", note)
			}
			return a.write(cmd.OutOrStdout(), repository)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&a.from, "from", "", "a file with what `machine-config-daemon drift export PATH` printed on the node")
	cmd.Flags().StringVarP(&a.dir, "out", "o", "", "the repository to write to; empty: standard output")
	cmd.Flags().BoolVar(&a.secret, "secret", false, "write contents that look secret, too")
	return cmd
}

// adopt makes the files of the repository.
func (a *adopting) adopt(ctx context.Context, args []string) (r adopt.Repository, note string, err error) {
	c, err := a.connect("table")
	if err != nil {
		return r, "", err
	}
	row, err := findDrift(ctx, c, args)
	if err != nil {
		return r, "", err
	}
	object, note, err := a.object(ctx, c, row)
	if err != nil {
		return r, "", err
	}
	opts := adopt.Options{}
	if a.dir == "" {
		opts.MaxInline = 1 << 20
	}
	r, findings, err := adopt.Import([]adopt.Input{{Name: row.Name, Data: object}}, opts)
	if err == nil && len(r.Objects) == 1 && r.Objects[0].Skipped != "" {
		err = fmt.Errorf("adopting %s: %s", row.Name, r.Objects[0].Skipped)
	}
	for _, f := range findings {
		if f.Warning && note == "" {
			note = f.Message
		}
	}
	if err != nil {
		return r, "", invalid(err)
	}
	titled(r.Files, fmt.Sprintf("# %s as node/%s has it, where it differs from %s.\n", row.Name, row.Node, row.Config))
	return r, note, nil
}

// titled says in each document where it came from, in place of what an import says.
func titled(files map[string][]byte, head string) {
	for name, text := range files {
		if !strings.HasSuffix(name, ".bu") {
			continue
		}
		for bytes.HasPrefix(text, []byte("#")) {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		files[name] = append([]byte(head), text...)
	}
}

// object is the MachineConfig that makes what the node has the config.
func (a *adopting) object(ctx context.Context, c client.Client, row inspect.DriftRow) (object []byte, note string, err error) {
	pool := inspect.Pool(row.Config)
	if !strings.HasPrefix(row.Name, "/") {
		if object, err = inspect.AdoptedUnit(row, pool); err != nil {
			err = invalid(err)
		}
		return object, "", err
	}
	x, err := a.export(ctx, c, row)
	if err != nil {
		return nil, "", err
	}
	if (x.Secret || row.Secret) && !a.secret {
		return nil, "", invalid(fmt.Errorf("adopting %s: its contents look secret, and whoever reads the repository would read them; encrypt them there, or write them all the same with --secret", x.Path))
	}
	if x.Config != row.Config {
		note = fmt.Sprintf("the export is from %s, and the node is in %s now", inspect.ShortRendered(x.Config), inspect.ShortRendered(row.Config))
	}
	units, err := unitsOf(ctx, c, row.Config)
	if err != nil {
		return nil, "", err
	}
	unit, _, _ := inspect.UnitOf(x.Path)
	if object, err = inspect.AdoptedPath(x, pool, slices.Contains(units, unit)); err != nil {
		err = invalid(err)
	}
	return object, note, err
}

// export reads what the node has: from a file, or from the node.
func (a *adopting) export(ctx context.Context, c client.Client, row inspect.DriftRow) (x v1alpha1.DriftExport, err error) {
	text, from := []byte(nil), a.from
	command := []string{"drift", "export", row.Name}
	if a.from != "" {
		if text, err = os.ReadFile(a.from); err != nil {
			return x, invalid(fmt.Errorf("reading what the node has: %w", err))
		}
	} else {
		from = "the answer of node/" + row.Node
		if text, err = a.onNode(ctx, c, row.Node, command...); err != nil {
			return x, unreachable(fmt.Errorf("adopting %s: %w; run this on %s as root, and name the file with --from:\n  machine-config-daemon %s > drift.json", row.Name, err, row.Node, shellWords(command)))
		}
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return x, invalid(fmt.Errorf("reading %s: it is not what `machine-config-daemon drift export` prints: %w", from, err))
	}
	if x.Path != row.Name {
		return x, invalid(fmt.Errorf("reading %s: it is about %q, not %q", from, x.Path, row.Name))
	}
	return x, nil
}

// unitsOf are the units that a rendered config has.
func unitsOf(ctx context.Context, c client.Client, name string) (units []string, err error) {
	var mc mcfgv1.MachineConfig
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &mc); err != nil {
		return nil, unreadFor(configViewerRole, "MachineConfig "+name, err)
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return nil, invalid(fmt.Errorf("reading MachineConfig %s: %w", name, err))
	}
	for _, u := range machineconfig.Flattened(config).Ignition.Systemd.Units {
		units = append(units, u.Name)
	}
	return units, nil
}

// write writes the files below the repository, over none that is there; or prints the only one.
func (a *adopting) write(w io.Writer, r adopt.Repository) error {
	names := slices.Sorted(maps.Keys(r.Files))
	if a.dir == "" {
		if len(names) != 1 {
			return invalid(errors.New("the contents are no text and become a file of their own: name the repository with --out"))
		}
		_, err := fmt.Fprintf(w, "# %s\n%s", names[0], r.Files[names[0]])
		return err
	}
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return invalid(fmt.Errorf("opening the repository: %w", err))
	}
	defer root.Close() //nolint:errcheck // each file was closed
	for _, name := range names {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return invalid(fmt.Errorf("writing %s: it is there already; move its lines to where they belong, or remove it", name))
		}
		if err == nil {
			_, err = f.Write(r.Files[name])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return invalid(fmt.Errorf("writing %s: %w", name, err))
		}
		fmt.Fprintln(w, name) //nolint:errcheck // the file is written
	}
	_, err = fmt.Fprintf(w, "next: bunsen diff, then a pull request\n")
	return err
}
