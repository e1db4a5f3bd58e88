package e2e

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// upstream starts the real kube-controller-manager and kube-scheduler beside the API server: budgets are counted, pods
// are made anew and find a node.
func (s *story) upstream(ts *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("upstream")
	}
	standalone, err := s.standalone()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		flags []string
	}{
		{"kube-controller-manager", []string{"--use-service-account-credentials=true"}},
		{"kube-scheduler", nil},
	} {
		config, err := s.cluster.identity(part.name, envtest.User{Name: "system:" + part.name})
		if err != nil {
			return err
		}
		flags := append([]string{part.name, "--kubeconfig=" + config, "--leader-elect=false", "--secure-port=0"},
			part.flags...)
		if err := s.start(ts, part.name, standalone, flags...); err != nil {
			return err
		}
	}
	return nil
}

// standalone is the executable behind the test's API server, which has the other parts as well.
func (s *story) standalone() (string, error) {
	path, err := os.Readlink(filepath.Join(s.assets, "kube-apiserver"))
	if err == nil && filepath.Base(path) != "bunsen-standalone" {
		err = fmt.Errorf("%s is not bunsen-standalone, and has no scheduler: run make assets", path)
	}
	return path, err
}

// kubelets NODE... starts nodes with the real kubelet on a container runtime that runs nothing, and our daemons beside
// it on the directories hosts/NODE; it waits until they are Ready.
func (s *story) kubelets(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("kubelets NODE...")
	}
	standalone, err := s.standalone()
	if err != nil {
		return err
	}
	program := filepath.Join(filepath.Dir(standalone), "hollow-kubelet")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("no kubelet to test with: run make hollow: %w", err)
	}
	for _, node := range args {
		config, err := s.cluster.identity(node, kubelet(node))
		if err != nil {
			return err
		}
		err = s.start(ts, "kubelet-"+node, program, "--kubeconfig", config, "--name", node, "--root",
			filepath.Join(s.work, "kubelets", node))
		if err != nil {
			return err
		}
		if err := s.waitfor(ts, []string{"node/" + node, "condition:Ready", "True .*"}); err != nil {
			return err
		}
		if err := s.daemon(ts, node, "--no-kubelet"); err != nil {
			return err
		}
	}
	for _, node := range args {
		if err := s.waitfor(ts, []string{"node/" + node, "annotation:state", "Done"}); err != nil {
			return err
		}
	}
	return nil
}
