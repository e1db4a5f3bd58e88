package memory_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source/memory"
)

func TestReadersShareABudget(t *testing.T) {
	m := memory.New(100 << 20)
	large := memory.Answer{What: "refs", Limit: 1 << 20, Memory: 80 << 20}
	read := func(ctx context.Context, bytesSent int) (*memory.Reader, error) {
		r := m.Reader(ctx, bytes.NewReader(make([]byte, bytesSent)), large, nil)
		_, err := io.Copy(io.Discard, r)
		return r, err
	}
	first, err := read(t.Context(), memory.SmallAnswer+1)
	if err != nil {
		t.Fatal(err)
	}
	// A small answer never waits.
	if _, err := read(t.Context(), memory.SmallAnswer-1); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the deadline"))
	if _, err := read(ended, 1<<20); err == nil || fault.Of(err, "").Kind != fault.Retry ||
		!strings.Contains(err.Error(), "waiting for 80 MiB of memory, because other sources use the 100 MiB") {
		t.Errorf("a second large answer: %v", err)
	}
	first.Release()
	first.Release() // the second call has no effect
	over, err := read(t.Context(), 1<<20+1)
	over.Release()
	if err == nil || fault.Of(err, "").Kind != fault.Stalled ||
		!strings.Contains(err.Error(), "sends more than 1024 KiB of refs") {
		t.Errorf("an answer that is too long: %v", err)
	}
	if m.Most() != 80<<20 {
		t.Errorf("%d bytes were held", m.Most())
	}
	// The whole budget is free again.
	release, err := m.Hold(t.Context(), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestNobodyWaitsForEver: who asks first gets memory first, so many that need little do not overtake one that needs
// much.
func TestNobodyWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New(10)
		release, err := m.Hold(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(name string, bytes int64) {
			go func() {
				done, err := m.Hold(t.Context(), bytes)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				done()
			}()
			synctest.Wait()
		}
		wait("much", 10)
		wait("little", 1)
		release()
		synctest.Wait()
		if strings.Join(order, " ") != "much little" {
			t.Errorf("the order is %v", order)
		}
	})
}
