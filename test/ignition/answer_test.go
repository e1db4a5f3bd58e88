package ignition

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs"
)

// TestWhatIgnitionDoesNotAskForAgain has answers that our server gives no machine that it wants to come back: one
// attempt, an error, and nothing written.
func TestWhatIgnitionDoesNotAskForAgain(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, n := range judges(t) {
		for what, handler := range map[string]http.HandlerFunc{
			"400": status(400), "404": status(404), "406": status(406), "429": status(429),
			"a body that breaks off": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte(`{"ignition":{"version":"`)) // as much as there will be
				_ = http.NewResponseController(w).Flush()          // else the connection ends before it began to answer
				panic(http.ErrAbortHandler)
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				other := httptest.NewServer(handler)
				defer other.Close()
				config := fmt.Appendf(nil, `{"ignition":{"version":"3.1.0","config":{"merge":[{"source":%q}]}}}`,
					other.URL)
				if n.speaks == mcs.V2_2 {
					config = fmt.Appendf(nil, `{"ignition":{"version":"2.2.0","config":{"append":[{"source":%q}]}}}`,
						other.URL)
				}
				root := n.empty(t)
				before := looks(t, root)
				log, err := n.start(t, root, config)
				if err == nil || attempts(log) != 1 {
					t.Errorf("Ignition asked %d times, %v:\n%s", attempts(log), err, log)
				}
				if differ := difference(before, looks(t, root)); len(differ) > 0 {
					t.Errorf("the machine was changed:\n%s", strings.Join(differ, "\n"))
				}
			})
		}
	}
}
