package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

func TestTheConfigsOfANode(t *testing.T) {
	pool := func(name, target string) *mcfgv1.MachineConfigPool {
		p := &mcfgv1.MachineConfigPool{}
		p.Name, p.Spec.Configuration.Name = name, target
		return p
	}
	base := "rendered-worker-" + strings.Repeat("1", 32)
	of := v1alpha1.NodeConfigs{Base: base}
	of.Set("a", "rendered-worker-"+strings.Repeat("2", 32))
	of.Set("b", "rendered-worker-"+strings.Repeat("3", 32))
	target := &mcfgv1.MachineConfig{}
	target.Name, target.Annotations = "rendered-worker-"+strings.Repeat("4", 32),
		map[string]string{v1alpha1.NodeConfigsAnnotation: of.String()}
	text, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) ([]byte, error) {
		switch name {
		case target.Name:
			return text, nil
		case "rendered-infra-away":
			return nil, mcs.ErrAPIUnavailable
		case "rendered-infra-gone":
			return nil, mcs.ErrNoSuchConfig
		}
		return []byte(`{}`), nil
	}
	for says, c := range map[string]struct {
		node     string
		in       []string
		reported []string
		target   string
		want     string
	}{
		"its own variant":                        {"a", []string{"worker"}, nil, target.Name, of.Of("a")},
		"the base, for a node without a variant": {"c", []string{"worker"}, nil, target.Name, base},
		"not what it reports of another node":    {"a", []string{"worker"}, []string{of.Of("b")}, target.Name, of.Of("a")},
		"the base that it booted":                {"a", []string{"worker"}, []string{base, base}, target.Name, of.Of("a") + " " + base},
		"an earlier config that it still runs":   {"a", []string{"worker"}, []string{"rendered-worker-old"}, target.Name, of.Of("a") + " rendered-worker-old"},
		"not what it reports of another pool":    {"a", []string{"worker"}, []string{"rendered-master-1"}, target.Name, of.Of("a")},
		"not what it reports that is no config":  {"a", []string{"worker"}, []string{"", "00-worker"}, target.Name, of.Of("a")},
		"a pool of equal nodes":                  {"a", []string{"infra"}, nil, "rendered-infra-1", "rendered-infra-1"},
		"nothing of a pool whose config is gone": {"a", []string{"infra"}, nil, "rendered-infra-gone", ""},
		"nothing, in no pool":                    {"a", nil, []string{base}, target.Name, ""},
	} {
		t.Run(says, func(t *testing.T) {
			name := v1alpha1.RenderedPool(c.target)
			got, err := VariantConfigs(VariantNode{c.node, c.in, c.reported}, []*mcfgv1.MachineConfigPool{
				pool(name, c.target),
				pool("master", "rendered-master-1"),
			}, read)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("they are %v, %v; want %s", got, err, c.want)
			}
		})
	}
	if _, err := VariantConfigs(VariantNode{Name: "a", Pools: []string{"infra"}},
		[]*mcfgv1.MachineConfigPool{pool("infra", "rendered-infra-away")}, read); !errors.Is(err,
		mcs.ErrAPIUnavailable) {
		t.Errorf("without the API server: %v", err)
	}
}
