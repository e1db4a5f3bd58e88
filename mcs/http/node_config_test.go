package http

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// fleet answers for nodes by their pools; the config of pool infra has a secret.
type fleet map[string][]string

func (f fleet) NodeConfig(_ context.Context, node, config string) ([]byte, error) {
	if config == "rendered-away-1" {
		return nil, mcs.ErrAPIUnavailable
	}
	if err := mcs.CheckNodeConfig(node, f[node], config); err != nil {
		return nil, err
	}
	switch config {
	case "rendered-worker-1":
		return []byte(`{"kind":"MachineConfig"}`), nil
	case "rendered-infra-1":
		return []byte(hush), nil
	case "rendered-worker-broken":
		return nil, errors.New("decoding " + hush)
	}
	return nil, mcs.ErrNoSuchConfig
}

// NodeTrust answers nodes that have a pool.
func (f fleet) NodeTrust(_ context.Context, node, known string) ([]byte, string, error) {
	switch {
	case len(f[node]) == 0:
		return nil, "", &mcs.NotForNodeError{Node: node, Why: errors.New("it is in no pool")}
	case known == "1":
		return nil, known, nil
	}
	return []byte(`{"revision":"1","files":[{"contents":"` + hush + `"}]}`), "1", nil
}

// TestANodeReadsWhatItTrusts has other clients too, and reads the audit log, which has no content.
func TestANodeReadsWhatItTrusts(t *testing.T) {
	audit := make(audits, 100)
	kubelets, machines, server := nodes(t, audit)
	for _, c := range []struct {
		because string
		subject pkix.Name
		by      *authority
		path    string
		status  int
		audit   string
	}{
		{"a node", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "", 200, `"by":"node"`},
		{"a node with more of a path", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "/b", 404, ""},
		{"a node in no pool", pkix.Name{CommonName: "system:node:b", Organization: kubelet}, &kubelets, "", 403, "node b may not read trust: it is in no pool"},
		{"another client of the API server", pkix.Name{CommonName: "kubernetes-admin"}, &kubelets, "", 401, "needs the certificate"},
		{"a certificate by the authority of machines", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &machines, "", 401, "needs the certificate"},
	} {
		r := fetch(t, server.client("127.0.0.9", c.by.issue(t, c.subject)), server.url(v1alpha1.NodeTrustPath+c.path))
		body := text(t, r)
		if r.StatusCode != c.status || strings.Contains(body, hush) != (c.status == 200) {
			t.Errorf("%s: %d %q", c.because, r.StatusCode, body)
		}
		if c.audit == "" {
			continue
		}
		if line := string(<-audit); !strings.Contains(line, c.audit) || !strings.Contains(line, `"config":"trust"`) ||
			strings.Contains(line, hush) {
			t.Errorf("%s: the audit log has %s", c.because, line)
		}
	}
}

// NodeSecrets answers for the configs of NodeConfig that have references.
func (f fleet) NodeSecrets(_ context.Context, node, config string) ([]byte, error) {
	if err := mcs.CheckNodeConfig(node, f[node], config); err != nil {
		return nil, err
	}
	switch config {
	case "rendered-worker-1":
		return []byte(`{"revision":"1","files":[{"path":"/etc/a","contents":"` + hush + `"}]}`), nil
	case "rendered-worker-2":
		return nil, mcs.ErrSecretsUnresolved
	}
	return nil, mcs.ErrNoSuchConfig
}

// Resolved has contents for one config.
func (f fleet) Resolved(config string) (mcs.Secrets, bool) {
	if config != "rendered-referring-1" {
		return mcs.Secrets{}, false
	}
	return mcs.Secrets{Revision: "r1", Contents: map[string][]byte{"/etc/a": []byte(hush)}}, true
}

// TestANodeReadsTheSecretsOfItsConfigs has other clients and other configs too. The audit log has no content.
func TestANodeReadsTheSecretsOfItsConfigs(t *testing.T) {
	audit := make(audits, 100)
	kubelets, machines, server := nodes(t, audit)
	for _, c := range []struct {
		because string
		subject pkix.Name
		by      *authority
		config  string
		status  int
		audit   string
	}{
		{"a node", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-1", 200, `"config":"secrets-of-rendered-worker-1"`},
		{"values that are not known", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-2", 503, "cannot resolve its secrets"},
		{"a config without references", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-3", 404, "no such config"},
		{"a config of another pool", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-infra-1", 403, "not in infra"},
		{"more of a path", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-1/x", 403, "may not read"},
		{"no config", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "", 403, "may not read"},
		{"a node in no pool", pkix.Name{CommonName: "system:node:b", Organization: kubelet}, &kubelets, "rendered-worker-1", 403, "it is in no pool"},
		{"another client of the API server", pkix.Name{CommonName: "kubernetes-admin"}, &kubelets, "rendered-worker-1", 401, "needs the certificate"},
		{"a certificate by the authority of machines", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &machines, "rendered-worker-1", 401, "needs the certificate"},
	} {
		r := fetch(t, server.client("127.0.0.9", c.by.issue(t, c.subject)),
			server.url(v1alpha1.NodeSecretsPath+c.config))
		body := text(t, r)
		if r.StatusCode != c.status || strings.Contains(body, hush) != (c.status == 200) ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q %v", c.because, r.StatusCode, body, r.Header)
		}
		if line := string(<-audit); !strings.Contains(line, c.audit) || strings.Contains(line, hush) {
			t.Errorf("%s: the audit log has %s", c.because, line)
		}
	}
}

// TestANodeThatKnowsWhatItTrustsGetsNoBody asks with the revision of the answer before. The audit log has the answers
// with contents only.
func TestANodeThatKnowsWhatItTrustsGetsNoBody(t *testing.T) {
	audit := make(audits, 100)
	kubelets, _, server := nodes(t, audit)
	client := server.client("127.0.0.9",
		kubelets.issue(t, pkix.Name{CommonName: "system:node:a", Organization: kubelet}))
	for _, c := range []struct {
		tag    string
		status int
	}{{"", 200}, {`"1"`, 304}, {`"0"`, 200}, {`W/"1"`, 200}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url(v1alpha1.NodeTrustPath), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("If-None-Match", c.tag)
		r, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if body := text(t, r); r.StatusCode != c.status || (body == "") != (c.status == 304) ||
			r.Header.Get("ETag") != `"1"` {
			t.Errorf("with %q: %d %q %v", c.tag, r.StatusCode, body, r.Header)
		}
	}
	for range 3 { // the server writes a line after its answer
		if line := string(<-audit); !strings.Contains(line, `"status":200`) {
			t.Errorf("the audit log has %s", line)
		}
	}
}

// nodes is a server that believes kubelets' certificates of one authority, and machines' of another.
func nodes(t *testing.T, log io.Writer) (kubelets, machines authority, server running) {
	t.Helper()
	kubelets, machines = newAuthority(t, "kubelets"), newAuthority(t, "machines")
	cas, clients := &ClientCASet{}, believing(t, machines)
	if err := cas.Replace(kubelets.pem()); err != nil {
		t.Fatal(err)
	}
	h, _ := Routes(Options{
		Source: filled(t), Log: quiet, ClientCAs: clients, Audit: log,
		Nodes: Nodes{
			CAs: cas, Configs: fleet{"a": {"worker"}, "b": {"infra", "worker"}},
			Trust: fleet{"a": {"worker"}, "b": nil}, Secrets: fleet{"a": {"worker"}, "b": nil},
		},
	})
	return kubelets, machines, start(t, Server{Handler: h, ClientCAs: clients, NodeCAs: cas})
}

var kubelet = []string{"system:nodes"}

func TestANodeReadsTheConfigsOfItsPools(t *testing.T) {
	audit := make(audits, 100)
	kubelets, machines, server := nodes(t, audit)
	for _, c := range []struct {
		because string
		subject pkix.Name
		by      *authority
		path    string
		status  int
		reason  string
	}{
		{"a config of its pool", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-1", 200, ""},
		{"a config of the pool that its pool inherits from", pkix.Name{CommonName: "system:node:b", Organization: kubelet}, &kubelets, "rendered-worker-1", 200, ""},
		{"a config of another pool", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-infra-1", 403, "NotForNode"},
		{"a config of another pool, by a path with another element", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "x/rendered-infra-1", 403, "NotForNode"},
		{"a node that is in no pool", pkix.Name{CommonName: "system:node:c", Organization: kubelet}, &kubelets, "rendered-worker-1", 403, "NotForNode"},
		{"a config that is not rendered", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "00-worker", 403, "NotForNode"},
		{"no name", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "", 403, "NotForNode"},
		{"a config that is gone", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-2", 404, v1alpha1.ReasonNoSuchConfig},
		{"a config that cannot be decoded", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-worker-broken", 500, "Broken"},
		{"an API server that is away", pkix.Name{CommonName: "system:node:a", Organization: kubelet}, &kubelets, "rendered-away-1", 503, "NoAnswer"},
		{"a node's name outside of the organization of nodes", pkix.Name{CommonName: "system:node:b"}, &kubelets, "rendered-infra-1", 401, "NoNode"},
		{"the organization of nodes without a node's name", pkix.Name{CommonName: "b", Organization: kubelet}, &kubelets, "rendered-infra-1", 401, "NoNode"},
		{"a node of no name", pkix.Name{CommonName: "system:node:", Organization: kubelet}, &kubelets, "rendered-infra-1", 401, "NoNode"},
		{"another client of the API server", pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}}, &kubelets, "rendered-infra-1", 401, "NoNode"},
		{"a certificate of a node by the authority of machines", pkix.Name{CommonName: "system:node:b", Organization: kubelet}, &machines, "rendered-infra-1", 401, "NoNode"},
		{"no certificate", pkix.Name{}, nil, "rendered-infra-1", 401, "NoNode"},
	} {
		var shown []tls.Certificate
		if c.by != nil {
			shown = append(shown, c.by.issue(t, c.subject))
		}
		r := fetch(t, server.client("127.0.0.9", shown...), server.url(v1alpha1.NodeConfigPath+c.path))
		body := text(t, r)
		if r.StatusCode != c.status || r.Header.Get(v1alpha1.ReasonHeader) != c.reason || strings.Contains(body, hush) {
			t.Errorf("%s: %d %s %q", c.because, r.StatusCode, r.Header.Get(v1alpha1.ReasonHeader), body)
		}
		if !r.Close || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the connection or a copy of the answer stays: %v", c.because, r.Header)
		}
	}
	var line map[string]any
	for line["node"] != "a" || line["action"] != "serve" { // a record may be written after those of the next requests
		line = nil
		if err := json.Unmarshal([]byte(<-audit), &line); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]any{
		"action": "serve", "by": "node", "node": "a", "config": "rendered-worker-1",
		"pool": "worker", "access": "certificate", "complete": true,
	} {
		if line[key] != want {
			t.Errorf("the audit log has %s %v, not %v", key, line[key], want)
		}
	}
}

func TestTheCertificateOfAKubeletIsGoodForNoPool(t *testing.T) {
	kubelets, machines, server := nodes(t, io.Discard)
	subject := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes", "bunsen:pool:secret"}}
	for because, c := range map[string]struct {
		by     authority
		status int
	}{
		"the authority of kubelets": {kubelets, 401},
		"the authority of machines": {machines, 200},
	} {
		r := fetch(t, server.client("127.0.0.9", c.by.issue(t, subject)), server.url("/config/secret"))
		if body := text(t, r); r.StatusCode != c.status || strings.Contains(body, hush) != (c.status == 200) {
			t.Errorf("%s: %d %q", because, r.StatusCode, body)
		}
	}
}

func TestAnAuthorityOfKubeletsThatIsGoneIsBelievedNoMore(t *testing.T) {
	old, young := newAuthority(t, "old"), newAuthority(t, "young")
	cas := &ClientCASet{}
	h, _ := Routes(Options{Source: filled(t), Log: quiet, Nodes: Nodes{CAs: cas, Configs: fleet{"a": {"worker"}}}})
	server := start(t, Server{Handler: h, NodeCAs: cas})
	client := server.client("127.0.0.9", old.issue(t, pkix.Name{CommonName: "system:node:a", Organization: kubelet}))
	sessions := tls.NewLRUClientSessionCache(4)
	for _, c := range []struct {
		because string
		set     []byte
		status  int
	}{
		{"before any authority is known", nil, 503},
		{"with its authority", old.pem(), 200},
		{"with a list that cannot be read", []byte("-----BEGIN"), 200},
		{"with another authority", young.pem(), 401},
	} {
		if c.set != nil {
			_ = cas.Replace(c.set) // a list that cannot be read leaves the one before in force
		}
		if r := fetch(t, client, server.url(v1alpha1.NodeConfigPath+"rendered-worker-1")); r.StatusCode != c.status {
			t.Errorf("%s: %d", c.because, r.StatusCode)
		}
		if c.status == 200 { // the next connection resumes this session
			client.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = sessions
		}
	}
}

func TestAServerWithoutNodesKnowsNoSuchPath(t *testing.T) {
	h, _ := Routes(Options{Source: filled(t), Log: quiet})
	server := start(t, Server{Handler: h})
	r := fetch(t, server.client("127.0.0.9"), server.url(v1alpha1.NodeConfigPath+"rendered-worker-1"))
	if r.StatusCode != 404 || r.Header.Get(v1alpha1.ReasonHeader) != "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
}

// TestWhichMachineBootsWithResolvedSecrets has each kind of client. A machine without the values boots too: it gets
// them after it has joined.
func TestWhichMachineBootsWithResolvedSecrets(t *testing.T) {
	o, known, _ := closed(t)
	pools := filled(t)
	if err := pools.Set("referring", withIgnition("rendered-referring-1",
		`"storage":{"files":[{"path":"/etc/a","contents":{"source":"`+machineconfig.TemplateURL("${secret:a/b}")+
			`"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := pools.Set("unresolved", withIgnition("rendered-unresolved-1",
		`"storage":{"files":[{"path":"/etc/a","contents":{"source":"`+machineconfig.TemplateURL("${secret:a/b}")+
			`"}}]}`)); err != nil {
		t.Fatal(err)
	}
	o.Source, o.Nodes.Secrets = pools, fleet{}
	toAll := o
	toAll.Access = Access{Open: true, SecretsToAll: true}
	value := base64.StdEncoding.EncodeToString([]byte(hush))
	for _, c := range []struct {
		because, pool string
		options       Options
		token         join.Token
		gets          bool
	}{
		{"a token of a node", "referring", o, known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "referring", Node: "a"}), true},
		{"a token of a pool", "referring", o, known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "referring"}), false},
		{"a server that sends the secrets of configs to all", "referring", toAll, known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "referring"}), false},
		{"a token of a node, and values that are not known", "unresolved", o, known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "unresolved", Node: "a"}), false},
	} {
		h, _ := Routes(c.options)
		for _, encoding := range []string{"", "gzip"} {
			r := ask(h, "GET", "/config/"+c.pool, "Authorization", bearer(c.token), "Accept-Encoding", encoding)
			body := text(t, r)
			if encoding != "" {
				body = unzip(t, body)
			}
			if r.StatusCode != 200 || strings.Contains(body, value) != c.gets ||
				strings.Contains(body, "bunsen.dev%2Fwithheld") == c.gets || strings.Contains(body, "vnd.bunsen") ||
				c.gets && r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s", c.because, r.StatusCode, body)
			}
			if strings.Contains(body, "currentSecrets%22%3A%22r1") != c.gets {
				t.Errorf("%s: the revision in %s", c.because, body)
			}
		}
	}
}

// TestAServerThatHasJustStartedRefusesNoNode: until the server has read which certificates nodes have, it does not know
// whether a client is a node, and says so.
func TestAServerThatHasJustStartedRefusesNoNode(t *testing.T) {
	kubelets, cas := newAuthority(t, "kubelets"), &ClientCASet{}
	h, metrics := Routes(Options{
		Source: filled(t), Log: quiet,
		Nodes: Nodes{CAs: cas, Configs: fleet{"a": {"worker"}}, Trust: fleet{"a": {"worker"}}},
	})
	server := start(t, Server{Handler: h, NodeCAs: cas})
	ask := func(path string) (int, string) {
		subject := pkix.Name{CommonName: "system:node:a", Organization: kubelet}
		r := fetch(t, server.client("127.0.0.9", kubelets.issue(t, subject)), server.url(path))
		return r.StatusCode, text(t, r)
	}
	for _, path := range []string{v1alpha1.NodeTrustPath, v1alpha1.NodeConfigPath + "rendered-worker-1"} {
		if status, body := ask(path); status != 503 || !strings.Contains(body, "retry later") {
			t.Errorf("%s before: %d %q", path, status, body)
		}
	}
	if n := metrics.Refused(); n != 0 {
		t.Errorf("%d requests count as refused", n)
	}
	if err := cas.Replace(kubelets.pem()); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(v1alpha1.NodeConfigPath + "rendered-worker-1"); status != 200 {
		t.Errorf("afterwards: %d %q", status, body)
	}
}
