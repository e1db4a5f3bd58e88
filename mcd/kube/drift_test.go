package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/kube"
	"github.com/bunsen-os/bunsen/mcd/report"
)

func TestTheDriftPolicyIsThatOfThePool(t *testing.T) {
	const policies = `{"apiVersion":"bunsen.dev/v1alpha1","kind":"DriftPolicyList","items":[
	 {"apiVersion":"bunsen.dev/v1alpha1","kind":"DriftPolicy","metadata":{"name":"edge"},"spec":{"machineConfigPoolSelector":{"matchLabels":{"tier":"edge"}},"rules":[{"path":"/etc/a","action":"Ignore"}],"repair":{"interval":"30m","burst":5}}},
	 {"apiVersion":"bunsen.dev/v1alpha1","kind":"DriftPolicy","metadata":{"name":"masters"},"spec":{"pools":["master"],"rules":[{"path":"/etc/b","action":"Repair"}]}}]}`
	const pool = `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{"name":"far","labels":{"tier":"edge"}}}`
	answers := map[string]string{}
	code := http.StatusNotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if text, ok := answers[r.URL.Path]; ok {
			fmt.Fprint(w, text)
			return
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
	}))
	defer server.Close()
	client, err := kube.New(&rest.Config{Host: server.URL}, "worker-0")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(pool string) (rules []string) {
		p, err := client.DriftRules(t.Context(), pool)
		if err != nil {
			t.Error(err)
		}
		for _, r := range p.Rules {
			rules = append(rules, fmt.Sprintf("%s %s %s %d/%s", r.Policy, r.Pattern, r.Action, r.Limit.Burst,
				r.Limit.Interval))
		}
		return rules
	}
	if rules := ask("far"); rules != nil {
		t.Errorf("a cluster that does not know the kind has %q", rules)
	}
	answers["/apis/bunsen.dev/v1alpha1/driftpolicies"] = policies
	answers["/apis/machineconfiguration.openshift.io/v1/machineconfigpools/far"] = pool
	for pool, want := range map[string][]string{
		"far":    {"edge /etc/a Ignore 5/30m0s"},
		"master": {"masters /etc/b Repair 3/10m0s"}, "gone": nil, "": nil,
	} {
		if diff := cmp.Diff(want, ask(pool)); diff != "" {
			t.Errorf("pool %q: %s", pool, diff)
		}
	}
	answers["/apis/bunsen.dev/v1alpha1/driftpolicies"] = strings.Replace(policies, `"30m"`, `"soon"`, 1)
	if p, err := client.DriftRules(t.Context(), "master"); len(p.Rules) != 1 || err == nil ||
		!strings.Contains(err.Error(), "DriftPolicy edge") {
		t.Errorf("one that cannot be read takes others with it: %+v, %v", p, err)
	}
	answers["/apis/bunsen.dev/v1alpha1/driftpolicies"] = policies
	code = http.StatusServiceUnavailable
	if _, err := client.DriftRules(t.Context(), "worker"); !errors.Is(err, report.ErrUnreachable) {
		t.Error(err)
	}
}
