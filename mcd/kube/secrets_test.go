package kube

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// TestReadingSecrets has answers of servers. Only a server that says so has no secrets for the node; no error has a
// content.
func TestReadingSecrets(t *testing.T) {
	const body = `{"config":"rendered-worker-1","revision":"r1","files":[{"path":"/etc/a","contents":"Y2FuYXJ5"}]}`
	for says, c := range map[string]struct {
		set func(r *serverRig)
		// none: the servers have no secrets for the node. why is a part of the error; "" if there is none.
		none bool
		why  string
	}{
		"the server gives them":           {func(r *serverRig) { r.answer = say(200, body) }, false, ""},
		"the node is in another pool":     {func(r *serverRig) { r.answer = say(403, "node worker-0 is in pool infra") }, true, "answers 403"},
		"no pool has such a config":       {func(r *serverRig) { r.answer = say(404, "no", v1alpha1.ReasonHeader, v1alpha1.ReasonNoSuchConfig) }, true, "does not have the config"},
		"the server is too old":           {func(r *serverRig) { r.answer = say(404, "404 page not found") }, false, "update the machine-config-server"},
		"the server has not resolved one": {func(r *serverRig) { r.answer = say(503, "SecretsUnresolved") }, false, "answers 503"},
		"the server is down":              {func(r *serverRig) { r.server.Close() }, false, "does not answer"},
		"a redirect":                      {func(r *serverRig) { r.answer = say(302, "", "Location", r.server.URL+"/elsewhere") }, false, "answers 302"},
		"what is no JSON":                 {func(r *serverRig) { r.answer = say(200, "canary"+body) }, false, "it is not a NodeSecrets in JSON"},
		"contents that are no base64":     {func(r *serverRig) { r.answer = say(200, strings.Replace(body, "Y2Fu", "*canary*", 1)) }, false, "it is not a NodeSecrets in JSON"},
		"too much": {func(r *serverRig) {
			r.answer = say(200, `{"config":"`+strings.Repeat("x", largestSecrets)+`"}`)
		}, false, "larger than 8 MiB"},
	} {
		t.Run(says, func(t *testing.T) {
			r := newServerRig(t)
			c.set(r)
			got, err := r.cluster.Secrets(t.Context(), "rendered-worker-1")
			if c.why == "" {
				if err != nil || got.Revision != "r1" || len(got.Files) != 1 ||
					string(got.Files[0].Contents) != "canary" {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "canary") ||
				errors.Is(err, report.ErrNoSecrets) != c.none {
				t.Errorf("%v", err)
			}
		})
	}
}
