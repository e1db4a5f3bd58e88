package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
func Heartbeat(ctx context.Context, cluster *Connection, r v1alpha1.DaemonReport,
	etcd func(context.Context) *v1alpha1.EtcdReport, log *slog.Logger,
) {
	go func() {
		next, refused, may := newBackoff(), "", access{}
		for ctx.Err() == nil {
			may.update(ctx, cluster)
			if etcd != nil {
				r.Etcd = etcd(ctx)
			}
			r.Seen, r.ConfigsFrom, r.ReadsAllConfigs = metav1.NewTime(time.Now()), cluster.configs.lastSource(),
				may.readsAll
			err := writeHeartbeat(ctx, cluster, r)
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
func writeHeartbeat(ctx context.Context, cluster *Connection, r v1alpha1.DaemonReport) error {
	patch, err := json.Marshal(
		map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{v1alpha1.DaemonAnnotation: r.String()}},
		})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = withClient(cluster, func(k *Client) (struct{}, error) {
		_, err := k.objects.Resource(machineConfigNodes).Patch(ctx, k.node, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: heartbeatManager})
		return struct{}{}, markUnreachable(err)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the heartbeat to MachineConfigNode %s: %w", cluster.lastName(), err)
	}
	return err
}
