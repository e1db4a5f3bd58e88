package measure

import (
	"cmp"
	"slices"
	"time"
)

// Limit is how often something is repeated: at most Runs times, and not again once it has taken the CPU for Time, so that a
// busy machine makes it longer and not worse. It runs at least once.
type Limit struct {
	Runs int
	Time time.Duration
}

// Once is a run of what is measured. Runs are numbered from 0, so that each can have something of its own to work on. What
// it does beside making the sample costs nothing.
type Once func(run int) (Sample, error)

// Median repeats a run and returns the sample of median CPU.
func (l Limit) Median(once Once) (Sample, error) {
	all, err := l.Together(once)
	if err != nil {
		return Sample{}, err
	}
	return all[0], nil
}

// Together repeats several kinds of runs in turn, so that whatever else the machine does meets all of them alike, and
// returns the median of each kind.
func (l Limit) Together(kinds ...Once) ([]Sample, error) {
	samples := make([][]Sample, len(kinds))
	var spent time.Duration
	for run := 0; run == 0 || run < l.Runs && spent < l.Time*time.Duration(len(kinds)); run++ {
		for i, once := range kinds {
			s, err := once(run)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
			spent += max(s.spent, s.CPU)
		}
	}
	out := make([]Sample, len(kinds))
	for i, of := range samples {
		slices.SortFunc(of, func(x, y Sample) int { return cmp.Compare(x.CPU, y.CPU) })
		out[i] = of[len(of)/2]
		out[i].Runs = len(of)
	}
	return out, nil
}
