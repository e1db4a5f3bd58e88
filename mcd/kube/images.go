package kube

import (
	"context"
	"encoding/json"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/mcd/report"
)

var pinnedImageSets = mcfgv1.GroupVersion.WithResource("pinnedimagesets")

// imagesManager is the field manager of the report about images. It differs from statusManager for the same reason as
// heartbeatManager does.
const imagesManager = "machine-config-daemon-images"

// PinnedImageSets reads sets by their names. It leaves out those that do not exist.
func PinnedImageSets(ctx context.Context, cluster *Connection,
	names []string,
) (sets []*mcfgv1.PinnedImageSet, _ error) {
	return withClient(cluster, func(k *Client) ([]*mcfgv1.PinnedImageSet, error) {
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
func ReportImages(ctx context.Context, cluster *Connection, at report.Images) error {
	_, err := withClient(cluster, func(k *Client) (struct{}, error) {
		err := k.reportImages(ctx, at)
		if apierrors.IsInvalid(err) {
			if err = k.reportImages(ctx, report.Images{Problem: at.Problem}); err == nil {
				err = k.reportImages(ctx, at)
			}
		}
		return struct{}{}, err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of MachineConfigNode %s: %w", cluster.lastName(), err)
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
