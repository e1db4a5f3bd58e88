package drift

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Memory is the data that a scan stores for the next scan, as JSON on the node.
type Memory struct {
	// Things has the items that differ, and the items with recent repairs, by name.
	Things map[string]Thing `json:"things,omitempty"`
}

// Thing is the memory of one item.
type Thing struct {
	// Since is when the item began to differ; zero if it does not differ.
	Since time.Time `json:"since,omitzero"`
	// Repairs are the times of the repairs that still count, with the oldest first.
	Repairs []time.Time `json:"repairs,omitempty"`
	// Spent is how many repairs of the burst were used at the last repair.
	Spent float64 `json:"spent,omitempty"`
	// Every is the interval after which the number of counted repairs decreases by one.
	Every time.Duration `json:"every,omitempty"`
	// Conflict is a text that says that the item was repaired too often; otherwise "". Conflict stays until the item
	// does not differ any more.
	Conflict string `json:"fight,omitempty"`
}

// maxTimes is the maximum length of Repairs.
const maxTimes = 10

// usedRepairs returns how many repairs of the burst are in use. The number decreases by one after each interval.
func (t Thing) usedRepairs(now time.Time) float64 {
	if len(t.Repairs) == 0 || t.Every <= 0 {
		return 0
	}
	passed := max(now.Sub(t.Repairs[len(t.Repairs)-1]), 0)
	return max(t.Spent-float64(passed)/float64(t.Every), 0)
}

// useRepair counts one repair. If the limit is reached, useRepair records a conflict instead.
func (t Thing) useRepair(l Limit, now time.Time) Thing {
	l = l.filled()
	spent := t.usedRepairs(now)
	if spent > float64(l.Burst-1) {
		count, first := len(t.Repairs), t.Repairs[0]
		t.Conflict = fmt.Sprintf("the daemon repaired it %d times since %s, and it differs again: another program "+
			"writes it, or the repair fails. Find the cause, remove it from the config, or let a DriftPolicy ignore it",
			count, first.UTC().Format(time.RFC3339))
		return t
	}
	if spent == 0 {
		t.Repairs = nil
	}
	repairs := append(t.Repairs[:len(t.Repairs):len(t.Repairs)], now)
	t.Repairs, t.Spent, t.Every = repairs[max(len(repairs)-maxTimes, 0):], spent+1, l.Interval
	return t
}

// update returns the memory after a scan that found the given items. For other items, the memory keeps only repairs
// that still count.
func (m Memory) update(items []Item, now time.Time) Memory {
	out := Memory{Things: map[string]Thing{}}
	m = m.withoutFuture(now)
	for _, it := range items {
		t := m.Things[it.Name]
		if t.Since.IsZero() {
			t.Since = now
		}
		out.Things[it.Name] = t
	}
	for name, t := range m.Things {
		if _, differs := out.Things[name]; differs {
			continue
		}
		if t.Since, t.Conflict = (time.Time{}), ""; t.usedRepairs(now) > 0 {
			out.Things[name] = t
		}
	}
	return out
}

// withoutFuture replaces times in the future by now, after the clock was set back. Without this, one repair could count
// for years.
func (m Memory) withoutFuture(now time.Time) Memory {
	out := Memory{Things: map[string]Thing{}}
	for name, t := range m.Things {
		if t.Since.After(now) {
			t.Since = now
		}
		t.Repairs = slices.Clone(t.Repairs)
		for i, at := range t.Repairs {
			if at.After(now) {
				t.Repairs[i] = now
			}
		}
		out.Things[name] = t
	}
	return out
}

// Equal reports whether two memories are equal.
func (m Memory) Equal(other Memory) bool {
	return maps.EqualFunc(m.Things, other.Things, func(a, b Thing) bool {
		if len(a.Repairs) != len(b.Repairs) {
			return false
		}
		for i := range a.Repairs {
			if !a.Repairs[i].Equal(b.Repairs[i]) {
				return false
			}
		}
		return a.Since.Equal(b.Since) && a.Spent == b.Spent && a.Every == b.Every && a.Conflict == b.Conflict
	})
}
