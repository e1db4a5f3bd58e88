package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/secrets"
)

// nodeSecrets has nodes read the secrets of their configs, with the rights of the server's account: a new value, a
// Secret that is gone, another server, and a pool that may no longer have it.
func nodeSecrets(t *testing.T, p *plane) {
	const name, value = "rendered-secretive-1", "hush-6c1d"
	rendered := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rendered.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/pull","contents":{"source":"` +
			machineconfig.TemplateURL("${secret:registry/pull}") + `"}}]}}`)
	pool := selecting("secretive", name)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.SecretsNamespace, Name: "registry",
			Annotations: map[string]string{v1alpha1.SecretPoolsAnnotation: "secretive"},
		},
		Data: map[string][]byte{"pull": []byte(value)},
	}
	p.create(t, rendered, pool, inRoles("secretive-0", "secretive"), inRoles("curious-0", "curious"), secret)
	defer func() {
		if err := errors.Join(p.admin.Delete(t.Context(), pool), p.admin.Delete(t.Context(), rendered)); err != nil {
			t.Error(err)
		}
	}()
	c, log, _ := run(t, p.server, Options{})
	log.await(t, "ready")
	var said bytes.Buffer
	server := func() *secrets.Follower {
		t.Helper()
		f, err := secrets.NewFollower(p.server, secrets.Options{
			Pools: c.NodePools, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(&said, nil)), NewDecrypt: func(context.Context,
				[][]byte,
			) (secrets.Decrypt, error) {
				return nil, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	reads := func(f *secrets.Follower) v1alpha1.SecretsRevision {
		t.Helper()
		if err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		published := &corev1.ConfigMap{}
		if err := p.admin.Get(t.Context(), client.ObjectKey{
			Namespace: v1alpha1.ServerNamespace,
			Name:      v1alpha1.SecretsConfigMap,
		}, published); err != nil {
			t.Fatal(err)
		}
		var out v1alpha1.SecretsRevision
		if err := json.Unmarshal([]byte(published.Data[name]), &out); err != nil ||
			strings.Contains(published.Data[name], value) {
			t.Fatalf("published: %s, %v", published.Data, err)
		}
		return out
	}
	gets := func(because string, f *secrets.Follower, want string) {
		t.Helper()
		text, err := f.NodeSecrets(t.Context(), "secretive-0", name)
		var got v1alpha1.NodeSecrets
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || len(got.Files) != 1 || string(got.Files[0].Contents) != want {
			t.Errorf("%s: %v %s", because, err, text)
		}
	}
	update := func(change func()) {
		t.Helper()
		change()
		if err := p.admin.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	first, second := server(), server()
	if _, err := first.NodeSecrets(t.Context(), "secretive-0", name); !errors.Is(err, mcs.ErrAPIUnavailable) {
		t.Errorf("before the first read: %v", err)
	}
	one := reads(first)
	gets("a Secret for the pool", first, value)
	if two := reads(second); one.Revision == "" || two.Revision != one.Revision || len(one.Changes) != 1 ||
		one.Changes[0].Object != "secret:registry" || one.Changes[0].Manager == "" ||
		time.Since(one.Changes[0].Time) > time.Hour {
		t.Errorf("two servers publish %+v and %+v", one, two)
	}
	for node, want := range map[string]string{
		"curious-0": "it is in no pool",
		"gone":      "there is no Node of that name",
	} {
		var refused *mcs.NotForNodeError
		if text, err := first.NodeSecrets(t.Context(), node, name); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("node %s reads %s %v", node, text, err)
		}
	}
	if _, err := first.NodeSecrets(t.Context(), "secretive-0", "rendered-secretive-2"); !errors.Is(err,
		mcs.ErrNoSuchConfig) {
		t.Errorf("a config of which nobody knows: %v", err)
	}
	update(func() { secret.Data["pull"] = []byte(value + "-new") })
	two := reads(first)
	if gets("a new value", first, value+"-new"); two.Revision == one.Revision || len(two.Problems) != 0 {
		t.Errorf("a new value has %+v", two)
	}
	update(func() { secret.Annotations = nil })
	three := reads(first)
	if _, err := first.NodeSecrets(t.Context(), "secretive-0", name); !errors.Is(err, mcs.ErrSecretsUnresolved) ||
		three.Revision != two.Revision || len(three.Problems) != 1 ||
		three.Problems[0].Reason != v1alpha1.SecretNotForPool {
		t.Errorf("a pool that may no longer have it: %v, %+v", err, three)
	}
	if err := p.admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	restarted := server()
	if four := reads(restarted); four.Revision != two.Revision || four.Problems[0].Reason != v1alpha1.SecretNotFound {
		t.Errorf("a server that never knew the value publishes %+v", four)
	}
	if text := said.String(); strings.Contains(text, value) {
		t.Errorf("the log has %s", text)
	}
}

// keyServiceAway has a key service that is away while a config is published: the problem is public, and the server asks
// again without a change in the cluster, but not at once.
func keyServiceAway(t *testing.T, p *plane) {
	const name, value = "rendered-sealed-1", "hush-9a40"
	rendered := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rendered.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/pull","contents":{"source":"` +
			machineconfig.SOPSURL("binary", []byte("sealed")) + `"}}]}}`)
	pool := selecting("sealed", name)
	p.create(t, rendered, pool)
	defer func() {
		if err := errors.Join(p.admin.Delete(t.Context(), pool), p.admin.Delete(t.Context(), rendered)); err != nil {
			t.Error(err)
		}
	}()
	now, asked, away := time.Now(), 0, true
	f, err := secrets.NewFollower(p.server, secrets.Options{
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		NewDecrypt: func(ctx context.Context, _ [][]byte) (secrets.Decrypt, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the key service has no limit of time")
			}
			return func(string, []byte) ([]byte, error) {
				if asked++; away {
					return nil, secrets.ErrKeyService
				}
				return []byte(value), nil
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		later  time.Duration
		away   bool
		asked  int
		reason string
	}{
		{0, true, 1, v1alpha1.SecretKeyService},
		{time.Second, true, 1, v1alpha1.SecretKeyService},
		{5 * time.Second, true, 2, v1alpha1.SecretKeyService},
		{5 * time.Second, false, 2, v1alpha1.SecretKeyService},
		{5 * time.Second, false, 3, ""},
		{time.Hour, true, 3, ""},
	} {
		now, away = now.Add(step.later), step.away
		if err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		published := &corev1.ConfigMap{}
		if err := p.admin.Get(t.Context(), client.ObjectKey{
			Namespace: v1alpha1.ServerNamespace, Name: v1alpha1.SecretsConfigMap,
		}, published); err != nil {
			t.Fatal(err)
		}
		var is v1alpha1.SecretsRevision
		if err := json.Unmarshal([]byte(published.Data[name]), &is); err != nil {
			t.Fatal(err)
		}
		reason := ""
		for _, problem := range is.Problems {
			reason += problem.Reason
		}
		if asked != step.asked || reason != step.reason || (is.Revision == "") != (step.reason != "") {
			t.Errorf("%+v: asked %d times, published %+v", step, asked, is)
		}
	}
}
