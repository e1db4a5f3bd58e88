package http

import "time"

// Bounds limit how many resources of the server one slow or hostile client can use. A field that is 0 stands for the
// value in DefaultBounds.
type Bounds struct {
	// Header limits the time for the TLS handshake, and also the time for the headers of a request.
	Header time.Duration
	// Read limits the time for a whole request.
	Read time.Duration
	// Send limits the time in which the client reads the response.
	Send time.Duration
	// Stop is how long running requests may take when the server stops.
	Stop time.Duration
	// HeaderBytes limits the length of all headers of a request. A request with longer headers gets the status 431.
	HeaderBytes int
	// Connections limits all connections. If the limit is reached and a new connection comes, the server closes a
	// connection without a complete request: the oldest one of the source that has most such connections. If every
	// connection has a running request, the new connection waits.
	Connections int
	// PerSource limits the connections of one source. If the limit is reached and a new connection comes, the server
	// closes the source's oldest connection without a complete request. If every connection of the source has a running
	// request, the server closes the new connection.
	PerSource int
}

// DefaultBounds returns the default bounds.
func DefaultBounds() Bounds {
	return Bounds{
		// The time Header is enough for three lost packets on a bad line, and limits slow-loris attacks.
		Header: 10 * time.Second,
		Read:   15 * time.Second, // A request has no body, so it ends soon after its headers.
		// The time Send is enough for a config of some MiB over a slow management network.
		Send:        5 * time.Minute,
		Stop:        time.Minute, // The time is long because Ignition does not retry after an incomplete body.
		HeaderBytes: 16 << 10,    // Ignition sends headers of 200 bytes; a token has 70 bytes.
		Connections: 4096,        // A connection with TLS needs about 60 KiB, so all connections need at most 256 MiB.
		// PerSource is an eighth of Connections, so that a rack behind one address can boot at once.
		PerSource: 512,
	}
}

// OrDefault replaces fields that are 0 by their defaults.
func (b Bounds) OrDefault() Bounds {
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
