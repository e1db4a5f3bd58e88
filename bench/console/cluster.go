package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// pool is the measured pool, and zones is the number of its topology zones.
	pool  = "worker"
	zones = 5
	// hands is how many objects are created at the same time.
	hands = 24
	// images is how many images each node reports, as kubelets do. The console must not store them.
	images = 50
	// commits is how many commits the history has.
	commits = 40
	before  = "rendered-worker-11111111111111111111111111111111"
	after   = "rendered-worker-22222222222222222222222222222222"
)

// cluster is the measured cluster with its administrator.
type cluster struct {
	options
	admin client.WithWatch
	out   io.Writer
	// changes counts the events.
	changes int
}

// nodeName returns the name of a node.
func nodeName(i int) string { return fmt.Sprintf("worker-%05d", i) }

func revision(i int) string { return "main@sha1:" + fmt.Sprintf("%040x", 0xa11ce+i) }

// fill creates the pool, its history, its nodes and their reports. Half of the nodes run the new config, and one in a
// hundred changes to it.
func (b *cluster) fill(ctx context.Context) error {
	began := time.Now()
	for _, name := range []string{"bunsen-system", "bunsen-sources"} {
		if err := b.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating the namespace %s: %w", name, err)
		}
	}
	if err := b.roles(ctx); err != nil {
		return err
	}
	for i, config := range []string{before, after} {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: config, Annotations: map[string]string{
			v1alpha1.SourceAnnotation: "os", v1alpha1.RevisionAnnotation: revision(commits - 2 + i),
			v1alpha1.CommitSubjectAnnotation: "chrony: use the servers of the site",
			v1alpha1.CommitAuthorAnnotation:  "Ada <ada@example.com>", v1alpha1.CommitTimeAnnotation: time.Now().UTC().
								Format(time.RFC3339),
		}, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "machineconfiguration.openshift.io/v1",
			Kind:       "MachineConfigPool", Name: pool, UID: "1",
		}}}}
		mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
		if err := b.admin.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating %s: %w", config, err)
		}
	}
	if err := errors.Join(b.source(ctx), b.pool(ctx)); err != nil {
		return err
	}
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(hands)
	for i := range b.nodes {
		group.Go(func() error { return b.node(each, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nThe cluster has %d nodes with %d images each after %s.\n", b.nodes, images,
		time.Since(began).Round(time.Second))
	return nil
}

// roles creates the ClusterRoles for people.
func (b *cluster) roles(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(b.files.Root, "config", "rbac", "people.yaml"))
	if err != nil {
		return fmt.Errorf("reading the roles: %w", err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return fmt.Errorf("reading the roles: %w", err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		if err := b.admin.Create(ctx, &role); err != nil {
			return fmt.Errorf("creating ClusterRole %s: %w", role.Name, err)
		}
	}
	return nil
}

// source creates the GitSource with its history.
func (b *cluster) source(ctx context.Context) error {
	src := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "os"}}
	src.Spec.URL, src.Spec.Ref.Branch, src.Spec.Interval.Duration = "https://git.example.com/os.git", "main",
		time.Minute
	if err := b.admin.Create(ctx, src); err != nil {
		return fmt.Errorf("creating the GitSource: %w", err)
	}
	src.Status.AppliedRevision, src.Status.ObservedRevision = revision(commits-1), revision(commits-1)
	for i := commits - 1; i >= 0; i-- {
		e := v1alpha1.HistoryEntry{Pools: map[string]string{pool: fmt.Sprintf("rendered-worker-%032x", i)}}
		e.Revision, e.Subject, e.Author = revision(i), fmt.Sprintf("chrony: use the servers of site %d", i),
			"Ada <ada@example.com>"
		e.Time = metav1.NewTime(time.Now().Add(time.Duration(i-commits) * time.Hour))
		switch i {
		case commits - 1:
			e.Pools[pool] = after
		case commits - 2:
			e.Pools[pool] = before
		}
		src.Status.History = append(src.Status.History, e)
	}
	if err := b.admin.Status().Update(ctx, src); err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}

// pool creates the pool with the record of its rollout.
func (b *cluster) pool(ctx context.Context) error {
	began := metav1.NewTime(time.Now().Add(-time.Hour).UTC().Truncate(time.Second))
	record := v1alpha1.RolloutRecord{
		Config: after, Began: began, Healthy: before, Before: before,
		Requester: v1alpha1.Requester{Cause: v1alpha1.RolloutCausePush, Revision: revision(commits - 1)},
	}
	var past []v1alpha1.RolloutOutcome
	for i := commits - 2; i >= 0; i-- {
		at := time.Now().Add(time.Duration(i-commits) * time.Hour).UTC().Truncate(time.Second)
		o := v1alpha1.RolloutOutcome{
			Requester: v1alpha1.Requester{Cause: v1alpha1.RolloutCausePush, Revision: revision(i)},
			Config:    fmt.Sprintf("rendered-worker-%032x", i), Result: v1alpha1.RolloutCompleted, Updated: b.nodes,
			Nodes: b.nodes,
		}
		o.Began, o.Ended = metav1.NewTime(at), metav1.NewTime(at.Add(time.Duration(10+i)*time.Minute))
		if i == commits-2 {
			o.Config = before
		}
		past = append(past, o)
	}
	history, err := json.Marshal(past)
	if err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	tenth := intstr.FromString("10%")
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: pool, Annotations: map[string]string{
		v1alpha1.SourceAnnotation: "os", v1alpha1.RevisionAnnotation: revision(commits - 1),
		v1alpha1.RolloutAnnotation: record.String(), v1alpha1.RolloutHistoryAnnotation: string(history),
	}}}
	p.Spec.MaxUnavailable = &tenth
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	p.Spec.MachineConfigSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"machineconfiguration.openshift.io/role": pool},
	}
	p.Spec.Configuration.Name = after
	if err := b.admin.Create(ctx, p); err != nil {
		return fmt.Errorf("creating the pool: %w", err)
	}
	return nil
}

// annotations returns what the daemon of a node reports.
func annotations(i int) map[string]string {
	a := map[string]string{
		v1alpha1.CurrentConfigAnnotation: before, v1alpha1.DesiredConfigAnnotation: before,
		v1alpha1.StateAnnotation: v1alpha1.StateDone,
	}
	switch {
	case i%2 == 0:
		a[v1alpha1.CurrentConfigAnnotation], a[v1alpha1.DesiredConfigAnnotation] = after, after
	case i%100 == 1:
		a[v1alpha1.DesiredConfigAnnotation], a[v1alpha1.StateAnnotation] = after, v1alpha1.StateWorking
	}
	return a
}

// node creates a node as large as that of a kubelet, and the report of its daemon.
func (b *cluster) node(ctx context.Context, i int) error {
	name := nodeName(i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations(i), Labels: map[string]string{
		"node-role.kubernetes.io/worker": "", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones),
		corev1.LabelHostname:   name,
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "m5.2xlarge",
		corev1.LabelTopologyRegion: "region-1",
	}}}
	if err := b.admin.Create(ctx, n); err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure,
		corev1.NodePIDPressure, corev1.NodeReady,
	} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status,
			Reason: "Kubelet", Message: "kubelet is posting its status", LastHeartbeatTime: now,
			LastTransitionTime: now,
		})
	}
	for k := range images {
		image := fmt.Sprintf("registry.example.com/team-%d/application-%d", k%7, k)
		n.Status.Images = append(n.Status.Images,
			corev1.ContainerImage{
				Names:     []string{image + "@sha256:" + fmt.Sprintf("%064x", k), image + ":v1.2.3"},
				SizeBytes: 123456789,
			})
	}
	if err := b.admin.Status().Update(ctx, n); err != nil {
		return fmt.Errorf("writing the status of node %s: %w", name, err)
	}
	report := v1alpha1.DaemonReport{
		Version: "v1.2.3", Form: "service", Seen: metav1.NewTime(time.Now().Add(time.Hour)),
		ConfigsFrom: v1alpha1.ConfigsFromServer,
	}
	of := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{v1alpha1.DaemonAnnotation: report.String()},
	}}
	of.Spec.Node.Name, of.Spec.Pool.Name, of.Spec.ConfigVersion.Desired = name, pool, after
	if err := b.admin.Create(ctx, of); err != nil {
		return fmt.Errorf("creating MachineConfigNode %s: %w", name, err)
	}
	of.Status.Conditions = []metav1.Condition{{
		Type:   string(mcfgv1.MachineConfigNodeUpdateFilesAndOS),
		Status: metav1.ConditionUnknown, Reason: "UnderWay", LastTransitionTime: now,
	}}
	if err := b.admin.Status().Update(ctx, of); err != nil {
		return fmt.Errorf("writing the status of MachineConfigNode %s: %w", name, err)
	}
	return nil
}

// user creates a service account with the rights of a viewer, and returns its token.
func (b *cluster) user(ctx context.Context, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := b.admin.Create(ctx, account); err != nil {
		return "", fmt.Errorf("creating the user %s: %w", name, err)
	}
	for _, role := range []string{"bunsen-viewer", "bunsen-config-viewer"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role}, RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName,
				Kind:     "ClusterRole", Name: role,
			},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}
		if err := b.admin.Create(ctx, binding); err != nil {
			return "", fmt.Errorf("creating a binding of %s: %w", name, err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := b.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("creating a token of %s: %w", name, err)
	}
	return request.Status.Token, nil
}

// change changes the state of a node that waits, as its daemon does, and returns when the API server had accepted that.
func (b *cluster) change(ctx context.Context, i int) (time.Time, error) {
	b.changes++
	state := v1alpha1.StateWorking
	if b.changes%2 == 0 {
		state = v1alpha1.StateDone
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		v1alpha1.DesiredConfigAnnotation: after, v1alpha1.StateAnnotation: state,
		v1alpha1.ReasonAnnotation: fmt.Sprintf("event %d", b.changes),
	}}})
	if err != nil {
		return time.Time{}, err
	}
	began := time.Now()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
	if err := b.admin.Patch(ctx, node, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return began, fmt.Errorf("changing node %s: %w", node.Name, err)
	}
	return began, nil
}
