package approve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/approve"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fixture makes requests. Keys and their signatures are made once for each pair of a key's name and a subject.
type fixture struct {
	t    *testing.T
	keys map[string]*ecdsa.PrivateKey
}

type change func(*certificatesv1.CertificateSigningRequest)

// request is what the kubelet of a node sends with a bootstrap token of pool worker, half a minute ago.
func (f *fixture) request(name, token, node, key string, changes ...change) certificatesv1.CertificateSigningRequest {
	r := certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-30 * time.Second))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: f.pem(key, f.subject(node)), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Username: "system:bootstrap:" + token, Groups: []string{
				"system:bootstrappers", v1alpha1.BootstrapGroup,
				v1alpha1.PoolGroup("worker", ""), "system:authenticated",
			},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	for _, c := range changes {
		c(&r)
	}
	return r
}

func (f *fixture) subject(node string) x509.CertificateRequest {
	return x509.CertificateRequest{Subject: pkix.Name{
		CommonName:   "system:node:" + node,
		Organization: []string{"system:nodes"},
	}}
}

func (f *fixture) pem(key string, template x509.CertificateRequest) []byte {
	if f.keys[key] == nil {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			f.t.Fatal(err)
		}
		f.keys[key] = k
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, f.keys[key])
	if err != nil {
		f.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (f *fixture) like(edit func(*x509.CertificateRequest)) change {
	template := f.subject("w1")
	edit(&template)
	body := f.pem("k1", template)
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = body }
}

func groups(of ...string) change {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Groups = append([]string{v1alpha1.BootstrapGroup}, of...)
	}
}

func usages(of ...certificatesv1.KeyUsage) change {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Usages = of }
}

// ago is when a request was created.
func ago(d time.Duration) change {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.CreationTimestamp = metav1.NewTime(noon.Add(-d))
	}
}

// decided sets a condition a moment after the request was created.
func decided(kind certificatesv1.RequestConditionType) change {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, Status: corev1.ConditionTrue,
			LastUpdateTime: metav1.NewTime(r.CreationTimestamp.Add(time.Second)),
		})
	}
}

func told(decisions []approve.Decision) []string {
	var out []string
	for _, d := range decisions {
		verdict := "denied"
		if d.Approved {
			verdict = "approved"
		}
		out = append(out, fmt.Sprintf("%s %s %s", d.Request.Name, verdict, strings.TrimPrefix(d.Reason, "Bunsen")))
	}
	return out
}

const (
	approved = certificatesv1.CertificateApproved
	denied   = certificatesv1.CertificateDenied
)

// TestDecide decides about request r of node w1, and others.
func TestDecide(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	forNode := groups(v1alpha1.PoolGroup("worker", "w1"))
	reserved := map[string]string{"w1": "db00000001"}
	type requests = []certificatesv1.CertificateSigningRequest
	for sentence, c := range map[string]struct {
		requests requests
		nodes    []string
		reserved map[string]string
		want     []string
	}{
		"a new machine of a pool":                          {requests: requests{f.request("r", "aaaaaa", "w1", "k1")}, want: []string{"r approved Approved"}},
		"a machine that an open server let in, of no pool": {requests: requests{f.request("r", "aaaaaa", "w1", "k1", groups())}, want: []string{"r approved Approved"}},
		"a machine with a token of its node":               {requests: requests{f.request("r", "aaaaaa", "w1", "k1", forNode)}, want: []string{"r approved Approved"}},
		"an RSA key, for encipherment, too": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", usages(certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment))},
			want: []string{"r approved Approved"},
		},
		"other users, signers and groups are left to others": {requests: requests{
			f.request("a", "aaaaaa", "w1", "k1", func(r *certificatesv1.CertificateSigningRequest) {
				r.Spec.Username = "system:node:w1"
			}),
			f.request("b", "aaaaaa", "w1", "k1", func(r *certificatesv1.CertificateSigningRequest) {
				r.Spec.SignerName = "kubernetes.io/kube-apiserver-client"
			}),
			f.request("c", "aaaaaa", "w1", "k1", func(r *certificatesv1.CertificateSigningRequest) {
				r.Spec.Groups = []string{"system:bootstrappers", "system:bootstrappers:kubeadm"}
			}),
		}},
		"decided requests are left alone": {requests: requests{
			f.request("a", "aaaaaa", "w1", "k1", decided(approved)), f.request("b", "bbbbbb", "w2", "k1",
				decided(denied)), f.request("c", "cccccc", "w3", "k1", decided(certificatesv1.CertificateFailed)),
		}},

		"the name of an existing node, with a token of a pool": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1")}, nodes: []string{"w1"},
			want: []string{"r denied NodeExists"},
		},
		"the name of a control-plane node, with a token of a pool": {
			requests: requests{f.request("r", "aaaaaa", "cp-1", "k1")}, nodes: []string{"cp-1"},
			want: []string{"r denied ControlPlaneNode"},
		},
		"an existing node is provisioned again, with its own token": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", forNode)}, nodes: []string{"w1"},
			want: []string{"r approved Approved"},
		},
		"an existing control-plane node, with its own token": {
			requests: requests{f.request("r", "aaaaaa", "cp-1", "k1", groups(v1alpha1.PoolGroup("worker", "cp-1")))},
			nodes:    []string{"cp-1"}, want: []string{"r denied ControlPlaneNode"},
		},
		"a token of another node": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", groups(v1alpha1.PoolGroup("worker", "w2")))},
			want:     []string{"r denied OtherNode"},
		},
		"a token of two pools": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", groups(v1alpha1.PoolGroup("worker", ""),
				v1alpha1.PoolGroup("infra", "")))}, want: []string{"r denied SeveralPools"},
		},
		"a token of two nodes": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", groups(v1alpha1.PoolGroup("worker", "w2"),
				v1alpha1.PoolGroup("worker", "w1")))}, want: []string{"r denied SeveralPools"},
		},

		"a kubelet repeats its request": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "aaaaaa", "w1", "k1"),
			}, nodes: []string{"w1"}, want: []string{"r approved Approved"},
		},
		"a second machine with the same token": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "aaaaaa", "w2", "k2"),
			}, want: []string{"r denied TokenUsed"},
		},
		"a stolen token asks again for the name of the machine that joined": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved), forNode),
				f.request("r", "aaaaaa", "w1", "k2", forNode),
			}, nodes: []string{"w1"},
			want: []string{"r denied TokenUsed"},
		},
		"a stolen token with the machine's key and another name": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "aaaaaa", "w2", "k1"),
			}, want: []string{"r denied TokenUsed"},
		},
		"of two requests of one token at once, the older one wins": {
			requests: requests{f.request("b", "aaaaaa", "w2", "k2"), f.request("a", "aaaaaa", "w1", "k1",
				ago(time.Minute))}, want: []string{"a approved Approved", "b denied TokenUsed"},
		},
		"a denied request uses no token": {
			requests: requests{
				f.request("a", "aaaaaa", "w2", "k1", ago(time.Minute)),
				f.request("r", "aaaaaa", "w1", "k1"),
			}, nodes: []string{"w2"}, want: []string{
				"a denied NodeExists",
				"r approved Approved",
			},
		},
		"a request that an administrator approved uses its token": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved),
					func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }),
				f.request("r", "aaaaaa", "w1", "k1"),
			}, want: []string{"r denied TokenUsed"},
		},
		"a new name, for two machines with tokens of their own": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", ago(time.Minute)),
				f.request("r", "bbbbbb", "w1", "k2"),
			}, want: []string{"a approved Approved", "r denied NameTaken"},
		},
		"a name that was given a moment ago": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "bbbbbb", "w1", "k2"),
			}, want: []string{"r denied NameTaken"},
		},
		"a name that was given, for the machine with the node's own token": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "bbbbbb", "w1", "k2", forNode),
			}, want: []string{"r denied NameTaken"},
		},
		"a name that was given, for the machine with the node's own token, after its Node appeared": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "bbbbbb", "w1", "k2", forNode),
			}, nodes: []string{"w1"},
			want: []string{"r approved Approved"},
		},
		"a name that was given to the same machine, which boots again and keeps its key": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved), forNode),
				f.request("r", "bbbbbb", "w1", "k1", forNode),
			}, want: []string{"r approved Approved"},
		},
		"a new name, for a machine of the pool and one with the node's own token": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", ago(time.Minute)),
				f.request("r", "bbbbbb", "w1", "k2", forNode),
			}, want: []string{
				"a approved Approved",
				"r denied NameTaken",
			},
		},
		"a name that a token of the node reserves, with a token of a pool": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1")}, reserved: reserved,
			want: []string{"r denied NameReserved"},
		},
		"a reserved name, from an open server": {
			requests: requests{f.request("r", "aaaaaa", "w1", "k1", groups())}, reserved: reserved,
			want: []string{"r denied NameReserved"},
		},
		"a reserved name, for a machine of the pool and one with the node's own token": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", ago(time.Minute)),
				f.request("r", "bbbbbb", "w1", "k2", forNode),
			}, reserved: reserved,
			want: []string{"a denied NameReserved", "r approved Approved"},
		},
		"another name than the reserved one": {requests: requests{f.request("r", "aaaaaa", "w2", "k1")}, reserved: reserved, want: []string{"r approved Approved"}},
		"a kubelet repeats its request after its name was reserved": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", decided(approved)),
				f.request("r", "aaaaaa", "w1", "k1"),
			}, reserved: reserved, want: []string{"r approved Approved"},
		},
		"a name that was given long ago": {
			requests: requests{
				f.request("a", "aaaaaa", "w1", "k1", ago(61*time.Minute), decided(approved)),
				f.request("r", "bbbbbb", "w1", "k2"),
			}, want: []string{"r approved Approved"},
		},
		"a request that waited too long": {requests: requests{f.request("r", "aaaaaa", "w1", "k1", ago(16*time.Minute))}, want: []string{"r denied TooLate"}},
		"a repeated one that waited":     {requests: requests{f.request("a", "aaaaaa", "w1", "k1", ago(50*time.Minute), decided(approved)), f.request("r", "aaaaaa", "w1", "k1", ago(40*time.Minute))}, want: []string{"r approved Approved"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			nodes := map[string]bool{}
			for _, n := range c.nodes {
				nodes[n] = strings.HasPrefix(n, "cp-")
			}
			decisions, _ := approve.Decide(approve.Facts{
				Requests: c.requests, Nodes: nodes, Reserved: c.reserved,
				Now: noon,
			})
			if is := told(decisions); !slices.Equal(is, c.want) {
				t.Errorf("%q, want %q", is, c.want)
			}
			for _, d := range decisions {
				if d.Approved && !strings.Contains(d.Message, d.Node) ||
					!strings.Contains(d.Message, strings.TrimPrefix(d.Request.Spec.Username, "system:bootstrap:")) {
					t.Errorf("%s: the message names no node or no token: %s", d.Request.Name, d.Message)
				}
			}
		})
	}
}

// TestInvalidRequests are requests of a good token that are not what a kubelet sends for its client certificate.
func TestInvalidRequests(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	body := func(b []byte) change {
		return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = b }
	}
	good := f.pem("k1", f.subject("w1"))
	forged := slices.Clone(good)
	if block, _ := pem.Decode(good); block != nil {
		der := slices.Clone(block.Bytes)
		der[len(der)-1] ^= 1
		forged = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	for sentence, c := range map[string]struct {
		change change
		says   string
	}{
		"an administrator's group":         {f.like(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), `organizations are ["system:masters"]`},
		"an administrator's group as well": {f.like(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }), "organizations are"},
		"no group":                         {f.like(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), "organizations are"},
		"a user that is no node":           {f.like(func(r *x509.CertificateRequest) { r.Subject.CommonName = "admin" }), `common name is "admin"`},
		"a node without a name":            {f.like(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:" }), "not a name of a node"},
		"a name that is no node's":         {f.like(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:W1/x" }), "not a name of a node"},
		"a long name":                      {f.like(func(r *x509.CertificateRequest) { r.Subject.CommonName = strings.Repeat("é", 4000) }), "…"},
		"a unit in the subject":            {f.like(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} }), "3 attributes"},
		"a DNS name":                       {f.like(func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default"} }), "alternative names"},
		"an address":                       {f.like(func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, []byte{10, 0, 0, 1}) }), "alternative names"},
		"a mail address":                   {f.like(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }), "alternative names"},
		"a URI":                            {f.like(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "alternative names"},
		"a name of another form": {f.like(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 17}, Value: []byte{
				0x30, 0x04, 0x88, 0x02, 0x2a,
				0x03,
			}}}
		}), "alternative names"},
		"a server's usage":         {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth), "its usages are"},
		"a server's usage as well": {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth), "its usages are"},
		"a CA's usage":             {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageCertSign), "its usages are"},
		"no client usage":          {usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment), "its usages are"},
		"no signature usage":       {usages(certificatesv1.UsageClientAuth), "its usages are"},
		"no PEM":                   {body([]byte("x")), "not one PEM block"},
		"another PEM":              {body(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})), "not one PEM block"},
		"two PEM blocks":           {body(slices.Concat(good, good)), "not one PEM block"},
		"no request":               {body(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})), "cannot be read"},
		"another's signature":      {body(forged), "not signed with its own key"},
		"a certificate that ends before the token": {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.ExpirationSeconds = new(int32(600)) }, "expirationSeconds are 600"},
	} {
		t.Run(sentence, func(t *testing.T) {
			decisions, uses := approve.Decide(
				approve.Facts{Requests: []certificatesv1.CertificateSigningRequest{f.request("r", "aaaaaa", "w1", "k1",
					c.change)}, Now: noon})
			if is := told(decisions); !slices.Equal(is, []string{"r denied InvalidRequest"}) {
				t.Fatal(is)
			}
			if d := decisions[0]; !strings.Contains(d.Message, c.says) || len(d.Message) > 600 {
				t.Errorf("the message is %q", d.Message)
			}
			if len(uses) != 0 {
				t.Errorf("it counts as a use: %v", uses)
			}
		})
	}
}

// TestUsesAreRemembered has what a second call knows of the first, whatever became of the requests.
func TestUsesAreRemembered(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	first, second := f.request("a", "aaaaaa", "w1", "k1"), f.request("b", "aaaaaa", "w2", "k2", ago(0))
	_, uses := approve.Decide(approve.Facts{Requests: []certificatesv1.CertificateSigningRequest{first}, Now: noon})
	next := func(after time.Duration, nodes map[string]bool,
		requests ...certificatesv1.CertificateSigningRequest,
	) []string {
		t.Helper()
		for i := range requests {
			requests[i].CreationTimestamp = metav1.NewTime(noon.Add(after - time.Second))
		}
		decisions, _ := approve.Decide(approve.Facts{
			Requests: requests, Nodes: nodes, Uses: uses,
			Now: noon.Add(after),
		})
		return told(decisions)
	}
	for sentence, c := range map[string]struct{ is, want []string }{
		"the write of the approval failed":                          {next(time.Second, nil, first), []string{"a approved Approved"}},
		"another machine comes before the approval is seen":         {next(time.Second, nil, first, second), []string{"a approved Approved", "b denied TokenUsed"}},
		"the approved request was deleted":                          {next(64*time.Minute, nil, second), []string{"b denied TokenUsed"}},
		"the token has ended long ago":                              {next(121*time.Minute, nil, second), []string{"b approved Approved"}},
		"another token for the name, before the approval is seen":   {next(time.Second, nil, first, f.request("c", "cccccc", "w1", "k3")), []string{"a approved Approved", "c denied NameTaken"}},
		"another token for the name, after the request was deleted": {next(time.Minute, nil, f.request("c", "cccccc", "w1", "k3")), []string{"c approved Approved"}},
		"another token for the name, while the Node is there":       {next(time.Minute, map[string]bool{"w1": false}, f.request("c", "cccccc", "w1", "k3")), []string{"c denied NodeExists"}},
	} {
		if !slices.Equal(c.is, c.want) {
			t.Errorf("%s: %q, want %q", sentence, c.is, c.want)
		}
	}

	// The Node was there, and is deleted: the name is free at once, for a machine that is provisioned again.
	done := f.request("a", "aaaaaa", "w1", "k1", decided(approved))
	_, uses = approve.Decide(approve.Facts{
		Requests: []certificatesv1.CertificateSigningRequest{done},
		Nodes:    map[string]bool{"w1": false}, Uses: uses, Now: noon,
	})
	if is := next(time.Minute, nil, done, f.request("c", "cccccc", "w1", "k3")); !slices.Equal(is,
		[]string{"c approved Approved"}) {
		t.Errorf("after the Node was deleted: %q", is)
	}
}

// TestANameIsNoCommand: a machine chooses the name of its request, and people paste what a message says.
func TestANameIsNoCommand(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	for _, name := range []string{"x; reboot", "$(reboot)", "`reboot`", "-A", "a\nb", strings.Repeat("a", 300)} {
		decisions, _ := approve.Decide(approve.Facts{
			Requests: []certificatesv1.CertificateSigningRequest{f.request(name, "aaaaaa", "w1", "k1")},
			Nodes:    map[string]bool{"w1": false}, Now: noon,
		})
		if m := decisions[0].Message; !strings.Contains(m, "`kubectl delete csr NAME`") || strings.Contains(m, name) {
			t.Errorf("%q: %s", name, m)
		}
	}
}

// TestManyMachines: 5,000 machines that ask at once are decided in one call, which is quick enough to be repeated.
func TestManyMachines(t *testing.T) {
	f := &fixture{t, map[string]*ecdsa.PrivateKey{}}
	const machines = 5000
	var requests []certificatesv1.CertificateSigningRequest
	for i := range machines {
		requests = append(requests, f.request(fmt.Sprintf("r%04d", i), fmt.Sprintf("a%05d", i), fmt.Sprintf("w%04d", i),
			"k1"))
	}
	decisions, uses := approve.Decide(approve.Facts{Requests: requests, Now: noon})
	for _, d := range decisions {
		if !d.Approved {
			t.Fatalf("%s: %s", d.Request.Name, d.Message)
		}
	}
	if len(decisions) != machines || len(uses) != machines {
		t.Errorf("%d decisions, %d uses", len(decisions), len(uses))
	}
}
