package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// mirror VAR DIR serves the files of a directory at the address $VAR; mirror VAR away PREFIX closes each connection
// that asks for a path with a prefix, mirror VAR back serves all again. mirror VAR DIR ca FILE serves them over https,
// and writes the authority of the certificate, which no machine trusts, to a file.
func (s *story) mirror(ts *testscript.TestScript, args []string) error {
	secure := len(args) == 4 && args[2] == "ca"
	if len(args) < 2 || len(args) > 3 && !secure {
		return usage("mirror VAR DIR|away|back [PREFIX], or mirror VAR DIR ca FILE")
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
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if prefix, _ := away.Load().(string); prefix != "" && strings.HasPrefix(r.URL.Path, prefix) {
			panic(http.ErrAbortHandler) // which hangs up
		}
		files.ServeHTTP(w, r)
	}))
	server.Config.ReadHeaderTimeout = patience
	ts.Defer(func() { server.CloseClientConnections(); server.Listener.Close() })
	if !secure {
		server.Start()
	} else {
		server.StartTLS()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(ts.MkAbs(args[3]), ca, 0o644); err != nil {
			return err
		}
	}
	ts.Setenv(args[0], server.Listener.Addr().String())
	if s.mirrors == nil {
		s.mirrors = map[string]*atomic.Value{}
	}
	s.mirrors[args[0]] = away
	return nil
}
