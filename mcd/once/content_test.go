package once_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

// echo is a server whose files have their addresses as contents.
type echo struct{}

// Get implements fetch.Web.
func (echo) Get(_ context.Context, address string, _ map[string]string) (fetch.Answer, io.ReadCloser, error) {
	return fetch.Answer{Status: 200, Length: int64(len(address))}, io.NopCloser(strings.NewReader(address)), nil
}

// TestContentsStayForOneRollbackAfterReboots: the run after the boot ends an update, and has nothing else to do. It
// removes the contents that neither the config nor the one before needs.
func TestContentsStayForOneRollbackAfterReboots(t *testing.T) {
	h, root, err := linux.OpenSimulated(hosttest.TempDir(t), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	store := root.ContentStore()
	fetcher := &fetch.Fetcher{
		Files: root, Store: store, Partials: store, Web: func(fetch.Access) fetch.Web { return echo{} },
	}
	for version, want := range []int{1, 2, 2} {
		address := fmt.Sprintf("https://files.example.com/%d", version)
		to, err := once.Read("config", fmt.Appendf(nil, `{"ignition":{"version":"3.5.0"},"storage":{"files":[{
			"path":"/etc/large","contents":{"source":%q,"verification":{"hash":"sha256-%x"}}}]}}`, address,
			sha256.Sum256([]byte(address))))
		if err != nil {
			t.Fatal(err)
		}
		ask := once.Request{To: to, Fetcher: fetcher}
		run := func() once.Result {
			t.Helper()
			r, err := once.Run(t.Context(), apply.Runner{Host: h}, ask, false, func(once.Plan) {})
			if err != nil || r.Why != nil {
				t.Fatalf("version %d: %+v, %v", version, r, err)
			}
			return r
		}
		if r := run(); r.End != apply.Rebooting {
			t.Fatalf("version %d: %+v", version, r)
		}
		if r := run(); r.Earlier.End != apply.New || r.End != apply.Nothing {
			t.Fatalf("version %d after the boot: %+v", version, r)
		}
		for _, when := range []string{"after the boot", "after one more run"} {
			complete, _, err := store.Digests()
			if err != nil || len(complete) != want {
				t.Errorf("version %d %s: the store has %d contents, %v; want %d", version, when, len(complete), err,
					want)
			}
			run()
		}
		if text, err := root.Read("/etc/large"); err != nil || string(text) != address {
			t.Errorf("version %d: the file has %q, %v", version, text, err)
		}
	}
}
