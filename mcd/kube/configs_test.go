package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// read reads a config, and returns from where.
func (r *serverRig) read(name string) (from string, err error) {
	mc, err := r.cluster.Config(r.t.Context(), name)
	return mc.Annotations["from"], err
}

func TestWhereANodeReadsItsConfig(t *testing.T) {
	closed := func(r *serverRig) { r.forbidden["machineconfigs"] = true }
	for says, c := range map[string]struct {
		set  func(r *serverRig)
		from string
		// fails are parts of the error; none: it is read.
		fails []string
	}{
		"the server gives it":                    {func(*serverRig) {}, "server", nil},
		"no server publishes its address":        {func(r *serverRig) { r.published = nil }, "api", nil},
		"the server is too old to publish a URL": {func(r *serverRig) { delete(r.published, "urls") }, "api", nil},
		"nodes may not read where servers are":   {func(r *serverRig) { r.forbidden["configmaps"] = true }, "api", nil},
		"the server is too old to serve nodes":   {func(r *serverRig) { r.answer = say(404, "404 page not found\n") }, "api", nil},
		"the server is down":                     {func(r *serverRig) { r.server.Close() }, "api", nil},
		"the administrator's URL comes first": {func(r *serverRig) {
			r.published["server"], r.published["urls"] = r.server.URL+"/", "https://127.0.0.1:1"
			closed(r)
		}, "server", nil},
		"the next server gives it where one does not answer": {func(r *serverRig) {
			r.published["server"] = "https://127.0.0.1:1"
			closed(r)
		}, "server", nil},
		"no server and no right": {func(r *serverRig) { r.published = nil; closed(r) }, "", []string{
			"no machine-config-server is known", "there is no ConfigMap bunsen-system/machine-config-server-ca",
			"config/components/nodes-read-configs",
		}},
		"no right to read where servers are, and none to read configs": {func(r *serverRig) {
			r.forbidden["configmaps"] = true
			closed(r)
		}, "", []string{
			"may not read ConfigMap bunsen-system/machine-config-server-ca; apply config/rbac",
			"config/components/nodes-read-configs",
		}},
		"a URL that is none": {func(r *serverRig) { r.published["urls"] = "http://10.0.0.1"; closed(r) }, "", []string{"http://10.0.0.1", "want https://HOST:PORT"}},
		"a config of another pool": {func(r *serverRig) {
			r.answer = say(403, "node worker-0 is in pool worker, not infra\n")
			closed(r)
		}, "", []string{
			"answers 403 Forbidden: node worker-0 is in pool worker, not infra;",
		}},
		"a refusal with hidden characters and much text": {func(r *serverRig) {
			r.answer = say(401, "no\x1b[31m\u202e"+strings.Repeat("x", 5000)+"\nsecond")
			closed(r)
		}, "", []string{
			`answers 401 Unauthorized: no\x1b[31m\u202ex`, "x…; ",
		}},
		"a server that is not ready":      {func(r *serverRig) { r.answer = say(503, ""); closed(r) }, "", []string{"answers 503 Service Unavailable: no reason given"}},
		"a server of another CA":          {func(r *serverRig) { r.published["urls"] = r.serve(newAuthority(t)).URL; closed(r) }, "", []string{"does not answer: ", "certificate"}},
		"a redirect":                      {func(r *serverRig) { r.answer = say(302, "", "Location", r.server.URL+"/elsewhere"); closed(r) }, "", []string{"answers 302 Found"}},
		"another config than asked for":   {func(r *serverRig) { r.answer = give("2"); closed(r) }, "", []string{`it is the config "` + named("2") + `", not "` + named("1") + `"`}},
		"another content under that name": {func(r *serverRig) { r.answer = give("2", named("1")); closed(r) }, "", []string{"its content does not match the name " + named("1")}},
		"what is no config":               {func(r *serverRig) { r.answer = say(200, "hello"); closed(r) }, "", []string{"gives no usable answer: it is not a MachineConfig in JSON"}},
		"a kubeconfig without a client certificate": {func(r *serverRig) {
			closed(r)
			config, _ := r.cluster.loadConfig()
			config.CertFile, config.KeyFile = "", ""
		}, "", []string{"no client certificate"}},
	} {
		t.Run(says, func(t *testing.T) {
			r := newServerRig(t)
			c.set(r)
			from, err := r.read(named("1"))
			if from != c.from || (err == nil) != (c.fails == nil) || err != nil &&
				!errors.Is(err, report.ErrUnreachable) {
				t.Errorf("from %q: %v", from, err)
			}
			for _, part := range c.fails {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it does not say %q: %v", part, err)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 800) {
				t.Errorf("too much: %q", err)
			}
		})
	}
}

// TestAServerAddsNothingUnderTheRightName answers with a section twice: the name of the config is made of the last one
// only.
func TestAServerAddsNothingUnderTheRightName(t *testing.T) {
	r := newServerRig(t)
	r.forbidden["machineconfigs"] = true
	r.answer = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w,
			`{"metadata":{"name":%q},"spec":{"osImageURL":"1","kernelArguments":["a=1"],"config":{"ignition":{"version":"3.5.0"},
			"storage":{"directories":[{"path":"/etc/other"}]},
			"storage":{"files":[{"path":"/etc/a","mode":420,"contents":{"source":"data:,%%0Aa"},"b":null,"append":[]}]}}}}`, named("1"))
	}
	mc, err := r.cluster.Config(t.Context(), named("1"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil || len(config.Ignition.Storage.Files) != 1 || len(config.Ignition.Storage.Directories) != 0 {
		t.Errorf("the daemon would apply %+v, %v", config.Ignition.Storage, err)
	}
}

func TestAConfigThatTheServerDoesNotHaveIsNotFound(t *testing.T) {
	r := newServerRig(t)
	r.answer = say(404, "no such config", v1alpha1.ReasonHeader, v1alpha1.ReasonNoSuchConfig)
	if _, err := r.read("rendered-worker-gone"); !apierrors.IsNotFound(err) || errors.Is(err, report.ErrUnreachable) {
		t.Error(err)
	}
	for _, kind := range r.apiAsked {
		if kind == "machineconfigs" {
			t.Error("the API server was asked, too")
		}
	}
}

func TestAConfigIsFetchedOnceAndWithTheNewestCertificate(t *testing.T) {
	r := newServerRig(t)
	for range 3 {
		if from, err := r.read(named("1")); from != "server" || err != nil {
			t.Fatal(from, err)
		}
	}
	for i := range maxCached + 1 {
		image := fmt.Sprint("other-", i)
		r.answer = give(image)
		r.renew(fmt.Sprint("renewed-", i))
		if _, err := r.read(named(image)); err != nil {
			t.Fatal(err)
		}
	}
	r.answer = give("1")
	if _, err := r.read(named("1")); err != nil {
		t.Fatal(err)
	}
	want := "system:node:worker-0 1, renewed-0 other-0, renewed-1 other-1, renewed-2 other-2, renewed-3 other-3, " +
		"renewed-3 1"
	for _, image := range []string{"1", "other-0", "other-1", "other-2", "other-3"} {
		want = strings.ReplaceAll(want+",", " "+image+",", " /node/config/"+named(image)+",")
		want = strings.TrimSuffix(want, ",")
	}
	if got := strings.Join(r.asked, ", "); got != want {
		t.Errorf("the server was asked\n%s\nnot\n%s", got, want)
	}
	if len(r.apiAsked) != 1 {
		t.Errorf("the API server was asked %q", r.apiAsked)
	}
}

func TestWhatIsKnownOfServersOutlivesTheDaemonAndFollowsThem(t *testing.T) {
	r := newServerRig(t)
	var kept []byte
	options := ServerOptions{
		Load: func() ([]byte, error) { return kept, nil },
		Save: func(_ context.Context, text []byte) error { kept = text; return nil },
	}
	r.cluster.FindServers(options)
	if from, err := r.read(named("1")); from != "server" || err != nil {
		t.Fatal(from, err)
	}
	// The API server is away, and the daemon starts again.
	load := r.cluster.loadConfig
	away := NewConnection("worker-0", func() (*rest.Config, error) {
		config, err := load()
		config = rest.CopyConfig(config)
		config.Host = "https://127.0.0.1:1"
		return config, err
	})
	away.FindServers(options)
	if mc, err := away.Config(t.Context(), named("1")); err != nil || mc.Annotations["from"] != "server" {
		t.Error(mc.Annotations, err)
	}
	// The servers have moved, to another CA: nothing has to expire before the daemon follows.
	ca := newAuthority(t)
	moved := r.serve(ca)
	r.server.Close()
	r.published = map[string]string{"ca.crt": string(ca.pem), "urls": moved.URL}
	r.answer = give("2")
	if mc, err := r.cluster.Config(t.Context(), named("2")); err != nil || mc.Name != named("2") {
		t.Error(err)
	}
	if !strings.Contains(string(kept), moved.URL) {
		t.Errorf("kept is %s", kept)
	}
}

func TestFlagsReplaceWhatServersPublish(t *testing.T) {
	r := newServerRig(t)
	r.forbidden["machineconfigs"] = true
	ca := r.published["ca.crt"]
	r.published = nil
	r.cluster.FindServers(ServerOptions{URLs: []string{r.server.URL}, CA: func() ([]byte, error) {
		return []byte(ca), nil
	}})
	if from, err := r.read(named("1")); from != "server" || err != nil {
		t.Error(from, err)
	}
	if len(r.apiAsked) > 0 {
		t.Errorf("the API server was asked for %q", r.apiAsked)
	}
}

func TestWhereServersAreIsReadAgainWhenNoneCanBeTrusted(t *testing.T) {
	r := newServerRig(t)
	r.published["urls"] = r.serve(newAuthority(t)).URL
	for range 2 {
		if from, err := r.read(named("1")); from != "api" || err != nil {
			t.Error(from, err)
		}
	}
	if got := strings.Join(r.apiAsked, " "); got != "configmaps configmaps machineconfigs configmaps machineconfigs" ||
		len(r.asked) > 0 {
		t.Errorf("the API server was asked for %s, and the server for %q", got, r.asked)
	}
}

func TestWhereServersAreIsReadAgainUntilOnePublishesIt(t *testing.T) {
	r := newServerRig(t)
	all := r.published
	r.published = nil
	r.cluster.FindServers(ServerOptions{URLs: []string{r.server.URL}})
	if _, err := r.cluster.Trust(t.Context(), ""); err == nil ||
		!strings.Contains(err.Error(), "is not known: there is no ConfigMap") {
		t.Errorf("before a server publishes its CA: %v", err)
	}
	r.published = all
	if from, err := r.read(named("1")); from != "server" || err != nil {
		t.Errorf("%s %v", from, err)
	}
}

func TestNodesSpreadOverTheServers(t *testing.T) {
	p := published{Server: "https://vip:22623", URLs: []string{
		"https://a:1", "https://b:1", "https://c:1",
		"https://a:1",
	}}
	first := map[string]int{}
	for i := range 300 {
		urls, err := p.orderedURLs(fmt.Sprint("node-", i))
		if err != nil || len(urls) != 4 || urls[0] != "https://vip:22623" {
			t.Fatal(urls, err)
		}
		first[urls[1]]++
	}
	if len(first) != 3 {
		t.Errorf("they begin at %v", first)
	}
}

func TestANodeReportsWhereItReadsConfigs(t *testing.T) {
	for says, c := range map[string]struct {
		allowed, down bool
		want          v1alpha1.ConfigSource
	}{
		"a node without the right says nothing before it has read one": {false, false, ""},
		"a node with the right tries the server":                       {true, false, v1alpha1.ConfigsFromServer},
		"a node with the right that needs it":                          {true, true, v1alpha1.ConfigsFromAPIServer},
	} {
		t.Run(says, func(t *testing.T) {
			r := newServerRig(t)
			r.allowed = c.allowed
			if c.down {
				r.server.Close()
			}
			var a access
			for range 2 { // the second time is within the hour
				a.update(t.Context(), r.cluster)
			}
			if from := r.cluster.configs.lastSource(); a.readsAll != c.allowed || from != c.want {
				t.Errorf("%+v, from %q", a, from)
			}
			if asked := strings.Count(strings.Join(r.apiAsked, " "), "selfsubjectaccessreviews"); asked != 1 {
				t.Errorf("it asked %d times", asked)
			}
			if c.down != strings.Contains(r.log.String(), "read through the API server") {
				t.Errorf("the log: %s", r.log.String())
			}
		})
	}
}
