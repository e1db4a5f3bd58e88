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

// heartbeatManager is the field manager of the daemon's heartbeat. It is not the Board's, whose writes would remove it.
const heartbeatManager = "machine-config-daemon"

// Heartbeat reports about once a minute, until the context ends, that the daemon runs: as a DaemonReport on the MachineConfigNode
// of its node. It returns at once. It creates no MachineConfigNode; the Board does. While there is none, or the API server does
// not answer, it tries again after pauses that grow to a minute. A refusal is logged once.
func Heartbeat(ctx context.Context, cluster *Later, version string, log *slog.Logger) {
	go func() {
		next, refused := pauses(), ""
		for ctx.Err() == nil {
			err := report(ctx, cluster, v1alpha1.DaemonReport{Version: version, Seen: metav1.NewTime(time.Now())})
			if err == nil {
				next, refused = pauses(), ""
				hold(ctx, v1alpha1.DaemonReportsEvery+rand.N(v1alpha1.DaemonReportsEvery/4))
				continue
			}
			if forbidden(err) && err.Error() != refused && ctx.Err() == nil {
				refused = err.Error()
				log.Warn("the daemon's heartbeat is not written, which affects nothing else", "err", err)
			}
			hold(ctx, next.Step())
		}
	}()
}

// report writes one heartbeat.
func report(ctx context.Context, cluster *Later, r v1alpha1.DaemonReport) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.DaemonAnnotation: r.String()}}})
	if err != nil {
		return fmt.Errorf("writing the heartbeat: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = via(cluster, func(k *Client) (struct{}, error) {
		_, err := k.objects.Resource(machineConfigNodes).Patch(ctx, k.node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: heartbeatManager})
		return struct{}{}, answered(err)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the heartbeat to MachineConfigNode %s: %w", cluster.node, err)
	}
	return err
}
