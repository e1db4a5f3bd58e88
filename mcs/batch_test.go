package mcs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/mcs"
)

// Items that arrive during a write are one batch, each with a result of its own. An item whose request ends before its
// write is left out, and one whose write has begun gets its result.
func TestItemsOfOneKeyAreWrittenTogether(t *testing.T) { synctest.Test(t, together) }

func together(t *testing.T) {
	odd := errors.New("odd")
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	var batches [][]int
	w := mcs.BatchWriter[int, int]{Write: func(_ context.Context, written int, items []int) (int, []error, error) {
		begun <- struct{}{}
		<-goOn
		results := make([]error, len(items))
		for i, item := range items {
			if item%2 == 1 {
				results[i] = odd
			}
		}
		batches = append(batches, items)
		return written + len(items), results, nil
	}}
	var requests sync.WaitGroup
	do := func(ctx context.Context, item int, want error) {
		requests.Go(func() {
			if err := w.Do(ctx, "key", 0, item); !errors.Is(err, want) {
				t.Errorf("item %d: %v, want %v", item, err, want)
			}
		})
		synctest.Wait()
	}
	ctx, end := context.WithCancel(t.Context())
	do(ctx, 0, nil)
	<-begun
	do(ctx, 2, context.Canceled)
	do(t.Context(), 3, odd)
	do(t.Context(), 4, nil)
	end()
	synctest.Wait()
	close(goOn)
	requests.Wait()
	w.Wait()
	if len(batches) != 2 || len(batches[0]) != 1 || len(batches[1]) != 2 {
		t.Errorf("the batches are %v", batches)
	}
}

func TestAFailedWriteFailsItsBatch(t *testing.T) {
	away := errors.New("away")
	w := mcs.BatchWriter[int, int]{Write: func(context.Context, int, []int) (int, []error, error) {
		return 0, nil,
			away
	}}
	if err := w.Do(t.Context(), "key", 0, 1); !errors.Is(err, away) {
		t.Error(err)
	}
}

func TestAPanicFailsItsBatchOnly(t *testing.T) {
	w := mcs.BatchWriter[int, int]{Write: func(_ context.Context, _ int, items []int) (int, []error, error) {
		return 0, make([]error, 1/items[0]), nil
	}}
	if err := w.Do(t.Context(), "key", 0, 0); !errors.As(err, new(*fault.PanicError)) {
		t.Error(err)
	}
	if err := w.Do(t.Context(), "key", 0, 1); err != nil {
		t.Errorf("the next write: %v", err)
	}
}
