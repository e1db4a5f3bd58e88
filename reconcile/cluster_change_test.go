package reconcile_test

import (
	"crypto/sha512"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

const madeByHand = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-by-hand
  labels: {machineconfiguration.openshift.io/role: worker}
spec:
  kernelArguments: [quiet]
`

// apiChanges: a change through the API is recorded with the field manager and the time that the API server has, and a
// standard pool that a user edits is restored.
func (s *stage) apiChanges() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "by-hand.yaml")
	if err := os.WriteFile(file, []byte(madeByHand), 0o600); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now().Add(-time.Second)
	s.kubectl("apply", "-f", file)
	s.requested("worker", "MachineConfig 99-by-hand Created by kubectl-client-side-apply", began)
	s.kubectl("patch", "mc", "99-by-hand", "--type=merge", "-p", `{"spec":{"kernelArguments":["debug"]}}`)
	s.requested("worker", "MachineConfig 99-by-hand Changed by kubectl-patch", began)
	s.kubectl("delete", "mc", "99-by-hand")
	s.requested("worker", "MachineConfig 99-by-hand Deleted by ", began)

	role := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: name}}
	}
	s.push("another greeting for masters", "worker/10-motd.bu=hello", "master/10-motd.bu=welcome")
	s.create(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: role("worker"),
		NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}},
	}})
	s.eventually("rendering pool mine", func() error {
		p := &mcfgv1.MachineConfigPool{}
		if err := s.get("mine", p); err != nil || p.Spec.Configuration.Name == "" {
			return fmt.Errorf("no config, %v", err)
		}
		return nil
	})
	s.kubectl("patch", "mcp", "mine", "--type=json", "--field-manager=someone", "-p",
		`[{"op":"replace","path":"/spec/machineConfigSelector","value":{"matchExpressions":[{"key":"`+
			v1alpha1.RoleLabel+`","operator":"In","values":["master"]}]}}]`)
	s.requested("mine", "MachineConfigPool mine Changed by someone", began)
	s.standardPoolEdited()
	s.standardPoolDeleted()
	s.kubectl("annotate", "machineconfigurations.operator.openshift.io", "cluster",
		v1alpha1.SecretPathsAnnotation+"=/etc/motd")
	s.eventually("marking a file of pool worker", func() error {
		p := &mcfgv1.MachineConfigPool{}
		err := s.get("worker", p)
		if is := p.Annotations[v1alpha1.PoolSecretPathsAnnotation]; err != nil || is != "/etc/motd" {
			return fmt.Errorf("the secret paths are %q, %v", is, err)
		}
		return nil
	})
}

// missingContent: a MachineConfig through the API names a file that the content store does not have. The pool keeps its
// config and names the file, until the content store has it.
func (s *stage) missingContent() {
	s.t.Helper()
	file := machineconfig.LargeFile{
		Hash: fmt.Sprintf("sha512-%x", sha512.Sum512([]byte("the agent"))), Size: int64(len("the agent")),
		Name: "agent",
		FS:   fstest.MapFS{"agent": {Data: []byte("the agent")}},
	}
	before := &mcfgv1.MachineConfigPool{}
	if err := s.get("worker", before); err != nil {
		s.t.Fatal(err)
	}
	becomes := func(condition string, isSame bool) {
		s.t.Helper()
		s.eventually("rendering pool worker", func() error {
			p := &mcfgv1.MachineConfigPool{}
			if err := s.get("worker", p); err != nil {
				return err
			}
			is := controllertest.PoolCondition(p, mcfgv1.MachineConfigPoolRenderDegraded)
			if !strings.Contains(is, condition) ||
				(p.Spec.Configuration.Name == before.Spec.Configuration.Name) != isSame {
				return fmt.Errorf("%s: %s", p.Spec.Configuration.Name, is)
			}
			return nil
		})
	}
	agent := controllertest.ManualConfig("99-agent", "worker", fmt.Sprintf(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/opt/agent","contents":{"source":%q,"verification":{"hash":%q}}}]}}`, machineconfig.StoredSource(file.Hash), file.Hash))
	s.create(agent)
	becomes("file /opt/agent of MachineConfig 99-agent names the content store", true)
	if err := s.registry.Push(s.t.Context(), file); err != nil {
		s.t.Fatal(err)
	}
	becomes("False", false)
	if err := s.admin.Delete(s.t.Context(), agent); err != nil {
		s.t.Fatal(err)
	}
	becomes("False", true)
}

// requested waits until the record of a pool's target names the change through the API that asked for it, or that took
// one back.
func (s *stage) requested(pool, want string, since time.Time) {
	s.t.Helper()
	s.eventually("the record of "+want, func() error {
		p := &mcfgv1.MachineConfigPool{}
		if err := s.get(pool, p); err != nil {
			return err
		}
		target, err := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation])
		changes := slices.Concat(target.API, target.After)
		if err != nil || len(changes) != 1 {
			return fmt.Errorf("%+v, %v", target, err)
		}
		c := changes[0]
		if got := fmt.Sprintf("%s %s %s by %s", c.Kind, c.Name, c.Action, c.Manager); got != want {
			return fmt.Errorf("got %q", got)
		}
		if c.At.Before(&metav1.Time{Time: since}) || c.At.After(time.Now()) {
			return fmt.Errorf("it was at %s, and the test began at %s", c.At, since)
		}
		return nil
	})
}

// standardPoolEdited: the controller restores what it set of pool worker, and names who changed it. What it never set
// stays.
func (s *stage) standardPoolEdited() {
	s.t.Helper()
	s.kubectl("patch", "mcp", "worker", "--type=merge", "--field-manager=someone", "-p",
		`{"spec":{"maxUnavailable":3,"nodeSelector":{"matchLabels":{"mine":"yes"}}}}`)
	s.eventually("restoring pool worker", func() error {
		p := &mcfgv1.MachineConfigPool{}
		if err := s.get("worker", p); err != nil || len(p.Spec.NodeSelector.MatchLabels) > 0 ||
			len(p.Spec.NodeSelector.MatchExpressions) != 2 || p.Spec.MaxUnavailable.IntValue() != 3 {
			return fmt.Errorf("%+v, %v", p.Spec, err)
		}
		return nil
	})
	s.eventually("the event", func() error {
		var list eventsv1.EventList
		if err := s.admin.List(s.t.Context(), &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "Restored" && strings.Contains(e.Note, "restored spec.nodeSelector of MachineConfigPool "+
				"worker, changed through the API by someone") {
				return nil
			}
		}
		return errors.New("no event Restored that names pool worker")
	})
}

// standardPoolDeleted: a user deletes pool worker while nodes fail a commit. The pool that the controller creates again
// records the config that the nodes ran before as the last healthy one, so that new machines get that one.
func (s *stage) standardPoolDeleted() {
	s.t.Helper()
	edit(s, "n0", &corev1.Node{}, func(n *corev1.Node) { // its drain is over
		n.Spec.Unschedulable = false
		for _, key := range []string{
			v1alpha1.DesiredDrainAnnotation, v1alpha1.LastAppliedDrainAnnotation,
			v1alpha1.CordonedAnnotation,
		} {
			delete(n.Annotations, key)
		}
	})
	good := &mcfgv1.MachineConfigPool{}
	s.eventually("all nodes run one config", func() error {
		s.finish("n0")
		s.finish("n1")
		err := s.get("worker", good)
		if target := good.Spec.Configuration.Name; err != nil || target == "" ||
			good.Status.Configuration.Name != target || len(s.told("n0", "n1")) > 0 {
			return fmt.Errorf("target %q, status %q, %v", target, good.Status.Configuration.Name, err)
		}
		return nil
	})
	s.push("a bad greeting", "worker/10-motd.bu=bad", "master/10-motd.bu=welcome")
	s.eventually("assigning the bad config", func() error {
		if len(s.told("n0", "n1")) == 0 {
			return errors.New("no node is assigned another config")
		}
		return nil
	})
	s.daemonSays(s.told("n0", "n1")[0], v1alpha1.StateDegraded, "no space left on device")
	before := &mcfgv1.MachineConfigPool{}
	if err := s.get("worker", before); err != nil {
		s.t.Fatal(err)
	}
	s.kubectl("delete", "mcp", "worker", "--wait=false")
	s.eventually("keeping the records of the new pool", func() error {
		p := &mcfgv1.MachineConfigPool{}
		err := s.get("worker", p)
		record, _ := v1alpha1.ParseRolloutRecord(p.Annotations[v1alpha1.RolloutAnnotation])
		if err != nil || p.UID == good.UID || record.Config == "" || record.Config == good.Spec.Configuration.Name ||
			record.Healthy != good.Spec.Configuration.Name {
			return fmt.Errorf("target %q, record %+v, want healthy %q, %v", p.Spec.Configuration.Name, record,
				good.Spec.Configuration.Name, err)
		}
		was, _ := v1alpha1.ParsePoolTarget(before.Annotations[v1alpha1.TargetAnnotation])
		is, _ := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation])
		past, _ := v1alpha1.ParseRolloutHistory(p.Annotations[v1alpha1.RolloutHistoryAnnotation])
		if is.Revision != was.Revision || is.Config != was.Config || len(past) == 0 {
			return fmt.Errorf("the record of the target is %+v, was %+v; %d past rollouts", is, was, len(past))
		}
		name, err := mcs.ConfigToServe(*p, v1alpha1.ServeHealthy)
		if name != good.Spec.Configuration.Name {
			return fmt.Errorf("new machines get %q, want %q, %v", name, good.Spec.Configuration.Name, err)
		}
		return nil
	})
}
