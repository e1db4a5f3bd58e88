package http

import "time"

// Bounds limit how many resources of the server one slow or hostile client can use. A field that is 0 has its value of
// DefaultBounds.
type Bounds struct {
	// Header limits the time for the TLS handshake, and again for the headers of a request.
	Header time.Duration
	// Read limits the time for a whole request.
	Read time.Duration
	// Send limits the time in which the client reads the response.
	Send time.Duration
	// Stop is how long running requests may take when the server stops.
	Stop time.Duration
	// HeaderBytes limits the length of all headers of a request; longer ones get 431.
	HeaderBytes int
	// Connections limits all connections. If the limit is reached, a new connection closes the oldest one without a
	// complete request, of the source that has most such connections. If every connection has a running request, the
	// new one waits.
	Connections int
	// PerSource limits the connections of one source; see Limits. If the limit is reached, a new connection closes the
	// source's oldest one without a complete request. If every connection of the source has a running request, the
	// server closes the new one.
	PerSource int
}

// DefaultBounds returns the defaults.
func DefaultBounds() Bounds {
	return Bounds{
		Header:      10 * time.Second, // enough for three lost packets on the worst line; limits slow-loris attacks
		Read:        15 * time.Second, // a request has no body, so it ends soon after its headers
		Send:        5 * time.Minute,  // a config of some MiB over the slowest management network
		Stop:        time.Minute,      // Ignition does not retry a body that broke off
		HeaderBytes: 16 << 10,         // Ignition sends 200 bytes; a token is 70
		Connections: 4096,             // about 60 KiB for each with TLS: at most 256 MiB
		PerSource:   512,              // an eighth of Connections: a rack behind one address may boot at once
	}
}

// orDefault replaces fields that are 0 by their defaults.
func (b Bounds) orDefault() Bounds {
	d := DefaultBounds()
	for _, t := range []struct{ set, to *time.Duration }{
		{&b.Header, &d.Header}, {&b.Read, &d.Read}, {&b.Send, &d.Send}, {&b.Stop, &d.Stop},
	} {
		if *t.set == 0 {
			*t.set = *t.to
		}
	}
	for _, n := range []struct{ set, to *int }{
		{&b.HeaderBytes, &d.HeaderBytes}, {&b.Connections, &d.Connections}, {&b.PerSource, &d.PerSource},
	} {
		if *n.set == 0 {
			*n.set = *n.to
		}
	}
	return b
}
