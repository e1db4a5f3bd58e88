package main

import (
	"context"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// heartbeats are those of the controllers, the servers and the daemons. They are written whatever happens, so they are read now
// and then rather than watched.
type heartbeats struct {
	c client.Reader
	// leases of controllers and servers, why they were not read, and when they were.
	leases []coordinationv1.Lease
	note   string
	called time.Time
	// daemons by node, why they were not read, and when they were.
	daemons     map[string]v1alpha1.DaemonReport
	daemonsNote string
	asked       time.Time
}

const (
	// leasesAgain is how old what is known of controllers and servers may be on a live screen.
	leasesAgain = 10 * time.Second
	// daemonsAgain is the same for daemons, of which there are thousands.
	daemonsAgain = 30 * time.Second
)

// due tells that it is time to read again.
func (h *heartbeats) due(now time.Time) bool { return now.Sub(h.called) >= leasesAgain }

// fill reads, where that is due, and fills in what is known. Who may not read them sees all else.
func (h *heartbeats) fill(ctx context.Context, cluster *inspect.Cluster) error {
	now := time.Now()
	if h.due(now) {
		if err := h.readLeases(ctx); err != nil {
			return err
		}
		h.called = now
	}
	if now.Sub(h.asked) >= daemonsAgain {
		var err error
		if h.daemons, h.daemonsNote, err = readDaemons(ctx, h.c); err != nil {
			return err
		}
		h.asked = now
	}
	cluster.Leases, cluster.LeasesNote = h.leases, h.note
	cluster.Daemons, cluster.DaemonsNote = h.daemons, h.daemonsNote
	return nil
}

func (h *heartbeats) readLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, looksAlive)
	defer cancel()
	var list coordinationv1.LeaseList
	err := h.c.List(ctx, &list, client.InNamespace(serverNamespace), client.HasLabels{v1alpha1.ServerLabel})
	switch {
	case apierrors.IsForbidden(err):
		h.leases, h.note = nil, "not shown, because you may not list leases in "+serverNamespace
	case err != nil:
		return unread("Leases", err)
	default:
		h.leases, h.note = append([]coordinationv1.Lease{}, list.Items...), ""
	}
	return nil
}

// daemonsMeta asks for MachineConfigNodes without their conditions.
var daemonsMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigNodeList"}

// readDaemons reads the heartbeats of all daemons, from the API server's own cache; the note is why that is not possible.
func readDaemons(ctx context.Context, c client.Reader) (daemons map[string]v1alpha1.DaemonReport, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*looksAlive)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{TypeMeta: daemonsMeta}
	err = c.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	switch {
	case apierrors.IsForbidden(err):
		return nil, "you may not list MachineConfigNodes", nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, "the cluster does not know the kind MachineConfigNode", nil
	case err != nil:
		return nil, "", unread("MachineConfigNodes", err)
	}
	return inspect.DaemonReports(list.Items), "", nil
}

// readDaemon reads the heartbeat of one node's daemon; nothing where it is not known.
func readDaemon(ctx context.Context, c client.Reader, node string) (map[string]v1alpha1.DaemonReport, error) {
	of := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: daemonsMeta.APIVersion, Kind: "MachineConfigNode"}}
	err := c.Get(ctx, client.ObjectKey{Name: node}, &of)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, unread("MachineConfigNode/"+node, err)
	}
	return inspect.DaemonReports([]metav1.PartialObjectMetadata{of}), nil
}

// readAll reads everything that a status is made of, heartbeats included.
func readAll(ctx context.Context, c client.Reader) (inspect.Cluster, error) {
	cluster, err := read(ctx, c)
	if err != nil {
		return cluster, err
	}
	return cluster, (&heartbeats{c: c}).fill(ctx, &cluster)
}
