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

	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

var machineConfigNodes = mcfgv1.GroupVersion.WithResource("machineconfignodes")

const (
	// boardManager is the field manager that the original writes these objects with.
	boardManager = "machine-config-operator"
	// between two writes, so that what is over in a moment is not written.
	boardPause = time.Second
	// boardAbsent is for how long a cluster that does not know the kind is left alone.
	boardAbsent = time.Hour
)

// Board is the agent's, over the Kubernetes API: the MachineConfigNode of one node. Only what is newest is written, and only
// where it says something new. While the API server does not answer, it is tried again with pauses that grow to a minute. What is
// not taken is logged once and tried again when something is shown; a cluster that does not know the kind is left alone for long.
type Board struct {
	cluster *Later
	log     *slog.Logger
	wake    chan struct{}

	mu     sync.Mutex
	newest *progress.Place

	// What follows is the writer's alone. Is is the object as the API server has it, nil where that is not known; until is when a
	// cluster that does not know the kind is asked again; said is what was logged last.
	is    *mcfgv1.MachineConfigNode
	until time.Time
	said  string
}

// NewBoard writes until the context ends.
func NewBoard(ctx context.Context, cluster *Later, log *slog.Logger) *Board {
	b := &Board{cluster: cluster, log: log, wake: make(chan struct{}, 1)}
	go b.run(ctx)
	return b
}

// Show is for the agent's Board.
func (b *Board) Show(at progress.Place) {
	b.mu.Lock()
	b.newest = &at
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what is newest, once.
func (b *Board) take() *progress.Place {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.newest
	b.newest = nil
	return at
}

// putBack keeps what could not be written, if nothing newer came.
func (b *Board) putBack(at *progress.Place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == nil {
		b.newest = at
	}
}

func (b *Board) run(ctx context.Context) {
	next := pauses()
	for ctx.Err() == nil {
		at := b.take()
		if at == nil {
			select {
			case <-ctx.Done():
			case <-b.wake:
			}
			continue
		}
		wrote, err := b.write(ctx, *at)
		switch {
		case errors.Is(err, protocol.ErrUnreachable) && !forbidden(err):
			b.putBack(at)
			hold(ctx, next.Step())
			continue
		case err != nil && err.Error() != b.said && ctx.Err() == nil:
			b.said = err.Error()
			b.log.Warn("the MachineConfigNode is not kept, which holds up nothing else", "err", err)
		}
		next = pauses()
		if wrote {
			hold(ctx, boardPause)
		}
	}
}

// forbidden tells that rights are missing: by trying again and again, they do not come.
func forbidden(err error) bool {
	code, is := status(err)
	return is && code == http.StatusForbidden
}

// write brings the object to what it should say; wrote tells whether that took a write. One that somebody deleted is made again.
func (b *Board) write(ctx context.Context, at progress.Place) (wrote bool, err error) {
	if time.Now().Before(b.until) {
		return false, nil
	}
	known := b.is != nil
	wrote, err = b.once(ctx, at)
	if known && apierrors.IsNotFound(err) {
		b.is = nil
		wrote, err = b.once(ctx, at)
	}
	if apierrors.IsNotFound(err) {
		b.until = time.Now().Add(boardAbsent)
	}
	return wrote, err
}

func (b *Board) once(ctx context.Context, at progress.Place) (wrote bool, err error) {
	if b.is == nil || !owned(b.is, at) {
		if b.is, err = b.read(ctx, at.Node); err != nil {
			return false, err
		}
	}
	if at.Told.UID == "" { // it was not kept on disk, and the Node was not read yet
		node, err := b.cluster.Assignment(ctx)
		if err != nil {
			return false, err
		}
		at.Told.UID = node.UID
	}
	if b.is == nil || b.is.Spec != at.Spec() || !owned(b.is, at) {
		wrote = true
		is, err := b.apply(ctx, at.Node, map[string]any{"metadata": map[string]any{"name": at.Node, "ownerReferences": at.Owners()}, "spec": at.Spec()})
		if err != nil {
			return wrote, err
		}
		b.is = is
	}
	status := at.Status(b.is.Status, b.is.Generation, metav1.Now())
	if progress.Same(b.is.Status, status) {
		return wrote, nil
	}
	is, err := b.apply(ctx, at.Node, map[string]any{"metadata": map[string]any{"name": at.Node}, "status": status}, "status")
	if err == nil {
		b.is = is
	}
	return true, err
}

// owned tells that the object goes with the Node that there is, as far as that one is known.
func owned(is *mcfgv1.MachineConfigNode, at progress.Place) bool {
	for _, want := range at.Owners() {
		if !slices.ContainsFunc(is.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == want.UID }) {
			return false
		}
	}
	return true
}

// read returns the object that is there; nil for none.
func (b *Board) read(ctx context.Context, name string) (*mcfgv1.MachineConfigNode, error) {
	is, err := via(b.cluster, func(k *Client) (*mcfgv1.MachineConfigNode, error) {
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

// apply writes what the fields say of the object, or of a part of it, and returns the whole.
func (b *Board) apply(ctx context.Context, name string, fields map[string]any, part ...string) (*mcfgv1.MachineConfigNode, error) {
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
		unstructured.RemoveNestedField(object.Object, "status", "configVersion", "current") // the API takes a name or nothing
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	is, err := via(b.cluster, func(k *Client) (*unstructured.Unstructured, error) {
		is, err := k.objects.Resource(machineConfigNodes).Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: boardManager, Force: true}, part...)
		return is, answered(err)
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
