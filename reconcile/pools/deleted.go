package pools

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Deleted stores the last state of deleted standard pools until they are created again. The zero value stores no pool.
// If the content of Deleted is lost, the records of a pool that is deleted at that moment are lost too.
type Deleted struct {
	last sync.Map // name → *mcfgv1.MachineConfigPool
}

// Predicate passes every event, and stores the last state of a standard pool that is deleted.
func (d *Deleted) Predicate() predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		if p, ok := e.Object.(*mcfgv1.MachineConfigPool); ok && ContainsStandard(p.Name) {
			d.last.Store(p.Name, p)
		}
		return true
	}}
}

// CreateAgain creates a standard pool that a user deleted, with its records if this process saw the deletion. Without
// the records, the last healthy config of the pool and the requester of its config are unknown.
func (d *Deleted) CreateAgain(ctx context.Context, c client.Client, events kube.Events, name string) error {
	text := "what its deletion removed, such as the history of its rollouts, is lost"
	last, seen := d.last.Load(name)
	if seen {
		text = "the controller restored its records; settings of users, such as a pause, are lost"
		if err := createWithRecords(ctx, c, last.(*mcfgv1.MachineConfigPool)); err != nil {
			return err
		}
	} else if err := ApplyStandard(ctx, c, name); err != nil {
		return err
	}
	d.last.Delete(name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "Restored", Action: "Render",
		Note: fmt.Sprintf("MachineConfigPool %s was deleted and is created again: every cluster has it; %s", name,
			text),
	})
	return nil
}

// createWithRecords creates a pool with the records of the deleted pool: the controller's annotations, and the config
// to which these belong. createWithRecords does not change a pool that a user has created meanwhile.
func createWithRecords(ctx context.Context, c client.Client, last *mcfgv1.MachineConfigPool) error {
	selectors := selectors(last.Name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
		Name: last.Name, Labels: poolLabels(last.Name),
		Annotations: map[string]string{},
	}}
	pool.Spec.MachineConfigSelector, pool.Spec.NodeSelector = selectors[configSelectorField],
		selectors[nodeSelectorField]
	pool.Spec.Configuration.Name = last.Spec.Configuration.Name
	for _, key := range recordAnnotations {
		if text, ok := last.Annotations[key]; ok {
			pool.Annotations[key] = text
		}
	}
	pool.Annotations[v1alpha1.StandardAnnotation] = configSelectorField + "," + nodeSelectorField
	if err := c.Create(ctx, pool, kube.StandardPoolsManager); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pool %q: %w", last.Name, err)
	}
	return nil
}

// recordAnnotations are the annotations with the controller's records on a pool.
var recordAnnotations = []string{
	v1alpha1.TargetAnnotation, v1alpha1.RolloutAnnotation, v1alpha1.RolloutHistoryAnnotation,
	v1alpha1.RevisionAnnotation, v1alpha1.SourceAnnotation,
	v1alpha1.SourceSpecAnnotation, v1alpha1.SelectedAnnotation, v1alpha1.NotRenderedAnnotation,
	v1alpha1.HoldAnnotation, v1alpha1.HeldRevisionAnnotation, v1alpha1.HeldByAnnotation, v1alpha1.HeldUntilAnnotation,
	v1alpha1.SteeredByAnnotation,
}
