package mcs

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever comes, ends and gives up: no key has more than its part, in the end all had their turns, and nothing is
// remembered.
func TestNoTurnIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		var work sync.WaitGroup
		var all, ended, gaveUp atomic.Int32
		ofKey := make([]atomic.Int32, 4)
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			key, length := random.IntN(len(ofKey)), time.Duration(random.IntN(100))*time.Millisecond
			patience := time.Hour
			if random.IntN(3) == 0 {
				patience = time.Second
			}
			work.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				end, err := turns.Take(ctx, Limit{key, 3}, Limit{"all", 5})
				if errors.Is(err, context.DeadlineExceeded) {
					gaveUp.Add(1)
					return
				}
				if of, sum := ofKey[key].Add(1), all.Add(1); of > 3 || sum > 5 {
					t.Errorf("%d of one key run, %d in all", of, sum)
				}
				time.Sleep(length)
				ofKey[key].Add(-1)
				all.Add(-1)
				ended.Add(1)
				end()
			})
		}
		work.Wait()
		if len(turns.keys) != 0 || gaveUp.Load() == 0 || ended.Load()+gaveUp.Load() != 2000 {
			t.Errorf("%d keys are remembered; %d ended, %d gave up", len(turns.keys), ended.Load(), gaveUp.Load())
		}
	})
}
