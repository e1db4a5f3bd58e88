package reconcile_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/approve"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// joins is a real API server on which machines with real bootstrap tokens ask for certificates. No manager runs: each
// pass of the controller is a call.
type joins struct {
	*stage
	config  *rest.Config
	approve *approve.Controller
	events  *controllertest.Events
	keys    map[string]*ecdsa.PrivateKey
}

func newJoins(t *testing.T) *joins {
	t.Helper()
	env, rc := startServer(t, map[string]string{
		"enable-bootstrap-token-auth": "true",
		"authorization-mode":          "Node,RBAC",
	})
	s := &joins{
		stage: &stage{t: t, log: &notes{}, dir: env.BinaryAssetsDirectory}, config: rc,
		keys: map[string]*ecdsa.PrivateKey{},
	}
	var err error
	if s.admin, err = client.New(rc, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"namespace/namespace.yaml", "rbac/controller.yaml", "rbac/controller-admission.yaml",
		"rbac/server.yaml",
	} {
		s.apply(filepath.Join("..", "config", file))
	}
	s.kubeconfig(env.KubeConfig)
	s.restart()
	return s
}

// restart begins with a controller that remembers nothing.
func (s *joins) restart() {
	c := s.asController()
	s.events = &controllertest.Events{}
	s.approve = &approve.Controller{Client: c, Live: c, Events: s.events, Now: time.Now}
}

func (s *joins) pass() {
	s.t.Helper()
	if _, err := s.approve.Reconcile(ctrl.LoggerInto(s.t.Context(), logr.Discard()), reconcile.Request{}); err != nil {
		s.t.Fatal(err)
	}
}

// bootstrapToken is what machine-config-server creates for a machine; it returns a client that shows it.
func (s *joins) bootstrapToken(id string, groups ...string) client.Client {
	s.t.Helper()
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: "kube-system"},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
			"expiration":        time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			"auth-extra-groups": strings.Join(append([]string{v1alpha1.BootstrapGroup}, groups...), ","),
		},
	})
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken, config.QPS = id+".0123456789abcdef", -1
	var machine client.Client
	s.eventually("the API server to know the token", func() (err error) {
		if machine, err = client.New(config, client.Options{Scheme: s.admin.Scheme()}); err != nil {
			return err
		}
		return machine.List(s.t.Context(), &certificatesv1.CertificateSigningRequestList{})
	})
	return machine
}

// ask sends a request for a node's certificate, as its kubelet does.
func (s *joins) ask(machine client.Client, name, node, key string, edit ...func(*x509.CertificateRequest,
	*certificatesv1.CertificateSigningRequest),
) {
	s.t.Helper()
	if s.keys[key] == nil {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		s.must(err)
		s.keys[key] = k
	}
	body := &x509.CertificateRequest{Subject: pkix.Name{
		CommonName:   "system:node:" + node,
		Organization: []string{"system:nodes"},
	}}
	r := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	for _, e := range edit {
		e(body, r)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, body, s.keys[key])
	s.must(err)
	r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	s.must(machine.Create(s.t.Context(), r))
}

// decided is the condition of a request: its type, its reason, and a message that has no secret.
func (s *joins) decided(name string) string {
	s.t.Helper()
	r := &certificatesv1.CertificateSigningRequest{}
	s.must(s.get(name, r))
	var out []string
	for _, c := range r.Status.Conditions {
		out = append(out, string(c.Type)+" "+c.Reason)
		if c.LastUpdateTime.IsZero() {
			s.t.Errorf("the API server set no time on %s, by which the use of a token is remembered", name)
		}
		if strings.Contains(c.Message, "0123456789abcdef") {
			s.t.Errorf("the message of %s has the token's secret", name)
		}
	}
	return strings.Join(out, ", ")
}

// TestMachinesJoinOnARealAPIServer is what a holder of a bootstrap token can get out of it.
func TestMachinesJoinOnARealAPIServer(t *testing.T) {
	t.Parallel()
	s := newJoins(t)
	s.newNode("w1")
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   "cp-1",
		Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
	}})
	worker, infra := v1alpha1.PoolGroup("worker", ""), v1alpha1.PoolGroup("infra", "")
	pool := s.bootstrapToken("poolaa", worker)
	s.tokenOfAPool(pool)
	s.tokenOfANode()
	s.reservedName()
	s.otherApprovers()
	s.storm()

	s.ask(s.bootstrapToken("twoaaa", worker, infra), "two-pools", "w20", "k20")
	s.pass()
	controllertest.Equal(t, "a token of two pools", s.decided("two-pools"), "Denied BunsenSeveralPools")
}

// tokenOfAPool tries to become what a token of a pool does not let in, and then joins, once.
func (s *joins) tokenOfAPool(pool client.Client) {
	t := s.t
	type csr = certificatesv1.CertificateSigningRequest
	s.ask(pool, "existing", "w1", "k1")
	s.ask(pool, "control-plane", "cp-1", "k1")
	s.ask(pool, "masters", "w2", "k1", func(b *x509.CertificateRequest, _ *csr) {
		b.Subject.Organization = []string{"system:masters"}
	})
	s.ask(pool, "more-groups", "w2", "k1", func(b *x509.CertificateRequest, _ *csr) {
		b.Subject.Organization = []string{"system:nodes", "system:masters"}
	})
	s.ask(pool, "names", "w2", "k1", func(b *x509.CertificateRequest, _ *csr) {
		b.DNSNames, b.IPAddresses = []string{"kubernetes.default"}, []net.IP{net.IPv4(10, 0, 0, 1)}
	})
	s.ask(pool, "usages", "w2", "k1", func(_ *x509.CertificateRequest, r *csr) {
		r.Spec.Usages = []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth,
			certificatesv1.UsageServerAuth,
		}
	})
	s.ask(pool, "short", "w2", "k1", func(_ *x509.CertificateRequest, r *csr) {
		r.Spec.ExpirationSeconds = new(int32(600))
	})
	s.ask(pool, "serving", "w2", "k1", func(b *x509.CertificateRequest, r *csr) {
		b.DNSNames, r.Spec.SignerName = []string{"w2"}, certificatesv1.KubeletServingSignerName
		r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	})
	s.pass()
	for name, want := range map[string]string{
		"existing": "Denied BunsenNodeExists", "control-plane": "Denied BunsenControlPlaneNode",
		"masters":     "Denied BunsenInvalidRequest",
		"more-groups": "Denied BunsenInvalidRequest", "names": "Denied BunsenInvalidRequest",
		"usages": "Denied BunsenInvalidRequest",
		"short":  "Denied BunsenInvalidRequest", "serving": "",
	} {
		controllertest.Equal(t, "request "+name, s.decided(name), want)
	}
	controllertest.Equal(t, "events", len(s.events.Lines), 7)
	controllertest.Contains(t, "the events", strings.Join(s.events.Lines, "\n"), "MachineDenied",
		`certificate request "existing": node "w1" exists, and bootstrap token poolaa is for new machines`)

	// The token is good for one machine, whatever was tried with it before. Its kubelet may ask again.
	s.ask(pool, "join", "w2", "k2")
	s.pass()
	controllertest.Equal(t, "the machine", s.decided("join"), "Approved BunsenApproved")
	s.ask(pool, "again", "w2", "k2")
	s.ask(pool, "stolen", "w3", "k3")
	s.ask(pool, "same-name", "w2", "k3")
	s.pass()
	controllertest.Equal(t, "the kubelet asks again", s.decided("again"), "Approved BunsenApproved")
	controllertest.Equal(t, "a second machine", s.decided("stolen"), "Denied BunsenTokenUsed")
	controllertest.Equal(t, "a second machine of the same name", s.decided("same-name"), "Denied BunsenTokenUsed")

	// A controller that starts again reads that from the requests, and one that runs also knows it of deleted requests.
	s.newNode("w2")
	s.ask(pool, "without-a-record", "w4", "k4")
	for _, name := range []string{"join", "again"} {
		s.must(s.admin.Delete(t.Context(),
			&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	s.pass()
	controllertest.Equal(t, "a second machine, after the records were deleted", s.decided("without-a-record"),
		"Denied BunsenTokenUsed")
	s.ask(s.bootstrapToken("poolab", v1alpha1.PoolGroup("worker", "")), "join-5", "w5", "k5")
	s.pass()
	s.restart()
	s.ask(s.bootstrapToken("poolac", v1alpha1.PoolGroup("worker", "")), "taken", "w5", "k6")
	s.pass()
	controllertest.Equal(t, "the name of a machine that has no Node yet", s.decided("taken"), "Denied BunsenNameTaken")
}

// tokenOfANode is for one name, which may be that of an existing Node.
func (s *joins) tokenOfANode() {
	t := s.t
	s.newNode("w10")
	node := s.bootstrapToken("nodeaa", v1alpha1.PoolGroup("worker", "w10"))
	s.ask(node, "other-name", "w11", "k10")
	s.ask(node, "again-w10", "w10", "k10")
	s.ask(s.bootstrapToken("nodeab", v1alpha1.PoolGroup("master", "cp-1")), "again-cp-1", "cp-1", "k11")
	s.pass()
	controllertest.Equal(t, "another name", s.decided("other-name"), "Denied BunsenOtherNode")
	controllertest.Equal(t, "a node that is provisioned again", s.decided("again-w10"), "Approved BunsenApproved")
	controllertest.Equal(t, "a node of the control plane", s.decided("again-cp-1"), "Denied BunsenControlPlaneNode")
	s.restart()
	s.ask(node, "stolen-w10", "w10", "k12")
	s.pass()
	controllertest.Equal(t, "its token, stolen afterwards", s.decided("stolen-w10"), "Denied BunsenTokenUsed")
}

// reservedName: a token of a pool does not get the name that a provisioning token reserves for its node.
func (s *joins) reservedName() {
	t := s.t
	s.create(&v1alpha1.ProvisioningToken{
		ObjectMeta: metav1.ObjectMeta{Name: "reserver"},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: "db", Node: "db-1", Expires: metav1.NewTime(time.Now().Add(time.Hour)), Hash: strings.Repeat("0", 64),
		},
	})
	s.ask(s.bootstrapToken("poolae", v1alpha1.PoolGroup("worker", "")), "thief", "db-1", "k40")
	s.approve.Live = withoutTokens{s.approve.Client}
	if _, err := s.approve.Reconcile(ctrl.LoggerInto(t.Context(), logr.Discard()), reconcile.Request{}); err == nil {
		t.Error("a pass that cannot read the provisioning tokens succeeds")
	}
	controllertest.Equal(t, "the request, while the tokens cannot be read", s.decided("thief"), "")
	s.approve.Live = s.approve.Client
	s.pass()
	controllertest.Equal(t, "the reserved name", s.decided("thief"), "Denied BunsenNameReserved")
	s.ask(s.bootstrapToken("nodeac", v1alpha1.PoolGroup("db", "db-1")), "db-1", "db-1", "k41")
	s.ask(s.bootstrapToken("nodead", v1alpha1.PoolGroup("db", "db-1")), "second-db-1", "db-1", "k42")
	s.approve.Live = withoutTokens{s.approve.Client} // requests by tokens of nodes need no list
	s.pass()
	s.approve.Live = s.approve.Client
	controllertest.Equal(t, "the node's own token", s.decided("db-1"), "Approved BunsenApproved")
	controllertest.Equal(t, "a second machine with a token of the node", s.decided("second-db-1"),
		"Denied BunsenNameTaken")
}

// withoutTokens is a reader that fails to list provisioning tokens.
type withoutTokens struct{ client.Reader }

func (r withoutTokens) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*v1alpha1.ProvisioningTokenList); is {
		return errors.New("no provisioning tokens today")
	}
	return r.Reader.List(ctx, list, opts...)
}

// otherApprovers: kube-controller-manager may have rights from roles for all bootstrap tokens, and still leaves ours
// alone.
func (s *joins) otherApprovers() {
	s.ask(s.bootstrapToken("poolad", v1alpha1.PoolGroup("worker", "")), "undecided", "w1", "k1")
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:certificate-controller",
		Groups:   []string{"system:masters"},
	}
	other, err := client.New(config, client.Options{Scheme: s.admin.Scheme()})
	s.must(err)
	approve := func(name string) error {
		r := &certificatesv1.CertificateSigningRequest{}
		s.must(s.get(name, r))
		r.Status.Conditions = append(r.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{
				Type:   certificatesv1.CertificateApproved,
				Status: corev1.ConditionTrue, Reason: "AutoApproved",
			})
		return other.SubResource("approval").Update(s.t.Context(), r,
			&client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
	}
	s.eventually("the policy to act", func() error {
		if err := approve("undecided"); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "machine-config-controller decides") {
			return fmt.Errorf("kube-controller-manager approves: %v", err)
		}
		return nil
	})
	s.ask(s.admin, "others", "w30", "k30")
	if err := approve("others"); err != nil {
		s.t.Errorf("kube-controller-manager approves requests of others: %v", err)
	}
}

// storm is many machines at once: one pass is enough for all of them.
func (s *joins) storm() {
	const machines = 300
	for i := range machines {
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{
			UserName: fmt.Sprintf("system:bootstrap:s%05d", i), Groups: []string{
				"system:bootstrappers",
				v1alpha1.BootstrapGroup, v1alpha1.PoolGroup("worker", ""), "system:authenticated",
			},
		}
		machine, err := client.New(config, client.Options{Scheme: s.admin.Scheme(), Mapper: s.admin.RESTMapper()})
		s.must(err)
		s.ask(machine, fmt.Sprintf("storm-%03d", i), fmt.Sprintf("s%03d", i), "storm")
	}
	begun := time.Now()
	s.pass()
	s.t.Logf("%d machines took %s", machines, time.Since(begun))
	var list certificatesv1.CertificateSigningRequestList
	s.must(s.admin.List(s.t.Context(), &list))
	approved := 0
	for _, r := range list.Items {
		if strings.HasPrefix(r.Name, "storm-") && len(r.Status.Conditions) == 1 &&
			r.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
			approved++
		}
	}
	controllertest.Equal(s.t, "approved machines", approved, machines)
}
