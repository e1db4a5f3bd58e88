package cluster_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/test/lab"
	"github.com/bunsen-os/bunsen/test/lab/cluster"
)

const app = `variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/app.conf
      mode: 0644
      contents: {inline: "TEXT\n"}
systemd:
  units:
    - name: app.service
      enabled: true
      contents: |
        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/bin/sh -c 'cat /etc/app.conf > /run/app'
        [Install]
        WantedBy=multi-user.target
`

// pods are two replicas of a program that does nothing. Their budget lets one of them go at a time.
const pods = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {web: ""}
      containers: [{name: web, image: "registry.k8s.io/pause:test"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
`

// TestInstall: Bunsen's own images are installed on a cluster of real kubelets, roll out commits with drains of real
// pods and reboots of the hosts, and are removed. The second commit is a change that was made on a host and adopted.
func TestInstall(t *testing.T) {
	c := cluster.Start(t, "n1", "n2", "n3")
	workers := c.Nodes[1:]
	c.Kubectl("label", "node", "n1", "node-role.kubernetes.io/control-plane=")
	c.Kubectl("label", "node", "n2", "n3", "web=")
	images := c.Images()
	phase := cluster.Clock(t)
	if out, err := c.Bunsen("install", "--images", images); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := c.Bunsen("check"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	phase("installed")
	c.Apply(pods)
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=2m")

	repo := c.NewRepository()
	repo.Push("An app", map[string]string{
		"pools/worker/10-app.bu": strings.Replace(app, "TEXT", "first", 1),
		"pools/worker/20-env.bu": env, "cluster/machine-configuration.yaml": marks,
	})
	c.Apply("apiVersion: bunsen.dev/v1alpha1\nkind: GitSource\nmetadata: {name: config}\nspec: {url: \"" + repo.URL +
		"\", ref: {branch: main}, interval: 5s}\n")
	awaitApp(t, c, workers, "first")
	phase("first commit on both workers")

	boots := bootsOf(workers)
	adoptDrift(t, c, repo, workers[0])
	phase("drift of two files, shown by exec in the daemon's pod; one of them adopted")
	repo.Push("What an operator changed on a host", nil)
	awaitApp(t, c, workers, "second")
	for i, h := range workers {
		if h.Boots() != boots[i]+1 {
			t.Errorf("%s booted %d times for the second commit", h.Name, h.Boots()-boots[i])
		}
	}
	c.Kubectl("rollout", "status", "deployment/web", "--timeout=2m")
	phase("second commit, with drains under a budget and a reboot each")
	if out, err := c.Bunsen("status"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	tryRealNode(t, c, workers[0])
	phase("the trial of test/real on one worker")

	cluster.LogMemory(c)
	c.Kubectl("wait", "--for=condition=Available", "bunsenstatus/cluster", "--timeout=2m")
	supportBundle(t, c)

	if out, err := c.Bunsen("uninstall"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Await("no pod of Bunsen runs", func() bool {
		return strings.Contains(c.Kubectl("-n", "bunsen-system", "get", "pods"), "No resources found")
	})
	if out := c.Kubectl("get", "nodes", "--no-headers"); strings.Count(out, " Ready ") != 3 {
		t.Errorf("the nodes are\n%s", out)
	}
	phase("uninstalled")
}

// supportBundle collects a bundle, which has the logs of each program from the kubelets.
func supportBundle(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if out, err := c.Bunsen("support-bundle", "--output", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names, err := exec.CommandContext(t.Context(), "tar", "-tzf", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, names)
	}
	for _, program := range []string{"machine-config-controller", "machine-config-server", "machine-config-daemon"} {
		if !regexp.MustCompile("/logs/" + program + "-[^/]+/.*[.]log\n").Match(names) {
			t.Errorf("the bundle has no log of %s:\n%s", program, names)
		}
	}
}

// awaitApp waits until each host runs the app with a text, and the pool worker is updated.
func awaitApp(t *testing.T, c *cluster.Cluster, hosts []*lab.Host, text string) {
	t.Helper()
	c.Await("all hosts run "+text, func() bool {
		for _, h := range hosts {
			if out, err := h.Exec(t.Context(), "cat", "/run/app"); err != nil || strings.TrimSpace(out) != text {
				return false
			}
		}
		return true
	})
	c.Kubectl("wait", "--for=condition=Updated", "mcp/worker", "--timeout=2m")
}
