package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
)

func buildCommand() *cobra.Command {
	var pool, output string
	var defaults render.Defaults
	cmd := &cobra.Command{
		Use: "build [DIR]", Short: "Print what a pool renders to", GroupID: "offline",
		Long: `Print what a pool renders to: the very MachineConfig that the controller would make of the directory, by name and
content. Layers that were made through a cluster's API are not included.`,
		Example: `  # The rendered MachineConfig of one pool, as YAML
  bunsen build --pool worker

  # The Ignition of it, for a machine without a cluster
  bunsen build examples/quickstart --pool worker -o ignition`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"mc", "json", "ignition"}, output) {
				return invalid(fmt.Errorf("--output %q: want mc, json or ignition", output))
			}
			tree, done, err := open(cmd.Context(), directory(args))
			defer done()
			if err != nil {
				return invalid(err)
			}
			_, r, err := rendered(tree, defaults)
			if err != nil {
				return err
			}
			pools, err := choose(r.Pools, pool, output)
			if err != nil {
				return invalid(err)
			}
			for i, p := range pools {
				text, err := printed(p, output)
				if err != nil {
					return invalid(err)
				}
				if i > 0 && output == "mc" {
					text = "---\n" + text
				}
				fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "the pool; empty: all")
	cmd.Flags().StringVarP(&output, "output", "o", "mc", "mc (YAML), json or ignition")
	cmd.Flags().StringVar(&defaults.OSImageURL, "os-image", "", "the cluster's default OS image, as the controller's flag of that name")
	cmd.Flags().StringVar(&defaults.ExtensionsImage, "extensions-image", "", "the cluster's default extensions image")
	return cmd
}

// choose picks the pools to print; a single Ignition config is one pool's.
func choose(pools []review.PoolRendering, name, output string) ([]review.PoolRendering, error) {
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
	case output == "ignition" && len(pools) != 1:
		return nil, fmt.Errorf("an Ignition config is one pool's: choose with --pool one of %s", strings.Join(names, ", "))
	}
	return pools, nil
}

func printed(p review.PoolRendering, output string) (string, error) {
	if output == "ignition" {
		return string(p.Rendered.Spec.Config.Raw) + "\n", nil
	}
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
