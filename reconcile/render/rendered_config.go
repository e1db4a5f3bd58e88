package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
)

const (
	// nodeWriters is how many configs of nodes the controller writes at a time.
	nodeWriters = 8
	// maxOwners is the most bytes of the names of a config's nodes.
	maxOwners = 192 << 10
)

// atFirstCommit returns the source with the AppliedCommit that first produced this rendered config for a pool.
// atFirstCommit returns the source unchanged if its history does not contain that commit.
func atFirstCommit(src *v1alpha1.GitSource, pool, name string) *v1alpha1.GitSource {
	for i := len(src.Status.History) - 1; i >= 0; i-- {
		if entry := &src.Status.History[i]; entry.Pools[pool] == name {
			out := src.DeepCopy()
			out.Status.AppliedCommit = entry.CommitInfo.DeepCopy()
			return out
		}
	}
	return src
}

// publish first writes the rendered config, and then sets its name in the pool, so that the config of a pool always
// exists.
func (r *Controller) publish(ctx context.Context, f facts, rendered Rendered) error {
	src := newestSource(f.selectedSources())
	target, err := r.newTarget(ctx, f, rendered, src)
	if err != nil {
		return err
	}
	mc, err := r.object(f, rendered)
	if err != nil {
		return err
	}
	if len(target.API) > 0 || len(target.After) > 0 {
		kube.SetAnnotation(mc, v1alpha1.RequestAnnotation, v1alpha1.ConfigRequest{
			Config:    mc.Name,
			Requester: target.Requester,
		}.String())
	}
	if err := publishContents(ctx, r.Contents, rendered); err != nil {
		return err
	}
	if err := r.publishNodes(ctx, f, rendered); err != nil {
		return err
	}
	live := &mcfgv1.MachineConfig{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(mc), live); {
	case err == nil:
		if err := r.restoreContent(ctx, mc, live); err != nil {
			return err
		}
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading MachineConfig %q: %w", mc.Name, err)
	default:
		if err := r.Client.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating MachineConfig %q: %w", mc.Name, err)
		}
		reportRendered(r.Events, f.pool, mc, rendered)
		if !target.ByAPI() {
			r.measure(f, mc)
		}
	}
	return r.setConfiguration(ctx, f, rendered, target)
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

// object returns the rendered config as an API object, annotated with the commit that produced it.
func (r *Controller) object(f facts, rendered Rendered) (*mcfgv1.MachineConfig, error) {
	inputs := map[string]string{}
	for _, mc := range f.selected {
		digest, err := r.seen.Of(mc)
		if err != nil {
			return nil, err
		}
		inputs[mc.Name] = digest
	}
	list, err := json.Marshal(inputs)
	if err != nil {
		return nil, fmt.Errorf("writing the inputs of %q: %w", rendered.Name, err)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: rendered.Name}, Spec: rendered.Spec}
	mc.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.pool,
		mcfgv1.GroupVersion.WithKind("MachineConfigPool"))}
	mc.Annotations = map[string]string{
		v1alpha1.GeneratedByAnnotation: r.Version,
		v1alpha1.RendererAnnotation:    r.Version,
		v1alpha1.InputsAnnotation:      string(list),
	}
	kube.SetAnnotation(mc, v1alpha1.SecretPathsAnnotation, f.secrets)
	kube.SetAnnotation(mc, v1alpha1.NodeConfigsAnnotation, rendered.Nodes.String())
	kube.SetAnnotation(mc, v1alpha1.VariantOfAnnotation, rendered.VariantOf)
	if src := newestSource(f.selectedSources()); src != nil {
		for k, v := range commitAnnotations(atFirstCommit(src, f.pool.Name, rendered.Name)) {
			mc.Annotations[k] = v
		}
	}
	return mc, nil
}

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
		if live != nil && nodes == live.Annotations[v1alpha1.VariantNodesAnnotation] && !wasEdited(f.pool.Name, live) {
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

// newTarget returns the record of the requester of a rendered config.
func (r *Controller) newTarget(ctx context.Context, f facts, rendered Rendered,
	src *v1alpha1.GitSource,
) (v1alpha1.PoolTarget, error) {
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	// A user has changed the annotation or the pool's configuration.
	if err != nil || was.Config != f.pool.Spec.Configuration.Name {
		was = v1alpha1.PoolTarget{
			Config:    f.pool.Spec.Configuration.Name,
			Requester: v1alpha1.RequesterOf(f.pool.Annotations, f.pool.Spec.Configuration.Name),
		}
	}
	facts, err := r.targetFacts(f, was)
	if err != nil {
		return was, err
	}
	facts.Config, facts.Healthy = rendered.Name, poolstate.HealthyConfig(f.pool).Config
	if src != nil {
		facts.Commit = *src.Status.AppliedCommit
		facts.Rewritten = slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool {
			return e.Rewritten && e.Revision == facts.Commit.Revision
		})
	}
	// If the history cannot be read, the rollout controller begins it again.
	past, _ := v1alpha1.ParseRolloutHistory(f.pool.Annotations[v1alpha1.RolloutHistoryAnnotation])
	for _, o := range past {
		facts.Earlier = append(facts.Earlier, o.Config)
	}
	// A pool without nodes counts as healthy, because no node can fail the target.
	if f.pool.Status.ObservedGeneration > 0 && f.pool.Status.MachineCount == 0 {
		facts.Healthy = was.Config
	}
	next := revision.NextTarget(was, facts)
	next.Nodes = len(rendered.Nodes.Nodes)
	if was.Config == "" {
		next, err = withEarlierRequest(ctx, r.Client, next)
	}
	if was.Config != next.Config {
		attributeNew(ctx, r.Live, &next, r.Now())
	}
	return next, err
}

// withEarlierRequest corrects the target of a pool without a record, such as a pool that was deleted while no
// controller ran. Changes through the API may have requested the config first. If the commit before these changes is
// still applied, the changes stay the requester instead of that commit.
func withEarlierRequest(ctx context.Context, c client.Client, t v1alpha1.PoolTarget) (v1alpha1.PoolTarget, error) {
	mc := &mcfgv1.MachineConfig{}
	if err := c.Get(ctx, client.ObjectKey{Name: t.Config}, mc); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			err = fmt.Errorf("reading MachineConfig %q: %w", t.Config, err)
		}
		return t, err
	}
	asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], t.Config)
	if asked.ByAPI() && asked.Revision == t.Revision {
		t.Commit, t.Requester = t.Requester, asked
	}
	return t, nil
}

// attributeNew adds the author and the time to each new change of a target.
func attributeNew(ctx context.Context, live client.Reader, t *v1alpha1.PoolTarget, now time.Time) {
	known := map[string]v1alpha1.APIChange{}
	fill := func(c *v1alpha1.APIChange) {
		if !c.At.IsZero() {
			return
		}
		key := c.Kind + "/" + c.Name
		if _, ok := known[key]; !ok {
			attributeChange(ctx, live, c, now)
			known[key] = *c
		}
		*c = known[key]
	}
	for i := range t.InForce {
		fill(&t.InForce[i].APIChange)
	}
	for i := range t.API {
		fill(&t.API[i])
	}
	for i := range t.After {
		fill(&t.After[i])
	}
}

// attributeChange adds the author and the time to a change through the API. attribute reads field managers from the
// API server, because the manager's cache does not contain them. If the read fails, attribute records the time of the
// render.
func attributeChange(ctx context.Context, live client.Reader, c *v1alpha1.APIChange, now time.Time) {
	c.At = metav1.NewTime(now.UTC().Truncate(time.Second))
	if c.Action == v1alpha1.APIDeleted {
		return
	}
	o, field := client.Object(&mcfgv1.MachineConfig{}), []string{"f:spec"}
	if c.Kind == revision.KindMachineConfigPool {
		o, field = &mcfgv1.MachineConfigPool{}, []string{"f:spec", "f:machineConfigSelector"}
	}
	o.SetName(c.Name)
	if last := kube.LastManager(ctx, live, o, field...); last != nil {
		c.Manager, c.At = last.Manager, metav1.NewTime(last.Time.UTC())
	}
}

// restoreContent restores the content of a rendered config that a user edited, because the name is a hash of the
// content. restoreContent also updates the annotation with secret paths.
func (r *Controller) restoreContent(ctx context.Context, want, live *mcfgv1.MachineConfig) error {
	a, err := revision.Digest(want)
	if err != nil {
		return err
	}
	b, err := r.seen.Of(live)
	marked := want.Annotations[v1alpha1.SecretPathsAnnotation]
	if err != nil || a == b && live.Annotations[v1alpha1.SecretPathsAnnotation] == marked {
		return err
	}
	fixed := live.DeepCopy()
	fixed.Spec = want.Spec
	kube.SetAnnotation(fixed, v1alpha1.SecretPathsAnnotation, marked)
	if err := r.Client.Update(ctx, fixed); err != nil {
		return fmt.Errorf("restoring MachineConfig %q: %w", want.Name, err)
	}
	return nil
}

// setConfiguration sets pool.spec.configuration, and the annotations that record the revision and the requester.
func (r *Controller) setConfiguration(ctx context.Context, f facts, rendered Rendered,
	target v1alpha1.PoolTarget,
) error {
	before := f.pool.DeepCopy()
	pool := f.pool.DeepCopy()
	pool.Spec.Configuration.Name = rendered.Name
	pool.Spec.Configuration.Kind = revision.KindMachineConfig
	pool.Spec.Configuration.APIVersion = mcfgv1.GroupVersion.String()
	pool.Spec.Configuration.Source = nil
	for _, name := range rendered.Inputs {
		pool.Spec.Configuration.Source = append(pool.Spec.Configuration.Source, corev1.ObjectReference{
			APIVersion: mcfgv1.GroupVersion.String(), Kind: revision.KindMachineConfig, Name: name,
		})
	}
	kube.SetAnnotation(pool, v1alpha1.SelectedAnnotation, f.selectedDigest)
	kube.SetAnnotation(pool, v1alpha1.NotRenderedAnnotation, "")
	kube.SetAnnotation(pool, v1alpha1.TargetAnnotation, target.String())
	for key, value := range f.renderedFrom() {
		kube.SetAnnotation(pool, key, value)
	}
	if equality.Semantic.DeepEqual(before, pool) {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("pointing pool %q at %q: %w", pool.Name, rendered.Name, err)
	}
	*f.pool = *pool
	return nil
}

// reportRendered reports a new rendered config, with the warnings and notices of the merge.
func reportRendered(events kube.Events, pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig,
	rendered Rendered,
) {
	from := fmt.Sprintf("%s %q", kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]),
		mc.Annotations[v1alpha1.CommitSubjectAnnotation])
	if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 ||
		len(asked.After) > 0 {
		from = kube.RequesterText(asked)
	}
	events.Send(kube.Event{
		Object: pool, Related: mc, Reason: "RenderedConfigGenerated", Action: "Render",
		Note: mc.Name + " from " + from,
	})
	for _, w := range rendered.Warnings {
		events.Send(kube.Event{
			Object: pool, Related: mc, Warning: true, Reason: "RenderWarning", Action: "Render",
			Note: w,
		})
	}
	if n := len(rendered.Notices); n > 0 {
		lines := make([]string, n)
		for i, notice := range rendered.Notices {
			lines[i] = notice.String()
		}
		events.Send(kube.Event{
			Object: pool, Related: mc, Reason: "RenderNotice", Action: "Render",
			Note: "several MachineConfigs set the same thing: " + strings.Join(lines, "; "),
		})
	}
}

// measure reports the time from a commit to the first config that was rendered from it.
func (r *Controller) measure(f facts, mc *mcfgv1.MachineConfig) {
	src := newestSource(f.selectedSources())
	if r.ReportLatency != nil && src != nil &&
		src.Status.AppliedCommit.Revision == mc.Annotations[v1alpha1.RevisionAnnotation] {
		r.ReportLatency(f.pool.Name, r.Now().Sub(src.Status.AppliedCommit.Time.Time))
	}
}

// Object returns a rendered config as an API object, annotated with the commit of src that first produced it for the
// pool.
func (r *Controller) Object(pool *mcfgv1.MachineConfigPool, selected []*mcfgv1.MachineConfig, src *v1alpha1.GitSource,
	rendered Rendered,
) (*mcfgv1.MachineConfig, error) {
	sources := map[string]*v1alpha1.GitSource{src.Name: atFirstCommit(src, pool.Name, rendered.Name)}
	return r.object(facts{pool: pool, selected: selected, sources: sources}, rendered)
}

func commitAnnotations(src *v1alpha1.GitSource) map[string]string {
	c := src.Status.AppliedCommit
	out := map[string]string{
		v1alpha1.SourceAnnotation:        src.Name,
		v1alpha1.RepositoryAnnotation:    source.Redact(src.Spec.URL),
		v1alpha1.RevisionAnnotation:      c.Revision,
		v1alpha1.CommitAuthorAnnotation:  c.Author,
		v1alpha1.CommitSubjectAnnotation: c.Subject,
		v1alpha1.CommitTimeAnnotation:    c.Time.UTC().Format(time.RFC3339),
	}
	if c.VerifiedBy != "" {
		out[v1alpha1.VerifiedByAnnotation] = c.VerifiedBy
	}
	return out
}
