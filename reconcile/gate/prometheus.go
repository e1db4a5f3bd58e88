package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// for a query
	queryTimeout = 10 * time.Second
	// of a query; the server may ignore this limit
	maxSamples = 1000
	// of an answer
	maxAnswerBytes = 1 << 20
)

// query uses a cached answer that is still valid.
func (g *Evaluator) query(ctx context.Context, query v1alpha1.PrometheusGate, now time.Time) poolstate.Gate {
	if v, ok := g.queries.Load(query); ok && now.Before(v.(cachedAnswer).until) {
		return v.(cachedAnswer).answer
	}
	v := queryServer(ctx, query)
	if ctx.Err() == nil { // An interrupted query has no answer to cache.
		g.queries.Store(query, cachedAnswer{v, now.Add(queryValid)})
	}
	return v
}

func queryServer(ctx context.Context, query v1alpha1.PrometheusGate) (out poolstate.Gate) {
	defer func() { // The answer of one server must not end the controller.
		if p := recover(); p != nil {
			out = Waits("%s cannot be queried: %v", query.URL, fault.NewPanic(p))
		}
	}()
	at, err := url.Parse(query.URL)
	switch {
	case err != nil || at.Host == "":
		return Waits("the gate has no valid url: set one such as http://prometheus.monitoring.svc:9090")
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return Waits("the controller does not query %s://%s, because the url has more than a host and a path. A "+
			"RolloutPolicy must not contain credentials: use a server without authentication", at.Scheme, at.Host)
	}
	server := at.Scheme + "://" + at.Host
	c, err := api.NewClient(api.Config{Address: query.URL, Client: &http.Client{
		Transport:     limitedTransport{api.DefaultRoundTripper},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		return Waits("%s cannot be queried: %v", server, err)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, warnings, err := promv1.NewAPI(c).Query(ctx, query.Query, time.Time{}, promv1.WithTimeout(queryTimeout),
		promv1.WithLimit(maxSamples))
	if err != nil {
		return Waits("%s", poolstate.ShortLine(queryError(server, err)))
	}
	answer := Query(value, server)
	if len(warnings) > 0 && answer.Verdict == poolstate.GateOpen {
		return Waits("%s",
			poolstate.ShortLine(fmt.Sprintf("%s warns that its answer may be incomplete (%s): aggregate the samples "+
				"in the "+
				"query, such as min(up)", server, strings.Join(warnings, "; "))))
	}
	return answer
}

// queryError leaves out the URL, which the error already contains.
func queryError(server string, err error) string {
	var reported *promv1.Error
	var sent *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s has not answered within %s", server, queryTimeout)
	case errors.As(err, &reported) && reported.Type == promv1.ErrBadData:
		return fmt.Sprintf("%s rejects the query (%s): correct it in the RolloutPolicy", server, reported.Msg)
	case errors.As(err, &reported):
		return fmt.Sprintf("%s does not answer the query: %s", server, reportedText(reported))
	case errors.Is(err, errUnauthorized):
		return fmt.Sprintf("%s %v", server, errUnauthorized)
	case errors.As(err, &sent):
		return fmt.Sprintf("%s cannot be reached: %v", server, sent.Err)
	}
	// The client library cannot read this type of value, such as a string.
	return fmt.Sprintf("%s answers neither samples nor a number, so write a query for one moment, such as up == 1: %v",
		server, err)
}

// reportedText returns the type and the text of a server's error. The client library reads them only from answers with
// the codes 400 and 422, but a query that takes too long has 503.
func reportedText(e *promv1.Error) string {
	var body struct{ ErrorType, Error string }
	if json.Unmarshal([]byte(e.Detail), &body) == nil && body.Error != "" {
		return body.ErrorType + ": " + body.Error
	}
	return string(e.Type) + ": " + e.Msg
}

var errUnauthorized = errors.New("requires credentials, and a RolloutPolicy must not contain any: use an address " +
	"without authentication, such as a Service inside of the cluster")

// limitedTransport cuts off long answers, and fails for servers that require credentials.
type limitedTransport struct{ inner http.RoundTripper }

// RoundTrip sends a request and limits the size of its answer.
func (l limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.inner.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return nil, errors.Join(errUnauthorized, res.Body.Close())
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswerBytes), res.Body}
	return res, nil
}
