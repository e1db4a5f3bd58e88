package schedule_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/schedule"
)

// zones whose clocks change in different ways: over an hour in spring and autumn, in the south, over half an hour, with
// Ramadan, at midnight, in the hour before midnight, over three hours and two, and never.
var zones = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo",
	"America/Havana", "America/Asuncion", "Antarctica/Casey", "Antarctica/Troll", "America/St_Johns",
	"America/Scoresbysund", "Asia/Kathmandu",
}

// random is a window with the sets behind its schedule, so that the walk below needs no reader of schedules.
type random struct {
	schedule.Window
	zone                         *time.Location
	minute, hour, dom, moon, dow map[int]bool // moon: of the year
}

// set draws values from low to high; nil, spelled *, is all of them.
func set(r *rand.Rand, low, high, most int) (map[int]bool, string) {
	if r.Intn(2) == 0 {
		return nil, "*"
	}
	out := map[int]bool{}
	var words []string
	for range 1 + r.Intn(most) {
		n := low + r.Intn(high-low+1)
		if !out[n] {
			out[n] = true
			words = append(words, fmt.Sprint(n))
		}
	}
	return out, strings.Join(words, ",")
}

func randomWindow(r *rand.Rand, around time.Time) random {
	w := random{Window: schedule.Window{Deny: r.Intn(3) == 0, Zone: zones[r.Intn(len(zones))]}}
	w.zone, _ = time.LoadLocation(w.Zone)
	texts := make([]string, 5)
	w.minute, texts[0] = set(r, 0, 59, 4)
	w.hour, texts[1] = set(r, 0, 5, 3) // where clocks change
	w.dom, texts[2] = set(r, 1, 31, 20)
	w.moon, texts[3] = set(r, 1, 12, 11)
	w.dow, texts[4] = set(r, 0, 6, 4)
	if r.Intn(3) > 0 {
		w.moon, texts[3] = nil, "*"
	}
	w.Schedule = strings.Join(texts, " ")
	w.Duration = time.Duration(1+r.Intn([]int{5, 60, 600, 6000}[r.Intn(4)])) * time.Minute
	if r.Intn(4) == 0 {
		w.From = around.Add(time.Duration(r.Intn(6000)-3000) * time.Minute)
	}
	if r.Intn(4) == 0 {
		w.Until = around.Add(time.Duration(r.Intn(9000)-3000) * time.Minute)
	}
	return w
}

func in(set map[int]bool, n int) bool { return set == nil || set[n] }

// matches reads a minute of a clock, the argument being it in UTC.
func (w random) matches(wall time.Time) bool {
	date := in(w.dom, wall.Day()) && in(w.dow, int(wall.Weekday()))
	if w.dom != nil && w.dow != nil {
		date = w.dom[wall.Day()] || w.dow[int(wall.Weekday())]
	}
	return date && in(w.minute, wall.Minute()) && in(w.hour, wall.Hour()) && in(w.moon, int(wall.Month()))
}

// walk looks at the clock each minute, as somebody would who knows nothing of calendars, and notes when the window is
// open.
func (w random) walk(from time.Time, minutes int) []bool {
	out := make([]bool, minutes)
	seen := map[int64]bool{}
	lead := int(w.Duration/time.Minute) + 3*24*60
	var before, open time.Time
	for i := -lead; i < minutes; i++ {
		now := from.Add(time.Duration(i) * time.Minute)
		_, offset := now.In(w.zone).Zone()
		wall := now.UTC().Add(time.Duration(offset) * time.Second)
		again := seen[wall.Unix()]
		seen[wall.Unix()] = true
		begins := w.matches(wall) && (!again || w.hour == nil)
		for skipped := before.Add(time.Minute); !before.IsZero() && skipped.Before(wall); skipped = skipped.Add(
			time.Minute) {
			if seen[skipped.Unix()] {
				continue
			}
			seen[skipped.Unix()] = true
			begins = begins || w.hour != nil && w.matches(skipped)
		}
		before = wall
		if begins {
			open = now.Add(w.Duration)
		}
		if i >= 0 {
			out[i] = now.Before(open) && !now.Before(w.From) && (w.Until.IsZero() || now.Before(w.Until))
		}
	}
	return out
}

// TestAtAgreesWithTheClock compares At with a walk that looks at the clock each minute, and Until with the first minute
// at which that walk sees a change.
func TestAtAgreesWithTheClock(t *testing.T) {
	const minutes = 30 * 24 * 60
	rounds, flips := 40, 0
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		r := rand.New(rand.NewSource(int64(seed)))
		from := changeOfClocks(r)
		var ws []schedule.Window
		var walks [][]bool
		for range 1 + r.Intn(4) {
			w := randomWindow(r, from)
			if schedule.CheckWindows([]schedule.Window{w.Window}) != nil {
				continue // it opens never, or too often
			}
			ws, walks = append(ws, w.Window), append(walks, w.walk(from, minutes))
		}
		set := parse(t, ws...)
		want := together(ws, walks, minutes)
		next := minutes // the next change after the minute under way
		for i := minutes - 2; i >= 0; i-- {
			if want[i] != want[i+1] {
				next = i + 1
				flips++
			}
			if i > minutes/2 && next == minutes || r.Intn(40) > 0 && next != i+1 {
				continue
			}
			now := from.Add(time.Duration(i)*time.Minute + time.Duration(r.Intn(60))*time.Second)
			got := set.At(now)
			change := from.Add(time.Duration(next) * time.Minute)
			if got.Open != want[i] || next < minutes && !got.Until.Equal(change) || next == minutes &&
				!got.Until.IsZero() && got.Until.Before(change) {
				t.Fatalf("seed %d: at %s: %+v, want open %v until %s\nwindows %+v", seed, now, got, want[i], change, ws)
			}
		}
	}
	if flips < 10*rounds {
		t.Errorf("only %d changes in %d rounds", flips, rounds)
	}
}

// together is the table of TestWhatWindowsSayTogether, minute by minute.
func together(ws []schedule.Window, walks [][]bool, minutes int) []bool {
	out := make([]bool, minutes)
	for i := range out {
		allows, allowed, denied := 0, false, false
		for n, w := range ws {
			if w.Deny {
				denied = denied || walks[n][i]
			} else {
				allows++
				allowed = allowed || walks[n][i]
			}
		}
		out[i] = !denied && (allowed || allows == 0)
	}
	return out
}

// changeOfClocks is a time some days before the clocks of one of the zones change, or any.
func changeOfClocks(r *rand.Rand) time.Time {
	now := time.Date(2007+r.Intn(25), time.Month(1+r.Intn(12)), 1, 0, 0, 0, 0, time.UTC)
	zone, _ := time.LoadLocation(zones[r.Intn(len(zones))])
	if _, end := now.In(zone).ZoneBounds(); r.Intn(5) > 0 && !end.IsZero() {
		now = end.UTC()
	}
	return now.Truncate(time.Minute).Add(-time.Duration(r.Intn(5*24*60)) * time.Minute)
}

// FuzzParse: whatever a schedule, a zone and a duration are, they are refused or they mean something: what At says of a
// time holds until just before Until, and no longer.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"0 1 * * 6", "*/15 1-3 * * mon-fri", "@weekly", "TZ=UTC", "0 0 30 2 *", "* * * * *",
		"? ? ? ? ?", "0-59/59 23 29 2 *", "@every 1s", "*-5 * * * *", "1,,2 * * * *", "0 0 31 2-4 */6",
	} {
		f.Add(s, "Europe/Berlin", int64(3600), int64(1743296400))
	}
	f.Add("@daily", "Local", int64(0), int64(-1<<40))
	f.Add("30 2 * * *", "Australia/Lord_Howe", int64(-5), int64(1<<40))
	f.Fuzz(func(t *testing.T, begins, zone string, lasts, now int64) {
		w := schedule.Window{Schedule: begins, Zone: zone, Duration: time.Duration(lasts) * time.Second}
		set, err := schedule.ParseWindow([]schedule.Window{
			w,
			{Deny: true, Schedule: "0 2 * * *", Duration: time.Hour},
		})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "window 1 (") {
				t.Errorf("refused without saying which: %v", err)
			}
			return
		}
		at := time.Unix(now%(1<<40), 0)
		state := set.At(at)
		if state.Until.IsZero() {
			return
		}
		if !state.Until.After(at) {
			t.Errorf("%q: at %s it says until %s", begins, at, state.Until)
		}
		if set.At(state.Until.Add(-1)).Open != state.Open || set.At(state.Until).Open == state.Open {
			t.Errorf("%q in %q for %s: at %s: %+v does not change then", begins, zone, w.Duration, at, state)
		}
	})
}

func BenchmarkAt(b *testing.B) {
	now := time.Date(2025, 3, 30, 0, 30, 0, 0, time.UTC)
	for name, ws := range map[string][]schedule.Window{
		"weekly":           {allow("", "0 1 * * 6", 4*time.Hour)},
		"nightly but June": {allow("", "0 1 * * *", 4*time.Hour), deny("", "0 0 1 6 *", 720*time.Hour)},
		"never in a year":  {allow("", "0 1 * * *", time.Hour), deny("", "0 0 * * *", 4*time.Hour)},
		"every minute":     {allow("", "* * * * *", time.Hour)},
		"most openings":    {allow("", "*/15 * * * *", time.Minute), deny("", "*/15 * * * *", 2*time.Minute)},
	} {
		for i := range ws {
			ws[i].Zone = "Europe/Berlin"
		}
		set, err := schedule.ParseWindow(ws)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				set.At(now)
			}
		})
	}
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := schedule.ParseWindow([]schedule.Window{{
				Schedule: "0 1 * * 6", Duration: time.Hour,
				Zone: "Europe/Berlin",
			}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
