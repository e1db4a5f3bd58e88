package up

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

// The stages of a start. A stop uses these stages in reverse order.
const (
	stageDatabase = iota + 1
	stageAPI
	stageUpstream
	stageBunsen
)

// processes describes how the supervisor starts each process.
type processes struct {
	o   options
	dir plane.Dir
	ids identities
}

// memory returns environment variables that limit the memory of a process: GOGC in percent, GOMEMLIMIT in MiB.
func memory(percent, limit int) []string {
	return []string{fmt.Sprintf("GOGC=%d", percent), fmt.Sprintf("GOMEMLIMIT=%dMiB", limit)}
}

func (r processes) database() plane.ProcessSpec {
	client := fmt.Sprintf("https://127.0.0.1:%d", r.o.ports.etcd)
	peer := fmt.Sprintf("https://127.0.0.1:%d", r.o.ports.etcdPeer)
	args := []string{
		"--name=default", "--data-dir=" + r.dir.Etcd(), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--client-cert-auth", "--trusted-ca-file=" + r.ids.etcd.ca,
		"--cert-file=" + r.ids.etcd.server.Cert, "--key-file=" + r.ids.etcd.server.Key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + r.ids.etcd.ca,
		"--peer-cert-file=" + r.ids.etcd.server.Cert, "--peer-key-file=" + r.ids.etcd.server.Key,
	}
	if r.o.unsafe {
		args = append(args, "--unsafe-no-fsync")
	}
	return r.part(plane.ProcessSpec{Name: "etcd", Stage: stageDatabase, Env: memory(50, 120), Grace: 10 * time.Second},
		args...)
}

func (r processes) apiServer() plane.ProcessSpec {
	return r.part(plane.ProcessSpec{
		Name: "kube-apiserver", Stage: stageAPI, Env: memory(50, 450),
		Grace: 10 * time.Second,
	},
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", r.o.ports.etcd),
		"--etcd-cafile="+r.ids.etcd.ca, "--etcd-certfile="+r.ids.etcd.client.Cert, "--etcd-keyfile="+
			r.ids.etcd.client.Key,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", r.o.ports.api),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range="+serviceCIDR,
		"--tls-cert-file="+r.ids.apiserver.Cert, "--tls-private-key-file="+r.ids.apiserver.Key,
		"--client-ca-file="+r.ids.ca,
		// No DNS server has the names of the nodes, so kubectl logs and kubectl exec need the addresses of the nodes.
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"--kubelet-client-certificate="+r.ids.kubeletClient.Cert, "--kubelet-client-key="+r.ids.kubeletClient.Key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+r.ids.tokenKey, "--service-account-signing-key-file="+r.ids.tokenKey,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true", "--allow-privileged=true",
		// A control plane with one user on one host needs neither fairness of requests nor profiling.
		"--enable-priority-and-fairness=false", "--profiling=false",
	)
}

func (r processes) upstream() []plane.ProcessSpec {
	return []plane.ProcessSpec{
		r.part(plane.ProcessSpec{
			Name: "kube-controller-manager", Stage: stageUpstream, Env: memory(50, 150),
			Grace: 5 * time.Second,
		},
			"--kubeconfig="+r.ids.configs.manager, "--leader-elect=false", "--secure-port=0", "--profiling=false",
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
			"--root-ca-file="+r.ids.ca, "--service-account-private-key-file="+r.ids.tokenKey,
			"--use-service-account-credentials=true",
			"--cluster-signing-cert-file="+r.ids.ca, "--cluster-signing-key-file="+r.ids.caKey,
		),
		r.part(plane.ProcessSpec{
			Name: "kube-scheduler", Stage: stageUpstream, Env: memory(50, 100),
			Grace: 5 * time.Second,
		},
			"--kubeconfig="+r.ids.configs.scheduler, "--leader-elect=false", "--secure-port=0", "--profiling=false",
		),
	}
}

// qemuHost is the address of the host in the user network of a QEMU virtual machine.
const qemuHost = "10.0.2.2"

// bunsen returns the specifications of Bunsen's own programs: the controller, the notifier, the server, the console,
// and a daemon for each simulated host.
func (r processes) bunsen() []plane.ProcessSpec {
	specs := []plane.ProcessSpec{
		r.program(controllerProgram, controllerProgram, "--kubeconfig", r.ids.configs.controller, "--store",
			r.dir.Store()),
		r.program(notifierName, controllerProgram, "notify", "--kubeconfig", r.ids.configs.notifier),
		// As in a cluster, the server's clients need a token, and the server's certificate is in a Secret, so that
		// `bunsen pointer` finds the CA. The folder caches the certificate for a start without an API server.
		r.program(serverProgram, serverProgram, "--kubeconfig", r.ids.configs.server,
			"--listen", r.o.ignitionAddress(), "--hostnames", qemuHost,
			"--tls-secret", namespace+"/machine-config-server-tls", "--cert-dir", r.dir.Ignition(),
			"--cache-dir", filepath.Join(r.dir.Ignition(), "cache")),
		// It watches the cluster only while a page is open. Its address contains a token, which must not be in a log.
		r.program("console", userProgram, "ui", "--kubeconfig", r.dir.Kubeconfig(), "--address-file",
			consoleAddress(r.dir)),
	}
	for _, name := range r.o.hostNames() {
		specs = append(specs, r.program(name, hostProgram, "--node-name", name,
			// The server publishes a URL at which virtual machines reach it.
			"--kubeconfig", r.ids.configs.hosts[name], "--root", r.dir.Host(name), "--server",
			"https://"+r.o.ignitionAddress()))
	}
	return specs
}

// consoleAddress is the file with the address of the console. It contains a token, so only the user can read it.
func consoleAddress(dir plane.Dir) string { return filepath.Join(string(dir), "console") }

// part completes the specification of an upstream program: this executable under another name.
func (r processes) part(spec plane.ProcessSpec, args ...string) plane.ProcessSpec {
	spec.Path, spec.Args = r.o.self, append([]string{spec.Name}, args...)
	return spec
}

// program returns the specification of one of Bunsen's programs. The parameter name identifies the process.
func (r processes) program(name, program string, args ...string) plane.ProcessSpec {
	path := filepath.Join(r.o.bin, program)
	return plane.ProcessSpec{
		Name: name, Path: path, Args: append([]string{path}, args...),
		Env:   memory(50, 150),
		Stage: stageBunsen, Grace: 5 * time.Second,
	}
}
