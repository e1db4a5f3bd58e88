package secrets

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// replicas are servers of one cluster that publish in turn.
type replicas struct {
	t         *testing.T
	config    Config
	values    map[string]string // of Secrets
	published map[string]v1alpha1.SecretsRevision
	text      string // what is published, as a ConfigMap has it
	writes    int
}

type replica struct {
	own, public State
	// its key service does not answer
	away bool
}

// read lets a server read, resolve and publish, as a Follower does.
func (r *replicas) read(s *replica) {
	r.t.Helper()
	s.own = Next(s.own, []Config{r.config}, Source{
		Objects: valuesOf(r.values), Key: key, Published: r.published,
		Decrypt: func(format string, body []byte) ([]byte, error) {
			if s.away {
				return nil, fmt.Errorf("%w: it does not answer", ErrKeyService)
			}
			return decrypt(format, body)
		},
	})
	r.publish(s)
}

// publish lets a server compare what it resolved with what is published, as a Follower does when nothing has changed.
func (r *replicas) publish(s *replica) {
	r.t.Helper()
	s.public = WithEarlier(Beside(s.own, r.published), r.published, nil)
	text, err := json.Marshal(s.public[r.config.Name].Published)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.text != string(text) {
		r.writes++
	}
	r.text = string(text)
	var is v1alpha1.SecretsRevision
	if err := json.Unmarshal(text, &is); err != nil {
		r.t.Fatal(err)
	}
	r.published, s.own = map[string]v1alpha1.SecretsRevision{r.config.Name: is}, Told(s.own)
}

// settle lets the servers publish in turn until nobody writes any more, which must be soon.
func (r *replicas) settle(servers ...*replica) v1alpha1.SecretsRevision {
	r.t.Helper()
	for range 4 {
		before := r.writes
		for _, s := range servers {
			r.publish(s)
		}
		if r.writes == before {
			return r.published[r.config.Name]
		}
	}
	r.t.Fatalf("the servers replace each other's revision without end: %s", r.text)
	return v1alpha1.SecretsRevision{}
}

// TestServersThatResolveDifferentlyAgree: a server that cannot resolve a config replaces nothing that another one has
// resolved, and what no server can resolve is published.
func TestServersThatResolveDifferentlyAgree(t *testing.T) {
	sops := machineconfig.SOPSURL("binary", []byte("plain"))
	for kind, config := range map[string]Config{
		"a config for all nodes": rendered(t, "rendered-worker-1", "/etc/a", to("one"), "/etc/b", sops),
		"configs of single nodes": ofNodes(t, map[string][]string{
			"": {"/etc/a", to("one"), "/etc/b", sops}, "a": {"/etc/a", to("one"), "/etc/b", sops},
			"b": {"/etc/a", to("two")},
		}),
	} {
		t.Run(kind, func(t *testing.T) {
			r := replicas{t: t, config: config, values: map[string]string{"one": "1", "two": "2"}}
			a, b := &replica{}, &replica{}
			check := func(when string, revision string, problem string) {
				t.Helper()
				is := r.settle(a, b)
				got := ""
				if len(is.Problems) > 0 {
					got = is.Problems[0].Reason
				}
				if is.Revision != revision || got != problem {
					t.Errorf("%s: published %q with problem %q; want %q with %q", when, is.Revision, got, revision,
						problem)
				}
				for name, s := range map[string]*replica{"a": a, "b": b} {
					served, _, _ := s.public.ForNode("a", nodeConfig(config))
					if served.Files != nil && served.Revision != s.revisionFor(config) {
						t.Errorf("%s: %s serves other contents than those of the revision", when, name)
					}
				}
			}
			r.read(a)
			r.read(b)
			first := r.published[config.Name].Revision
			check("all is well", first, "")

			*b = replica{away: true} // it started anew
			r.read(b)
			check("the key service of one server does not answer", first, "")

			r.values["one"] = "1b"
			r.read(a)
			r.read(b)
			second := r.published[config.Name].Revision
			if second == first {
				t.Fatal("a new value has the revision of the one before")
			}
			check("a value changes, and one server cannot resolve it", second, "")

			*a = replica{away: true}
			r.read(a)
			check("no server can resolve the config", second, v1alpha1.SecretKeyService)

			b.away = false
			r.read(b)
			check("the key service answers one of them", second, "")
			a.away = false
			r.read(a)
			check("it answers both", second, "")

			r.values["one"] = "1c"
			r.read(a)
			third := r.published[config.Name].Revision
			delete(r.values, "one") // before the other one has read it
			r.read(b)
			r.read(a)
			check("a Secret was deleted after one server had read it", third, v1alpha1.SecretNotFound)
		})
	}
}

// nodeConfig returns the config that node a runs.
func nodeConfig(c Config) string {
	if c.Nodes.IsZero() {
		return c.Name
	}
	return c.Nodes.Of("a")
}

// revisionFor is what a server publishes for node a.
func (s *replica) revisionFor(c Config) string {
	if is := s.public[c.Name].Published; is.Own != nil {
		return is.Own.ByConfig(c.Nodes)[nodeConfig(c)]
	}
	return s.public[c.Name].Published.Revision
}
