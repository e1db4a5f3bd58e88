package certs

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const day = 24 * time.Hour

func fiveReplicas(t *testing.T, c *cluster) {
	now := time.Now()
	replicas := make([]*Certificates, 5)
	var group sync.WaitGroup
	for i := range replicas {
		group.Go(func() { replicas[i], _ = c.replica(t, now, nil) })
	}
	group.Wait()
	ca := c.published(t)
	for i, r := range replicas {
		if string(r.CA()) != ca {
			t.Errorf("replica %d tells to believe another CA than the ConfigMap", i)
		}
		serves(t, ca, r, now)
		refresh(t, r, now.Add(time.Minute))
		if a, b := r.Until(), replicas[0].Until(); !a.Equal(b) {
			t.Errorf("replica %d serves until %s, the first until %s", i, a, b)
		}
	}
	for name, want := range map[string]struct {
		kind corev1.SecretType
		keys []string
	}{
		theCA:   {corev1.SecretTypeOpaque, []string{CAFile, CAKeyFile}},
		theLeaf: {corev1.SecretTypeTLS, []string{CAFile, CertFile, CertKeyFile}},
	} {
		s := c.secret(t, name)
		if s == nil || s.Type != want.kind || len(s.Data) != len(want.keys) ||
			!hasData(s, map[string][]byte{CAFile: []byte(ca)}) {
			t.Errorf("Secret %s is of type %s with %d keys, and its CA is the published one: %v", name, s.Type,
				len(s.Data), string(s.Data[CAFile]) == ca)
		}
	}
}

// twelveYears is the promise to a machine: a pointer config that was made at any time is good for at least two years,
// and until its CA certificate ends no replica ever shows it anything that it refuses.
func twelveYears(t *testing.T, c *cluster) {
	const replicas, longest, outage = 3, 30 * day, 60 * day
	dice := rand.New(rand.NewPCG(6, 22623))
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var running [replicas]*Certificates
	for i := range running {
		running[i], _ = c.replica(t, start, nil)
	}
	pointers := map[string]*x509.Certificate{}
	fine := func(now time.Time) {
		for ca, cert := range pointers {
			for _, r := range running {
				if now.Before(cert.NotAfter) {
					serves(t, ca, r, now)
				}
			}
		}
	}
	var back time.Time
	var leaves int
	for now := start; now.Before(start.Add(12 * 365 * day)); {
		if ca := c.published(t); ca != "" { // it was deleted, and the API server went away
			cert := certificateOf(t, ca)
			if pointers[ca] = cert; cert.NotAfter.Sub(now) < caRenewBefore-outage-longest {
				t.Fatalf("at %s, a new pointer config is good until %s only", now.Format(time.DateTime),
					cert.NotAfter.Format(time.DateTime))
			}
		}
		now = now.Add(time.Minute)
		if dice.IntN(5) > 0 {
			now = now.Add(time.Duration(float64(longest) * dice.Float64()))
		}
		fine(now) // before anybody looks
		switch dice.IntN(20) {
		case 0:
			c.delete(t, theCA)
		case 1:
			c.delete(t, theLeaf)
		case 2:
			c.delete(t, theCA, theLeaf)
		case 3:
			if err := c.core.ConfigMaps(c.namespace).Delete(t.Context(), theCA, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		case 4:
			back = now.Add(time.Duration(float64(outage) * dice.Float64()))
		}
		away := now.Before(back)
		ctx, cancel := context.WithCancel(t.Context())
		if away {
			cancel() // nothing gets through, without the patience of a client that tries again
		}
		was := running[0].Until()
		for _, i := range dice.Perm(replicas) {
			if err := running[i].Refresh(ctx, now); err == nil == away {
				t.Fatalf("the API server is away: %v, and the look: %v", away, err)
			}
		}
		cancel()
		fine(now)
		if !running[0].Until().Equal(was) {
			leaves++
		}
		if i := dice.IntN(20); i < replicas && !away {
			running[i], _ = c.replica(t, now, nil) // it was restarted, and knows nothing
		}
		if t.Failed() {
			return
		}
	}
	if len(pointers) != 2 || leaves < 12 {
		t.Errorf("in twelve years there were %d CA certificates and %d others, want 2 and at least 12", len(pointers),
			leaves)
	}
}

func certificateOf(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no certificate is published: %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func hostNames(t *testing.T, c *cluster) {
	now := time.Now()
	before, _ := c.replica(t, now, nil)
	ca := c.published(t)
	after, _ := c.replica(t, now, func(s *Secret) { s.Hostnames = []string{"new.example.com", "192.0.2.7"} })
	settled := c.secret(t, theLeaf).ResourceVersion
	for _, r := range []*Certificates{before, after, before} {
		refresh(t, r, now.Add(time.Minute))
		for _, name := range []string{"mcs.example.com", "new.example.com", "192.0.2.7", "localhost"} {
			if err := trusts(t, []byte(ca), r, name, now); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if got := c.secret(t, theLeaf).ResourceVersion; got != settled {
		t.Error("the certificate is made again and again")
	}
	// The names that nobody asks for any more go with the next renewal.
	later := now.Add(certLifetime - certRenewBefore + day)
	refresh(t, after, later)
	if err := trusts(t, []byte(ca), after, "mcs.example.com", later); err == nil {
		t.Error("a name stays for ever")
	}
	if err := trusts(t, []byte(ca), after, "new.example.com", later); err != nil {
		t.Error(err)
	}
}

// supplied is a certificate as cert-manager writes it: its Secret has ca.crt beside.
func supplied(t *testing.T, age time.Duration) *corev1.Secret {
	t.Helper()
	m, err := material{}.renewed([]string{"mcs.example.com"}, time.Now().Add(-age))
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: theLeaf}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{CAFile: m.ca, CertFile: m.cert, CertKeyFile: m.key},
	}
}

func somebodyElse(t *testing.T, c *cluster) {
	now := time.Now()
	first, second := supplied(t, 0), supplied(t, certLifetime-29*day)
	c.write(t, first)
	r, log := c.replica(t, now, func(s *Secret) { s.Hostnames = []string{"not-in-it.example.com"} })
	serves(t, string(first.Data[CAFile]), r, now)
	if got := c.published(t); got != string(first.Data[CAFile]) {
		t.Errorf("published is\n%s", got)
	}
	if strings.Contains(log.read(), "ends soon") {
		t.Error("a good certificate is complained about")
	}

	// They replace it, by one that has 29 days left. It is used, and complained about once a day.
	c.write(t, second)
	version := c.secret(t, theLeaf).ResourceVersion
	for minute := range 3 {
		refresh(t, r, now.Add(time.Duration(minute)*time.Minute))
	}
	serves(t, string(second.Data[CAFile]), r, now)
	if got := c.published(t); got != string(second.Data[CAFile]) {
		t.Errorf("published is\n%s", got)
	}
	said := log.read()
	for _, once := range []string{"the serving certificate expires soon", "the CA has changed"} {
		if got := strings.Count(said, once); got != 1 {
			t.Errorf("it says %d times: %s", got, once)
		}
	}
	refresh(t, r, now.Add(31*day))
	if got := log.read(); !strings.Contains(got, "has expired and machines do not trust it") {
		t.Errorf("the log says\n%s", got)
	}
	if s := c.secret(t, theLeaf); s.ResourceVersion != version {
		t.Error("somebody else's Secret was written")
	}
	if c.secret(t, theCA) != nil {
		t.Error("a CA was made that nobody needs")
	}

	// Broken, it is said to be theirs, and the last good one stays. Without ca.crt nobody is told to believe anybody.
	broken := supplied(t, 0)
	broken.Data[CertFile] = []byte("half")
	c.write(t, broken)
	if err := r.Refresh(t.Context(), now); err == nil || !strings.Contains(err.Error(), "Secret "+c.namespace+"/"+
		theLeaf+" is managed by a user") {
		t.Errorf("got %v", err)
	}
	serves(t, string(second.Data[CAFile]), r, now)
	alone := supplied(t, 0)
	ca := string(alone.Data[CAFile])
	delete(alone.Data, CAFile)
	c.write(t, alone)
	refresh(t, r, now)
	serves(t, ca, r, now)
	if got := c.published(t); got != "" || r.CA() != nil {
		t.Errorf("published is %q, known %q", got, r.CA())
	}

	// They take theirs away: ours is made.
	c.delete(t, theLeaf)
	refresh(t, r, now)
	if err := trusts(t, []byte(c.published(t)), r, "not-in-it.example.com", now); err != nil {
		t.Error(err)
	}
}

func emptySecrets(t *testing.T, c *cluster) {
	c.write(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: theCA, Labels: map[string]string{"by": "kustomize"}}})
	c.write(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: theLeaf}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{CertFile: nil, CertKeyFile: nil},
	})
	now := time.Now()
	r, _ := c.replica(t, now, nil)
	serves(t, c.published(t), r, now)
	if c.secret(t, theCA).Labels["by"] != "kustomize" {
		t.Error("what others said of the Secret is lost")
	}
}

func theirCA(t *testing.T, c *cluster) {
	m, err := material{}.renewed(nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(caLifetime - 40*day) // a CA with 40 days left
	c.write(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: theCA}, Data: map[string][]byte{
		CAFile:    m.ca,
		CAKeyFile: m.caKey,
	}})
	version := c.secret(t, theCA).ResourceVersion
	r, _ := c.replica(t, now, nil)
	serves(t, string(m.ca), r, now.Add(39*day))
	leaf := c.secret(t, theLeaf).ResourceVersion
	refresh(t, r, now.Add(30*day))
	if c.secret(t, theCA).ResourceVersion != version || c.secret(t, theLeaf).ResourceVersion != leaf {
		t.Error("their CA was renewed, or the certificate made again though it cannot last longer")
	}
	c.write(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: theCA}, Data: map[string][]byte{CAFile: m.ca}})
	if err := r.Refresh(t.Context(), now); err == nil || !strings.Contains(err.Error(), "add the other one") {
		t.Errorf("ca.crt alone: got %v", err)
	}
	serves(t, string(m.ca), r, now)
}
