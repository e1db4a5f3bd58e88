package cluster

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/trust"
)

// nodeTrust has nodes read certificates from a ConfigMap with the rights of the server's account: of their pools only,
// and the last valid ones while the ConfigMap is invalid, also after a restart.
func nodeTrust(t *testing.T, p *plane) {
	pool := selecting("trusting", "")
	p.create(t, pool, inRoles("trusting-0", "trusting"), inRoles("poolless"))
	ca := p.config.CAData
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.ServerNamespace, Name: "user-ca",
			Labels:      map[string]string{v1alpha1.TrustLabel: v1alpha1.TrustUserCA},
			Annotations: map[string]string{v1alpha1.TrustPoolsAnnotation: "trusting"},
		},
		Data: map[string]string{v1alpha1.TrustBundleKey: string(ca)},
	}
	other := object.DeepCopy()
	other.Name, other.Annotations = "other", map[string]string{v1alpha1.TrustPoolsAnnotation: "elsewhere"}
	p.create(t, object, other)
	defer func() {
		if err := errors.Join(p.admin.Delete(t.Context(), pool), p.admin.Delete(t.Context(), other)); err != nil {
			t.Error(err)
		}
	}()
	cached, err := OpenCache(filepath.Join(t.TempDir(), "cache"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, log, _ := run(t, p.server, Options{Cache: cached})
	log.await(t, "ready")
	var said bytes.Buffer
	follower := func(config *rest.Config) *trust.Follower {
		t.Helper()
		f, err := trust.NewFollower(config, trust.Options{
			Cache: cached, Pools: c.NodePools,
			Log: slog.New(slog.NewTextHandler(&said, nil)), Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	gets := func(because string, f *trust.Follower, want int) v1alpha1.NodeTrust {
		t.Helper()
		text, _, err := f.NodeTrust(t.Context(), "trusting-0", "")
		var got v1alpha1.NodeTrust
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || len(got.Files) != want || len(got.Keep) != 0 {
			t.Errorf("%s: %v %s", because, err, text)
		}
		return got
	}
	reads := func(f *trust.Follower) {
		t.Helper()
		if err := f.Read(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f := follower(p.server)
	if _, _, err := f.NodeTrust(t.Context(), "trusting-0", ""); !errors.Is(err, mcs.ErrAPIUnavailable) {
		t.Errorf("before the first read: %v", err)
	}
	reads(f)
	first := gets("a valid object", f, 1)
	if block, _ := pem.Decode([]byte(first.Files[0].Contents)); block == nil ||
		first.Files[0].From != "bunsen-system/user-ca" {
		t.Errorf("the node gets %v", first)
	}
	for node, want := range map[string]string{"poolless": "it is in no pool", "gone": "there is no Node of that name"} {
		var refused *mcs.NotForNodeError
		if text, _, err := f.NodeTrust(t.Context(), node, ""); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("node %s reads %s %v", node, text, err)
		}
	}
	object.Data[v1alpha1.TrustBundleKey] = "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n"
	if err := p.admin.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	reads(f)
	reads(f)
	if got := gets("an invalid object", f, 1); got.Revision != first.Revision {
		t.Errorf("an invalid object changes the revision: %v", got)
	}
	if text := said.String(); strings.Count(text, "PRIVATE KEY: remove it") != 1 || strings.Contains(text, "aHVzaA") {
		t.Errorf("the log has %s", text)
	}
	again := follower(p.server)
	gets("after a restart, before the first read", again, 1)
	reads(again)
	gets("after a restart", again, 1)
	if err := p.admin.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	reads(again)
	gets("after the object was deleted", again, 0)
}
