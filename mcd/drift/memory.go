package drift

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Memory is what has to be remembered from one look to the next, as JSON on the node. The zero value remembers nothing.
type Memory struct {
	// Things by the names of their items: those that differ, and those that were repaired not long ago.
	Things map[string]Thing `json:"things,omitempty"`
}

// Thing is what is remembered of one item.
type Thing struct {
	// Since when it differs; zero where it does not.
	Since time.Time `json:"since,omitzero"`
	// Repairs are when it was put right, the oldest first, as far as they still count.
	Repairs []time.Time `json:"repairs,omitempty"`
	// Spent is how many repairs of the burst are used up at the last of Repairs.
	Spent float64 `json:"spent,omitempty"`
	// Every is after how long one repair less counts.
	Every time.Duration `json:"every,omitempty"`
	// Fight says that it came back too often, and how; "" where it did not. It lasts until the thing is right by other means.
	Fight string `json:"fight,omitempty"`
}

// maxTimes is how many repairs are remembered one by one.
const maxTimes = 10

// left is how many repairs are used up at a time: one less after each interval.
func (t Thing) left(now time.Time) float64 {
	if len(t.Repairs) == 0 || t.Every <= 0 {
		return 0
	}
	passed := max(now.Sub(t.Repairs[len(t.Repairs)-1]), 0)
	return max(t.Spent-float64(passed)/float64(t.Every), 0)
}

// spend takes one repair off the limit. If there is none left, the thing is fought over from now on.
func (t Thing) spend(l Limit, now time.Time) Thing {
	l = l.filled()
	spent := t.left(now)
	if spent > float64(l.Burst-1) {
		count, first := len(t.Repairs), t.Repairs[0]
		t.Fight = fmt.Sprintf("it was repaired %d times since %s and differs again: something else writes it, or the repair did not hold; see to that, take it out of the config, or let a DriftPolicy ignore it",
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

// after is what is remembered after a look that found these items: of what is right again, only repairs that still count.
func (m Memory) after(items []Item, now time.Time) Memory {
	out := Memory{Things: map[string]Thing{}}
	m = m.by(now)
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
		if t.Since, t.Fight = (time.Time{}), ""; t.left(now) > 0 {
			out.Things[name] = t
		}
	}
	return out
}

// by is the memory on a machine whose clock went wrong and was set back: what it remembers from times to come was now, or
// one repair would count for years.
func (m Memory) by(now time.Time) Memory {
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

// Equal tells whether two memories say the same.
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
		return a.Since.Equal(b.Since) && a.Spent == b.Spent && a.Every == b.Every && a.Fight == b.Fight
	})
}
