package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
)

func buildCommand() *cobra.Command {
	var pool, output, out string
	var allowPartial bool
	var defaults render.Defaults
	cmd := &cobra.Command{
		Use: "build [DIR]", Short: "Print what a pool renders to", GroupID: "offline",
		Long: `Print what a pool renders to: the very MachineConfig that the controller would make of the directory, by name and
content. Layers that were made through a cluster's API are not included.

-o ignition prints one Ignition config for a machine without a cluster, with the pool's kernel arguments in it. Ignition cannot
express an OS image, extensions, a kernel type or FIPS mode. A pool that sets one of them is an error, unless --allow-partial is set.`,
		Example: `  # The rendered MachineConfig of one pool, as YAML
  bunsen build --pool worker

  # The Ignition of it, for a machine without a cluster
  bunsen build examples/quickstart --pool worker -o ignition

  # The files that a node of the pool would get, to look around in
  bunsen build --pool worker -o tree --out /tmp/worker`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"mc", "json", "ignition", "tree"}, output) {
				return invalid(fmt.Errorf("--output %q: want mc, json, ignition or tree", output))
			}
			if (output == "tree") != (out != "") {
				return invalid(fmt.Errorf("-o tree writes files and needs --out with a new directory; the other forms are printed"))
			}
			tree, done, err := open(cmd.Context(), directory(args))
			defer done()
			if err != nil {
				return invalid(err)
			}
			r, err := renderWith(cmd.Context(), remembering(defaults), tree)
			if err != nil {
				return err
			}
			pools, err := choose(r.rendering.Pools, pool, map[string]string{"ignition": "an Ignition config", "tree": "a tree"}[output])
			if err != nil {
				return invalid(err)
			}
			switch output {
			case "tree":
				return printTree(cmd.OutOrStdout(), out, pools[0].Rendered)
			case "ignition":
				return printIgnition(cmd, pools[0].Rendered, allowPartial)
			default:
				return printConfigs(cmd.OutOrStdout(), pools, output)
			}
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "the pool; empty: all")
	cmd.Flags().StringVarP(&output, "output", "o", "mc", "mc (YAML), json, ignition or tree")
	cmd.Flags().StringVar(&out, "out", "", "with -o tree: the directory to write to, new or empty")
	cmd.Flags().BoolVar(&allowPartial, "allow-partial", false, "with -o ignition: leave out what Ignition cannot express, and name it on stderr")
	cmd.Flags().StringVar(&defaults.OSImageURL, "os-image", "", "the cluster's default OS image, as the controller's flag of that name")
	cmd.Flags().StringVar(&defaults.ExtensionsImage, "extensions-image", "", "the cluster's default extensions image")
	return cmd
}

// choose picks the pools to print; one names what there is of one pool only, or is empty.
func choose(pools []review.PoolRendering, name, one string) ([]review.PoolRendering, error) {
	var names []string
	for _, p := range pools {
		if p.Rendered.Pool == name {
			return []review.PoolRendering{p}, nil
		}
		names = append(names, p.Rendered.Pool)
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("no pool %q; the repository has: %s", name, strings.Join(names, ", "))
	case one != "" && len(pools) != 1:
		return nil, fmt.Errorf("%s is one pool's: choose with --pool one of %s", one, strings.Join(names, ", "))
	}
	return pools, nil
}

// printIgnition prints a pool's config as Ignition alone. What Ignition cannot express is an error, or a warning where the user
// allows it.
func printIgnition(cmd *cobra.Command, r render.Rendered, allowPartial bool) error {
	config, leftOut, err := machineconfig.Standalone(r.Config)
	if err != nil {
		return invalid(fmt.Errorf("writing pool %q as Ignition: %w", r.Pool, err))
	}
	fields := strings.Join(leftOut, ", ")
	if len(leftOut) > 0 && !allowPartial {
		return invalid(fmt.Errorf("writing pool %q as Ignition: Ignition cannot express %s, so a machine without a cluster would not get it; "+
			"put it into the machine's image, or set --allow-partial to leave it out", r.Pool, fields))
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return fmt.Errorf("writing pool %q as Ignition: %w", r.Pool, err)
	}
	if len(leftOut) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: left out, as Ignition cannot express it: %s\n", fields)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
	return nil
}

// printConfigs prints the rendered MachineConfigs, as YAML documents or as JSON.
func printConfigs(to io.Writer, pools []review.PoolRendering, output string) error {
	for i, p := range pools {
		text, err := printed(p, output)
		if err != nil {
			return invalid(err)
		}
		if i > 0 && output == "mc" {
			text = "---\n" + text
		}
		fmt.Fprint(to, text)
	}
	return nil
}

func printed(p review.PoolRendering, output string) (string, error) {
	mc := mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Rendered.Name},
		Spec:       p.Rendered.Spec,
	}
	raw, err := json.MarshalIndent(mc, "", "  ")
	if err != nil {
		return "", fmt.Errorf("printing %q: %w", mc.Name, err)
	}
	if output == "json" {
		return string(raw) + "\n", nil
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return "", fmt.Errorf("printing %q: %w", mc.Name, err)
	}
	return string(text), nil
}
