package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
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
		Use: "trace node/NAME | rendered-POOL-HASH | MACHINECONFIG", Short: "Follow a node back to the commit and the lines that made it so", GroupID: "cluster",
		Long: `Follow a node, or a rendered config, back: to the commit, or the change through the API, that asked for it, to the commit
that first produced its content, to the documents that went in, and to the line that sets each file, unit and user. Of another
MachineConfig it says where it comes from, and which rendered configs hold it.

The lines are worked out again from git at that commit, by the functions that the controllers run. They need the
repository: the source's own where it is a path on this machine, else a clone that --repo names.`,
		Example: `  bunsen trace node/worker-07
  bunsen trace rendered-worker-77b0c... --repo ~/os-config`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("trace needs one node (node/NAME), rendered config or other MachineConfig, for example: bunsen trace node/worker-07")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.connect(out)
			if err != nil {
				return err
			}
			found, err := lookUp(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if found.input != nil {
				return out.print(cmd.OutOrStdout(), harmless(found.input.Text()), found.input)
			}
			trace := found.trace
			if err := found.items(cmd.Context(), &trace, repo); err != nil {
				trace.Note = "Lines are not shown: " + err.Error()
			}
			return out.print(cmd.OutOrStdout(), harmless(trace.Text()), trace)
		},
	}
	t.flags(cmd)
	out.flags(cmd)
	cmd.Flags().StringVar(&repo, "repo", "", "a clone of the source's repository")
	return cmd
}

// traced is a rendered config and the objects behind it.
type traced struct {
	trace  inspect.Trace
	config *mcfgv1.MachineConfig
	// input is what is known of a MachineConfig that is not rendered; nil for a rendered one, which trace is about.
	input *inspect.ConfigTrace
	// source of the commit, nil where it is gone.
	source *v1alpha1.GitSource
	// live MachineConfigs by name.
	live map[string]*mcfgv1.MachineConfig
}

// lookUp reads the node, its rendered config and the objects behind it.
func lookUp(ctx context.Context, c client.Client, what string) (traced, error) {
	name, isNode := strings.CutPrefix(what, "node/")
	if kind, config, spoken := strings.Cut(what, "/"); spoken && slices.Contains([]string{"mc", "machineconfig", "machineconfigs"}, kind) {
		name = config
	}
	var node corev1.Node
	if isNode {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return traced{}, unread(what, err)
		}
		if name = node.Annotations[v1alpha1.CurrentConfigAnnotation]; name == "" {
			return traced{}, invalid(fmt.Errorf("tracing %s: it has no config yet (its annotation %s is empty)", what, v1alpha1.CurrentConfigAnnotation))
		}
	}
	var all mcfgv1.MachineConfigList
	if err := c.List(ctx, &all); err != nil {
		return traced{}, unreadFor(configViewerRole, "MachineConfigs", err)
	}
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources); err != nil {
		return traced{}, unread("GitSources", err)
	}
	out := traced{live: map[string]*mcfgv1.MachineConfig{}}
	var matches []string
	for i := range all.Items {
		mc := &all.Items[i]
		out.live[mc.Name] = mc
		if mc.Name == name || strings.HasPrefix(name, "rendered-") && strings.HasPrefix(mc.Name, name) {
			matches = append(matches, mc.Name)
		}
	}
	if _, exact := out.live[name]; !exact && len(matches) == 1 {
		name = matches[0] // tables show the beginning of the hash
	}
	if out.config = out.live[name]; out.config == nil {
		return traced{}, invalid(fmt.Errorf("tracing %s: there is no MachineConfig %q on the cluster; a node is written node/NAME, and `bunsen get rendered` lists the rendered configs", what, name))
	}
	var err error
	if !isNode && !inspect.IsRendered(out.config) {
		return out.ofInput(ctx, c, sources.Items)
	}
	pool := &mcfgv1.MachineConfigPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: inspect.Pool(out.config.Name)}, pool); client.IgnoreNotFound(err) != nil {
		return traced{}, unread("MachineConfigPools", err)
	}
	if out.trace, err = inspect.TraceRendered(out.config, out.live, sources.Items, pool.Annotations); err != nil {
		return traced{}, err
	}
	if isNode {
		out.trace.OfNode(&node)
	}
	for i := range sources.Items {
		if sources.Items[i].Name == out.trace.Rendered.Source {
			out.source = &sources.Items[i]
		}
	}
	return out, nil
}

// ofInput adds what is known of a MachineConfig that is not rendered.
func (t traced) ofInput(ctx context.Context, c client.Client, sources []v1alpha1.GitSource) (traced, error) {
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &pools); err != nil {
		return traced{}, unread("MachineConfigPools", err)
	}
	input, err := inspect.TraceConfig(t.config, t.live, sources, pools.Items)
	t.input = &input
	return t, err
}

// items transpiles the commit again, renders the very inputs of the config, and lists who set each item.
func (t traced) items(ctx context.Context, trace *inspect.Trace, repo string) error {
	res, revision, err := t.commit(ctx, repo)
	if err != nil {
		return err
	}
	fragments := map[string]*mcfgv1.MachineConfig{}
	for _, f := range res.Fragments {
		fragments[f.Name] = f.MachineConfig
	}
	var inputs []*mcfgv1.MachineConfig
	for _, in := range trace.Inputs {
		switch mc := t.live[in.Name]; {
		case fragments[in.Name] != nil:
			inputs = append(inputs, fragments[in.Name])
		case mc != nil:
			inputs = append(inputs, mc)
		default:
			return fmt.Errorf("MachineConfig %q, which was made through the API, is gone", in.Name)
		}
	}
	places, same, err := review.Explain(t.config, trace.Rendered.Pool, inputs, res.Fragments)
	if err != nil {
		return err
	}
	for _, p := range places {
		trace.Items = append(trace.Items, inspect.ItemTrace{Item: p.Item, Place: p.At})
	}
	if !same {
		trace.Note = fmt.Sprintf("A MachineConfig made through the API has changed since: together with %s it gives another config now.", revision.Short())
	}
	return nil
}

// commit transpiles the commit that the config names.
func (t traced) commit(ctx context.Context, repo string) (transpile.Result, source.Revision, error) {
	var res transpile.Result
	if t.source == nil {
		return res, source.Revision{}, errors.New("the GitSource is gone")
	}
	if repo == "" {
		if repo = strings.TrimPrefix(t.source.Spec.URL, "file://"); !filepath.IsAbs(repo) {
			return res, source.Revision{}, errors.New("name a clone of " + t.trace.Rendered.Repository + " with --repo")
		}
		if _, err := os.Stat(repo); err != nil { // git would read the repository around it instead
			return res, source.Revision{}, fmt.Errorf("the source's repository cannot be read: %w; name a clone of it with --repo", err)
		}
	}
	revision, err := source.ParseRevision(t.trace.Rendered.Revision)
	if err != nil {
		return res, revision, err
	}
	dir, err := os.MkdirTemp("", "bunsen-trace-")
	if err != nil {
		return res, revision, fmt.Errorf("making a directory for %s: %w", revision.Short(), err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree, err := git.OpenRevision(ctx, git.At{Repository: repo, Revision: revision.Hash, Path: t.source.Spec.Path}, dir)
	if err != nil {
		return res, revision, fmt.Errorf("reading %s from %q: %w", revision.Short(), repo, err)
	}
	if res = (&transpile.Transpiler{}).Fragments(tree); res.Report.Fatal() {
		return res, revision, fmt.Errorf("this version of bunsen does not take %s:\n%s", revision.Short(), res.Report)
	}
	return res, revision, nil
}
