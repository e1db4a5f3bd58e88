package rights

import (
	"fmt"
	"slices"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reconcilepools "github.com/bunsen-os/bunsen/reconcile/pools"
)

// kubelet is the identity of a node.
func kubelet(node string) identity {
	return identity{user: "system:node:" + node, groups: []string{"system:nodes", authenticated}}
}

// registration is a table with one row: a kubelet creates its Node with labels. An empty refusal stands for an allowed
// request.
func registration(node, labels, refusal string) table {
	body := fmt.Appendf(nil, "{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", node, labels)
	return table{
		rows: []row{{
			verb: "create", resource: "nodes", name: node, body: labels, allowed: refusal == "",
			says: refusal,
		}},
		bodies: map[string][]byte{labels: body},
	}
}

// registers creates Node worker-9 as its kubelet does, with labels of its own choice.
func (s server) registers(t *testing.T) {
	for labels, refusal := range map[string]string{
		`example.com/gpu: "true"`:                       "MachineConfigPool gpu selects its nodes by the label example.com/gpu, so a node does not set it on itself. An administrator does (kubectl label node worker-9 ...)",
		`kubernetes.io/os: linux, example.com/rack: a`:  "racked selects its nodes by the label example.com/rack",
		`example.com/rack: a, example.com/gpu: "true"`:  "gpu selects its nodes by the label example.com/gpu",
		`node-role.kubernetes.io/infra: ""`:             "node-role.kubernetes.io/infra",
		`node-restriction.kubernetes.io/team: payments`: "node-restriction.kubernetes.io/team",
		`bunsen.dev/tier: edge`:                         "no label bunsen.dev/*",
		`kubernetes.io/hostname: worker-9, kubernetes.io/os: linux, kubernetes.io/arch: amd64, topology.kubernetes.io/zone: a`: "",
		`example.com/disk: ssd`: "",
		``:                      "",
	} {
		s.checkAll(t, kubelet("worker-9"), registration("worker-9", labels, refusal))
	}
}

// publishLabels writes the labels of all pools, and of some more pools, to the ConfigMap of the admission policy, with
// the rights of the controller.
func (s server) publishLabels(t *testing.T, more int) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, mcfgv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	connect := func(config *rest.Config) client.Client {
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pools := &mcfgv1.MachineConfigPoolList{}
	if err := connect(s.admin).List(t.Context(), pools); err != nil {
		t.Fatal(err)
	}
	for i := range more {
		pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("many-", i)}}
		pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint("example.com/pool-",
			i): ""}}
		pools.Items = append(pools.Items, pool)
	}
	configMap := applycorev1.ConfigMap(reconcilepools.LabelKeysConfigMap,
		"bunsen-system").WithData(reconcilepools.LabelKeys(pools.Items))
	if err := connect(s.as(identities["controller"])).Apply(t.Context(), configMap,
		client.FieldOwner("rights")); err != nil {
		t.Fatal(err)
	}
}

// TestNodesSetNoRoles has kubelets set roles on an API server without the plug-in NodeRestriction, on which the
// controller has never run. So no list of pools exists, and only the policy of the daemon protects pools that select by
// such a label.
func TestNodesSetNoRoles(t *testing.T) {
	s := start(t)
	for labels, refusal := range map[string]string{
		`node-role.kubernetes.io/infra: ""`:                                             "node-role.kubernetes.io/infra of its Node. An administrator does (kubectl label node worker-9 ...)",
		`node-role.kubernetes.io/control-plane: "", node-role.kubernetes.io/worker: ""`: "does not set, change or remove the label node-role.kubernetes.io/control-plane of its Node",
		`node-role.kubernetes.io/worker: ""`:                                            "",
		`kubernetes.io/os: linux, example.com/disk: ssd`:                                "",
	} {
		s.checkAll(t, kubelet("worker-9"), registration("worker-9", labels, refusal))
	}
	worker := readTable(t, "daemon")
	worker.rows = slices.DeleteFunc(worker.rows, func(r row) bool { return !slices.Contains(roleBodies, r.body) })
	if len(worker.rows) != len(roleBodies) {
		t.Errorf("the table of the daemon has %d rows, want one for each of %q", len(worker.rows), roleBodies)
	}
	s.checkAll(t, kubelet("worker-0"), worker)
}

// roleBodies are the bodies in the table of the daemon with which it changes its roles.
var roleBodies = []string{"role.yaml", "control-plane.yaml"}
