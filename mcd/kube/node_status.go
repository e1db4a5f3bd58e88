package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/mcd/report"
)

var machineConfigNodes = mcfgv1.GroupVersion.WithResource("machineconfignodes")

const (
	// statusManager is the field manager that the original machine-config-operator uses for these objects.
	statusManager = "machine-config-operator"
	// statusInterval is the pause between two writes. A status that is replaced during this pause is not written.
	statusInterval = time.Second
	// missingKindInterval is the pause before the next attempt if the cluster does not have the kind
	// MachineConfigNode.
	missingKindInterval = time.Hour
)

// StatusPublisher is the agent's StatusPublisher over the Kubernetes API: it writes the MachineConfigNode of one node.
// StatusPublisher writes only the newest status, and only if it differs. While the API server does not answer,
// StatusPublisher retries with pauses that grow to a minute. StatusPublisher logs a rejected write once, and repeats
// the write with the next status. If the cluster does not have the kind MachineConfigNode, the next attempt follows
// after missingKindInterval.
type StatusPublisher struct {
	cluster *Connection
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex
	pending *report.Status

	// Only the method run uses the field stored and the fields after it. stored is the object of the API server; nil if
	// it is unknown. retryAt is when the publisher tries again on a cluster without the kind MachineConfigNode.
	// lastError is the last error that was logged.
	stored    *mcfgv1.MachineConfigNode
	retryAt   time.Time
	lastError string
}

// NewStatusPublisher returns a StatusPublisher that writes the published status until the context ends.
func (l *Connection) NewStatusPublisher(ctx context.Context, log *slog.Logger) *StatusPublisher {
	b := &StatusPublisher{cluster: l, log: log, wake: make(chan struct{}, 1)}
	go b.run(ctx)
	return b
}

// Publish implements agent.StatusPublisher.
func (b *StatusPublisher) Publish(at report.Status) {
	b.mu.Lock()
	b.pending = &at
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// takePending returns the status that is not written yet, and marks it as taken: the next call returns nil.
func (b *StatusPublisher) takePending() *report.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.pending
	b.pending = nil
	return at
}

// requeue stores a status that could not be written, if there is no newer status.
func (b *StatusPublisher) requeue(at *report.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == nil {
		b.pending = at
	}
}

func (b *StatusPublisher) run(ctx context.Context) {
	next := newBackoff()
	for ctx.Err() == nil {
		at := b.takePending()
		if at == nil {
			select {
			case <-ctx.Done():
			case <-b.wake:
			}
			continue
		}
		wrote, err := b.write(ctx, *at)
		switch {
		case errors.Is(err, report.ErrUnreachable) && !isForbidden(err):
			b.requeue(at)
			sleep(ctx, next.Step())
			continue
		case err != nil && err.Error() != b.lastError && ctx.Err() == nil:
			b.lastError = err.Error()
			b.log.Warn("cannot update the MachineConfigNode; continuing", "err", err)
		}
		next = newBackoff()
		if wrote {
			sleep(ctx, statusInterval)
		}
	}
}

// isForbidden reports whether rights are missing, so that a retry does not help.
func isForbidden(err error) bool {
	code, is := httpStatus(err)
	return is && code == http.StatusForbidden
}

// write updates the object. The result wrote reports whether a write was needed. If a user deleted the object, write
// creates it again.
func (b *StatusPublisher) write(ctx context.Context, at report.Status) (wrote bool, err error) {
	if time.Now().Before(b.retryAt) {
		return false, nil
	}
	known := b.stored != nil
	wrote, err = b.writeOnce(ctx, at)
	if known && apierrors.IsNotFound(err) {
		b.stored = nil
		wrote, err = b.writeOnce(ctx, at)
	}
	if apierrors.IsNotFound(err) {
		b.retryAt = time.Now().Add(missingKindInterval)
	}
	return wrote, err
}

// writeOnce reads the object if its state is unknown. writeOnce writes the spec and the status if they differ.
func (b *StatusPublisher) writeOnce(ctx context.Context, at report.Status) (wrote bool, err error) {
	if at.NodeName, err = b.cluster.Name(); err != nil {
		return false, err
	}
	if b.stored != nil && b.stored.Name != at.NodeName {
		b.stored = nil
	}
	if b.stored == nil || !isOwned(b.stored, at) {
		if b.stored, err = b.read(ctx, at.NodeName); err != nil {
			return false, err
		}
	}
	// The UID of the Node is unknown: the task on disk has no UID, and the Node has not been read yet.
	if at.Node.UID == "" {
		node, err := b.cluster.Node(ctx)
		if err != nil {
			return false, err
		}
		at.Node.UID = node.UID
	}
	if b.stored == nil || b.stored.Spec != at.Spec() || !isOwned(b.stored, at) {
		wrote = true
		is, err := b.apply(ctx, at.NodeName,
			map[string]any{
				"metadata": map[string]any{"name": at.NodeName, "ownerReferences": at.Owners()},
				"spec":     at.Spec(),
			})
		if err != nil {
			return wrote, err
		}
		b.stored = is
	}
	status := at.ObjectStatus(b.stored.Status, b.stored.Generation, metav1.Now())
	if report.SameStatus(b.stored.Status, status) {
		return wrote, nil
	}
	is, err := b.apply(ctx, at.NodeName, map[string]any{
		"metadata": map[string]any{"name": at.NodeName},
		"status":   status,
	}, "status")
	if err == nil {
		b.stored = is
	}
	return true, err
}

// isOwned reports whether the object belongs to the present Node, as far as the Node's UID is known.
func isOwned(is *mcfgv1.MachineConfigNode, at report.Status) bool {
	for _, want := range at.Owners() {
		if !slices.ContainsFunc(is.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == want.UID }) {
			return false
		}
	}
	return true
}

// read returns the stored object; nil for none.
func (b *StatusPublisher) read(ctx context.Context, name string) (*mcfgv1.MachineConfigNode, error) {
	is, err := withClient(b.cluster, func(k *Client) (*mcfgv1.MachineConfigNode, error) {
		is := new(mcfgv1.MachineConfigNode)
		return is, k.get(ctx, machineConfigNodes, name, is)
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading MachineConfigNode %s: %w", name, err)
	}
	return is, nil
}

// apply writes fields of the object or its status, and returns the whole object.
func (b *StatusPublisher) apply(ctx context.Context, name string, fields map[string]any,
	part ...string,
) (*mcfgv1.MachineConfigNode, error) {
	fields["apiVersion"], fields["kind"] = mcfgv1.GroupVersion.String(), "MachineConfigNode"
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	if current, _, _ := unstructured.NestedString(object.Object, "status", "configVersion", "current"); current == "" {
		// The field is removed because the API accepts only a name, or no field.
		unstructured.RemoveNestedField(object.Object, "status", "configVersion", "current")
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	is, err := withClient(b.cluster, func(k *Client) (*unstructured.Unstructured, error) {
		is, err := k.objects.Resource(machineConfigNodes).Apply(ctx, name, object,
			metav1.ApplyOptions{FieldManager: statusManager, Force: true}, part...)
		return is, markUnreachable(err)
	})
	typed := new(mcfgv1.MachineConfigNode)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(is.Object, typed)
	}
	if err != nil {
		return nil, fmt.Errorf("writing MachineConfigNode %s: %w", name, err)
	}
	return typed, nil
}

var pinnedImageSets = mcfgv1.GroupVersion.WithResource("pinnedimagesets")

// imagesManager is the field manager of the report about images. It differs from statusManager for the same reason as
// heartbeatManager does.
const imagesManager = "machine-config-daemon-images"

// PinnedImageSets reads sets by their names. It leaves out those that do not exist.
func (l *Connection) PinnedImageSets(ctx context.Context,
	names []string,
) (sets []*mcfgv1.PinnedImageSet, _ error) {
	return withClient(l, func(k *Client) ([]*mcfgv1.PinnedImageSet, error) {
		for _, name := range names {
			set := new(mcfgv1.PinnedImageSet)
			switch err := k.get(ctx, pinnedImageSets, name, set); {
			case apierrors.IsNotFound(err): // The controller names the sets again.
			case err != nil:
				return nil, fmt.Errorf("reading PinnedImageSet %s: %w", name, err)
			default:
				sets = append(sets, set)
			}
		}
		return sets, nil
	})
}

// ReportImages writes the conditions and the sets to the status of the MachineConfigNode, unless
// it has them. A set that was deleted and created again has a lower generation, which the API accepts only for a new
// entry of the list. So ReportImages first removes the entries in this case.
func (l *Connection) ReportImages(ctx context.Context, at report.Images) error {
	_, err := withClient(l, func(k *Client) (struct{}, error) {
		err := k.reportImages(ctx, at)
		if apierrors.IsInvalid(err) {
			if err = k.reportImages(ctx, report.Images{Problem: at.Problem}); err == nil {
				err = k.reportImages(ctx, at)
			}
		}
		return struct{}{}, err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of MachineConfigNode %s: %w", l.lastName(), err)
	}
	return err
}

func (k *Client) reportImages(ctx context.Context, at report.Images) error {
	var is mcfgv1.MachineConfigNode
	if err := k.get(ctx, machineConfigNodes, k.node, &is); err != nil {
		return err
	}
	conditions, sets := at.Status(is.Status.Conditions, metav1.Now())
	text, err := json.Marshal(map[string]any{
		"apiVersion": mcfgv1.GroupVersion.String(), "kind": "MachineConfigNode",
		"metadata": map[string]any{"name": k.node},
		"status":   map[string]any{"conditions": conditions, "pinnedImageSets": sets},
	})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = k.objects.Resource(machineConfigNodes).ApplyStatus(ctx, k.node, object,
		metav1.ApplyOptions{FieldManager: imagesManager, Force: true})
	return markUnreachable(err)
}
