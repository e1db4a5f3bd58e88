package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// mirror VAR DIR serves the files of a directory at the address $VAR; mirror VAR away PREFIX closes each connection
// that asks for a path with a prefix, mirror VAR back serves all again.
func (s *story) mirror(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return usage("mirror VAR DIR|away|back [PREFIX]")
	}
	if away := s.mirrors[args[0]]; args[1] == "away" || args[1] == "back" {
		if away == nil {
			return fmt.Errorf("there is no mirror %s", args[0])
		}
		prefix := ""
		if args[1] == "away" {
			prefix = args[len(args)-1]
		}
		away.Store(prefix)
		return nil
	}
	away, files := &atomic.Value{}, http.FileServer(http.Dir(ts.MkAbs(args[1])))
	away.Store("")
	server := &http.Server{
		ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if prefix, _ := away.Load().(string); prefix != "" && strings.HasPrefix(r.URL.Path, prefix) {
				panic(http.ErrAbortHandler) // which hangs up
			}
			files.ServeHTTP(w, r)
		}),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ts.Defer(func() { server.Close() })
	ts.Setenv(args[0], l.Addr().String())
	if s.mirrors == nil {
		s.mirrors = map[string]*atomic.Value{}
	}
	s.mirrors[args[0]] = away
	go server.Serve(l) //nolint:errcheck // it ends with its listener
	return nil
}
