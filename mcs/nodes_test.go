package mcs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// named is a config under the name of its content.
func named(t *testing.T, path string) *mcfgv1.MachineConfig {
	t.Helper()
	mc := config("", path)
	name, err := machineconfig.RenderedName("worker", mc.Spec)
	if err != nil {
		t.Fatal(err)
	}
	mc.Name = name
	return mc
}

func TestANodeGetsItsOwnConfigAndNobodyElses(t *testing.T) {
	base, own := named(t, "/etc/of-the-pool"), named(t, "/etc/of-worker-2")
	nodes := v1alpha1.NodeConfigs{Base: base.Name}
	nodes.Set("worker-2", own.Name)
	target := base.DeepCopy()
	target.Name, target.Annotations = machineconfig.TargetName(nodes),
		map[string]string{v1alpha1.NodeConfigsAnnotation: nodes.String()}
	s := NewPools()
	put(t, s, "worker", target)
	body := func(node string) (name, text string, err error) {
		c, err := s.NodeConfig("worker", node)
		if err != nil {
			return "", "", err
		}
		b, err := c.Body(ServedFormat{Version: Newest}, nil)
		return c.Name(), string(b.Head) + string(b.Tail), err
	}
	for _, node := range []string{"", "worker-1"} {
		_, text, err := body(node)
		if err != nil || !strings.Contains(text, "/etc/of-the-pool") || strings.Contains(text, "of-worker-2") ||
			strings.Contains(text, target.Name) || !strings.Contains(text, base.Name) {
			t.Errorf("node %q gets %s, %v", node, text, err)
		}
	}
	if _, _, err := body("worker-2"); !errors.Is(err, ErrNothingRendered) {
		t.Errorf("without a reader, worker-2 has to retry: %v", err)
	}
	answer := []byte("{")
	s.SetReader(func(name string) ([]byte, error) {
		if name != own.Name {
			t.Errorf("read %s", name)
		}
		return answer, nil
	})
	if _, _, err := body("worker-2"); !errors.Is(err, ErrNothingRendered) {
		t.Errorf("an answer that is no config: %v", err)
	}
	answer, _ = json.Marshal(base) // the content of another node under the wrong name
	if _, _, err := body("worker-2"); !errors.Is(err, ErrNothingRendered) {
		t.Errorf("another config: %v", err)
	}
	answer, _ = json.Marshal(own)
	name, text, err := body("worker-2")
	if err != nil || name != own.Name || !strings.Contains(text, "/etc/of-worker-2") {
		t.Errorf("worker-2 gets %s %s, %v", name, text, err)
	}
	if status := s.Status()["worker"]; status.Config != target.Name {
		t.Errorf("the status names %s, want the target %s", status.Config, target.Name)
	}
}
