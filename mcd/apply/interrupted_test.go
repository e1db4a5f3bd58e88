package apply_test

import (
	"errors"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// TestAnUpdateThatIsInterruptedIsToldEachTime kills the daemon after every change, three times in a row.
func TestAnUpdateThatIsInterruptedIsToldEachTime(t *testing.T) {
	for name := range worlds {
		t.Run(name, func(t *testing.T) {
			told := 0
			for _, c := range crashCases(map[string]uint64{
				"in memory": 6, "with a boot loader": 4,
				"rooted": 2,
			}[name]) {
				tr := begin(t, c, worlds[name])
				for k := 0; ; k++ {
					if tr.tree(t) != tr.old {
						tr = begin(t, c, worlds[name])
					}
					tr.rejected = 0
					var left *host.Record
					for attempt := range 3 {
						h, _ := hosttest.Wrap(tr.open(t), hosttest.CrashAfter(k))
						_, _ = tr.runner(h).Run(t.Context(), tr.plan, tr.contents)
						var err error
						if left, err = tr.open(t).Journal.Load(); err != nil {
							t.Fatal(err)
						}
						if left == nil || left.Phase != host.Applying {
							break
						}
						end := tr.inPeace(t)
						if !errors.Is(end.Why, apply.ErrInterrupted) || end.End != apply.Old || tr.rejected != attempt+
							1 || tr.tree(t) != tr.old {
							t.Fatalf("killed after %d changes, for the %d. time: %+v, told %d times", k, attempt+1, end,
								tr.rejected)
						}
						if rec, err := tr.open(t).Journal.Load(); rec != nil || err != nil {
							t.Fatalf("the journal is left: %v %v", rec, err)
						}
						told++
					}
					if left != nil && left.Phase != host.Applying { // nobody was interrupted
						break
					}
					if left == nil && k > 2 {
						break
					}
				}
			}
			t.Logf("%d interruptions", told)
			if told < 30 {
				t.Error("these are too few to say anything")
			}
		})
	}
}

// TestAFullDiskDoesNotKeepAnInterruptedUpdateInPlace: going back needs no room, and makes some.
func TestAFullDiskDoesNotKeepAnInterruptedUpdateInPlace(t *testing.T) {
	_, tr := gateTrial(t, crashCases(1)[0])
	dying, _ := hosttest.Wrap(tr.open(t), hosttest.CrashAfter(8))
	_, _ = tr.runner(dying).Run(t.Context(), tr.plan, tr.contents)
	full, _ := hosttest.Wrap(tr.open(t), func(c hosttest.Call) error {
		if c.Port == "journal" && !c.Frees {
			return hosttest.ErrFull
		}
		return nil
	})
	end, err := tr.runner(full).Recover(t.Context())
	if err != nil || end.End != apply.Old || !errors.Is(end.Why, apply.ErrInterrupted) || tr.rejected != 1 ||
		tr.tree(t) != tr.old {
		t.Errorf("%+v, %v, told %d times", end, err, tr.rejected)
	}
}
