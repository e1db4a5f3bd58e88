package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// queryTimeout is how long a server may think about a query.
	queryTimeout = 10 * time.Second
	// mostSamples is how many samples of an answer are asked for; the server may not know the limit.
	mostSamples = 1000
	// mostAnswer is how many bytes of an answer are read.
	mostAnswer = 1 << 20
)

// queryAnswer is what a server said last.
type queryAnswer struct {
	verdict   verdict
	nextAfter time.Time
}

// query answers a prometheus gate, from memory where the same was asked a moment ago.
func (g *Gates) query(ctx context.Context, gate v1alpha1.PrometheusGate, now time.Time) verdict {
	if v, ok := g.queries.Load(gate); ok && now.Before(v.(queryAnswer).nextAfter) {
		return v.(queryAnswer).verdict
	}
	v := ask(ctx, gate)
	if ctx.Err() == nil { // not what the end of this process made of it
		g.queries.Store(gate, queryAnswer{v, now.Add(keepQuery)})
	}
	return v
}

// ask asks the server.
func ask(ctx context.Context, gate v1alpha1.PrometheusGate) verdict {
	at, err := url.Parse(gate.URL)
	switch {
	case err != nil || at.Host == "":
		return waits("the gate's url is none: write one such as http://prometheus.monitoring.svc:9090")
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return waits("%s://%s is not asked, for its url has more than a host and a path: a RolloutPolicy is no place for credentials; give the url of a server that wants none", at.Scheme, at.Host)
	}
	server := at.Scheme + "://" + at.Host
	c, err := api.NewClient(api.Config{Address: gate.URL, Client: &http.Client{
		Transport:     limited{api.DefaultRoundTripper},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		return waits("%s cannot be asked: %v", server, err)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, _, err := promv1.NewAPI(c).Query(ctx, gate.Query, time.Time{}, promv1.WithTimeout(queryTimeout), promv1.WithLimit(mostSamples))
	if err != nil {
		return waits("%s", clipLine(unanswered(server, err)))
	}
	return judgeValue(value, server)
}

// unanswered words why there is no answer. The URL, which errors repeat, is left out.
func unanswered(server string, err error) string {
	var said *promv1.Error
	var sent *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s has not answered within %s", server, queryTimeout)
	case errors.As(err, &said) && said.Type == promv1.ErrBadData:
		return fmt.Sprintf("%s does not take the query (%s): correct it in the RolloutPolicy", server, said.Msg)
	case errors.As(err, &said):
		return fmt.Sprintf("%s does not answer the query: %s: %s", server, said.Type, said.Msg)
	case errors.As(err, &sent):
		return fmt.Sprintf("%s cannot be reached: %v", server, sent.Err)
	}
	return fmt.Sprintf("%s does not answer as Prometheus does: %v", server, err)
}

// judgeValue reads an answer: true where it has at least one sample and none of them is 0.
func judgeValue(value model.Value, server string) verdict {
	switch v := value.(type) {
	case *model.Scalar:
		if bad(v.Value) {
			return waits("%s answers %s", server, v.Value)
		}
		return opens()
	case model.Vector:
		return judgeVector(v, server)
	}
	return waits("%s answers a %s, which is neither true nor false: write a query for one moment, such as up == 1", server, kindOf(value))
}

func judgeVector(v model.Vector, server string) verdict {
	if len(v) == 0 {
		return waits("%s answers nothing to the query, which counts as false", server)
	}
	var against []string
	for _, s := range v {
		switch {
		case s.Histogram != nil:
			return waits("%s answers a histogram, which is neither true nor false: compare it, such as histogram_quantile(0.99, …) < 1", server)
		case bad(s.Value):
			against = append(against, fmt.Sprintf("%s is %s", s.Metric, strconv.FormatFloat(float64(s.Value), 'g', -1, 64)))
		}
	}
	switch len(against) {
	case 0:
		return opens()
	case 1:
		return waits("%s", clipLine(against[0]+", says "+server))
	}
	return waits("%s", clipLine(fmt.Sprintf("%s and %d more like it, says %s", against[0], len(against)-1, server)))
}

// bad: 0 is false, and so is what is no number.
func bad(v model.SampleValue) bool { return v == 0 || math.IsNaN(float64(v)) }

func kindOf(v model.Value) string {
	if v == nil {
		return "thing that is not there"
	}
	return v.Type().String()
}

// limited cuts off answers that are too long to be one.
type limited struct{ inner http.RoundTripper }

// RoundTrip sends a request.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.inner.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, mostAnswer), res.Body}
	}
	return res, err
}

// clipLine keeps words about one gate on one line, and short.
func clipLine(text string) string {
	const most = 400
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// after is a text with what goes before it, or nothing.
func after(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
