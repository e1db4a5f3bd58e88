package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
	"github.com/bunsen-os/bunsen/mcd/process"
)

// onceOptions are the flags of the command apply.
type onceOptions struct {
	source
	root, output, content           string
	dry, stay, force, born, verbose bool
}

func newApply() *cobra.Command {
	var o onceOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply one config to this machine, without a cluster",
		Long: `apply reads a config from a file or URL and compares it with the config in the machine's record. apply prints the steps and
their disruption, and runs the steps with a journal. If a step fails, apply rolls back all steps. apply reboots the machine if
the change needs a reboot. A machine that already has the config needs no step.

After a crash or a reboot, the next run of apply first finishes or rolls back the earlier one. Run apply again after a reboot,
or let a unit run it at each boot, so that apply confirms the config that booted.

The config for apply is Ignition 3.0 to 3.5, or a MachineConfig in YAML or JSON. apply refuses the parts that only a first boot
sets up, such as disks; with --as-born, apply assumes that the machine already has these parts. Transpile a Butane config first,
with bunsen or butane.

A config from bunsen build names large files of its repository by hash. apply reads them from the directory --content, which
bunsen build --content writes.

With --root, apply changes files, enablement, users and groups in the given directory, which also has the record and the
journal. With --root, apply prints reloads and restarts, leaves a reboot to you, and refuses a change of the OS.

Exit codes:
  0  the machine has the config, or reboots into it, or --dry-run has printed the steps
  1  failed: the machine has the config that it had before
  2  wrong arguments
  3  refused: nothing changed
  4  the rollback failed too, so the machine is between two configs: fix the reported cause, and run apply again`,
		Example: `  machine-config-daemon apply --once-from node.ign --dry-run
  machine-config-daemon apply --once-from https://configs.example.com/node.yaml --digest sha256:…
  machine-config-daemon apply --once-from node.ign --root /mnt/image -o json`,
		Args: process.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.from == "":
				return &usageError{Err: errors.New("--once-from is missing: name the file or URL of the config")}
			case o.output != "text" && o.output != "json":
				return &usageError{Err: fmt.Errorf("-o %q is neither text nor json", o.output)}
			}
			return applyOnce(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.root, "root", "/", "root directory of the machine; a directory other than / is a machine that "+
		"does not run")
	f.StringVar(&o.content, "content", "", "directory with the large files of the config, as bunsen build --content "+
		"writes it")
	f.BoolVar(&o.dry, "dry-run", false, "print the steps of the update, and change nothing")
	f.BoolVar(&o.stay, "skip-reboot", false, "do not reboot, even if the change needs a reboot")
	f.BoolVar(&o.force, "force", false, "overwrite differences between the disk and the config in force, and reboot")
	f.BoolVar(&o.born, "as-born", false, "assume that the parts that only a first boot sets up match the config")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each step")
	return cmd
}

// applyOnce constructs the host and the runner, calls once.Do and prints its result.
func applyOnce(ctx context.Context, o onceOptions, out io.Writer) error {
	name, text, err := o.read(ctx)
	if err != nil {
		return err
	}
	to, err := once.Read(name, text)
	if err != nil {
		return err
	}
	log := process.Logger(o.verbose)
	if strings.HasPrefix(o.from, "http://") && o.digest == "" {
		log.Warn("the config came without TLS, so a machine on the way could have changed it; add --digest", "from",
			name)
	}
	h, closeHost, err := o.open(ctx, log)
	if err != nil {
		return err
	}
	defer closeHost()
	runner := apply.Runner{Host: h, OnStep: func(s host.Step, undone bool) {
		log.Debug("step", "step", s.String(), "undone", undone)
	}}
	ask := once.Request{
		To: to, Force: o.force, AsFirstBoot: o.born, SkipReboot: o.stay || !o.live(),
		Fetcher: process.Fetcher(h, storedIn(o.content), versionText()),
	}
	result, err := once.Run(ctx, runner, ask, o.dry, func(d once.Plan) {
		if o.output == "text" {
			fmt.Fprint(out, d.String())
		}
	})
	return tell(out, o, result, err)
}

// live reports whether the machine is the one on which this process runs.
func (o *onceOptions) live() bool { return filepath.Clean(o.root) == "/" }

// open opens the machine, and prevents other processes from changing the machine meanwhile. A dry run does not change
// the machine.
func (o *onceOptions) open(ctx context.Context, log *slog.Logger) (host.Host, func(), error) {
	switch {
	case o.live() && o.dry:
		return linux.OpenReadOnly(ctx, "/")
	case o.live():
		return linux.OpenHost(ctx, "/")
	}
	dir, err := filepath.Abs(o.root) // The programs that create users and groups need an absolute path.
	if err != nil {
		return host.Host{}, nil, err
	}
	h, root, err := linux.OpenOffline(dir, func(line string) { log.Info(line) })
	if err != nil {
		return host.Host{}, nil, err
	}
	if !o.dry {
		if err := root.Lock(); err != nil {
			root.Close() //nolint:errcheck,gosec // return the first error
			return host.Host{}, nil, err
		}
	}
	return h, func() { root.Close() }, nil //nolint:errcheck,gosec // the process ends
}

// outcome is the result of the command apply, in JSON.
type outcome struct {
	From       string        `json:"from"`
	To         string        `json:"to"`
	Disruption string        `json:"disruption"`
	Steps      []stepText    `json:"steps"`
	Refusals   []refusalText `json:"refusals,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
	RebootDue  bool          `json:"rebootDue,omitempty"`
	End        string        `json:"end"`
	Why        string        `json:"why,omitempty"`
	Earlier    string        `json:"earlier,omitempty"`
}

type stepText struct {
	Verb   string `json:"verb"`
	Target string `json:"target,omitempty"`
	Text   string `json:"text"`
}

type refusalText struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

// tell prints the result of the command apply, and converts the result to an exit code.
func tell(out io.Writer, o onceOptions, r once.Result, err error) error {
	if err == nil {
		err = endError(r.Applied)
	} else if errors.Is(err, apply.ErrRefused) {
		err = &exitError{exitRefused, err}
	}
	if o.output == "text" {
		fmt.Fprint(out, closing(o, r, err))
		return err
	}
	p := r.Plan.Plan
	said := outcome{
		From: p.From, To: p.To, Disruption: p.Disruption.String(), Steps: []stepText{},
		RebootDue: r.Plan.RebootDue, End: string(r.End), Notes: slices.Concat(p.Notes, p.Unread),
	}
	for _, s := range r.Plan.Steps() {
		said.Steps = append(said.Steps, stepText{string(s.Verb), s.Target, s.String()})
	}
	for _, f := range p.Refusals {
		said.Refusals, said.Steps = append(said.Refusals, refusalText{f.Field, f.Why}), []stepText{}
	}
	if len(p.Refusals) > 0 {
		said.End = "refused"
	}
	if err != nil {
		said.Why = err.Error()
	}
	if end := r.Earlier.End; end != "" && end != apply.Nothing {
		said.Earlier = string(end)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return errors.Join(err, enc.Encode(said))
}

// endError returns nil if the machine has the config, or will have it after a reboot.
func endError(a apply.Applied) error {
	switch {
	case a.End == apply.RollbackFailed:
		return &exitError{exitBetween, fmt.Errorf("the machine is between configs: %w", a.Why)}
	case a.End == apply.RebootUnknown:
		return fmt.Errorf("it is unknown whether the machine reboots: %w; if it stays up, run this again: it looks, "+
			"and requests the reboot again if the machine does not go down", a.Why)
	case a.End == apply.Old, a.End == apply.Rebooting && a.Why != nil:
		return fmt.Errorf("the update was rolled back: %w", a.Why)
	}
	return nil
}

// closing returns the last line of the output for users. The function main prints errors.
func closing(o onceOptions, r once.Result, err error) string {
	var b strings.Builder
	switch r.Earlier.End {
	case apply.New:
		fmt.Fprintf(&b, "an earlier update to %s is confirmed\n", r.Earlier.To)
	case apply.Old:
		fmt.Fprintf(&b, "an earlier update to %s was rolled back first: %v\n", r.Earlier.To, r.Earlier.Why)
	}
	switch {
	case err != nil:
	case r.End == apply.Rebooting:
		fmt.Fprintf(&b, "rebooting into %s\n", r.To)
	case r.Plan.Empty():
		fmt.Fprintf(&b, "nothing to do: the machine is in %s\n", r.To)
	case o.dry:
		b.WriteString("dry run: nothing was changed\n")
	default:
		fmt.Fprintf(&b, "done: the machine is in %s\n", r.To)
	}
	return b.String()
}
