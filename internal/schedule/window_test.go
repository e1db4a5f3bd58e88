package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/schedule"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func parse(t *testing.T, ws ...schedule.Window) schedule.Windows {
	t.Helper()
	s, err := schedule.ParseWindow(ws)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func allow(name, begins string, d time.Duration) schedule.Window {
	return schedule.Window{Name: name, Schedule: begins, Duration: d}
}

func deny(name, begins string, d time.Duration) schedule.Window {
	return schedule.Window{Name: name, Deny: true, Schedule: begins, Duration: d}
}

// Which windows win: all at Wednesday 2025-01-15, 12:00 UTC.
func TestWhatWindowsSayTogether(t *testing.T) {
	const day = 24 * time.Hour
	lunch, night := allow("lunch", "30 11 * * *", time.Hour), allow("night", "0 1 * * *", 2*time.Hour)
	noon, evening := deny("noon", "0 12 * * *", 10*time.Minute), deny("evening", "0 18 * * *", time.Hour)
	for _, c := range []struct {
		sentence string
		windows  []schedule.Window
		want     string
	}{
		{"with no window at all, it is open for ever", nil, "open, for a year"},
		{"an Allow window that is open opens it", []schedule.Window{lunch}, "open until 15T12:30 by lunch"},
		{"an Allow window that is closed closes it, and is what opens it next", []schedule.Window{night}, "closed until 16T01:00 by night"},
		{"one of two Allow windows is enough", []schedule.Window{night, lunch}, "open until 15T12:30 by lunch"},
		{"a Deny window that is open closes it", []schedule.Window{noon}, "closed until 15T12:10 by noon"},
		{"a Deny window that is closed leaves all else open", []schedule.Window{evening}, "open until 15T18:00"},
		{"Deny wins over Allow, whatever the order", []schedule.Window{lunch, noon}, "closed until 15T12:10 by noon"},
		{"Deny wins over Allow, whatever the order (2)", []schedule.Window{noon, lunch}, "closed until 15T12:10 by noon"},
		{"an end of Deny where no Allow is open opens nothing: the next Allow does", []schedule.Window{noon, night}, "closed until 16T01:00 by noon"},
		{"a Deny window that is closed is no Allow window", []schedule.Window{evening, night}, "closed until 16T01:00 by night"},
		{"a Deny window that begins within an Allow window ends it", []schedule.Window{allow("day", "0 8 * * *", 12*time.Hour), evening}, "open until 15T18:00 by day"},
		{"an Allow window that is denied whole never opens", []schedule.Window{night, deny("dark", "0 0 * * *", 4*time.Hour)}, "closed, for a year"},
		{"windows that touch are one", []schedule.Window{lunch, allow("after lunch", "30 12 * * *", time.Hour)}, "open until 15T13:30 by lunch"},
		{"windows that overlap are one", []schedule.Window{lunch, allow("long lunch", "0 12 * * *", time.Hour)}, "open until 15T13:00 by lunch"},
		{"a window that lasts longer than until its next beginning is always open", []schedule.Window{allow("always", "@daily", 30*time.Hour)}, "open, for a year by always"},
		{"a window that lasts as long as until its next beginning is always open", []schedule.Window{allow("always", "@daily", day)}, "open, for a year by always"},
		{"every minute for a minute is always", []schedule.Window{allow("always", "* * * * *", time.Minute)}, "open, for a year by always"},
		{"a long window that began last week is still open", []schedule.Window{deny("moratorium", "0 0 6 1 *", 14*day)}, "closed until 20T00:00 by moratorium"},
		{"a window without a name is called by its schedule", []schedule.Window{allow("", "30 11 * * *", time.Hour)}, "open until 15T12:30 by 30 11 * * *"},
		{"an end to the minute is closed already", []schedule.Window{allow("morning", "0 11 * * *", time.Hour)}, "closed until 16T11:00 by morning"},
		{"a beginning to the minute is open", []schedule.Window{allow("noon", "0 12 * * *", time.Hour)}, "open until 15T13:00 by noon"},
	} {
		s := parse(t, c.windows...).At(at(t, "2025-01-15T12:00:00Z"))
		if got := windowSpell(s); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
	}
}

func windowSpell(s schedule.WindowState) string {
	text := "closed"
	if s.Open {
		text = "open"
	}
	if s.Until.IsZero() {
		text += ", for a year"
	} else {
		text += " until " + s.Until.UTC().Format("02T15:04")
	}
	if s.Window != "" {
		text += " by " + s.Window
	}
	return text
}

// From and Until cut a window; they do not unmake it.
func TestBoundsOfAWindow(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		sentence    string
		w           schedule.Window
		from, until string
		want        string
	}{
		{"before it counts, an Allow window is closed", allow("night", "0 1 * * *", hour), "2025-01-18T00:00:00Z", "", "closed until 18T01:00 by night"},
		{"after it counted, an Allow window stays closed: nothing opens because time went by", allow("night", "0 1 * * *", hour), "", "2025-01-10T00:00:00Z", "closed, for a year"},
		{"before it counts, a Deny window denies nothing", deny("freeze", "* * * * *", hour), "2025-01-18T00:00:00Z", "", "open until 18T00:00"},
		{"after it counted, a Deny window denies nothing", deny("freeze", "* * * * *", hour), "", "2025-01-10T00:00:00Z", "open, for a year"},
		{"a freeze is a Deny window of every minute with bounds", deny("freeze", "* * * * *", time.Minute), "2025-01-10T00:00:00Z", "2025-01-20T07:00:00Z", "closed until 20T07:00 by freeze"},
		{"a window that is open is cut at its end", allow("noon", "0 11 * * *", 4*hour), "", "2025-01-15T13:00:00Z", "open until 15T13:00 by noon"},
		{"a window that is open is cut at its beginning", allow("noon", "0 11 * * *", 4*hour), "2025-01-15T12:30:00Z", "", "closed until 15T12:30 by noon"},
		{"a time that is long past counts", allow("noon", "0 11 * * *", 4*hour), "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z", "open until 15T15:00 by noon"},
	} {
		if c.from != "" {
			c.w.From = at(t, c.from)
		}
		if c.until != "" {
			c.w.Until = at(t, c.until)
		}
		s := parse(t, c.w).At(at(t, "2025-01-15T12:00:00Z"))
		if got := windowSpell(s); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
	}
}

// spans follows Until from one time to another, and prints what is open in the zone of the first window.
func spans(t *testing.T, w schedule.Window, from, to time.Time) []string {
	t.Helper()
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, w)
	out := []string{}
	for now := from; ; {
		state := s.At(now)
		begin := now
		if state.Until.IsZero() || state.Until.After(to) {
			return out
		}
		if now = state.Until; state.Open {
			out = append(out, fmt.Sprintf("%s %s", begin.In(zone).Format("2006-01-02 15:04 -0700"),
				state.Until.Sub(begin)))
		}
	}
}

// What becomes of a window when the clocks change, or on a day that is rare.
func TestDaysThatAreOdd(t *testing.T) {
	for _, c := range []struct {
		sentence       string
		zone, schedule string
		lasts          time.Duration
		from, to       string
		want           []string
	}{
		{
			"a window that begins in the hour that is skipped opens when the clocks jump", "Europe/Berlin",
			"30 2 * * *", time.Hour, "2025-03-29T00:00:00Z", "2025-03-31T12:00:00Z",
			[]string{"2025-03-29 02:30 +0100 1h0m0s", "2025-03-30 03:00 +0200 1h0m0s", "2025-03-31 02:30 +0200 1h0m0s"},
		},
		{
			"a window that begins in the hour that comes twice opens once, at the first", "Europe/Berlin", "30 2 * * *",
			time.Hour, "2025-10-25T00:00:00Z", "2025-10-27T12:00:00Z",
			[]string{"2025-10-25 02:30 +0200 1h0m0s", "2025-10-26 02:30 +0200 1h0m0s", "2025-10-27 02:30 +0100 1h0m0s"},
		},
		{
			"a duration is time that passes: over the hour that is skipped, the clocks show an hour more",
			"Europe/Berlin", "0 1 * * *", 4 * time.Hour, "2025-03-29T12:00:00Z", "2025-03-30T12:00:00Z",
			[]string{"2025-03-30 01:00 +0100 4h0m0s"},
		},
		{
			"a schedule of every hour skips what the clocks skip", "Europe/Berlin", "30 * * * *", 5 * time.Minute,
			"2025-03-30T00:00:00Z", "2025-03-30T02:00:00Z",
			[]string{"2025-03-30 01:30 +0100 5m0s", "2025-03-30 03:30 +0200 5m0s"},
		},
		{
			"a schedule of every hour opens twice in the hour that comes twice", "Europe/Berlin", "30 * * * *",
			5 * time.Minute, "2025-10-26T00:00:00Z", "2025-10-26T02:00:00Z",
			[]string{"2025-10-26 02:30 +0200 5m0s", "2025-10-26 02:30 +0100 5m0s"},
		},
		{
			"several beginnings in what is skipped are one", "America/New_York", "0,15,30,45 2 * * *", 10 * time.Minute,
			"2025-03-09T05:00:00Z", "2025-03-09T12:00:00Z",
			[]string{"2025-03-09 03:00 -0400 10m0s"},
		},
		{
			"half an hour is skipped at Lord Howe", "Australia/Lord_Howe", "15 2 * * *", time.Hour,
			"2025-10-04T10:00:00Z", "2025-10-05T10:00:00Z",
			[]string{"2025-10-05 02:30 +1100 1h0m0s"},
		},
		{
			"half an hour comes twice at Lord Howe", "Australia/Lord_Howe", "45 1 * * *", 10 * time.Minute,
			"2025-04-05T10:00:00Z", "2025-04-06T10:00:00Z",
			[]string{"2025-04-06 01:45 +1100 10m0s"},
		},
		{
			"the clocks of Casablanca change with Ramadan", "Africa/Casablanca", "30 2 * * *", time.Hour,
			"2025-02-22T12:00:00Z", "2025-02-24T12:00:00Z",
			[]string{"2025-02-23 02:30 +0100 1h0m0s", "2025-02-24 02:30 +0000 1h0m0s"},
		},
		{
			"a midnight that does not exist opens when the day begins", "Africa/Cairo", "@daily", time.Hour,
			"2025-04-24T12:00:00Z", "2025-04-25T12:00:00Z",
			[]string{"2025-04-25 01:00 +0300 1h0m0s"},
		},
		{
			"a midnight that comes twice opens once", "America/Havana", "@daily", time.Hour, "2025-11-01T12:00:00Z",
			"2025-11-02T12:00:00Z",
			[]string{"2025-11-02 00:00 -0400 1h0m0s"},
		},
		{
			"clocks that go back over midnight bring back the end of the day before", "America/St_Johns",
			"0,30 * * * *", 5 * time.Minute, "2010-11-07T01:45:00Z", "2010-11-07T04:10:00Z",
			[]string{
				"2010-11-06 23:30 -0230 5m0s", "2010-11-07 00:00 -0230 5m0s", "2010-11-06 23:30 -0330 5m0s",
				"2010-11-07 00:00 -0330 5m0s", "2010-11-07 00:30 -0330 5m0s",
			},
		},
		{
			"a day that a country skipped opens when the next one begins", "Pacific/Apia", "0 2 30 12 *", time.Hour,
			"2011-12-29T12:00:00Z", "2012-01-02T12:00:00Z",
			[]string{"2011-12-31 00:00 +1400 1h0m0s"},
		},
		{
			"a schedule of every hour has none on a day that a country skipped", "Pacific/Apia", "30 * 29-31 12 *",
			5 * time.Minute, "2011-12-30T09:00:00Z", "2011-12-30T11:00:00Z",
			[]string{"2011-12-29 23:30 -1000 5m0s", "2011-12-31 00:30 +1400 5m0s"},
		},
		{
			"February 29th comes every fourth year", "UTC", "0 0 29 2 *", 24 * time.Hour, "2027-06-01T00:00:00Z",
			"2028-12-01T00:00:00Z",
			[]string{"2028-02-29 00:00 +0000 24h0m0s"},
		},
		{
			"the 31st comes in some months", "UTC", "0 0 31 * *", time.Hour, "2025-03-01T00:00:00Z",
			"2025-07-01T00:00:00Z",
			[]string{"2025-03-31 00:00 +0000 1h0m0s", "2025-05-31 00:00 +0000 1h0m0s"},
		},
		{
			"a day of the month and a day of the week: either is enough, as cron has it", "UTC", "0 0 13 * fri",
			time.Hour, "2025-06-10T00:00:00Z", "2025-06-21T00:00:00Z",
			[]string{"2025-06-13 00:00 +0000 1h0m0s", "2025-06-20 00:00 +0000 1h0m0s"},
		},
		{
			"weekends are one window", "Europe/Berlin", "0 22 * * fri", 55 * time.Hour, "2025-03-25T00:00:00Z",
			"2025-04-01T00:00:00Z",
			[]string{"2025-03-28 22:00 +0100 55h0m0s"},
		},
	} {
		w := schedule.Window{Schedule: c.schedule, Duration: c.lasts, Zone: c.zone}
		got := spans(t, w, at(t, c.from), at(t, c.to))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.sentence, diff)
		}
	}
}

func TestFarAwayIsNotNamed(t *testing.T) {
	s := parse(t, allow("leap", "0 0 29 2 *", 24*time.Hour))
	for now, want := range map[string]string{
		"2025-03-01T00:00:00Z": "closed, for a year",
		"2027-02-27T23:59:59Z": "closed, for a year",
		"2027-02-28T00:00:00Z": "closed until 29T00:00 by leap", // 2027-02-28 and 366 days
		"2096-03-01T00:00:00Z": "closed, for a year",
		"2104-02-29T12:00:00Z": "open until 01T00:00 by leap",
	} {
		if got := windowSpell(s.At(at(t, now))); got != want {
			t.Errorf("at %s: %s, want %s", now, got, want)
		}
	}
}

// What cannot be meant is refused, with what to write instead.
func TestRefusedWindows(t *testing.T) {
	for _, c := range []struct {
		sentence string
		w        schedule.Window
		want     string
	}{
		{"a day that does not come", allow("", "0 0 30 2 *", time.Hour), `window 1 ("0 0 30 2 *"): schedule "0 0 30 2 *" never opens: no such day comes in those months`},
		{"days that do not come in any of several months", allow("", "0 0 31 4,6,9,11 *", time.Hour), "never opens"},
		{"nothing", allow("night", "", time.Hour), `window 1 ("night"): there is no schedule; write five fields of cron, such as "0 1 * * 6" for Saturdays at 01:00`},
		{"six fields", allow("", "0 0 1 * * 6", time.Hour), `has six fields; there are no seconds: write minute, hour, day of month, month, day of week`},
		{"four fields", allow("", "0 1 * *", time.Hour), `has 4 fields; write five`},
		{"a time zone before the schedule", allow("", "TZ=Europe/Berlin 0 1 * * *", time.Hour), `names a time zone; write it in timeZone`},
		{"a time zone of cron before the schedule", allow("", "CRON_TZ=Europe/Berlin 0 1 * * *", time.Hour), `names a time zone; write it in timeZone`},
		{"a time zone alone", allow("", "TZ=Europe/Berlin", time.Hour), `names a time zone; write it in timeZone`},
		{"@every", allow("", "@every 6h", time.Hour), `counts from no particular time; write when it opens, such as "0 */6 * * *"`},
		{"a word that cron does not know", allow("", "@nightly", time.Hour), `is not known; there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly`},
		{"an hour that does not exist", allow("", "0 24 * * *", time.Hour), `hour "24": it has a value that is out of range or no number; write 0 to 23`},
		{"Sunday as 7", allow("", "0 1 * * 7", time.Hour), `write 0 to 6 or sun to sat; Sunday is 0`},
		{"a range that runs backwards", allow("", "0 22-2 * * *", time.Hour), `hour "22-2": the range 22-2 runs backwards: write it as two, with a comma`},
		{"a step that is greater than the field", allow("", "*/90 * * * *", time.Hour), `minute "*/90": a step of 90 does not fit into it`},
		{"a step of nothing", allow("", "*/0 * * * *", time.Hour), `a step of 0 does not fit into it`},
		{"the last day, which this cron does not have", allow("", "0 0 L * *", time.Hour), `day of month "L"`},
		{"an empty list", allow("", ", 0 * * *", time.Hour), `minute ","`},
		{"no duration", allow("", "@daily", 0), `it lasts 0s, and so never opens; write how long it stays open, such as 4h`},
		{"a negative duration", allow("", "@daily", -time.Hour), `it lasts -1h0m0s, and so never opens`},
		{"a duration of seconds", allow("", "@daily", 30*time.Second), `it lasts only 30s; write a minute or more`},
		{"a duration of years", allow("", "@yearly", 3*8784*time.Hour), `more than a year; write * * * * * as the schedule and bound it with from and until`},
		{"openings without end", allow("", "*/2 * * * *", time.Minute), `it opens 720 times a day, each time for 1m0s; write at most 96 openings, or a longer duration`},
		{"a zone that does not exist", schedule.Window{Schedule: "@daily", Duration: time.Hour, Zone: "Europe/Brelin"}, `time zone "Europe/Brelin" is not known; write an IANA name such as Europe/Berlin`},
		{"an abbreviation as a zone", schedule.Window{Schedule: "@daily", Duration: time.Hour, Zone: "CEST"}, `time zone "CEST" is not known`},
		{"the zone of the machine", schedule.Window{Schedule: "@daily", Duration: time.Hour, Zone: "Local"}, `is another one on each machine`},
		{"a zone that is a path", schedule.Window{Schedule: "@daily", Duration: time.Hour, Zone: "../../etc/passwd"}, `is not known`},
		{"an end before the beginning", schedule.Window{Schedule: "@daily", Duration: time.Hour, From: at(t, "2025-02-01T00:00:00Z"), Until: at(t, "2025-01-01T00:00:00Z")}, `until 2025-01-01T00:00:00Z is not after from 2025-02-01T00:00:00Z; exchange them`},
		{"bounds that leave nothing", schedule.Window{Schedule: "0 0 24 12 *", Duration: time.Hour, From: at(t, "2025-01-01T00:00:00Z"), Until: at(t, "2025-12-01T00:00:00Z")}, `it never opens between from 2025-01-01T00:00:00Z and until 2025-12-01T00:00:00Z`},
	} {
		_, err := schedule.ParseWindow([]schedule.Window{c.w})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.sentence, err, c.want)
		}
	}
}

func TestEveryWindowThatIsWrongIsNamed(t *testing.T) {
	ws := []schedule.Window{
		allow("fine", "@daily", time.Hour),
		{Name: "first", Schedule: "61 25 * * *", Zone: "Nowhere"},
		deny("second", "0 0 30 2 *", time.Hour),
	}
	var got []string
	for _, p := range schedule.CheckWindows(ws) {
		got = append(got, fmt.Sprintf("%d %s", p.Window, p.Field))
	}
	want := []string{"1 Schedule", "1 Schedule", "1 Zone", "1 Duration", "2 Schedule"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := schedule.ParseWindow(ws); err == nil || strings.Count(err.Error(), "\n") != len(want)-1 {
		t.Errorf("Parse says %v", err)
	}
	if schedule.CheckWindows(ws[:1]) != nil || parse(t, ws[:1]...).Len() != 1 {
		t.Error("the first one is fine")
	}
}
