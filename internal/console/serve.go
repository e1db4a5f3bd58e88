package console

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// mostHTTP2Streams is how many requests a connection may have at a time.
const mostHTTP2Streams = 100

// serve answers requests until the context ends. serve logs nothing, because the path of a request may contain a token.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
		// The tabs of a browser share one connection, with a stream of changes for each. HTTP/1.1 has six for all.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostHTTP2Streams},
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serving the console: %w", err)
	case <-ctx.Done():
		_ = server.Close() // Streams never end by themselves, so Close ends them.
		<-stopped
		return nil
	}
}
