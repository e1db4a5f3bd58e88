package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	certificatesv1 "k8s.io/api/certificates/v1"

	coordinationv1 "k8s.io/api/coordination/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Heartbeats are those of the controllers, the servers and the daemons. They change all the time, so bunsen reads them
// from time to time and does not watch them. The published revisions of secrets are with them, because users may read
// only one ConfigMap, which the cache of a watch cannot do.
type Heartbeats struct {
	Client client.Reader
	// Background reads the heartbeats of daemons, and what few clusters have, without a wait: Fill adds those of the
	// last read. An API server that has just started needs a second for the first list of a kind.
	Background bool
	// of controllers and servers, with the reason why a read failed and the time of the read
	leases []coordinationv1.Lease
	note   string
	called time.Time
	// the published revisions of secrets, as of the time called
	secrets fleet.Secrets
	// the last reports by node, why the last read failed, and its time
	daemons     map[string]v1alpha1.DaemonReport
	daemonsNote string
	asked       time.Time
	// the machines whose certificate requests the controller denied, and what the notifier sends, as of the time asked
	denied        []fleet.DeniedMachine
	notifications []v1alpha1.Notification
	// the result of a read of daemons; nil if none runs
	pending chan daemonsRead
}

type daemonsRead struct {
	daemons       map[string]v1alpha1.DaemonReport
	note          string
	denied        []fleet.DeniedMachine
	notifications []v1alpha1.Notification
	err           error
}

// CheckInterval is how often a live screen checks whether the API server answers, because a watch reports an outage
// late or never.
const CheckInterval = 5 * time.Second

const (
	// the maximum age on a live screen
	leasesAgain = 10 * time.Second
	// longer, because there may be thousands of daemons
	daemonsAgain = 30 * time.Second
)

// Due reports whether it is time to read the leases again, or whether a read in the background has ended.
func (h *Heartbeats) Due(now time.Time) bool {
	return now.Sub(h.called) >= leasesAgain || len(h.pending) > 0
}

// Fill reads the heartbeats if it is time, and adds them to the cluster. Without permission, a user still gets all
// other data.
func (h *Heartbeats) Fill(ctx context.Context, cluster *fleet.Cluster) error {
	now := time.Now()
	if now.Sub(h.called) >= leasesAgain {
		if err := h.readLeases(ctx); err != nil {
			return err
		}
		var err error
		if h.secrets, err = ReadSecrets(ctx, h.Client); err != nil {
			return err
		}
		h.called = now
	}
	if err := h.fillDaemons(ctx, now); err != nil {
		return err
	}
	cluster.Leases, cluster.LeasesNote, cluster.Secrets = h.leases, h.note, h.secrets
	cluster.Notifications = h.notifications
	cluster.Daemons, cluster.DaemonsNote = h.daemons, h.daemonsNote
	cluster.Denied = fleet.WithoutJoined(h.denied, cluster.Nodes)
	return nil
}

func (h *Heartbeats) fillDaemons(ctx context.Context, now time.Time) error {
	if h.pending == nil && now.Sub(h.asked) >= daemonsAgain {
		h.asked, h.pending = now, make(chan daemonsRead, 1)
		go func(to chan<- daemonsRead) {
			var r daemonsRead
			if r.daemons, r.note, r.err = ReadDaemons(ctx, h.Client); r.err == nil {
				r.denied, r.err = readDenied(ctx, h.Client)
			}
			if r.err == nil {
				r.notifications, r.err = readNotifications(ctx, h.Client)
			}
			to <- r
		}(h.pending)
	}
	if h.pending == nil || h.Background && len(h.pending) == 0 {
		return nil
	}
	r := <-h.pending
	h.pending = nil
	if r.err != nil {
		return r.err
	}
	h.daemons, h.daemonsNote, h.denied, h.notifications = r.daemons, r.note, r.denied, r.notifications
	return nil
}

func (h *Heartbeats) readLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CheckInterval)
	defer cancel()
	var list coordinationv1.LeaseList
	err := h.Client.List(ctx, &list, client.InNamespace(v1alpha1.ServerNamespace),
		client.HasLabels{v1alpha1.ServerLabel})
	switch {
	case apierrors.IsForbidden(err):
		h.leases, h.note = nil, "not shown, because you may not list leases in "+v1alpha1.ServerNamespace
	case err != nil:
		return ReadError("Leases", err)
	default:
		h.leases, h.note = append([]coordinationv1.Lease{}, list.Items...), ""
	}
	return nil
}

// readNotifications reads what the notifier sends; none if the user may not read it, or without a notifier.
func readNotifications(ctx context.Context, c client.Reader) ([]v1alpha1.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*CheckInterval)
	defer cancel()
	var list v1alpha1.NotificationList
	err := c.List(ctx, &list)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, ReadError("Notifications", err)
	}
	return list.Items, nil
}

var daemonsMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigNodeList"}

// ReadDaemons reads the heartbeats of all daemons from the API server's cache. The note says why a read failed.
func ReadDaemons(ctx context.Context, c client.Reader) (daemons map[string]v1alpha1.DaemonReport, note string,
	err error,
) {
	ctx, cancel := context.WithTimeout(ctx, 2*CheckInterval)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{TypeMeta: daemonsMeta}
	err = c.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	switch {
	case apierrors.IsForbidden(err):
		return nil, "you may not list MachineConfigNodes", nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, "the cluster does not know the kind MachineConfigNode", nil
	case err != nil:
		return nil, "", ReadError("MachineConfigNodes", err)
	}
	return fleet.DaemonReports(list.Items), "", nil
}

// readDenied reads the machines that the controller denied, from the API server's cache; none if the user may not read
// certificate requests, or if the cluster does not know their kind.
func readDenied(ctx context.Context, c client.Reader) ([]fleet.DeniedMachine, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*CheckInterval)
	defer cancel()
	var list certificatesv1.CertificateSigningRequestList
	err := c.List(ctx, &list,
		client.MatchingFields{"spec.signerName": certificatesv1.KubeAPIServerClientKubeletSignerName},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	switch {
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, ReadError("CertificateSigningRequests", err)
	}
	return fleet.DeniedMachines(list.Items), nil
}

// ReadDaemon reads the heartbeat of one node's daemon; the zero value if there is none.
func ReadDaemon(ctx context.Context, c client.Reader, node string) (map[string]v1alpha1.DaemonReport, error) {
	of := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: daemonsMeta.APIVersion,
		Kind:       "MachineConfigNode",
	}}
	err := c.Get(ctx, client.ObjectKey{Name: node}, &of)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, ReadError("MachineConfigNode/"+node, err)
	}
	return fleet.DaemonReports([]metav1.PartialObjectMetadata{of}), nil
}

// ReadAll reads all objects that a status shows, and the heartbeats.
func ReadAll(ctx context.Context, c client.Reader) (fleet.Cluster, error) {
	cluster, err := ReadWatched(ctx, c)
	if err != nil {
		return cluster, err
	}
	return cluster, (&Heartbeats{Client: c}).Fill(ctx, &cluster)
}

// ReadDrift reads the reports of all nodes, or of the one node that the argument names as NODE or node/NODE.
func ReadDrift(ctx context.Context, c client.Client, args []string) (inspect.DriftReport, error) {
	if len(args) == 0 {
		var nodes corev1.NodeList
		if err := c.List(ctx, &nodes); err != nil {
			return inspect.DriftReport{}, ReadError("Nodes", err)
		}
		pools := &mcfgv1.MachineConfigPoolList{}
		if err := c.List(ctx, pools); err != nil {
			return inspect.DriftReport{}, ReadError("MachineConfigPools", err)
		}
		daemons, _, err := ReadDaemons(ctx, c)
		return inspect.NewClusterDrift(fleet.Cluster{Nodes: nodes.Items, Pools: pools.Items, Daemons: daemons},
				time.Now()),
			err
	}
	name := strings.TrimPrefix(args[0], "node/")
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return inspect.DriftReport{}, ReadError("node/"+name, err)
	}
	daemons, err := ReadDaemon(ctx, c, name)
	return inspect.NewDriftReport([]corev1.Node{node}, daemons, time.Now()), err
}

// ShownDrift is the output of the verb drift show.
type ShownDrift struct {
	inspect.DriftRow `json:",inline"`
	// Diff is redacted. Without one, Note says where to find it.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"`
}

// Text prints the difference and its lines.
func (s ShownDrift) Text(now time.Time) string {
	text := s.DriftRow.Text(now)
	if s.Diff != "" {
		text += "\n" + s.Diff
	}
	if s.Note != "" {
		text += "\n" + s.Note + "\n"
	}
	return text
}

// FindDrift finds the drift that a node reports for a path, unit or account.
func FindDrift(ctx context.Context, c client.Client, args []string) (inspect.DriftRow, error) {
	d, err := ReadDrift(ctx, c, args[:1])
	if err != nil {
		return inspect.DriftRow{}, err
	}
	row, err := d.Find(strings.TrimPrefix(args[0], "node/"), args[1])
	if err != nil {
		return row, cli.Invalid(err)
	}
	return row, nil
}

// DriftDiff reads the redacted difference from the node, or returns a note that says how to see it.
func (t *Target) DriftDiff(ctx context.Context, c client.Client, row inspect.DriftRow) (diff, note string) {
	command := []string{"drift", "show", row.Name}
	text, manual, err := t.runOnNode(ctx, c, row.Node, command...)
	if err == nil {
		return string(text), ""
	}
	return "", fmt.Sprintf("The lines that differ are on the node only (%v). Run this %s", err, manual)
}

// CompleteDrift offers the nodes that report drift, and then the drifted paths of a node.
func CompleteDrift(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	most := 1
	if cmd.Name() != "drift" {
		most = 2
	}
	return Complete(most, func(ctx context.Context, c client.Client, args []string) ([]string, error) {
		d, err := ReadDrift(ctx, c, args)
		var offers []string
		for _, r := range d.Rows {
			if len(args) == 1 {
				offers = append(offers, r.Name)
			} else {
				offers = append(offers, "node/"+r.Node)
			}
		}
		return slices.Compact(offers), err
	})(cmd, args, typed)
}
