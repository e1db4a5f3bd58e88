package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// TestOnARealAPIServer has what only a real one shows: the kinds' own rules, who wins a race, the rights of the
// server's account and the fence around it, what a bootstrap token is good for. The last part takes the API server
// away.
func TestOnARealAPIServer(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.create(t, rendered("rendered-worker-1", "hello%3C%26"),
		&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
	t.Run("the Deployment is taken", func(t *testing.T) {
		p.kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-k", "config/server")
	})
	t.Run("the shelf follows", func(t *testing.T) { theShelfFollows(t, p) })
	t.Run("what the server's account may create", func(t *testing.T) { theFence(t, p) })
	t.Run("the last use has one winner", func(t *testing.T) { oneWinner(t, p) })
	t.Run("a revoked token ends at once", func(t *testing.T) { revoked(t, p) })
	t.Run("uses of any number are written soon", func(t *testing.T) { anyNumber(t, p) })
	t.Run("a minted token joins a machine, and does nothing else", func(t *testing.T) { minting(t, p) })
	t.Run("a storm of machines", func(t *testing.T) { storm(t, p) })
	t.Run("each replica tells that it is there", func(t *testing.T) { beating(t, p) })
	t.Run("a node reads the configs of its pools", func(t *testing.T) { nodeConfigs(t, p) })
	t.Run("a node reads what its pools trust", func(t *testing.T) { nodeTrust(t, p) })
	t.Run("a node reads the secrets of its config", func(t *testing.T) { nodeSecrets(t, p) })
	t.Run("a key service that is away is asked again", func(t *testing.T) { keyServiceAway(t, p) })
	t.Run("a node reads the files of its config", func(t *testing.T) { nodeContents(t, p) })
	t.Run("without the API server", func(t *testing.T) { away(t, p) })
}

// body is what a pool serves to curl.
func body(t *testing.T, s *mcs.Pools) []byte {
	t.Helper()
	o, err := s.Config("worker")
	if err != nil {
		t.Fatal(err)
	}
	b, err := o.Body(mcs.ServedFormat{Version: mcs.Newest}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := b.WriteTo(&out, ""); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func theShelfFollows(t *testing.T, p *plane) {
	var given atomic.Pointer[[]byte]
	c, log, _ := run(t, p.server, Options{Serve: v1alpha1.ServeHealthy, KubeletCA: func(ca []byte) {
		given.Store(&ca)
	}})
	log.await(t, "ready")
	if ca := given.Load(); ca == nil || !strings.Contains(string(*ca), "BEGIN CERTIFICATE") {
		t.Errorf("the kubelets' CA is %v", ca)
	}
	if _, err := c.Pools.Config("worker"); !errors.Is(err, mcs.ErrNothingRendered) {
		t.Errorf("before anything is rendered: %v", err)
	}
	pool := &mcfgv1.MachineConfigPool{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: "worker"}, pool); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Configuration.Name = "rendered-worker-1"
	if err := p.admin.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	log.await(t, "msg=serving", "rendered-worker-1")
	if got := body(t, c.Pools); !bytes.Contains(got, []byte("data:,hello%3C%26")) {
		t.Errorf("%s", got)
	}
	if _, err := c.Pools.Config("other"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("another pool: %v", err)
	}
}

func oneWinner(t *testing.T, p *plane) {
	p.token(t, "aaaaaaaaaa", 3)
	var replicas []*Cluster
	for range 2 {
		c, log, _ := run(t, p.server, Options{})
		log.await(t, "ready")
		replicas = append(replicas, c)
	}
	for _, c := range replicas {
		await(t, "the token", func() bool { return c.Token("aaaaaaaaaa") != nil })
	}
	var served atomic.Int32
	var machines sync.WaitGroup
	for i := range 40 {
		machines.Go(func() {
			err := replicas[i%2].Use(t.Context(), "aaaaaaaaaa", v1alpha1.TokenUse{
				Time:    metav1.Now(),
				Address: fmt.Sprintf("192.0.2.%d", i), Config: "rendered-worker-1",
			})
			var refused *join.InvalidError
			switch {
			case err == nil:
				served.Add(1)
			case !errors.As(err, &refused) || refused.Reason != join.UsedUp:
				t.Errorf("machine %d: %v", i, err)
			}
		})
	}
	machines.Wait()
	known := &v1alpha1.ProvisioningToken{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: "aaaaaaaaaa"}, known); err != nil {
		t.Fatal(err)
	}
	if served.Load() != 3 || known.Status.Used != 3 || len(known.Status.Recent) != 3 || known.Status.LastUsed == nil {
		t.Errorf("%d machines were served by a token of 3 uses: %+v", served.Load(), known.Status)
	}
	if err := replicas[0].Use(t.Context(), "nosuchtokn", v1alpha1.TokenUse{}); !reasonIs(err, join.Unknown) {
		t.Errorf("a token that is not there: %v", err)
	}
}

func reasonIs(err error, want join.TokenReason) bool {
	var refused *join.InvalidError
	return errors.As(err, &refused) && refused.Reason == want
}

func revoked(t *testing.T, p *plane) {
	p.token(t, "bbbbbbbbbb", 5)
	c, log, _ := run(t, p.server, Options{})
	log.await(t, "ready")
	await(t, "the token", func() bool { return c.Token("bbbbbbbbbb") != nil })
	use := v1alpha1.TokenUse{Time: metav1.Now(), Address: "192.0.2.1", Config: "rendered-worker-1"}
	if err := c.Use(t.Context(), "bbbbbbbbbb", use); err != nil {
		t.Fatal(err)
	}
	known := &v1alpha1.ProvisioningToken{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: "bbbbbbbbbb"}, known); err != nil {
		t.Fatal(err)
	}
	known.Spec.Revoked = true
	if err := p.admin.Update(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	// However far the watch is behind: the write meets the newer version.
	if err := c.Use(t.Context(), "bbbbbbbbbb", use); !reasonIs(err, join.Revoked) {
		t.Errorf("got %v", err)
	}
	await(t, "the revocation", func() bool { return c.Token("bbbbbbbbbb").Spec.Revoked })
	if err := p.admin.Delete(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	await(t, "the token to go", func() bool { return c.Token("bbbbbbbbbb") == nil })
}

func anyNumber(t *testing.T, p *plane) {
	p.token(t, "cccccccccc", 0)
	c, log, stop := run(t, p.server, Options{})
	log.await(t, "ready")
	await(t, "the token", func() bool { return c.Token("cccccccccc") != nil })
	for i := range 25 {
		at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC))
		if err := c.Use(t.Context(), "cccccccccc", v1alpha1.TokenUse{
			Time: at, Address: "192.0.2.1",
			Config: "rendered-worker-1",
		}); err != nil {
			t.Fatal(err)
		}
	}
	stop() // what is left is written then
	known := &v1alpha1.ProvisioningToken{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: "cccccccccc"}, known); err != nil {
		t.Fatal(err)
	}
	if known.Status.Used != 25 || len(known.Status.Recent) != v1alpha1.RecentTokenUses ||
		known.Status.LastUsed.Second() != 24 {
		t.Errorf("%+v", known.Status)
	}
}

func minting(t *testing.T, p *plane) {
	c, log, _ := run(t, p.server, Options{})
	log.await(t, "ready")
	text, err := c.CreateBootstrapToken(t.Context(), mcs.JoiningMachine{
		Pool: "worker", Node: "worker-7",
		Token: "aaaaaaaaaa", Address: "192.0.2.7",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != mcs.BootstrapTokenLength {
		t.Fatalf("a token of %d characters", len(text))
	}
	id, _, _ := strings.Cut(text, ".")
	kept := &corev1.Secret{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		kept); err != nil {
		t.Fatal(err)
	}
	if got, want := string(kept.Data["description"]), "bunsen: for a machine of pool worker, node worker-7, that "+
		"asked from 192.0.2.7 with token aaaaaaaaaa"; got != want {
		t.Errorf("the description is %q, want %q", got, want)
	}
	machine := rest.AnonymousClientConfig(p.config)
	machine.BearerToken = text
	kube, err := client.New(machine, client.Options{Scheme: p.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	me := &authenticationv1.SelfSubjectReview{}
	await(t, "the API server to know the token", func() bool { return kube.Create(t.Context(), me) == nil })
	if diff := cmp.Diff([]string{"system:authenticated", "system:bootstrappers", "system:bootstrappers:bunsen"},
		sorted(me.Status.UserInfo.Groups)); diff != "" {
		t.Error(diff)
	}
	if err := kube.Create(t.Context(), signingRequest(t)); err != nil {
		t.Errorf("asking for a kubelet's certificate: %v", err)
	}
	rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{
		Namespace: "kube-system",
	}}
	if err := kube.Create(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.Status.ResourceRules {
		for _, resource := range rule.Resources {
			switch resource {
			case "certificatesigningrequests", "certificatesigningrequests/nodeclient", "selfsubjectreviews",
				"selfsubjectaccessreviews", "selfsubjectrulesreviews":
			default:
				t.Errorf("it may %v %s", rule.Verbs, resource)
			}
		}
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(kept), &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads Secrets: %v", err)
	}
}

func signingRequest(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{
			CommonName:   "system:node:worker-7",
			Organization: []string{"system:nodes"},
		}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

func beating(t *testing.T, p *plane) {
	started := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	report := func() v1alpha1.ServerReport {
		return v1alpha1.ServerReport{
			Version: "v1", Listen: "0.0.0.0:22623", Started: started,
			Access: v1alpha1.AccessTokens, Served: 7,
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mcs-1", Namespace: "bunsen-system"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "image.invalid/x"}}},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "bunsen-system"}}
	p.create(t, account, pod)
	_, log, stop := run(t, p.server, Options{Report: report, Replica: Replica{
		Name: "Host_1.example.com", Pod: pod.Name,
		PodUID: pod.UID,
	}})
	log.await(t, "ready")
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: "bunsen-system", Name: "machine-config-server-host-1.example.com"}
	var got v1alpha1.ServerReport
	await(t, "a Lease that says what is served", func() bool {
		if err := p.admin.Get(t.Context(), key, lease); err != nil {
			return false
		}
		var err error
		got, err = v1alpha1.ParseServerReport(lease.Annotations[v1alpha1.ServerAnnotation])
		return err == nil && got.Pools["worker"].Config != ""
	})
	want := report()
	want.Pools = map[string]v1alpha1.ServedPool{"worker": {Config: "rendered-worker-1"}}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Error(diff)
	}
	if *lease.Spec.LeaseDurationSeconds < 60 || lease.Labels[v1alpha1.ServerLabel] != v1alpha1.ServerComponent ||
		len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != pod.UID {
		t.Errorf("%+v %+v", lease.ObjectMeta, lease.Spec)
	}
	stop()
	if err := p.admin.Get(t.Context(), key, lease); err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.LeaseDurationSeconds != 1 {
		t.Errorf("after it stopped its Lease is good for %d s", *lease.Spec.LeaseDurationSeconds)
	}
}

// away cuts the line to the API server, and mends it.
func away(t *testing.T, p *plane) {
	var line line
	config := rest.CopyConfig(p.server)
	config.Dial = line.dial
	dir := t.TempDir()
	cached, err := OpenCache(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	p.token(t, "dddddddddd", 9)
	p.token(t, "eeeeeeeeee", 0)
	first, log, stop := run(t, config, Options{Cache: cached, KubeletCA: func([]byte) {}})
	log.await(t, "ready")
	want := body(t, first.Pools)
	await(t, "all of it to be kept", func() bool {
		kept := cached.tokens()
		return kept["dddddddddd"] != nil && kept["eeeeeeeeee"] != nil && len(cached.configs()) == 1
	})
	line.set(true)
	goesOn(t, first, want)
	stop()

	// The next life begins without the API server.
	if cached, err = OpenCache(dir, quiet); err != nil {
		t.Fatal(err)
	}
	given := make(chan []byte, 10)
	second, log, _ := run(t, config, Options{Cache: cached, KubeletCA: func(ca []byte) { given <- ca }})
	log.await(t, "unreachable: serving from the cache")
	if len(<-given) == 0 {
		t.Error("the kubelets' CA was not kept")
	}
	goesOn(t, second, want)

	line.set(false)
	log.await(t, "ready: all pools are known")
	use := v1alpha1.TokenUse{Time: metav1.Now(), Address: "192.0.2.1", Config: "rendered-worker-1"}
	await(t, "the use to be counted again", func() bool { return second.Use(t.Context(), "dddddddddd", use) == nil })
	if got := body(t, second.Pools); !bytes.Equal(got, want) {
		t.Errorf("afterwards it serves\n%s\nwant\n%s", got, want)
	}
}

// goesOn is what a server does while the API server is away.
func goesOn(t *testing.T, c *Cluster, want []byte) {
	t.Helper()
	if !c.Pools.Ready() {
		t.Error("not ready")
	}
	if got := body(t, c.Pools); !bytes.Equal(got, want) {
		t.Errorf("it serves\n%s\nwant\n%s", got, want)
	}
	use := v1alpha1.TokenUse{Time: metav1.Now(), Address: "192.0.2.1", Config: "rendered-worker-1"}
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	var refused *join.InvalidError
	if err := c.Use(ctx, "dddddddddd", use); err == nil || errors.As(err, &refused) {
		t.Errorf("a use that is to be counted: %v", err)
	}
	if err := c.Use(ctx, "eeeeeeeeee", use); err != nil {
		t.Errorf("a use that need not be counted: %v", err)
	}
	if known := c.Token("dddddddddd"); known == nil || known.Spec.Hash != hash {
		t.Errorf("the token is %v", known)
	}
	if _, err := c.CreateBootstrapToken(ctx, mcs.JoiningMachine{Pool: "worker"}); err == nil {
		t.Error("it minted a token")
	}
}
