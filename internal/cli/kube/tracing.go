package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// Traced is a rendered config and the objects behind it.
type Traced struct {
	Trace  history.Trace
	config *mcfgv1.MachineConfig
	// nil for a rendered config
	Input *history.ConfigTrace
	// nil if it no longer exists
	source *v1alpha1.GitSource
	// the MachineConfigs on the cluster by name
	live map[string]*mcfgv1.MachineConfig
}

// Trace reads a MachineConfig, named as mc/NAME, node/NAME, pool/NAME or NAME, and the objects behind it.
func Trace(ctx context.Context, c client.Reader, what string) (Traced, error) {
	var configs mcfgv1.MachineConfigList
	if err := c.List(ctx, &configs); err != nil {
		return Traced{}, ReadErrorFor(ConfigViewerRole, "MachineConfigs", err)
	}
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources); err != nil {
		return Traced{}, ReadError("GitSources", err)
	}
	out := Traced{live: map[string]*mcfgv1.MachineConfig{}}
	for i := range configs.Items {
		out.live[configs.Items[i].Name] = &configs.Items[i]
	}
	name, node, err := configName(ctx, c, what, out.live)
	if err != nil {
		return Traced{}, err
	}
	if out.config = out.live[name]; out.config == nil {
		return Traced{}, cli.Invalid(fmt.Errorf("tracing %s: the cluster has no MachineConfig %q, and no node or pool "+
			"of this name; `bunsen get rendered` lists rendered configs", what, name))
	}
	if node == nil && !history.IsRendered(out.config) {
		return out.ofInput(ctx, c, sources.Items)
	}
	out, err = out.ofRendered(ctx, c, sources.Items)
	if err == nil && node != nil {
		out.Trace.OfNode(node)
	}
	return out, err
}

// configName returns the name of the MachineConfig that a user asks about, and the Node if she asks about one. A name
// without a kind is that of a MachineConfig, or else of a node, or else of a pool.
func configName(ctx context.Context, c client.Reader, what string, live map[string]*mcfgv1.MachineConfig) (string,
	*corev1.Node, error,
) {
	kind, name, hasKind := strings.Cut(what, "/")
	if hasKind && kind == "" {
		return "", nil, cli.Invalid(fmt.Errorf("tracing %s: want node/NAME, pool/NAME, mc/NAME or a name; "+
			"bunsen explain %s says who sets a file", what, what))
	}
	if !hasKind {
		kind, name = "", what
	}
	switch {
	case slices.Contains([]string{"mc", "machineconfig", "machineconfigs"}, kind):
		return fullName(live, name), nil, nil
	case kind == "":
		full := fullName(live, name)
		if live[full] != nil {
			return full, nil, nil
		}
		for _, of := range []struct {
			kind   string
			object client.Object
		}{{KindNode, &corev1.Node{}}, {KindPool, &mcfgv1.MachineConfigPool{}}} {
			switch err := c.Get(ctx, client.ObjectKey{Name: name}, of.object); {
			case err == nil:
				return configName(ctx, c, of.kind+"/"+name, live)
			case !apierrors.IsNotFound(err):
				return "", nil, ReadError(of.kind+"/"+name, err)
			}
		}
		return full, nil, nil
	case IsKind(KindPool, kind):
		pool := &mcfgv1.MachineConfigPool{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
			return "", nil, ReadError(what, err)
		}
		config := pool.Spec.Configuration.Name
		if config == "" {
			return "", nil, cli.Invalid(fmt.Errorf("tracing %s: nothing is rendered for it yet", what))
		}
		return config, nil, nil
	case !IsKind(KindNode, kind):
		return "", nil, cli.Invalid(fmt.Errorf("tracing %s: want node/NAME, pool/NAME, mc/NAME or a name", what))
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return "", nil, ReadError(what, err)
	}
	config := node.Annotations[v1alpha1.CurrentConfigAnnotation]
	if config == "" {
		return "", nil, cli.Invalid(fmt.Errorf("tracing %s: it has no config yet (its annotation %s is empty)", what,
			v1alpha1.CurrentConfigAnnotation))
	}
	return config, node, nil
}

// fullName completes the name of a rendered config that a table shortened, if only one matches.
func fullName(live map[string]*mcfgv1.MachineConfig, name string) string {
	if live[name] != nil || !strings.HasPrefix(name, "rendered-") {
		return name
	}
	var matches []string
	for full := range live {
		if strings.HasPrefix(full, name) {
			matches = append(matches, full)
		}
	}
	if len(matches) != 1 {
		return name
	}
	return matches[0]
}

func (t Traced) ofRendered(ctx context.Context, c client.Reader, sources []v1alpha1.GitSource) (Traced, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.RenderedPool(t.config.Name)}, pool); client.IgnoreNotFound(
		err) != nil {
		return Traced{}, ReadError("MachineConfigPools", err)
	}
	var err error
	if t.Trace, err = history.TraceRendered(t.config, t.live, sources, pool.Annotations); err != nil {
		return Traced{}, err
	}
	published, err := ReadSecrets(ctx, c)
	if err != nil {
		return Traced{}, err
	}
	t.Trace.AddSecrets(t.config, published)
	for i := range sources {
		if sources[i].Name == t.Trace.Rendered.Source {
			t.source = &sources[i]
		}
	}
	return t, nil
}

func (t Traced) ofInput(ctx context.Context, c client.Reader, sources []v1alpha1.GitSource) (Traced, error) {
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &pools); err != nil {
		return Traced{}, ReadError("MachineConfigPools", err)
	}
	input, err := history.TraceConfig(t.config, t.live, sources, pools.Items)
	t.Input = &input
	return t, err
}

// Items transpiles the commit again, renders the same inputs, and lists which lines set each item.
func (t *Traced) Items(ctx context.Context, repo string) error {
	res, revision, err := t.commit(ctx, repo)
	if err != nil {
		return err
	}
	fragments := map[string]*mcfgv1.MachineConfig{}
	for _, f := range res.Fragments {
		fragments[f.Name] = f.MachineConfig
	}
	var inputs []*mcfgv1.MachineConfig
	for _, in := range t.Trace.Inputs {
		switch mc := t.live[in.Name]; {
		case fragments[in.Name] != nil:
			inputs = append(inputs, fragments[in.Name])
		case mc != nil:
			inputs = append(inputs, mc)
		default:
			return fmt.Errorf("a user created MachineConfig %q through the API, and it no longer exists", in.Name)
		}
	}
	places, same, err := review.Explain(t.config, t.Trace.Rendered.Pool, inputs, res.Fragments)
	if err != nil {
		return err
	}
	for _, p := range places {
		if owner := ownerOf(t.live[p.Foreign]); owner != "" {
			p.At = owner
		}
		t.Trace.Items = append(t.Trace.Items, history.TraceItem{Item: p.Item, Place: p.At})
	}
	if !same {
		t.Trace.Note = fmt.Sprintf("A MachineConfig that is not of this repository has changed since: together with "+
			"%s it gives another config now.", revision.Short())
	}
	return nil
}

// ownerOf names the GitSource of a MachineConfig, and its files; "" if a user created it through the API.
func ownerOf(mc *mcfgv1.MachineConfig) string {
	if mc == nil || mc.Labels[v1alpha1.SourceLabel] == "" {
		return ""
	}
	files := strings.Join(history.FilesOf(mc), ", ")
	return cmp.Or(files, "MachineConfig "+mc.Name) + " of GitSource " + mc.Labels[v1alpha1.SourceLabel]
}

// Changes says who changed each item last.
func (t *Traced) Changes(ctx context.Context, c client.Reader, now time.Time) error {
	cluster, err := Read(ctx, c)
	if err != nil {
		return err
	}
	return t.Trace.AddChanges(fleet.New(cluster, now), t.live)
}

func (t Traced) commit(ctx context.Context, repo string) (transpile.Result, source.Revision, error) {
	var res transpile.Result
	if t.source == nil {
		return res, source.Revision{}, errors.New("the GitSource is gone")
	}
	at := git.LocalRevision{Repository: repo, Path: t.source.Spec.Path}
	if repo == "" {
		address, err := source.ParseURL(t.source.Spec.URL)
		if err != nil || address.Transport != source.Local {
			return res, source.Revision{}, errors.New("name a clone of " + t.Trace.Rendered.Repository + " with --repo")
		}
		at.Repository, at.Exact = address.Path, true
		if _, err := git.FindAt(address.Path); err != nil {
			return res, source.Revision{}, fmt.Errorf("the source's repository cannot be read: %w; name a clone of "+
				"it with"+
				" --repo", err)
		}
	}
	revision, err := source.ParseRevision(t.Trace.Rendered.Revision)
	if err != nil {
		return res, revision, err
	}
	dir, err := os.MkdirTemp("", "bunsen-trace-")
	if err != nil {
		return res, revision, fmt.Errorf("making a directory for %s: %w", revision.Short(), err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at.Revision = revision.Hash
	tree, err := git.OpenRevision(ctx, at, dir)
	if err != nil {
		return res, revision, fmt.Errorf("reading %s from %q: %w", revision.Short(), at.Repository, err)
	}
	if res = transpile.Fragments(tree); res.Report.Fatal() {
		return res, revision, fmt.Errorf("this version of bunsen does not take %s:\n%s", revision.Short(), res.Report)
	}
	return res, revision, nil
}
