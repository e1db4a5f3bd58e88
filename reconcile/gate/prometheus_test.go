package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gate"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// prometheus answers every query with one body, and counts.
type prometheus struct {
	*httptest.Server
	asked atomic.Int32
	form  string
}

func newPrometheus(t *testing.T, answer http.HandlerFunc) *prometheus {
	t.Helper()
	p := &prometheus{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		p.form = r.Method + " " + r.URL.Path + " " + r.Form.Encode()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// says writes an answer as Prometheus does.
func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func data(kind, result string) http.HandlerFunc {
	return says(http.StatusOK, fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result))
}

func queryPace(url string) schedule.Pace {
	return schedule.Pace{Gates: []v1alpha1.HealthGate{{Name: "errors", Prometheus: &v1alpha1.PrometheusGate{
		URL:   url,
		Query: "up == 1",
	}}}}
}

func askOnce(t *testing.T, g *gate.Evaluator, url string, now time.Time) poolstate.Gate {
	t.Helper()
	gates := g.Pool(t.Context(), gate.Question{
		Pool: "worker", Config: "rendered-worker-1", Pace: queryPace(url),
		Now: now,
	})
	if len(gates) != 1 {
		t.Fatalf("gates are %v", gates)
	}
	return gates[0]
}

func TestAQueryIsTrueOrWaitsAndSaysWhy(t *testing.T) {
	for sentence, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a sample that is not 0 is true":                      {data("vector", `[{"metric":{"job":"api"},"value":[1,"1"]}]`), "Open "},
		"so are several":                                      {data("vector", `[{"metric":{"job":"api"},"value":[1,"0.5"]},{"metric":{},"value":[1,"-1"]}]`), "Open "},
		"one 0 among them is false":                           {data("vector", `[{"metric":{},"value":[1,"1"]},{"metric":{"job":"api"},"value":[1,"0"]}]`), `Waits {job="api"} is 0, says SERVER`},
		"the first of several is named":                       {data("vector", `[{"metric":{"job":"a"},"value":[1,"0"]},{"metric":{"job":"b"},"value":[1,"0"]}]`), `Waits {job="a"} is 0 and 1 more like it, says SERVER`},
		"what is no number is false":                          {data("vector", `[{"metric":{},"value":[1,"NaN"]}]`), "Waits {} is NaN, says SERVER"},
		"no sample is false":                                  {data("vector", `[]`), "Waits SERVER answers nothing to the query, which counts as false"},
		"a number is true":                                    {data("scalar", `[1,"2"]`), "Open "},
		"and 0 is false":                                      {data("scalar", `[1,"0"]`), "Waits SERVER answers 0"},
		"a range is neither":                                  {data("matrix", `[]`), "Waits SERVER answers a matrix, which is neither true nor false: write a query for one moment, such as up == 1"},
		"a query that cannot be read is a typo":               {says(http.StatusBadRequest, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`), "Waits SERVER rejects the query (parse error: unexpected end): correct it in the RolloutPolicy"},
		"a server in trouble is no answer":                    {says(http.StatusServiceUnavailable, `{"status":"error","errorType":"timeout","error":"too busy"}`), "Waits SERVER does not answer the query: timeout: too busy"},
		"one that is not Prometheus' own is told by its code": {says(http.StatusBadGateway, `no backend`), "Waits SERVER does not answer the query: server_error: server error: 502"},
		"a server with a password is not for gates":           {says(http.StatusUnauthorized, `Unauthorized`), "Waits SERVER requires credentials, and a RolloutPolicy must not contain any: use an address without authentication, such as a Service inside of the cluster"},
		"a cut answer is no answer":                           {says(http.StatusOK, `{"status":"success","warnings":["results truncated due to limit"],"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}`), "Waits SERVER warns that its answer may be incomplete (results truncated due to limit): aggregate the samples in the query, such as min(up)"},
		"nor is one of another kind":                          {says(http.StatusOK, `<html>`), "Waits SERVER does not answer the query: bad_response:"},
		"nobody is followed elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, "Waits SERVER does not answer the query: bad_response"},
		"an endless answer is cut off": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":"`+strings.Repeat("x", 2<<20))
		}, "Waits SERVER does not answer the query: bad_response"},
	} {
		t.Run(sentence, func(t *testing.T) {
			server := newPrometheus(t, c.answer)
			g := &gate.Evaluator{Now: func() time.Time { return controllertest.Noon }}
			a := askOnce(t, g, server.URL+"/prometheus/", controllertest.Noon)
			got := strings.ReplaceAll(string(a.Verdict)+" "+a.Why, server.URL, "SERVER")
			if !strings.HasPrefix(got, c.want) || strings.HasPrefix(c.want, "Open") && got != c.want {
				t.Errorf("the answer is %q, want %q", got, c.want)
			}
			controllertest.Contains(t, "the request", server.form, "POST /prometheus/api/v1/query ",
				"query=up+%3D%3D+1", "timeout=10s")
		})
	}
}

func TestAServerThatCannotBeReachedIsNoAnswer(t *testing.T) {
	server := newPrometheus(t, data("vector", `[]`))
	server.Close()
	g := &gate.Evaluator{Now: func() time.Time { return controllertest.Noon }}
	a := askOnce(t, g, server.URL, controllertest.Noon)
	controllertest.Contains(t, "the gate", string(a.Verdict)+" "+a.Why, "Waits "+server.URL+" cannot be reached: ",
		"connection refused")
}

func TestCredentialsInAGateAreNeitherUsedNorShown(t *testing.T) {
	server := newPrometheus(t, data("scalar", `[1,"1"]`))
	g := &gate.Evaluator{Now: func() time.Time { return controllertest.Noon }}
	for _, url := range []string{
		strings.Replace(server.URL, "://", "://user:hunter2@", 1),
		server.URL + "?token=hunter2",
	} {
		a := askOnce(t, g, url, controllertest.Noon)
		controllertest.Contains(t, "the gate", string(a.Verdict)+" "+a.Why, "Waits",
			"A RolloutPolicy must not contain credentials")
		if strings.Contains(a.Why, "hunter2") {
			t.Errorf("the words show the password: %s", a.Why)
		}
	}
	controllertest.Equal(t, "the number of questions", server.asked.Load(), 0)
}

func TestAnAnswerIsKeptForFifteenSeconds(t *testing.T) {
	server := newPrometheus(t, data("scalar", `[1,"0"]`))
	g := &gate.Evaluator{Now: func() time.Time { return controllertest.Noon }}
	for _, c := range []struct {
		after time.Duration
		asked int32
	}{{0, 1}, {14 * time.Second, 1}, {15 * time.Second, 2}, {29 * time.Second, 2}} {
		askOnce(t, g, server.URL, controllertest.Noon.Add(c.after))
		controllertest.Equal(t, fmt.Sprintf("the number of questions after %s", c.after), server.asked.Load(), c.asked)
	}
}
