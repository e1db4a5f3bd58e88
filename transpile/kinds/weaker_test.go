package kinds_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/transpile/kinds"
)

func TestWeakerNamesTheScopesThatLackARequirement(t *testing.T) {
	const (
		accept = `[{"type": "insecureAcceptAnything"}]`
		key    = `[{"type": "sigstoreSigned", "keyData": "YQ=="}]`
		keys   = `[{"keyData": "YQ==", "type": "sigstoreSigned"}, {"type": "signedBy", "keyPath": "/etc/b"}]`
	)
	policy := func(standard, scopes string) string {
		return `{"default": ` + standard + `, "transports": {"docker": {` + scopes + `}}}`
	}
	for _, c := range []struct{ sentence, policy, than, want string }{
		{"the same policy", policy(accept, `"quay.io": `+key), policy(accept, `"quay.io": `+key), ""},
		{"one more requirement is not weaker", policy(accept, `"quay.io": `+keys), policy(accept, `"quay.io": `+key), ""},
		{"one requirement less", policy(accept, `"quay.io": `+key), policy(accept, `"quay.io": `+keys), "quay.io"},
		{"a scope less", policy(accept, ``), policy(accept, `"quay.io": `+key+`, "a.io": `+key), "a.io, quay.io"},
		{"a scope that accepts anything", policy(accept, `"quay.io": `+accept), policy(accept, `"quay.io": `+key), "quay.io"},
		{"the rest of the images", policy(accept, ``), policy(`[{"type": "reject"}]`, ``), "all other images"},
		{"all images of a transport", policy(accept, ``), policy(accept, `"": `+key), "all images of docker"},
		{"a text that is no policy, which no runtime uses", `[`, policy(accept, `"quay.io": `+key), ""},
		{"no policy before", policy(accept, ``), ``, ""},
		{"values that are no requirements", policy(`[1, null]`, `"quay.io": [[]]`), policy(`["x"]`, `"quay.io": null`), "all other images"},
	} {
		if got := strings.Join(kinds.Weaker([]byte(c.policy), []byte(c.than)), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}

func TestPolicyOfReadsTheNamespaceFromThePath(t *testing.T) {
	for _, c := range []struct {
		path, namespace string
		ok              bool
	}{
		{"/etc/containers/policy.json", "", true},
		{"/etc/crio/policies/shop.json", "shop", true},
		{"/etc/crio/policies/shop.yaml", "shop.yaml", false},
		{"/etc/containers/policy.json.bak", "", false},
	} {
		if namespace, ok := kinds.PolicyOf(c.path); ok != c.ok || ok && namespace != c.namespace {
			t.Errorf("%s: %q, %v", c.path, namespace, ok)
		}
	}
}
