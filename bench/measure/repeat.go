package measure

import (
	"cmp"
	"slices"
	"time"
)

// Limit is how often a run is repeated: at most Runs times, and not again after it has used Time of CPU. So the
// measurement of a busy machine takes longer and does not get worse. There is at least one run.
type Limit struct {
	Runs int
	Time time.Duration
}

// Once is one measured run. Runs are numbered from 0, so that each can use its own input. Only the returned sample
// counts, and not the other work of the function.
type Once func(run int) (Sample, error)

// Median repeats a run and returns the sample with the median CPU time.
func (l Limit) Median(once Once) (Sample, error) {
	all, err := l.Together(once)
	if err != nil {
		return Sample{}, err
	}
	return all[0], nil
}

// Together repeats several kinds of runs in turn, so that other load of the machine affects all kinds alike. It returns
// the median of each kind.
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
