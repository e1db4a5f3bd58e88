package http

import (
	"bytes"
	"encoding/json"
	"log/slog"
	mathrand "math/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

func FuzzConfigPath(f *testing.F) {
	h := openRoutes(filled(f))
	for _, seed := range []string{
		"worker", "", "..", "a%2fworker", "//", "worker/..", "%00", "a?b", "\xff", "%",
		"secret", "locked", "halted",
	} {
		f.Add(seed, "*/*", "gzip")
	}
	f.Fuzz(func(t *testing.T, rest, accept, encoding string) {
		r := httptest.NewRequest("GET", "https://host/config/x", nil)
		r.URL.Path = "/config/" + rest
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 301, 307, 400, 403, 404, 406, 500, 503}, w.Code) {
			t.Errorf("%q, %q, %q: %d", rest, accept, encoding, w.Code)
		}
		if w.Code == 500 && poolOf(r.URL.Path) != "bad" {
			t.Errorf("%q, %q, %q: %s", rest, accept, encoding, w.Body)
		}
		if w.Code != 200 {
			return
		}
		body := w.Body.String()
		if w.Header().Get("Content-Encoding") == "gzip" {
			body = unzip(t, body)
		}
		if !json.Valid([]byte(body)) || strings.Contains(body, hush) {
			t.Errorf("%q, %q, %q: the config is no JSON, or has a secret: %s", rest, accept, encoding, body)
		}
	})
}

func FuzzNobodyComesInWithoutAGoodToken(f *testing.F) {
	known := &tokens{random: mathrand.New(mathrand.NewSource(1))} // the same for every worker
	good := known.make(f, v1alpha1.ProvisioningTokenSpec{
		Pool: "secret", Node: "a",
		Expires: metav1.NewTime(noon.AddDate(1, 0, 0)),
	})
	once := known.make(f, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Revoked: true})
	var written bytes.Buffer
	now := noon
	slowly := func() time.Time { // so that each refusal has its line
		now = now.Add(time.Second)
		return now
	}
	o := Options{
		Source: filled(f), Tokens: known, Audit: &written, Log: slog.New(slog.NewJSONHandler(&written, nil)),
		Now: slowly,
	}
	h, _ := Routes(o)
	o.Access.Open = true
	opened, _ := Routes(o)
	for _, t := range []join.Token{
		good, once,
		{ID: good.ID, Secret: once.Secret},
		{ID: "aaaaaaaaaa", Secret: good.Secret},
	} {
		for _, header := range []string{
			bearer(t), basic(t.ID, t.Secret), basic("", t.String()),
			"bearer  " + t.String(), "Bearer " + t.ID, t.String(), "Basic " + t.String(), "Bearer " + t.Secret,
		} {
			f.Add("secret", header, "GET")
			f.Add("worker", header, "HEAD")
		}
	}
	f.Add("", "", "GET")
	f.Add("secret/"+good.String(), "Bearer", "GET")
	f.Add(good.String(), "", "GET")
	f.Add(good.ID+"."+good.Secret, "", "GET")
	f.Add("secret?token="+good.Secret, "", "GET")
	f.Fuzz(func(t *testing.T, rest, authorization, method string) {
		if method != "HEAD" {
			method = "GET"
		}
		written.Reset()
		r := httptest.NewRequest(method, "https://host/config/x", nil)
		r.URL.Path = "/config/" + rest
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		shown, err := join.FromHeader(authorization)
		admitted := err == nil && shown == good && poolOf(r.URL.Path) == "secret"
		redirected := w.Code == http.StatusMovedPermanently || w.Code == http.StatusTemporaryRedirect
		switch {
		case redirected && (poolOf(r.URL.Path) != rest || rest == "."): // The mux cleans paths first.
		case admitted != (w.Code == 200), !admitted && w.Code != 401 && w.Code != 403:
			t.Errorf("%q with %q is answered %d", rest, authorization, w.Code)
		}
		if strings.Contains(w.Body.String(), hush) && !admitted {
			t.Errorf("%q with %q gets the secret", rest, authorization)
		}
		if !redirected && strings.Count(written.String(), "\n") != 2 {
			t.Errorf("%q with %q: the log and the audit log have %q", rest, authorization, written.String())
		}
		opened.ServeHTTP(httptest.NewRecorder(), r)
		for _, secret := range []string{good.Secret, once.Secret, hush} {
			if strings.Contains(written.String(), secret) {
				t.Errorf("%q with %q: the log has a secret: %s", rest, authorization, written.String())
			}
		}
	})
}
