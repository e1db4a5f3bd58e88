package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

func traceCommand() *cobra.Command {
	var t target
	var out output
	var repo string
	cmd := &cobra.Command{
		Use: "trace node/NAME | rendered-POOL-HASH", Short: "Follow a node back to the commit and the lines that made it so", GroupID: "cluster",
		Long: `Follow a node, or a rendered config, back: to the commit that first produced its content, to every commit that asked for
it since, to the documents that went in, and to the line that sets each file, unit and user.

The lines are worked out again from git at that commit, by the functions that the controllers run. They need the
repository: the source's own where it is a path on this machine, else a clone that --repo names.`,
		Example: `  bunsen trace node/worker-07
  bunsen trace rendered-worker-77b0c... --repo ~/os-config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("trace what? Name one node, as node/NAME, or one rendered config, as rendered-POOL-HASH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			trace, src, err := lookUp(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := items(cmd.Context(), &trace, src, repo); err != nil {
				trace.Note = "Lines are not shown: " + err.Error()
			}
			return out.print(cmd.OutOrStdout(), trace.Text(), trace)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	cmd.Flags().StringVar(&repo, "repo", "", "a clone of the source's repository")
	return cmd
}

// lookUp reads the node, its rendered config and the objects behind it.
func lookUp(ctx context.Context, c client.Client, what string) (inspect.Trace, *v1alpha1.GitSource, error) {
	name, isNode := strings.CutPrefix(what, "node/")
	var node corev1.Node
	if isNode {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return inspect.Trace{}, nil, unread(what, err)
		}
		if name = node.Annotations[v1alpha1.CurrentConfigAnnotation]; name == "" {
			return inspect.Trace{}, nil, invalid(fmt.Errorf("tracing %s: it has no config yet (its annotation %s is empty)", what, v1alpha1.CurrentConfigAnnotation))
		}
	}
	var all mcfgv1.MachineConfigList
	if err := c.List(ctx, &all); err != nil {
		return inspect.Trace{}, nil, unread("MachineConfigs", err)
	}
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources); err != nil {
		return inspect.Trace{}, nil, unread("GitSources", err)
	}
	live := map[string]*mcfgv1.MachineConfig{}
	for i := range all.Items {
		live[all.Items[i].Name] = &all.Items[i]
	}
	mc, ok := live[name]
	if !ok {
		return inspect.Trace{}, nil, invalid(fmt.Errorf("tracing %s: there is no MachineConfig %q on the cluster; a node is written node/NAME, and `bunsen get rendered` lists the configs", what, name))
	}
	trace, err := inspect.TraceRendered(mc, live, sources.Items)
	if err != nil {
		return trace, nil, err
	}
	if isNode {
		trace.OfNode(&node)
	}
	for i := range sources.Items {
		if sources.Items[i].Name == trace.Rendered.Source {
			return trace, &sources.Items[i], nil
		}
	}
	return trace, nil, nil
}

// items transpiles the commit again and lists the line of each item.
func items(ctx context.Context, trace *inspect.Trace, src *v1alpha1.GitSource, repo string) error {
	if src == nil {
		return errors.New("the GitSource is gone")
	}
	if repo == "" {
		if repo = strings.TrimPrefix(src.Spec.URL, "file://"); !filepath.IsAbs(repo) {
			return errors.New("name a clone of " + trace.Rendered.Repository + " with --repo")
		}
	}
	revision, err := source.ParseRevision(trace.Rendered.Revision)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bunsen-trace-")
	if err != nil {
		return fmt.Errorf("making a directory for %s: %w", revision.Short(), err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree, err := git.OpenRevision(ctx, git.At{Repository: repo, Revision: revision.Hash, Path: src.Spec.Path}, dir)
	if err != nil {
		return fmt.Errorf("reading %s from %q: %w", revision.Short(), repo, err)
	}
	res := (&transpile.Transpiler{}).Fragments(tree)
	if res.Report.Fatal() {
		return fmt.Errorf("this version of bunsen does not take %s:\n%s", revision.Short(), res.Report)
	}
	for _, p := range review.Render(res, &render.Renderer{}, render.Defaults{}).Pools {
		if p.Rendered.Pool == trace.Rendered.Pool {
			for _, at := range p.Places() {
				trace.Items = append(trace.Items, inspect.ItemTrace{Item: at.Item, Place: at.At})
			}
		}
	}
	return nil
}
