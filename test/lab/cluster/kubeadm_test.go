package cluster_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

// notReady are the pods of a gate that stays closed: no port of them ever opens.
const notReady = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {web: ""}
      containers: [{name: agent, image: "registry.k8s.io/pause:test", readinessProbe: {tcpSocket: {port: 9}}}]
`

const gate = `apiVersion: bunsen.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents}
spec:
  pools: [worker]
  gates: [{name: agents, daemonSets: [{namespace: default, name: agent}]}]
`

// TestKubeadm: on three control planes and two workers of kubeadm, the previous commit's images are installed and roll
// out a commit to all nodes. While the first nodes of the next rollout drain, an API server and the leader of etcd are
// killed; in the same rollout, which goes zone by zone, Bunsen is upgraded to this commit's images. A health gate stops
// a third rollout, which is reverted. A new machine joins with a pointer config and real Ignition.
func TestKubeadm(t *testing.T) {
	if os.Getenv("BUNSEN_LAB_KUBEADM") != "1" {
		t.Skip("takes ten minutes: make test-cluster")
	}
	previous := cluster.BuildPrevious(t)
	c := cluster.StartKubeadm(t, 3, 2)
	planes, workers := c.Nodes[:3], c.Nodes[3:]
	c.Kubectl("label", "node", "w1", "w2", "web=")
	before, now := previous(c), c.Images()
	phase := cluster.Clock(t)
	install := func(images string) {
		t.Helper()
		if out, err := c.Bunsen("install", "--images", images, "--join-server",
			"https://"+net.JoinHostPort(c.Network.Address(), "6443")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := c.Bunsen("check"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	install(before)
	phase("installed the previous commit")
	c.Apply(pods)
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=2m")

	report := watchAPI(t, c)
	repo := c.NewRepository()
	push := func(text string) {
		files := map[string]string{}
		for _, pool := range []string{"master", "worker"} {
			files["pools/"+pool+"/10-app.bu"] = strings.Replace(app, "TEXT", text, 1)
		}
		repo.Push("The app says "+text, files)
	}
	push("first")
	c.Apply("apiVersion: bunsen.dev/v1alpha1\nkind: GitSource\nmetadata: {name: config}\nspec: {url: \"" + repo.URL +
		"\", ref: {branch: main}, interval: 5s}\n")
	awaitPools(t, c, "first")
	phase("first commit on all nodes, each drained and rebooted; " + report())

	boots := bootsOf(c.Nodes)
	labelZones(c)
	record := c.RecordNodes()
	push("second")
	c.Await("an update has begun", func() bool {
		return strings.Contains(c.Kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}"), "true")
	})
	leader, other := etcdLeader(t, planes)
	leader.Do("pkill", "-KILL", "-x", "etcd")
	other.Do("pkill", "-KILL", "-x", "kube-apiserver")
	t.Logf("killed the leader of etcd on %s and the API server on %s, with %d of 5 nodes left", leader.Name, other.Name,
		without(t, c.Nodes, "second"))
	c.Await("a node has the second commit", func() bool { return without(t, c.Nodes, "second") < 5 })
	phase(fmt.Sprintf("the API server answers again, and the rollout continues; %d of 5 nodes are left",
		without(t, c.Nodes, "second")))
	install(now)
	phase(fmt.Sprintf("upgraded Bunsen in the middle of the second rollout; %d of 5 nodes are left",
		without(t, c.Nodes, "second")))
	awaitPools(t, c, "second")
	phase("second commit on all nodes; " + report())
	checkOrder(t, record)
	for i, n := range bootsOf(c.Nodes) {
		if n != boots[i]+1 {
			t.Errorf("%s booted %d times for the second commit", c.Nodes[i].Name, n-boots[i])
		}
	}
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=2m")
	if out, err := c.Bunsen("status"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	cluster.LogMemory(c)

	c.Apply(notReady)
	boots = bootsOf(workers)
	repo.Push("A gate", map[string]string{"cluster/agents.yaml": gate, "pools/worker/10-app.bu": strings.Replace(app,
		"TEXT", "third", 1)})
	c.Await("the gate holds up the rollout after the first worker", func() bool {
		return strings.Contains(c.Kubectl("get", "mcp", "worker", "-o",
			`jsonpath={.status.conditions[?(@.type=="RolloutBlocked")]}`), "agent")
	})
	t.Log(c.Kubectl("get", "mcp", "worker", "-o", `jsonpath={.status.conditions[?(@.type=="RolloutBlocked")]}`))
	c.Await("bunsen why names the DaemonSet", func() bool {
		out, err := c.Bunsen("why", "worker")
		return err != nil && strings.Contains(out, "agent")
	})
	phase("a gate stops the third rollout")
	repo.Revert()
	awaitPools(t, c, "second")
	updated := 0
	for i, n := range bootsOf(workers) {
		updated += n - boots[i]
	}
	if updated != 2 {
		t.Errorf("the workers rebooted %d times for a commit that one of them got and its revert", updated)
	}
	phase("reverted; " + report())

	born := cluster.Provision(c, "w3", "worker")
	awaitApp(t, c, []*lab.Host{born}, "second")
	c.Await("the new machine is updated", func() bool {
		return c.Kubectl("get", "mcp", "worker", "-o", "jsonpath={.status.updatedMachineCount}") == "3"
	})
	phase("a new machine joined with a pointer config")

	if out, err := c.Bunsen("uninstall"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Await("no pod of Bunsen runs", func() bool {
		return strings.Contains(c.Kubectl("-n", "bunsen-system", "get", "pods"), "No resources found")
	})
	if out := c.Kubectl("get", "nodes", "--no-headers"); strings.Count(out, " Ready ") != 6 {
		t.Errorf("the nodes are\n%s", out)
	}
	phase("uninstalled")
}

// labelZones spreads the nodes over zones, so that the order by zone is another one than the order by age.
func labelZones(c *cluster.Cluster) {
	for zone, nodes := range map[string][]string{"zone-a": {"m3", "w2"}, "zone-b": {"m1", "m2", "w1"}} {
		c.Kubectl(append(append([]string{"label", "node"}, nodes...), "topology.kubernetes.io/zone="+zone)...)
	}
}

// checkOrder checks by the record of the API server that a rollout took one node of each pool at a time, zone by zone,
// the oldest node of a zone first, and the node of the leading controller last.
func checkOrder(t *testing.T, record *cluster.Record) {
	t.Helper()
	steps, planes, others := record.Assignments()
	if planes != 1 || others != 1 {
		t.Errorf("at one moment, %d control planes and %d workers were out of service", planes, others)
	}
	var order []string
	for _, step := range steps {
		order = append(order, step.Node.Name+" in "+step.Node.Zone)
		for _, n := range step.Pool {
			waits := n.Desired != step.Node.Desired
			earlier := n.Zone < step.Node.Zone || n.Zone == step.Node.Zone && n.Number < step.Node.Number
			if waits && earlier && n.Name != step.Leader {
				t.Errorf("%s (%s) got the config before %s (%s), and the leading controller ran on %q", step.Node.Name,
					step.Node.Zone, n.Name, n.Zone, step.Leader)
			}
		}
	}
	if len(order) != 5 {
		t.Errorf("%d nodes got the second commit", len(order))
	}
	t.Logf("the nodes got the second commit in this order: %s; at most %d control plane and %d worker were out of "+
		"service", strings.Join(order, ", "), planes, others)
}

// without returns how many hosts do not run the app with a text.
func without(t *testing.T, hosts []*lab.Host, text string) (n int) {
	t.Helper()
	for _, h := range hosts {
		if out, err := h.Exec(t.Context(), "cat", "/run/app"); err != nil || strings.TrimSpace(out) != text {
			n++
		}
	}
	return n
}

// awaitPools waits until all nodes of the pools master and worker run the app with a text.
func awaitPools(t *testing.T, c *cluster.Cluster, text string) {
	t.Helper()
	awaitApp(t, c, c.Nodes, text)
	c.Kubectl("wait", "--for=condition=Updated", "mcp/master", "--timeout=2m")
}

func bootsOf(hosts []*lab.Host) []int {
	var all []int
	for _, h := range hosts {
		all = append(all, h.Boots())
	}
	return all
}

// etcdLeader returns the node that has the leader of etcd, and another node.
func etcdLeader(t *testing.T, planes []*lab.Host) (leader, other *lab.Host) {
	t.Helper()
	for i, h := range planes {
		out, err := h.Exec(t.Context(), "curl", "--silent", "--max-time", "5", "http://127.0.0.1:2381/metrics")
		if err == nil && strings.Contains(out, "\netcd_server_is_leader 1\n") {
			return h, planes[(i+1)%len(planes)]
		}
	}
	t.Fatal("no member of etcd is the leader")
	return nil, nil
}

// watchAPI sends requests to the API server until the test ends. The function that it returns reports how many failed
// since its last call.
func watchAPI(t *testing.T, c *cluster.Cluster) func() string {
	var sent, failed atomic.Int32
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Network.Dial(ctx, address)
		},
	}}
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			response, err := client.Get("https://" + net.JoinHostPort(c.Network.Address(), "6443") + "/readyz")
			sent.Add(1)
			if err != nil || response.StatusCode != http.StatusOK {
				failed.Add(1)
			}
			if err == nil {
				response.Body.Close()
			}
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() string {
		return fmt.Sprintf("%d of %d requests to the API server failed", failed.Swap(0), sent.Swap(0))
	}
}
