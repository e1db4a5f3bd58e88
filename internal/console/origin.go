package console

import (
	"errors"
	"net/http"
	"slices"
)

// Origin is the address at which browsers find the console.
type Origin struct {
	// Hosts are the permitted values of the header Host, with the port. With another name for the same address (DNS
	// rebinding), a page of another site could read the console.
	Hosts []string
	// TLS is true if browsers use https.
	TLS bool
}

var (
	// ErrHost is the refusal of a request for another host.
	ErrHost = errors.New("this server does not serve that host: open the address that it printed")
	// ErrOtherSite is the refusal of a request that a page of another site sent.
	ErrOtherSite = errors.New("a page of another site sent this request: open the console itself")
)

// CheckHost refuses a request for a host that the console does not serve.
func (o Origin) CheckHost(r *http.Request) error {
	if !slices.Contains(o.Hosts, r.Host) {
		return ErrHost
	}
	return nil
}

// CheckSite refuses a request of another site's page. Browsers set the headers that CheckSite reads, and pages cannot
// change these headers. A program may leave the headers out, but has no cookie of a user.
func (o Origin) CheckSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	switch site {
	case "", "same-origin", "none":
	default:
		return ErrOtherSite
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin == "null" && site == "same-origin" {
			continue // Browsers hide the origin of a page that sends no referrers.
		}
		if origin != o.scheme()+"://"+r.Host {
			return ErrOtherSite
		}
	}
	return nil
}

func (o Origin) scheme() string {
	if o.TLS {
		return "https"
	}
	return "http"
}
