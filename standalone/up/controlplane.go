package up

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/standalone/datadir"
	"github.com/bunsen-os/bunsen/standalone/supervise"
)

// Stages of the start; the stop goes the other way.
const (
	stageDatabase = iota + 1
	stageAPI
	stageUpstream
	stageBunsen
)

// recipes says how each process is started.
type recipes struct {
	o   options
	dir datadir.Dir
	ids identities
}

// memory keeps a process small: it collects garbage often (percent) and hard near a limit (MiB).
func memory(percent, limit int) []string {
	return []string{fmt.Sprintf("GOGC=%d", percent), fmt.Sprintf("GOMEMLIMIT=%dMiB", limit)}
}

func (r recipes) database() supervise.Spec {
	client := fmt.Sprintf("https://127.0.0.1:%d", r.o.ports.etcd)
	peer := fmt.Sprintf("https://127.0.0.1:%d", r.o.ports.etcdPeer)
	return r.part("etcd", stageDatabase, memory(50, 120), 10*time.Second,
		"--name=default", "--data-dir="+r.dir.Etcd(), "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--client-cert-auth", "--trusted-ca-file="+r.ids.etcd.ca,
		"--cert-file="+r.ids.etcd.server.Cert, "--key-file="+r.ids.etcd.server.Key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+r.ids.etcd.ca,
		"--peer-cert-file="+r.ids.etcd.server.Cert, "--peer-key-file="+r.ids.etcd.server.Key,
	)
}

func (r recipes) apiServer() supervise.Spec {
	return r.part("kube-apiserver", stageAPI, memory(50, 450), 10*time.Second,
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", r.o.ports.etcd),
		"--etcd-cafile="+r.ids.etcd.ca, "--etcd-certfile="+r.ids.etcd.client.Cert, "--etcd-keyfile="+r.ids.etcd.client.Key,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", r.o.ports.api),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range="+serviceRange,
		"--tls-cert-file="+r.ids.apiserver.Cert, "--tls-private-key-file="+r.ids.apiserver.Key,
		"--client-ca-file="+r.ids.ca,
		"--kubelet-client-certificate="+r.ids.kubeletClient.Cert, "--kubelet-client-key="+r.ids.kubeletClient.Key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+r.ids.tokenKey, "--service-account-signing-key-file="+r.ids.tokenKey,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true", "--allow-privileged=true",
		// One user on one machine: nothing to be fair about, nobody to profile for.
		"--enable-priority-and-fairness=false", "--profiling=false",
	)
}

func (r recipes) upstream() []supervise.Spec {
	return []supervise.Spec{
		r.part("kube-controller-manager", stageUpstream, memory(50, 150), 5*time.Second,
			"--kubeconfig="+r.ids.configs.manager, "--leader-elect=false", "--secure-port=0", "--profiling=false",
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
			"--root-ca-file="+r.ids.ca, "--service-account-private-key-file="+r.ids.tokenKey, "--use-service-account-credentials=true",
			"--cluster-signing-cert-file="+r.ids.ca, "--cluster-signing-key-file="+r.ids.caKey,
		),
		r.part("kube-scheduler", stageUpstream, memory(50, 100), 5*time.Second,
			"--kubeconfig="+r.ids.configs.scheduler, "--leader-elect=false", "--secure-port=0", "--profiling=false",
		),
	}
}

// virtualHost is how a virtual machine of QEMU, with its user network, reaches the machine that it runs on.
const virtualHost = "10.0.2.2"

// bunsen is the project's own programs: the controllers, the Ignition server and the simulated hosts.
func (r recipes) bunsen() []supervise.Spec {
	specs := []supervise.Spec{
		r.program(controllerProgram, controllerProgram, "--kubeconfig", r.ids.configs.controller, "--store", r.dir.Store()),
		// As in a cluster: whoever asks needs a token, and the certificate lies in a Secret, so that `bunsen pointer` knows
		// the CA. The folder has what a start without API server needs.
		r.program(serverProgram, serverProgram, "--kubeconfig", r.ids.configs.server,
			"--listen", r.o.ignitionAddress(), "--hostnames", virtualHost,
			"--tls-secret", namespace+"/machine-config-server-tls", "--cert-dir", r.dir.Ignition(),
			"--cache-dir", filepath.Join(r.dir.Ignition(), "cache")),
	}
	for _, name := range r.o.hostNames() {
		specs = append(specs, r.program(name, daemonProgram, "simulate", "--node-name", name,
			"--kubeconfig", r.ids.configs.hosts[name], "--root", r.dir.Host(name)))
	}
	return specs
}

// part is an upstream program: this executable under another name.
func (r recipes) part(name string, stage int, env []string, grace time.Duration, args ...string) supervise.Spec {
	return supervise.Spec{Name: name, Path: r.o.self, Args: append([]string{name}, args...), Env: env, Stage: stage, Grace: grace}
}

// program is one of Bunsen's own; name is what this run of it is called.
func (r recipes) program(name, program string, args ...string) supervise.Spec {
	path := filepath.Join(r.o.bin, program)
	return supervise.Spec{
		Name: name, Path: path, Args: append([]string{path}, args...),
		Env:   memory(50, 150),
		Stage: stageBunsen, Grace: 5 * time.Second,
	}
}
