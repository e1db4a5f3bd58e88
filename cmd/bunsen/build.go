package main

import (
	"fmt"
	"io"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

type buildOptions struct {
	pool, node, out, content string
	form                     cli.Output
	allowPartial             bool
	defaults                 render.Defaults
	cached                   repository.Cached
}

func buildCommand() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use: "build [DIR]", Short: "Print the rendered config of each pool", GroupID: "offline",
		Long: `Print the rendered config of each pool: the MachineConfig that the controller would render from the directory, with the same
name and the same content. The output does not include MachineConfigs that users created through a cluster's API.

-o ignition prints one Ignition config for a machine without a cluster, with the pool's kernel arguments in it. Ignition cannot
express an OS image, extensions, a kernel type or FIPS mode. A pool with such a part is an error, unless --allow-partial is set.`,
		Example: `  # The rendered MachineConfig of one pool, as YAML
  bunsen build --pool worker

  # The Ignition config of the pool, for a machine without a cluster
  bunsen build examples/quickstart --pool worker -o ignition

  # The config of one node that has facts or documents of its own
  bunsen build --pool worker --node worker-2

  # Write the files that a node of the pool would get into a directory
  bunsen build --pool worker -o tree --out /tmp/worker`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.form.Check(); err != nil {
				return err
			}
			if (o.form.Form == "tree") != (o.out != "") {
				return cli.Invalid(fmt.Errorf("-o tree writes files and needs --out with a new directory; the other " +
					"forms are printed"))
			}
			if err := o.defaults.Check(); err != nil {
				return cli.Invalid(err)
			}
			return o.run(cmd, args)
		},
	}
	cmd.Flags().StringVar(&o.pool, "pool", "", "print only this pool; empty: all pools")
	cli.CompleteFlag(cmd, "pool", repository.CompletePools)
	cmd.Flags().StringVar(&o.node, "node", "", "print the config of this node, for a pool whose nodes have configs "+
		"of their own; needs --pool if there are several pools")
	o.form.AddFlag(cmd, "mc (YAML), json, ignition or tree", "mc", "json", "ignition", "tree")
	cmd.Flags().StringVar(&o.out, "out", "", "with -o tree: the directory to write to, new or empty")
	cmd.Flags().StringVar(&o.content, "content", "", "the directory for the large files of the configs, each under "+
		"its hash. machine-config-server --from-dir and machine-config-daemon apply --content read it")
	cmd.Flags().BoolVar(&o.allowPartial, "allow-partial", false, "with -o ignition: leave out the parts that "+
		"Ignition cannot express, and name them on stderr")
	cmd.Flags().StringVar(&o.defaults.OSImageURL, "os-image", "", "the cluster's default OS image: the value of the "+
		"controller's flag --os-image")
	cmd.Flags().StringVar(&o.defaults.ExtensionsImage, "extensions-image", "",
		"the cluster's default extensions image: the value of the controller's flag --extensions-image")
	o.cached.AddFlag(cmd.Flags())
	cmd.Flags().BoolVar(&o.defaults.LargeFiles, cli.LargeFilesFlag, false, cli.LargeFilesUsage+"; --content implies it")
	return cmd
}

func (o buildOptions) run(cmd *cobra.Command, args []string) error {
	tree, done, err := repository.OpenDir(cmd.Context(), repository.DirArgument(args))
	defer done()
	if err != nil {
		return cli.Invalid(err)
	}
	memory := &review.Renderings{Defaults: o.defaults}
	defer o.cached.Use(memory)()
	memory.AllowLargeFiles(o.defaults.LargeFiles || o.content != "")
	res, rendering, err := repository.Render(cmd.Context(), memory, tree)
	if err != nil {
		return err
	}
	pools, err := repository.ChoosePools(rendering.Pools, o.pool, map[string]string{
		"ignition": "an Ignition config",
		"tree":     "a tree",
	}[o.form.Form])
	if err == nil && o.node != "" {
		pools, err = ofNode(pools, o.node)
	}
	if err != nil {
		return cli.Invalid(err)
	}
	if err := repository.SaveLargeFiles(cmd.ErrOrStderr(), o.content, o.form.Form == "ignition",
		repository.LargeFiles(res, pools)); err != nil {
		return err
	}
	switch o.form.Form {
	case "tree":
		return repository.PrintTree(cmd.OutOrStdout(), o.out, pools[0].Rendered)
	case "ignition":
		return printIgnition(cmd, pools[0].Rendered, o.allowPartial)
	default:
		return printConfigs(cmd.OutOrStdout(), pools, o.form)
	}
}

// ofNode replaces the config of the only pool by that of a node.
func ofNode(pools []review.PoolRendering, node string) ([]review.PoolRendering, error) {
	if len(pools) != 1 {
		return nil, fmt.Errorf("--node %s: choose the pool of the node with --pool", node)
	}
	own, err := pools[0].Rendered.Node(node)
	if err != nil {
		return nil, err
	}
	one := pools[0]
	one.Rendered = own
	return []review.PoolRendering{one}, nil
}

// printIgnition prints a pool's config as Ignition alone. A part that Ignition does not have is an error, with
// allowPartial a warning.
func printIgnition(cmd *cobra.Command, r render.Rendered, allowPartial bool) error {
	config, leftOut, err := machineconfig.Standalone(r.Config)
	if err != nil {
		return cli.Invalid(fmt.Errorf("writing pool %q as Ignition: %w", r.Pool, err))
	}
	fields := strings.Join(leftOut, ", ")
	if len(leftOut) > 0 && !allowPartial {
		return cli.Invalid(fmt.Errorf("writing pool %q as Ignition: Ignition cannot express %s; "+
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

func printConfigs(to io.Writer, pools []review.PoolRendering, form cli.Output) error {
	if form.Form == "mc" {
		form.Form = "yaml"
	}
	for i, p := range pools {
		if i > 0 && form.Form == "yaml" {
			fmt.Fprintln(to, "---")
		}
		mc := mcfgv1.MachineConfig{
			TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Rendered.Name},
			Spec:       p.Rendered.Spec,
		}
		if nodes := p.Rendered.Nodes.String(); nodes != "" {
			mc.Annotations = map[string]string{v1alpha1.NodeConfigsAnnotation: nodes}
		}
		err := form.Print(to, "", mc)
		if err != nil {
			return cli.Invalid(err)
		}
	}
	return nil
}
