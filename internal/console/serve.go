package console

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// serve answers requests until the context ends. serve logs nothing, because the path of a request may contain a token.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
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
