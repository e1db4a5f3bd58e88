package fromgit_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/source"
)

// gone is a remote that does not answer, and tells who asks.
type gone struct{ asked func() }

func (g gone) List(context.Context, source.Poll) (source.Listing, error) {
	g.asked()
	return source.Listing{}, errors.New("connection refused")
}

func (gone) Tree(context.Context, source.Picked) (source.Tree, error) {
	return source.Tree{}, errors.New("connection refused")
}

// TestARemoteThatIsAwayForADayIsNotStormed: the pauses between tries grow up to the interval, and stay there.
func TestARemoteThatIsAwayForADayIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes = 24 * 60
		ctx, stop := context.WithTimeout(t.Context(), minutes*time.Minute)
		defer stop()
		times := 0
		asked := func() {
			if times++; times > 2*minutes {
				stop()
			}
		}
		r, err := fromgit.New(fromgit.Config{
			URL: "https://git.example.com/os.git", Last: filepath.Join(t.TempDir(), "last"),
			Log:  slog.New(slog.DiscardHandler),
			Open: func(fromgit.Access) (fromgit.Remote, error) { return gone{asked}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Run(ctx, time.Minute, func(map[string]*mcfgv1.MachineConfig) error { return nil })
		if times > minutes+10 || times < minutes*8/10 {
			t.Errorf("asked %d times in a day, want about one a minute: %d", times, minutes)
		}
	})
}
