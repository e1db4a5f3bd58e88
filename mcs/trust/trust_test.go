package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// certificate returns a PEM certificate that expires after the given days.
func certificate(t testing.TB, days int) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprint(days, " days")}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             now.AddDate(-1, 0, 0), NotAfter: now.AddDate(0, 0, days),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func bundle(name, text string) Object {
	return Object{Name: name, Kind: v1alpha1.TrustUserCA, Data: map[string]string{v1alpha1.TrustBundleKey: text}}
}

func registry(name string, data map[string]string) Object {
	return Object{Name: name, Kind: v1alpha1.TrustRegistryCA, Data: data}
}

// TestPathsAreThoseOfTheOriginal compares each path with that of OpenShift's machine-config-operator.
func TestPathsAreThoseOfTheOriginal(t *testing.T) {
	ca := certificate(t, 90)
	kubelet := bundle("n/kubelet", ca)
	kubelet.Kind = v1alpha1.TrustKubeletCA
	for _, c := range []struct {
		from Object
		path string
	}{
		{kubelet, "/etc/kubernetes/kubelet-ca.crt"},
		{bundle("n/user", ca), "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"},
		{registry("n/r", map[string]string{"registry.example.com": ca}), "/etc/docker/certs.d/registry.example.com/ca.crt"},
		{registry("n/r", map[string]string{"registry.example.com..5000": ca}), "/etc/docker/certs.d/registry.example.com:5000/ca.crt"},
		{registry("n/r", map[string]string{"10.0.0.1..5000": ca}), "/etc/docker/certs.d/10.0.0.1:5000/ca.crt"},
	} {
		state, problems := Next(nil, []Object{c.from}, now)
		want := []v1alpha1.TrustFile{{
			Path: c.path, Mode: 0o644, Contents: ca, From: c.from.Name,
			Expires: now.AddDate(0, 0, 90),
		}}
		if got := state.For([]string{"worker"}).Files; len(problems) > 0 || !cmp.Equal(got, want) {
			t.Errorf("%s: %v\n%s", c.path, problems, cmp.Diff(want, got))
		}
	}
}

// TestThePullSecret has valid and invalid Secrets. Neither a problem, nor the revision, nor the state for a file has
// its content.
func TestThePullSecret(t *testing.T) {
	const hush = "Zm9vOmNhbmFyeS1odXNo"
	secret := func(kind, key, value string) Object {
		return Object{
			Name: "Secret n/pull", Secret: true, Version: "1", Kind: kind,
			Data: map[string]string{key: value},
		}
	}
	good := secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, `{"auths":{"r.example.com":{"auth":"`+hush+`"}}}`)
	before, problems := Next(nil, []Object{good}, now)
	is := before.For([]string{"worker"})
	if len(problems) > 0 || len(is.Files) != 1 || is.Files[0].Mode != 0o600 || !is.Files[0].Secret ||
		is.Files[0].Path != trustfile.PullSecretPath {
		t.Fatalf("%v %+v", problems, is)
	}
	other := secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, `{"auths":{"r.example.com":{"auth":"YTpi"}}}`)
	if state, _ := Next(nil, []Object{other}, now); state.For([]string{"worker"}).Revision != is.Revision {
		t.Error("the revision depends on the content")
	}
	if kept := before.WithoutSecrets(); strings.Contains(fmt.Sprint(kept), hush) ||
		!slices.Equal(kept.For([]string{"worker"}).Keep, []string{"Secret n/pull"}) {
		t.Errorf("the state for a file is %v", kept)
	}
	unread := State{}
	unread.Retain(before, []string{"Secret n/"})
	if got := unread.For([]string{"worker"}); len(got.Files) != 1 || !slices.Equal(got.Keep, []string{"Secret n/*"}) {
		t.Errorf("Secrets that cannot be read: %+v", got)
	}
	for because, o := range map[string]Object{
		"another kind":   secret(v1alpha1.TrustUserCA, v1alpha1.PullSecretKey, hush),
		"another key":    secret(v1alpha1.TrustPullSecret, "config.json", hush),
		"no JSON":        secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, hush),
		"no registry":    secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, `{"auths":{}}`),
		"no credentials": secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, `{"auths":{"`+hush+`":{}}}`),
		"no pair":        secret(v1alpha1.TrustPullSecret, v1alpha1.PullSecretKey, `{"auths":{"r":{"auth":"`+hush[:4]+`"}}}`),
		"a ConfigMap":    {Name: "Secret n/pull", Kind: v1alpha1.TrustPullSecret, Data: good.Data},
	} {
		state, problems := Next(before, []Object{o}, now)
		if len(problems) != 1 || strings.Contains(fmt.Sprint(problems), hush) ||
			state.For([]string{"worker"}).Revision != is.Revision {
			t.Errorf("%s: %v", because, problems)
		}
	}
}

// TestAnInvalidObjectChangesNothing replaces a valid object by each invalid one. The earlier content stays, and the
// problem names the object, the place and the solution.
func TestAnInvalidObjectChangesNothing(t *testing.T) {
	ca, expired := certificate(t, 90), certificate(t, -1)
	key := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("hush")}))
	many := map[string]string{}
	for i := range maxRegistries + 1 {
		many[fmt.Sprintf("r%d", i)] = ca
	}
	pools := bundle("n/o", ca)
	pools.Pools = "worker, ../x"
	kind := bundle("n/o", ca)
	kind.Kind = "pull"
	good := bundle("n/o", ca)
	before, _ := Next(nil, []Object{good}, now)
	for _, c := range []struct {
		because string
		object  Object
		want    string
	}{
		{"no certificate", bundle("n/o", "hello"), `key "ca-bundle.crt": it has no PEM certificate`},
		{"empty", bundle("n/o", ""), "it has no PEM certificate"},
		{"a private key", bundle("n/o", ca+key), "number 2 is a EC PRIVATE KEY: remove it"},
		{"incomplete", bundle("n/o", ca+ca[:100]), "incomplete"},
		{"all expired", bundle("n/o", expired), "all of its certificates have expired: add"},
		{"too long", bundle("n/o", strings.Repeat("#\n", maxBundleBytes)), "longer than 512 KiB"},
		{"another key", Object{Name: "n/o", Kind: v1alpha1.TrustUserCA, Data: map[string]string{"ca.crt": ca}}, "needs the key ca-bundle.crt and no other key"},
		{"an unknown kind", kind, `"pull" is not a kind of trust: use user-ca`},
		{"an invalid pool", pools, `"../x" is not the name of a pool`},
		{"no registry", registry("n/o", nil), "it has no registry: add a key"},
		{"too many registries", registry("n/o", many), "divide them"},
		{"a path as registry", registry("n/o", map[string]string{"..": ca}), `key "..": it is not a registry`},
		{"a path in a registry", registry("n/o", map[string]string{"a..b": ca}), `"b" is not a port`},
		{"a port that is too large", registry("n/o", map[string]string{"a..65536": ca}), "is not a port"},
		{"a port in another form", registry("n/o", map[string]string{"a..0080": ca}), "is not a port"},
		{"one bad registry of two", registry("n/o", map[string]string{"a": ca, "b": "x"}), `key "b"`},
	} {
		state, problems := Next(before, []Object{c.object}, now)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "reading ConfigMap n/o: ") ||
			!strings.Contains(problems[0].Error(), c.want) || strings.Contains(problems[0].Error(), "hush") {
			t.Errorf("%s: %v", c.because, problems)
		}
		if !cmp.Equal(state, before) {
			t.Errorf("%s: %s", c.because, cmp.Diff(before, state))
		}
		if state, _ = Next(nil, []Object{c.object}, now); !slices.Equal(state.For([]string{"worker"}).Keep,
			[]string{"n/o"}) {
			t.Errorf("%s: a server that starts does not say that nodes keep what they have: %v", c.because, state)
		}
	}
	if state, problems := Next(before, nil, now); len(state) > 0 || problems != nil {
		t.Errorf("a deleted object is in force: %v %v", state, problems)
	}
}

// TestOnlyCertificatesReachNodes has text around the certificates of a bundle, of which one has expired.
func TestOnlyCertificatesReachNodes(t *testing.T) {
	first, expired := certificate(t, 90), certificate(t, -1)
	state, problems := Next(nil, []Object{bundle("n/o", "password: hush\n"+expired+"\n# x\n"+first+"hush")}, now)
	files := state.For([]string{"worker"}).Files
	if len(problems) > 0 || len(files) != 1 || files[0].Contents != expired+first ||
		!files[0].Expires.Equal(now.AddDate(0, 0, 90)) {
		t.Errorf("%v %v", problems, files)
	}
}

// TestPoolsGetTheirOwn has objects for some pools, and two objects with one path.
func TestPoolsGetTheirOwn(t *testing.T) {
	a, b, c := bundle("n/a", certificate(t, 1)), bundle("n/b", certificate(t, 2)), bundle("n/c", certificate(t, 3))
	a.Created, b.Created, c.Created = now, now.Add(-time.Hour), now.Add(time.Hour)
	a.Pools, b.Pools, c.Pools = "infra", "worker", "*"
	state, problems := Next(nil, []Object{a, b, c}, now)
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "ConfigMap n/c: the older ConfigMap n/b has "+
		trustfile.UserCAPath) {
		t.Errorf("two objects for one pool: %v", problems)
	}
	for pools, want := range map[string]string{"worker": "n/b", "infra": "n/a", "infra,worker": "n/a"} {
		if files := state.For(strings.Split(pools, ",")).Files; len(files) != 1 || files[0].From != want {
			t.Errorf("pools %s get %v", pools, files)
		}
	}
	got := state.For([]string{"db"})
	if len(got.Files) != 0 || !slices.Equal(got.Keep, []string{"n/c"}) {
		t.Errorf("a pool that no valid object names gets %v", got)
	}
	if state.For([]string{"worker"}).Revision == state.For([]string{"infra"}).Revision ||
		state.For([]string{"db"}).Revision != got.Revision {
		t.Error("the revision does not identify the content")
	}
}

// TestExpiringCertificatesAreNamed has certificates that expire just before and just after 30 days.
func TestExpiringCertificatesAreNamed(t *testing.T) {
	state, _ := Next(nil,
		[]Object{registry("n/r", map[string]string{"late": certificate(t, 31), "near": certificate(t, 29) +
			certificate(t, -1)})}, now)
	want := []string{"/etc/docker/certs.d/near/ca.crt: a certificate of ConfigMap n/r expires at " +
		"2026-05-30T12:00:00Z: add the one that replaces it"}
	if got := state.Expiring(now); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzRead(f *testing.F) {
	ca := certificate(f, 90)
	for _, key := range []string{"a", "a..1", "..", "../x", "a..b", "::1", "1.2.3.4..5", v1alpha1.TrustBundleKey} {
		f.Add(v1alpha1.TrustRegistryCA, "worker", key, ca)
		f.Add(v1alpha1.TrustUserCA, "*", key, "-----BEGIN CERTIFICATE-----\n"+ca)
	}
	f.Fuzz(func(t *testing.T, kind, pools, key, text string) {
		o := Object{Name: "n/o", Kind: kind, Pools: pools, Data: map[string]string{key: text}}
		state, problems := Next(nil, []Object{o}, now)
		files := state.For([]string{"worker"}).Files
		if len(problems) > 0 && len(files) > 0 {
			t.Fatalf("an invalid object has files: %v", problems)
		}
		for _, file := range files {
			if file.Path != path.Clean(file.Path) || file.Path != trustfile.UserCAPath &&
				file.Path != trustfile.KubeletCAPath && !strings.HasPrefix(file.Path, trustfile.RegistriesDir+"/") ||
				strings.Count(file.Path, "/") > 5 && file.Path != trustfile.UserCAPath {
				t.Fatalf("path %q", file.Path)
			}
			if strings.Contains(file.Contents, "PRIVATE") || !strings.HasPrefix(file.Contents,
				"-----BEGIN CERTIFICATE-----\n") {
				t.Fatalf("contents %q", file.Contents)
			}
		}
		again, _ := Next(state, []Object{o}, now)
		if !slices.Equal(slices.Collect(maps.Keys(again)), slices.Collect(maps.Keys(state))) ||
			again.For([]string{"worker"}).Revision != state.For([]string{"worker"}).Revision {
			t.Fatal("a second read changes the revision")
		}
	})
}
