package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

const (
	// nodeWriters is how many configs of nodes the controller writes at a time.
	nodeWriters = 8
	// maxOwners is the most bytes of the names of a config's nodes.
	maxOwners = 192 << 10
)

// publishNodes writes the configs of the nodes of a pool that do not exist yet, and the config of the other nodes. It
// merges only configs that it writes.
func (r *Controller) publishNodes(ctx context.Context, f facts, rendered Rendered) error {
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
		if live != nil && nodes == live.Annotations[v1alpha1.VariantNodesAnnotation] &&
			f.secrets == live.Annotations[v1alpha1.SecretPathsAnnotation] && !wasEdited(f.pool.Name, live) {
			continue
		}
		group.Go(func() (err error) {
			defer fault.Recover(&err)
			own, err := rendered.content(firstOf(owners[name]))
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

// writeNodeConfig creates a config, or restores the content, the nodes and the secret paths of an existing one.
func writeNodeConfig(ctx context.Context, c client.Client, mc, live *mcfgv1.MachineConfig) error {
	if live != nil {
		fixed := live.DeepCopy()
		fixed.Spec = mc.Spec
		for _, key := range []string{v1alpha1.VariantNodesAnnotation, v1alpha1.SecretPathsAnnotation} {
			kube.SetAnnotation(fixed, key, mc.Annotations[key])
		}
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

// wasEdited reports whether a user changed the content of a rendered config. The API server counts the changes of a
// spec, so that only a changed config costs a hash.
func wasEdited(pool string, live *mcfgv1.MachineConfig) bool {
	return live.Generation > 1 && machineconfig.CheckName(pool, live, live.Spec) != nil
}

func firstOf(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[0]
}

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

// publishContents writes the files that a render moved to the content store, and renews those that its MachineConfigs
// have there. If the content store lacks one of them, no node can run the config, so publishContents returns an error.
func publishContents(ctx context.Context, store *content.Store, rendered Rendered) error {
	paths, hashes := map[string]string{}, []string(nil)
	for _, f := range machineconfig.RemoteFiles(rendered.Config) {
		if hash, stored := machineconfig.StoredHash(f.URL); stored && paths[hash] == "" {
			paths[hash] = f.Path
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	if err := store.Write(ctx, moved(rendered.Contents)); err != nil {
		return err
	}
	missing := store.Require(ctx, hashes)
	if len(missing) == 0 {
		return nil
	}
	var bad []error
	for _, hash := range missing {
		of := ""
		if name := rendered.Winner(disruption.KindFile, paths[hash]); name != "" {
			of = " of MachineConfig " + name
		}
		bad = append(bad, fmt.Errorf("file %s%s names %s, which the content store does not have: put the file "+
			"into the repository, and name it with Butane's `local:`", paths[hash], of,
			machineconfig.ShownAddress(machineconfig.StoredSource(hash))))
	}
	return fault.NewStalled(v1alpha1.ReasonInvalidTree, &missingContentError{errors.Join(bad...)})
}

// missingContentError names the files of a config that the content store does not have.
type missingContentError struct{ error }

// contentInterval is how often the controller renders a pool whose files are missing. No event says that the content
// store has them now.
const contentInterval = 10 * time.Second

// moved returns each hash of the moved files once.
func moved(files []machineconfig.LargeFile) (out []machineconfig.LargeFile) {
	seen := map[string]bool{}
	for _, f := range files {
		if !seen[f.Hash] {
			seen[f.Hash] = true
			out = append(out, f)
		}
	}
	return out
}
