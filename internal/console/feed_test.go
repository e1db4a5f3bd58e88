package console

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestASourceRunsWhileSomebodyReads: it starts once, survives a short break, stops after a long one, and starts again
// without the old state.
func TestASourceRunsWhileSomebodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts, runs := 0, false
		f := NewFeed(func(ctx context.Context, publish func(int, error)) {
			starts++
			runs = true
			publish(starts, nil)
			<-ctx.Done()
			publish(-1, nil) // a source that was stopped
			runs = false
		}, time.Minute)
		synctest.Wait()
		if starts != 0 {
			t.Error("it runs without a reader")
		}
		one, two := f.Hold(), f.Hold()
		if s, err := f.Next(t.Context(), 0); err != nil || s.State != 1 || !s.Known {
			t.Errorf("the first state is %v, %v", s, err)
		}
		one()
		one() // a second release of the same hold counts for nothing
		time.Sleep(2 * time.Minute)
		if !runs {
			t.Error("it stopped while somebody reads")
		}
		two()
		time.Sleep(59 * time.Second)
		three := f.Hold()
		time.Sleep(time.Hour)
		if !runs || starts != 1 {
			t.Errorf("it does not survive a break of 59 seconds: %d starts", starts)
		}
		three()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if runs {
			t.Error("it runs without a reader for 61 seconds")
		}
		defer f.Hold()()
		if s, err := f.Next(t.Context(), 0); err != nil || s.State != 2 {
			t.Errorf("after a new start, the state is %v, %v", s, err)
		}
		f.Close()
		f.Close()
		if _, err := f.Next(t.Context(), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed feed returns %v", err)
		}
		synctest.Wait()
		if runs {
			t.Error("it runs after Close")
		}
	})
}

// TestASlowReaderGetsTheNewestState: states in between are lost for it, and no state waits for it.
func TestASlowReaderGetsTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		f := NewFeed(func(ctx context.Context, publish func(int, error)) {
			for n := 1; ; n++ {
				select {
				case err := <-step:
					publish(n, err)
				case <-ctx.Done():
					return
				}
			}
		}, time.Minute)
		defer f.Close()
		defer f.Hold()()
		for range 5 {
			step <- nil
		}
		outage := errors.New("outage")
		step <- outage
		synctest.Wait()
		s, err := f.Next(t.Context(), 1)
		if err != nil || s.State != 5 || !s.Known || !errors.Is(s.Problem, outage) || s.Version != 6 {
			t.Errorf("it gets %v, %v", s, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := f.Next(ctx, s.Version); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a change it returns %v", err)
		}
		step <- nil
		if s, _ := f.Next(t.Context(), s.Version); s.State != 7 || s.Problem != nil {
			t.Errorf("after the outage it gets %v", s)
		}
	})
}

// TestAForgottenStateIsGone: a reader waits for the next state, and gets nothing of the one before.
func TestAForgottenStateIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan error)
		f := NewFeed(func(ctx context.Context, publish func(int, error)) {
			publish(1, nil)
			publish(0, <-step)
			publish(0, <-step)
			<-ctx.Done()
		}, time.Minute)
		defer f.Close()
		defer f.Hold()()
		if s, err := f.Next(t.Context(), 0); err != nil || s.State != 1 {
			t.Fatalf("the state is %v, %v", s, err)
		}
		step <- errForget
		synctest.Wait()
		waits, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if s, err := f.Next(waits, 0); err == nil {
			t.Errorf("there is a state: %v", s)
		}
		step <- errors.New("refused")
		if s, err := f.Next(t.Context(), 1); err != nil || s.Known || s.State != 0 || s.Problem == nil {
			t.Errorf("after the problem, the state is %v, %v", s, err)
		}
	})
}
