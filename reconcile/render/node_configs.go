package render

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

const (
	// nodeWriters is how many configs of nodes the controller writes at a time.
	nodeWriters = 8
	// maxNodeRefusals is how many refusals of single nodes an error names.
	maxNodeRefusals = 10
)

// publishNodes writes the configs of the nodes of a pool that do not exist yet, and the config of the other nodes. It
// merges only configs that it writes.
func publishNodes(ctx context.Context, r *Controller, f facts, rendered Rendered) error {
	if rendered.Nodes.IsZero() {
		return nil
	}
	owners := map[string][]string{rendered.Nodes.Base: nil} // config → its nodes
	for _, node := range slices.Sorted(maps.Keys(rendered.Nodes.Nodes)) {
		name := rendered.Nodes.Of(node)
		owners[name] = append(owners[name], node)
	}
	var group errgroup.Group
	group.SetLimit(nodeWriters)
	var mu sync.Mutex // The digests of the controller's facts are not safe for concurrent use.
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		live := f.byName[name]
		nodes := allOwners(live, owners[name])
		if live != nil && nodes == live.Annotations[v1alpha1.VariantNodesAnnotation] && !wasEdited(f.pool.Name, live) {
			continue
		}
		group.Go(func() (err error) {
			defer fault.Recover(&err)
			own, err := rendered.Node(firstOf(owners[name]))
			if err != nil {
				return err
			}
			if err := publishContents(ctx, r.Contents, own); err != nil {
				return err
			}
			mu.Lock()
			mc, err := r.object(f, own)
			mu.Unlock()
			if err != nil {
				return err
			}
			kube.SetAnnotation(mc, v1alpha1.VariantNodesAnnotation, nodes)
			return writeNodeConfig(ctx, r.Client, mc, live)
		})
	}
	return group.Wait()
}

func firstOf(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[0]
}

// maxOwners is the most bytes of the names of a config's nodes.
const maxOwners = 192 << 10

// allOwners returns the nodes for which a config of single nodes was rendered until now, and now, in the form of the
// annotation. A node that is in an earlier config of its pool may still ask for its own config.
func allOwners(live *mcfgv1.MachineConfig, now []string) string {
	all := slices.Clone(now)
	if live != nil && live.Annotations[v1alpha1.VariantNodesAnnotation] != "" {
		all = append(all, strings.Split(live.Annotations[v1alpha1.VariantNodesAnnotation], ",")...)
	}
	slices.Sort(all)
	text := strings.Join(slices.Compact(all), ",")
	if len(text) > maxOwners {
		text = strings.Join(now, ",")
	}
	return text
}

// wasEdited reports whether a user changed the content of a rendered config. The API server counts the changes of a
// spec, so that only a changed config costs a hash.
func wasEdited(pool string, live *mcfgv1.MachineConfig) bool {
	return live.Generation > 1 && machineconfig.CheckName(pool, live, live.Spec) != nil
}

// writeNodeConfig creates a config, or restores the content and the nodes of an existing one.
func writeNodeConfig(ctx context.Context, c client.Client, mc, live *mcfgv1.MachineConfig) error {
	if live != nil {
		fixed := live.DeepCopy()
		fixed.Spec = mc.Spec
		kube.SetAnnotation(fixed, v1alpha1.VariantNodesAnnotation, mc.Annotations[v1alpha1.VariantNodesAnnotation])
		if err := c.Update(ctx, fixed); err != nil {
			return fmt.Errorf("restoring MachineConfig %q: %w", mc.Name, err)
		}
		return nil
	}
	// The name is a hash of the content, so a config that another write created first is the same.
	if err := c.Create(ctx, mc); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating MachineConfig %q: %w", mc.Name, err)
	}
	return nil
}

// nodeRefusals returns the changes of single nodes that these nodes refuse.
func nodeRefusals(f facts, rendered Rendered) ([]string, error) {
	was, err := v1alpha1.ParseNodeConfigs(f.current.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfig %q: %w", f.current.Name, err)
	}
	names := maps.Clone(was.Nodes)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, rendered.Nodes.Nodes)
	if was.IsZero() {
		was.Base = f.current.Name
	}
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(names)) {
		old, known := f.byName[was.Of(node)]
		if !known || was.Of(node) == nodeConfigName(rendered, node) {
			continue
		}
		from, err := machineconfig.Parse(old.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %q: %w", old.Name, err)
		}
		to, err := configOfNode(f, rendered, node)
		if err != nil {
			return nil, err
		}
		for _, refusal := range disruption.Refuse(from, to, f.overrides) {
			lines = append(lines, "node "+node+": "+refusal.Field+": "+refusal.Why)
		}
		if len(lines) >= maxNodeRefusals {
			break
		}
	}
	return lines, nil
}

// nodeConfigName returns the name of the config of a node.
func nodeConfigName(rendered Rendered, node string) string {
	if rendered.Nodes.IsZero() {
		return rendered.Name
	}
	return rendered.Nodes.Of(node)
}

// configOfNode returns the config of a node, from the cluster if it has it: a held config was merged before.
func configOfNode(f facts, rendered Rendered, node string) (machineconfig.Config, error) {
	if mc, ok := f.byName[nodeConfigName(rendered, node)]; ok {
		return machineconfig.Parse(mc.Spec)
	}
	own, err := rendered.Node(node)
	return own.Config, err
}
