package up

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/standalone/pki"

	"github.com/bunsen-os/bunsen/standalone/plane"
)

const (
	namespace = "bunsen-system"
	// serviceIP is the first address of serviceCIDR, at which pods reach the API server.
	serviceIP   = "10.96.0.1"
	serviceCIDR = "10.96.0.0/16"
)

// identities are the files with which components authenticate.
type identities struct {
	ca, caKey, tokenKey      string
	apiserver, kubeletClient pki.Pair
	etcd                     etcdIdentities
	configs                  configs
}

// etcdIdentities are the files with which etcd and the API server authenticate to each other.
type etcdIdentities struct {
	ca             string
	server, client pki.Pair
}

// configs are paths of kubeconfig files. The paths of hosts are by the names of the hosts.
type configs struct {
	admin, manager, scheduler string
	controller, server        string
	notifier                  string
	hosts                     map[string]string
}

// createIdentities creates or renews all keys, certificates and kubeconfig files.
func createIdentities(o options, dir plane.Dir, now time.Time) (identities, error) {
	m := issuer{dir: dir, server: o.apiURL()}
	m.open(now)
	ids := identities{
		tokenKey: filepath.Join(dir.PKI(), "sa.key"),
		apiserver: m.pair(pki.Request{Name: "apiserver", CommonName: "kube-apiserver", Hosts: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", serviceIP,
		}}),
		kubeletClient: m.pair(pki.Request{
			Name: "apiserver-kubelet-client", CommonName: "kube-apiserver-kubelet-client",
			Groups: []string{"system:masters"},
		}),
		configs: configs{
			admin: m.config(dir.Kubeconfig(), pki.Request{
				Name: "admin", CommonName: "admin",
				Groups: []string{"system:masters"},
			}),
			manager: m.identity(pki.Request{
				Name:       "kube-controller-manager",
				CommonName: "system:kube-controller-manager",
			}),
			scheduler: m.identity(pki.Request{Name: "kube-scheduler", CommonName: "system:kube-scheduler"}),
			// The certificates of Bunsen's programs have the names of ServiceAccounts, so that the programs have the
			// same rights as in a cluster.
			controller: m.identity(serviceAccount(controllerProgram)),
			server:     m.identity(serviceAccount(serverProgram)),
			notifier:   m.identity(serviceAccount(notifierName)),
			hosts:      map[string]string{},
		},
	}
	for _, name := range o.hostNames() {
		ids.configs.hosts[name] = m.identity(pki.Request{
			Name: name, CommonName: "system:node:" + name,
			Groups: []string{"system:nodes"},
		})
	}
	ids.etcd = m.database()
	if m.err == nil {
		m.err = pki.EnsureSigningKey(ids.tokenKey)
	}
	if m.err != nil {
		return identities{}, m.err
	}
	ids.ca, ids.caKey = m.ca.CertPath(), m.ca.KeyPath()
	return ids, nil
}

func serviceAccount(name string) pki.Request {
	return pki.Request{
		Name: name, CommonName: "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
}

// issuer issues certificates and stores the first error, so that the caller need not check each call.
type issuer struct {
	dir    plane.Dir
	server string
	ca     *pki.Authority
	etcdCA *pki.Authority
	err    error
}

func (m *issuer) open(now time.Time) {
	if m.ca, m.err = pki.OpenAuthority(m.dir.PKI(), "ca", now); m.err == nil {
		m.etcdCA, m.err = pki.OpenAuthority(m.dir.PKI(), "etcd-ca", now)
	}
}

// database issues the certificates of etcd with a separate CA. A client of etcd bypasses all authorization, so etcd
// must accept no certificate of the cluster's CA.
func (m *issuer) database() etcdIdentities {
	if m.err != nil {
		return etcdIdentities{}
	}
	return etcdIdentities{
		ca: m.etcdCA.CertPath(),
		server: m.signed(m.etcdCA, pki.Request{
			Name: "etcd", CommonName: "etcd",
			Hosts: []string{"localhost", "127.0.0.1"},
		}),
		client: m.signed(m.etcdCA, pki.Request{Name: "apiserver-etcd-client", CommonName: "kube-apiserver"}),
	}
}

func (m *issuer) pair(r pki.Request) pki.Pair { return m.signed(m.ca, r) }

func (m *issuer) signed(by *pki.Authority, r pki.Request) pki.Pair {
	if m.err != nil {
		return pki.Pair{}
	}
	p, err := by.Ensure(r)
	m.err = err
	return p
}

func (m *issuer) identity(r pki.Request) string { return m.config(m.dir.Identity(r.Name), r) }

func (m *issuer) config(path string, r pki.Request) string {
	p := m.pair(r)
	if m.err != nil {
		return ""
	}
	err := pki.WriteKubeconfig(path, pki.Kubeconfig{
		Server: m.server, CA: m.ca.CertPath(), Cert: p.Cert, Key: p.Key,
		User: r.CommonName,
	})
	if err != nil {
		m.err = fmt.Errorf("creating the identity %q: %w", r.Name, err)
	}
	return path
}
