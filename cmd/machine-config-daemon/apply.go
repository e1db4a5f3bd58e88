package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

// onceOptions are the flags of apply.
type onceOptions struct {
	source
	root, output                    string
	dry, stay, force, born, verbose bool
}

func newApply() *cobra.Command {
	var o onceOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Bring this machine to one config, without a cluster",
		Long: `apply reads a config from a file or URL, works out what differs between the config that the machine's record names (or
nothing) and this one, prints the steps and what they cost, and does them: with a journal, everything taken back when a
step fails, and a reboot where the change takes one. What a crash or a reboot of an earlier run left is ended first; run
it again after the reboot (or at each boot, by a unit) to have what booted confirmed. A machine that is in the config
already has nothing to do.

The config is Ignition 3.0 to 3.5, or a MachineConfig in YAML or JSON. What only a first boot sets up, such as disks, is
refused; --as-born takes it to be so already. Butane is transpiled first, by bunsen or butane.

With --root, the machine does not run: files, enablement, users and groups are changed in that directory, which keeps the
record and the journal; reloads and restarts are printed, a reboot is left to you, and a change of the OS is refused.

Exit codes: 0 the machine is in the config, or goes down to boot into it, or --dry-run has printed; 1 failed, and it is
in the config that it had; 2 called wrongly; 3 refused, nothing was changed; 4 it is between configs because going back
failed too: put right what is told, and run it again.`,
		Example: `  machine-config-daemon apply --once-from node.ign --dry-run
  machine-config-daemon apply --once-from https://configs.example.com/node.yaml --digest sha256:…
  machine-config-daemon apply --once-from node.ign --root /mnt/image -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.from == "":
				return &usageError{errors.New("--once-from is missing: name the file or URL of the config")}
			case o.output != "text" && o.output != "json":
				return &usageError{fmt.Errorf("-o %q is neither text nor json", o.output)}
			}
			return applyOnce(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.root, "root", "/", "root of the machine; another than / is a machine that does not run")
	f.BoolVar(&o.dry, "dry-run", false, "print what would be done, and do nothing")
	f.BoolVar(&o.stay, "skip-reboot", false, "leave a reboot that the change takes to you")
	f.BoolVar(&o.force, "force", false, "overwrite what differs on disk from the config in force, and reboot")
	f.BoolVar(&o.born, "as-born", false, "take what only a first boot sets up to be as the config says")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each step")
	return cmd
}

// applyOnce constructs the host and the runner, and prints what once.Do tells.
func applyOnce(ctx context.Context, o onceOptions, out io.Writer) error {
	name, text, err := o.read(ctx)
	if err != nil {
		return err
	}
	to, err := once.Read(name, text)
	if err != nil {
		return err
	}
	log := (&options{verbose: o.verbose}).logger()
	if strings.HasPrefix(o.from, "http://") && o.digest == "" {
		log.Warn("the config came without TLS: whoever is in between could have changed it; give --digest", "from", name)
	}
	h, closeHost, err := o.open(ctx, log)
	if err != nil {
		return err
	}
	defer closeHost()
	runner := apply.Runner{Host: h, Tell: func(s host.Step, undone bool) { log.Debug("step", "step", s.String(), "undone", undone) }}
	ask := once.Ask{To: to, Force: o.force, Born: o.born, Stay: o.stay || !o.live()}
	result, err := once.Do(ctx, runner, ask, o.dry, func(d once.Draft) {
		if o.output == "text" {
			fmt.Fprint(out, d.String())
		}
	})
	return tell(out, o, result, err)
}

// live tells that the machine is the one that this process runs on.
func (o *onceOptions) live() bool { return filepath.Clean(o.root) == "/" }

// open opens the machine, and keeps others from acting on it meanwhile; a dry run leaves no trace.
func (o *onceOptions) open(ctx context.Context, log *slog.Logger) (host.Host, func(), error) {
	switch {
	case o.live() && o.dry:
		return linux.Look(ctx, "/")
	case o.live():
		return linux.Open(ctx, "/")
	}
	dir, err := filepath.Abs(o.root) // the tools for users and groups take no other
	if err != nil {
		return host.Host{}, nil, err
	}
	h, root, err := linux.AtRest(dir, func(line string) { log.Info(line) })
	if err != nil {
		return host.Host{}, nil, err
	}
	if !o.dry {
		if err := root.Lock(); err != nil {
			root.Close() //nolint:errcheck,gosec // the first error is the one to tell
			return host.Host{}, nil, err
		}
	}
	return h, func() { root.Close() }, nil //nolint:errcheck,gosec // the process ends
}

// outcome is how apply ended, as JSON has it.
type outcome struct {
	From       string        `json:"from"`
	To         string        `json:"to"`
	Disruption string        `json:"disruption"`
	Steps      []stepText    `json:"steps"`
	Refusals   []refusalText `json:"refusals,omitempty"`
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

// tell prints how it ended, and turns that into an exit code.
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
	p := r.Draft.Plan
	said := outcome{From: p.From, To: p.To, Disruption: p.Disruption.String(), Steps: []stepText{}, RebootDue: r.Draft.Due, End: string(r.End)}
	for _, s := range r.Draft.Steps() {
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

// endError is nil where the machine is, or will be, as asked.
func endError(a apply.Applied) error {
	switch {
	case a.End == apply.Between:
		return &exitError{exitBetween, fmt.Errorf("the machine is between configs: %w", a.Why)}
	case a.End == apply.Old, a.End == apply.Rebooting && a.Why != nil:
		return fmt.Errorf("all was taken back: %w", a.Why)
	}
	return nil
}

// closing is the last line that people read; errors are printed by main.
func closing(o onceOptions, r once.Result, err error) string {
	var b strings.Builder
	switch r.Earlier.End {
	case apply.New:
		fmt.Fprintf(&b, "an earlier update to %s is confirmed\n", r.Earlier.To)
	case apply.Old:
		fmt.Fprintf(&b, "an earlier update to %s was taken back first: %v\n", r.Earlier.To, r.Earlier.Why)
	}
	switch {
	case err != nil:
	case r.End == apply.Rebooting:
		fmt.Fprintf(&b, "rebooting into %s\n", r.To)
	case r.Draft.Empty():
		fmt.Fprintf(&b, "nothing to do: the machine is in %s\n", r.To)
	case o.dry:
		b.WriteString("dry run: nothing was changed\n")
	default:
		fmt.Fprintf(&b, "done: the machine is in %s\n", r.To)
	}
	return b.String()
}
