package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// theFence tries what the server's account may write. The words are of the refusal; none: it is taken.
func theFence(t *testing.T, p *plane) {
	server, err := client.New(p.server, client.Options{Scheme: p.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := func(change func(*corev1.Secret)) *corev1.Secret {
		s := bootstrapTokenSecret("abc123", "0123456789abcdef", mcs.JoiningMachine{Pool: "worker"}, time.Now())
		change(s)
		return s
	}
	with := func(key, value string) *corev1.Secret {
		return bootstrap(func(s *corev1.Secret) { s.StringData[key] = value })
	}
	secret := func(namespace, name, kind string) *corev1.Secret {
		data := map[string][]byte{"tls.crt": nil, "tls.key": nil}
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Annotations: map[string]string{"kubernetes.io/service-account.name": "machine-config-controller"},
			},
			Type: corev1.SecretType(kind), Data: data,
		}
	}
	configMap := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	probe := with("auth-extra-groups", "system:bootstrappers:other")
	await(t, "the policy to act", func() bool {
		err := server.Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "of no other")
	})
	for _, c := range []struct {
		says   string
		object client.Object
		denied string
	}{
		{"a bootstrap token as it mints them", with("description", "x"), ""},
		{"one that ends sooner", with("expiration", in(time.Minute)), ""},
		{"from a clock that is a little ahead", with("expiration", in(time.Hour+4*time.Minute)), ""},
		{"one that ends later", with("expiration", in(2*time.Hour)), "ends within the hour, not at 2"},
		{"one that ends in a hundred years", with("expiration", "2126-01-02T15:04:05Z"), "not at 2126-01-02T15:04:05Z"},
		{"one that does not end", bootstrap(func(s *corev1.Secret) { delete(s.StringData, "expiration") }), "ends within the hour"},
		{"one that ends at a time of another zone", with("expiration", "2126-01-02T15:04:05+23:00"), "ends within the hour"},
		{"one that ends at no time", with("expiration", "2126-13-02T15:04:0 Z"), "ends within the hour"},
		{"one of the administrators", with("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"), "of no other"},
		{"one of several groups", with("auth-extra-groups", "system:bootstrappers:bunsen,system:bootstrappers:x"), "of no other"},
		{"one for a pool", with("auth-extra-groups", groups(mcs.JoiningMachine{Pool: "worker", Attested: true})), ""},
		{"one for a pool and a node", with("auth-extra-groups", groups(mcs.JoiningMachine{Pool: "infra", Node: "a.example.com", Attested: true})), ""},
		{"one for two pools", with("auth-extra-groups", groups(mcs.JoiningMachine{Pool: "infra", Attested: true})+","+v1alpha1.PoolGroup("edge", "")), "of no other"},
		{"one for a pool, and of another group", with("auth-extra-groups", groups(mcs.JoiningMachine{Pool: "infr", Attested: true})+",system:bootstrappers:x"), "of no other"},
		{"the same with the comma elsewhere", with("auth-extra-groups", groups(mcs.JoiningMachine{Pool: "inf", Attested: true})+",system:bootstrappers:x"), "of no other"},
		{"one that signs", with("usage-bootstrap-signing", "true"), "nothing else"},
		{"one of another name", bootstrap(func(s *corev1.Secret) { s.Name = "bootstrap-token-abc" }), "nothing else"},
		{"one of another type", bootstrap(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), "nothing else"},
		{"another Secret of kube-system", secret("kube-system", "x", "Opaque"), "nothing else"},
		{"a bootstrap token elsewhere", bootstrap(func(s *corev1.Secret) { s.Namespace = "bunsen-system" }), "machine-config-server-*"},
		{"a ConfigMap of kube-system", configMap("kube-system", "x"), "forbidden"},
		{"a Secret of another namespace", secret("default", "x", "Opaque"), "forbidden"},
		{"its certificate", secret("bunsen-system", "machine-config-server-tls", "kubernetes.io/tls"), ""},
		{"its CA", secret("bunsen-system", "machine-config-server-ca", "Opaque"), ""},
		{"another Secret of its namespace", secret("bunsen-system", "deploy-key", "Opaque"), "machine-config-server-*"},
		{"a token of another account", secret("bunsen-system", "machine-config-server-tls", "kubernetes.io/service-account-token"), "no other secrets"},
		{"whom machines believe", configMap("bunsen-system", "machine-config-server-ca"), ""},
		{"another ConfigMap", configMap("bunsen-system", "x"), "machine-config-server-*"},
		{"its Lease", lease("bunsen-system", "machine-config-server-a"), ""},
		{"the controller's Lease", lease("bunsen-system", "machine-config-controller"), "machine-config-server-*"},
		{"a Lease elsewhere", lease("kube-system", "machine-config-server-a"), "forbidden"},
	} {
		err := server.Create(t.Context(), c.object, client.DryRunAll)
		switch {
		case c.denied == "" && err != nil:
			t.Errorf("%s: %v", c.says, err)
		case c.denied != "" && (err == nil || !strings.Contains(err.Error(), c.denied)):
			t.Errorf("%s: want a refusal that says %q, got: %v", c.says, c.denied, err)
		}
	}
	if err := p.admin.Create(t.Context(), with("expiration", "2126-01-02T15:04:05Z"), client.DryRunAll); err != nil {
		t.Errorf("others are not fenced in: %v", err)
	}
}

func sorted(texts []string) []string {
	out := slices.Clone(texts)
	slices.Sort(out)
	return out
}
