package certs

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func deleted(t *testing.T, c *cluster) {
	now := time.Now()
	r, log := c.replica(t, now, nil)
	ca := c.published(t)
	key := c.secret(t, theCA).Data[CAKeyFile]
	for _, gone := range [][]string{{theLeaf}, {theCA}, {theCA, theLeaf}} {
		log.read()
		c.delete(t, gone...)
		refresh(t, r, now)
		if got := c.secret(t, theCA); got == nil || !bytes.Equal(got.Data[CAKeyFile], key) {
			t.Fatalf("without %s: another CA", gone)
		}
		serves(t, ca, r, now)
		loud := strings.Contains(log.read(), `level=ERROR msg="the Secret of the CA was deleted`)
		if want := gone[0] == theCA; loud != want {
			t.Errorf("without %s: it is cried out: %v", gone, loud)
		}
	}
}

func forgotten(t *testing.T, c *cluster) {
	now := time.Now()
	knows, _ := c.replica(t, now, nil)
	ca := c.published(t)
	c.delete(t, theCA)
	r, log := c.replica(t, now, nil)
	serves(t, ca, r, now)
	if got := log.read(); !strings.Contains(got, "restore a copy before the certificate expires") {
		t.Errorf("the log says\n%s", got)
	}
	if c.secret(t, theCA) != nil {
		t.Fatal("another CA was made while the certificate of the first is good")
	}
	// One that knows writes it back, and this one goes on with it.
	refresh(t, knows, now)
	refresh(t, r, now.Add(certLifetime-day))
	serves(t, ca, r, now.Add(certLifetime+day))

	// Both Secrets are gone, and nobody knows: machines were told to believe a CA, so another is not made at once.
	c.delete(t, theCA, theLeaf)
	r, log = c.replica(t, now, nil)
	if got := log.read(); !strings.Contains(got, "the server creates another CA in 5m0s unless") {
		t.Errorf("the log says\n%s", got)
	}
	if _, err := r.TLS().GetCertificate(nil); err == nil {
		t.Error("there is a certificate of nobody")
	}
	if err := r.Refresh(t.Context(), now.Add(missingCATimeout-time.Second)); err == nil {
		t.Error("it does not wait")
	}
	refresh(t, r, now.Add(missingCATimeout))
	if got := log.read(); !strings.Contains(got, "create new pointer configs") {
		t.Errorf("the log says\n%s", got)
	}
	if c.published(t) == ca {
		t.Error("the lost CA is still published")
	}
	serves(t, c.published(t), r, now)
	refresh(t, knows, now.Add(missingCATimeout))
	serves(t, c.published(t), knows, now)
}

func aPersonsConfigMap(t *testing.T, c *cluster) {
	now := time.Now()
	maps := c.core.ConfigMaps(c.namespace)
	person := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: theCA},
		Data:       map[string]string{"server": "https://mcs.example.com:22623"},
	}
	if _, err := maps.Create(t.Context(), person, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, _ := c.replica(t, now, nil)
	serves(t, c.published(t), r, now)
	is, err := maps.Get(t.Context(), theCA, metav1.GetOptions{})
	if err != nil || is.Data["server"] != person.Data["server"] {
		t.Errorf("the server's URL is %q now, %v", is.Data["server"], err)
	}
	if err := maps.Delete(t.Context(), theCA, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	person.Data[CAFile] = "of a CA before ours"
	if _, err := maps.Create(t.Context(), person, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refresh(t, r, now)
	if got := c.published(t); got != person.Data[CAFile] {
		t.Errorf("somebody else's word is now\n%s", got)
	}
}

func urlsOfReplicas(t *testing.T, c *cluster) {
	now := time.Now()
	for _, replica := range []struct {
		because string
		urls    []string
		want    string
	}{
		{"the first replica", []string{"https://a:22623", "https://b:22623"}, "https://a:22623\nhttps://b:22623"},
		{"a replica with another name", []string{"https://c:22623", "https://a:22623"}, "https://a:22623\nhttps://b:22623\nhttps://c:22623"},
		{"a replica that knows no name", nil, "https://a:22623\nhttps://b:22623\nhttps://c:22623"},
	} {
		c.replica(t, now, func(s *Secret) { s.URLs = replica.urls })
		is, err := c.core.ConfigMaps(c.namespace).Get(t.Context(), theCA, metav1.GetOptions{})
		if err != nil || is.Data[v1alpha1.ServerURLsKey] != replica.want {
			t.Errorf("%s: the URLs are %q, %v", replica.because, is.Data[v1alpha1.ServerURLsKey], err)
		}
	}
	r, _ := c.replica(t, now, nil)
	serves(t, c.published(t), r, now)
}

func TestPublishedURLsAreBounded(t *testing.T) {
	var all string
	for i := range 2 * maxURLs {
		all = withURLs(all, []string{fmt.Sprintf("https://%d:22623", i)})
	}
	if n := len(strings.Fields(all)); n != maxURLs {
		t.Errorf("%d URLs are published", n)
	}
}

func withoutAPIServer(t *testing.T, c *cluster) {
	now := time.Now()
	dir := filepath.Join(t.TempDir(), "cache")
	cached := func(s *Secret) { s.Cache = dir }
	c.replica(t, now, cached)
	ca := c.published(t)
	if key, _ := (dirStore{dir: dir}).read(CAKeyFile); key != nil {
		t.Error("the CA's key left its Secret")
	}
	c.away.Store(true)
	r, log := c.replica(t, now, cached)
	serves(t, ca, r, now)
	if string(r.CA()) != ca {
		t.Error("it does not know whom to believe")
	}
	if got := log.read(); !strings.Contains(got, "will retry") {
		t.Errorf("the log says\n%s", got)
	}
	blank, log := c.replica(t, now, func(s *Secret) { s.Cache = filepath.Join(dir, "empty") })
	if _, err := blank.TLS().GetCertificate(nil); err == nil || !blank.Until().IsZero() {
		t.Error("there is a certificate of nobody")
	}
	if got := log.read(); !strings.Contains(got, "there is no certificate until the API server is reachable") {
		t.Errorf("the log says\n%s", got)
	}
	c.away.Store(false)
	refresh(t, blank, now)
	serves(t, ca, blank, now)
	refresh(t, r, now)
	serves(t, ca, r, now)
}

func fromDirectory(t *testing.T, c *cluster) {
	dir := t.TempDir()
	open(t, dir, "mcs.example.com")
	ca := string(read(t, dir, CAFile))
	now := time.Now()
	r, log := c.replica(t, now, func(s *Secret) { s.Cache = dir })
	if c.published(t) != ca {
		t.Error("another CA is published than machines were given")
	}
	serves(t, ca, r, now)
	if strings.Contains(log.read(), "ERROR") {
		t.Error("a first start is no accident")
	}
}
