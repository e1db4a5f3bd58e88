package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// heartbeatManager is the field manager of the daemon's heartbeat. heartbeatManager differs from statusManager, because
// writes of the status with the same manager would remove the heartbeat.
const heartbeatManager = "machine-config-daemon"

// Heartbeat reports about once a minute, until the context ends, that the daemon runs. The report is on the node's
// MachineConfigNode. The caller sets the version and the form in the report. Heartbeat adds the time, the daemon's
// config source, its read permissions, and the state of etcd, unless the function etcd is nil. Heartbeat returns at
// once. The StatusPublisher creates the MachineConfigNode. If the object does not exist, or the API server does not
// answer, Heartbeat retries with pauses of up to a minute. A rejected write is logged once.
func (l *Connection) Heartbeat(ctx context.Context, r v1alpha1.DaemonReport,
	etcd func(context.Context) *v1alpha1.EtcdReport, log *slog.Logger,
) {
	go func() {
		next, refused, may := newBackoff(), "", access{}
		for ctx.Err() == nil {
			may.update(ctx, l)
			if etcd != nil {
				r.Etcd = etcd(ctx)
			}
			r.Seen, r.ConfigsFrom, r.ReadsAllConfigs = metav1.NewTime(time.Now()), l.configs.lastSource(),
				may.readsAll
			err := l.writeHeartbeat(ctx, r)
			if err == nil {
				next, refused = newBackoff(), ""
				sleep(ctx, v1alpha1.DaemonReportsEvery+rand.N(v1alpha1.DaemonReportsEvery/4))
				continue
			}
			if isForbidden(err) && err.Error() != refused && ctx.Err() == nil {
				refused = err.Error()
				log.Warn("cannot write the heartbeat; continuing", "err", err)
			}
			sleep(ctx, next.Step())
		}
	}()
}

// writeHeartbeat writes one heartbeat.
func (l *Connection) writeHeartbeat(ctx context.Context, r v1alpha1.DaemonReport) error {
	patch, err := json.Marshal(
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1alpha1.DaemonAnnotation: r.String()}},
		})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = withClient(l, func(k *Client) (struct{}, error) {
		_, err := k.objects.Resource(machineConfigNodes).Patch(ctx, k.node, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: heartbeatManager})
		return struct{}{}, markUnreachable(err)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the heartbeat to MachineConfigNode %s: %w", l.lastName(), err)
	}
	return err
}

// newBackoff returns the pauses between attempts while the API server does not answer. The pauses grow from a second to
// a minute. A random part keeps many nodes from sending requests at once after an outage.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 10, Cap: time.Minute}
}

// sleep waits for a duration, or until the context ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// accessInterval is the interval between two checks of the daemon's read permissions.
const accessInterval = time.Hour

// access has the read permissions of the daemon's identity at the API server.
type access struct {
	readsAll bool
	// checked is when the API server last answered; zero if it never did.
	checked time.Time
}

// update checks the rights again, about once an hour. A node that may read every config also reads from the servers, so
// that its report shows where it would read its config without that right. While the API server does not answer, access
// uses the last answer.
func (a *access) update(ctx context.Context, cluster *Connection) {
	if !a.checked.IsZero() && time.Since(a.checked) < accessInterval {
		return
	}
	readsAll, err := withClient(cluster, func(k *Client) (bool, error) { return k.readsAllConfigs(ctx) })
	if err != nil {
		cluster.configs.servers.logger().Debug("cannot check what the node may read", "err", err)
		return
	}
	a.readsAll, a.checked = readsAll, time.Now()
	if readsAll {
		cluster.configs.probeServers(ctx)
	}
}

// probeServers reads the config in force from the servers, to check that they serve it. probeServers stores no config.
func (c *configs) probeServers(ctx context.Context) {
	node, err := c.cluster.Node(ctx)
	if err != nil || node.Current == "" {
		return
	}
	if _, err := c.fromServers(ctx, v1alpha1.ParseConfigVersion(node.Current).Config); err == nil ||
		apierrors.IsNotFound(err) {
		c.recordSource(v1alpha1.ConfigsFromServer, nil)
	} else {
		c.recordSource(v1alpha1.ConfigsFromAPIServer, err)
	}
}

// readsAllConfigs reports whether the node may read every MachineConfig.
func (k *Client) readsAllConfigs(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: authorizationv1.SchemeGroupVersion.String(),
			Kind:       "SelfSubjectAccessReview",
		},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Group: machineConfigs.Group, Resource: machineConfigs.Resource,
		}},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&review)
	if err != nil {
		return false, fmt.Errorf("checking what the node may read: %w", err)
	}
	answer, err := k.objects.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")).
		Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("checking what the node may read: %w", markUnreachable(err))
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
