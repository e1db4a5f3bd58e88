package http

import (
	"bytes"
	"crypto/x509/pkix"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

func TestASpentShareIsA503ThatSaysWhose(t *testing.T) {
	o, known, mint := closed(t)
	o.Source = joining(t, filled(t))
	var audit bytes.Buffer
	o.Audit = &audit
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 1})
	h, counts := Routes(o)
	for share, says := range map[mcs.Share]string{
		mcs.ShareOfHolder:  "this provisioning token's or client certificate's share of the bootstrap tokens of an hour is spent: retry later\n",
		mcs.ShareOfAddress: "this address's share of the bootstrap tokens of an hour is spent: retry later\n",
		mcs.ShareOfServer:  "the number of bootstrap tokens that this server makes in an hour is spent: retry later\n",
	} {
		audit.Reset()
		mint.err = fmt.Errorf("minting a bootstrap token: %w", &mcs.ShareError{Share: share})
		r := ask(h, "GET", "/config/worker", "Authorization", bearer(good))
		if body := text(t, r); r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" || body != says {
			t.Errorf("%s: %d %q", share, r.StatusCode, body)
		}
		if line := lines(t, &audit)[0]; line["share"] != string(share) || line["token"] != good.ID ||
			line["action"] != "refuse" {
			t.Errorf("%s: the record is %v", share, line)
		}
	}
	if n := len(known.uses()); n != 0 {
		t.Errorf("%d uses are counted", n)
	}
	want := `bunsen_mcs_refusals_total{reason="ShareSpent"} 3`
	if got := exposed(t, counts); !slices.Contains(got, want) {
		t.Errorf("counted %s", got)
	}
}

func TestWhoABootstrapTokenIsMadeFor(t *testing.T) {
	subject := pkix.Name{CommonName: "rack 4", Organization: []string{"bunsen:pool:worker"}}
	revoked := v1alpha1.ProvisioningTokenSpec{Pool: "worker", Revoked: true}
	for because, c := range map[string]struct {
		open  bool
		pool  string
		token *v1alpha1.ProvisioningTokenSpec
		want  mcs.JoiningMachine
	}{
		"a certificate":                                          {false, "worker", nil, mcs.JoiningMachine{Pool: "worker", Certificate: subject.String(), Attested: true}},
		"a certificate beside a revoked token":                   {false, "worker", &revoked, mcs.JoiningMachine{Pool: "worker", Certificate: subject.String(), Attested: true}},
		"everybody, with a certificate that is not for the pool": {true, "infra", nil, mcs.JoiningMachine{Pool: "infra"}},
	} {
		o, known, mint := closed(t)
		o.Source, o.Access.Open = joining(t, filled(t)), c.open
		machines := newAuthority(t, "machines")
		o.ClientCAs = believing(t, machines)
		h, _ := Routes(o)
		r := certified(machines, c.pool, subject)
		if c.token != nil {
			r.Header.Set("Authorization", bearer(known.make(t, *c.token)))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		c.want.Address = "192.0.2.1"
		if diff := cmp.Diff([]mcs.JoiningMachine{c.want}, mint.made); diff != "" || w.Code != 200 {
			t.Errorf("%s: %d, -want +got:\n%s", because, w.Code, diff)
		}
	}
}
