package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/config"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

// Installation is one run of the verb install or upgrade.
type Installation struct {
	kube.Target
	Poll time.Duration

	options       Options
	registry, tag string
	imagesFile    string
	print, noWait bool
	timeout       time.Duration
}

// Flags adds the flags.
func (i *Installation) Flags(cmd *cobra.Command) {
	i.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&i.registry, "registry", "", "`repository` that has the images, such as registry.example.com/bunsen")
	f.StringVar(&i.tag, "tag", "", "tag of the images in --registry")
	f.StringVar(&i.imagesFile, "images", "", "`file` with the references of the images: images.json of `make images`")
	f.StringSliceVar(&i.options.Hostnames, "hostnames", nil, "names and addresses at which new machines reach "+
		"machine-config-server, beside those of its nodes")
	f.StringVar(&i.options.JoinServer, "join-server", "", "`URL` of the API server for new machines; empty: machines "+
		"join in another way")
	f.StringSliceVar(&i.options.Without, "without", nil, "`parts` to leave out: machine-config-server, "+
		"machine-config-daemon")
	f.StringSliceVar(&i.options.Console, "console", nil, "install the console too, for browsers that open these "+
		"`hosts`, such as console.example.org or localhost:8443")
	f.BoolVar(&i.print, "print", false, "print the objects as YAML, and change nothing")
	f.BoolVar(&i.noWait, "no-wait", false, "do not wait until the parts are ready")
	f.DurationVar(&i.timeout, "timeout", 5*time.Minute, "how long to wait until the parts are ready")
}

// Run installs Bunsen, or changes an installation to these options and this version.
func (i *Installation) Run(cmd *cobra.Command) error {
	if err := i.setImages(); err != nil {
		return err
	}
	if err := i.options.Check(); err != nil {
		return cli.Invalid(err)
	}
	if i.print {
		return i.printObjects(cmd.OutOrStdout())
	}
	c, err := connect(&i.Target)
	if err != nil {
		return err
	}
	return i.install(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// setImages reads the images from the file, or builds their references from registry and tag.
func (i *Installation) setImages() error {
	switch {
	case i.imagesFile != "" && i.registry != "":
		return cli.Invalid(errors.New("--images and --registry exclude each other: the file has whole references"))
	case i.imagesFile != "":
		raw, err := os.ReadFile(i.imagesFile)
		if err != nil {
			return cli.Invalid(fmt.Errorf("reading --images: %w", err))
		}
		if err := json.Unmarshal(raw, &i.options.Images); err != nil {
			return cli.Invalid(fmt.Errorf("reading --images %s: %w; want an object of references by part, as `make "+
				"images` writes it", i.imagesFile, err))
		}
	case i.registry != "":
		if i.tag == "" {
			return cli.Invalid(errors.New("--registry needs --tag, such as --tag v1.2.3"))
		}
		i.options.Images = map[string]string{}
		for _, part := range append(slices.Clone(Parts), ConsoleImage) {
			i.options.Images[part] = strings.TrimRight(i.registry, "/") + "/" + part + ":" + i.tag
		}
	}
	return nil
}

func (i *Installation) printObjects(out io.Writer) error {
	all, err := Manifest(config.Files, i.options)
	if err != nil {
		return err
	}
	for n, o := range all {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", nameOf(o), err)
		}
		if n > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return fmt.Errorf("printing the objects: %w", err)
		}
	}
	return nil
}

func (i *Installation) install(ctx context.Context, c cluster, out, progress io.Writer) error {
	started := time.Now()
	ready, err := c.readiness(ctx)
	if err != nil {
		return err
	}
	problems := ready.Check(i.options)
	writeProblems(progress, problems)
	if len(Fatal(problems)) > 0 {
		return cli.Invalid(errors.New("the cluster is not ready for an installation; nothing was changed"))
	}
	i.options.ControlPlaneNodes = ready.ControlPlane
	all, err := Manifest(config.Files, i.options)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "applying %d objects to Kubernetes %s.%s with %d nodes\n", len(all), ready.Major, ready.Minor,
		ready.Nodes)
	if err := i.applyAll(ctx, c, all); err != nil {
		return err
	}
	if err := prune(ctx, c, all, progress); err != nil {
		return err
	}
	if !i.noWait {
		without := slices.Clone(i.options.Without)
		if !ready.ConsoleCertificate {
			without = append(without, Console)
		}
		if err := i.await(ctx, c, without, progress); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "Bunsen is installed, after %s.\n\n%s", time.Since(started).Round(time.Second), nextSteps)
	return err
}

const nextSteps = `Next:
  bunsen check                      whether every part works
  kubectl apply -f gitsource.yaml   follow a repository: docs/sources.md has the object
  bunsen status -w                  watch the first rollout
`

// applyAll applies namespaces and CRDs, waits until the API server serves the kinds, and applies all other objects.
func (i *Installation) applyAll(ctx context.Context, c cluster, all []*unstructured.Unstructured) error {
	first, rest := Phases(all)
	for _, o := range first {
		if err := c.apply(ctx, o, false); err != nil {
			return err
		}
	}
	for _, o := range first {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := until(ctx, i.Poll, time.Minute, func() (bool, error) {
			return c.isEstablished(ctx, o.GetName())
		}); err != nil {
			return fmt.Errorf("waiting for the kind %s: %w", o.GetName(), err)
		}
	}
	for _, o := range rest {
		if err := c.apply(ctx, o, false); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes objects of an earlier installation with bunsen that the new one does not have: a part that is now left
// out, or earlier settings. Objects that a user applied in another way stay.
func prune(ctx context.Context, c cluster, wanted []*unstructured.Unstructured, progress io.Writer) error {
	all, err := Everything(config.Files)
	if err != nil {
		return err
	}
	settings, err := c.settings(ctx)
	if err != nil {
		return err
	}
	for _, o := range Missing(append(all, settings...), wanted) {
		own, err := c.isOwn(ctx, o)
		if err != nil {
			return err
		}
		if !own {
			continue
		}
		if _, err := c.remove(ctx, o, false); err != nil {
			return err
		}
		fmt.Fprintln(progress, safetext.OneLine("removed "+nameOf(o)))
	}
	return nil
}

// await waits until all parts except some are ready, and prints each change.
func (i *Installation) await(ctx context.Context, c cluster, without []string, progress io.Writer) error {
	last, shown := "", map[string]bool{}
	var states []PartState
	err := until(ctx, i.Poll, i.timeout, func() (bool, error) {
		observed, err := c.observe(ctx)
		if err != nil {
			return false, err
		}
		states = slices.DeleteFunc(States(observed), func(s PartState) bool {
			return slices.Contains(without, s.Part)
		})
		if line := lineOf(states); line != last {
			last = line
			fmt.Fprintln(progress, safetext.OneLine("waiting: "+line))
		}
		for _, s := range states {
			for _, problem := range s.Problems {
				if !shown[s.Part] {
					shown[s.Part] = true
					fmt.Fprintln(progress, safetext.OneLine("  "+s.Part+": "+problem))
				}
			}
		}
		return Settled(states, without), nil
	})
	if !errors.Is(err, errTimeout) {
		return err
	}
	return &cli.ExitError{
		Code: cli.ExitTimeout,
		Err: fmt.Errorf("not all parts are ready after %s; they stay installed, and `bunsen check` shows how far "+
			"they are", i.timeout),
	}
}

func lineOf(states []PartState) string {
	var words []string
	for _, s := range states {
		words = append(words, s.String())
	}
	return strings.Join(words, ", ")
}

var errTimeout = errors.New("it takes too long")

// until calls done again and again until it returns true.
func until(ctx context.Context, pause, limit time.Duration, done func() (bool, error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-end.C:
			return errTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func writeProblems(w io.Writer, problems []Problem) {
	for _, p := range problems {
		kind := "warning"
		if p.Fatal {
			kind = "error"
		}
		fmt.Fprintf(w, "%s: %s\n  %s\n", kind, safetext.OneLine(p.What), safetext.OneLine(p.Fix))
	}
}
