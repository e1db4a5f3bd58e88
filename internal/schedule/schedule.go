package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// schedule says when a window begins, by the clocks of a zone.
type schedule struct {
	// of a day, at which the window begins, in order
	minutes []int
	// The schedule follows elapsed hours instead of naming hours.
	everyHour bool
	// on which the window begins at these minutes
	dates *cron.SpecSchedule
	zone  *time.Location
}

// star: the bit that cron sets for a field that is *: if day of month or day of week is *, both must match a day;
// otherwise one is enough
const star = 1 << 63

type field struct {
	name, want string
	// the number of values; cron also accepts a larger step, whose meaning is surprising
	span int
}

var fields = []field{
	{"minute", "0 to 59", 60},
	{"hour", "0 to 23", 24},
	{"day of month", "1 to 31", 31},
	{"month", "1 to 12 or jan to dec", 12},
	{"day of week", "0 to 6 or sun to sat; Sunday is 0", 7},
}

var descriptors = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// item: one part of a field between commas; cron also accepts other forms, whose meaning is surprising
var item = regexp.MustCompile(`^(\*|\?|[0-9]+|[A-Za-z]+|[0-9A-Za-z]+-[0-9A-Za-z]+)(?:/([0-9]{1,3}))?$`)

func parser() cron.Parser {
	return cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
}

func (f field) read(i int, word string) error {
	for part := range strings.SplitSeq(word, ",") {
		m := item.FindStringSubmatch(part)
		if m == nil {
			return fmt.Errorf("%q is nothing that a schedule may have", part)
		}
		if step, err := strconv.Atoi(m[2]); err == nil && (step == 0 || step >= f.span) {
			return fmt.Errorf("a step of %d does not fit into it", step)
		}
		if low, high, ok := strings.Cut(m[1], "-"); ok {
			a, errA := strconv.Atoi(low)
			b, errB := strconv.Atoi(high)
			if errA == nil && errB == nil && a > b {
				return fmt.Errorf("the range %s runs backwards: write it as two, with a comma", m[1])
			}
		}
	}
	alone := []string{"*", "*", "*", "*", "*"}
	alone[i] = word
	if _, err := parser().Parse(strings.Join(alone, " ")); err != nil {
		return errors.New("it has a value that is out of range or no number")
	}
	return nil
}

func (s schedule) everyMinute() bool {
	return len(s.minutes) == 24*60 && s.dates.Month&^star == 1<<13-2 && s.dates.Dom&star != 0 && s.dates.Dow&star != 0
}

func (s schedule) never() bool {
	if s.dates.Dom&star != 0 || s.dates.Dow&star == 0 {
		return false // Each day of the week comes in every month.
	}
	for month := 1; month <= 12; month++ {
		// The year 2000 had a February 29th.
		days := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if s.dates.Month&(1<<month) != 0 && s.dates.Dom&^star&(1<<(days+1)-1) != 0 {
			return false
		}
	}
	return true
}

// on reports whether the window begins on a day.
func (s schedule) on(day time.Time) bool {
	_, month, date := day.Date()
	if s.dates.Month&(1<<month) == 0 {
		return false
	}
	dom, dow := s.dates.Dom&(1<<date) != 0, s.dates.Dow&(1<<day.Weekday()) != 0
	if s.dates.Dom&star != 0 || s.dates.Dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}

// stretches returns the parts of a day that the windows cover, if the clocks do not change. Those that touch are one.
func (s schedule) stretches(d time.Duration) []stretch {
	var out []stretch
	for _, m := range s.minutes {
		begin := time.Duration(m) * time.Minute
		if n := len(out); n > 0 && begin <= out[n-1].end {
			out[n-1].end = begin + d
			continue
		}
		out = append(out, stretch{begin, begin + d})
	}
	return out
}
