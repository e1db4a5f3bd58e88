package policy_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// What the rules reach over the samples, by line. Raise these when the rules get better; never lower them.
const (
	leastPrecision = 0.998
	leastRecall    = 1.0
)

// TestSecretCorpus measures the rules over the samples: precision is the share of masked lines that hold a secret,
// recall the share of lines with a secret that are masked and show no secret value any more. It lists each miss by
// name.
func TestSecretCorpus(t *testing.T) {
	var found, missed, wrong, exact int
	for _, kind := range []string{"positive", "negative"} {
		for _, s := range readSecretSamples(t, kind) {
			for _, f := range s.files {
				m := measure(f)
				found, missed, wrong, exact = found+m.found, missed+len(m.missed), wrong+len(m.wrong), exact+m.exact
				for _, line := range m.missed {
					t.Logf("missed %s %s:%s", s.name, f.path, line)
				}
				for _, line := range m.wrong {
					t.Logf("wrong  %s %s:%s", s.name, f.path, line)
				}
			}
		}
	}
	precision, recall := share(found, wrong), share(found, missed)
	t.Logf("precision %.4f (%d lines masked without need), recall %.4f (%d of %d lines missed), exactly the value on "+
		"%d of %d masked lines",
		precision, wrong, recall, missed, found+missed, exact, found)
	if precision < leastPrecision || recall < leastRecall {
		t.Errorf("precision %.4f and recall %.4f, want at least %.4f and %.4f", precision, recall, leastPrecision,
			leastRecall)
	}
}

func share(right, wrong int) float64 { return float64(right) / float64(max(1, right+wrong)) }

// digestMark matches the mark of a secret with its digest.
var digestMark = regexp.MustCompile(`\(hidden, sha256 [0-9a-f]+…\)`)

// measured are the lines of one file.
type measured struct {
	// found lines are masked as they should be; of these, exact ones mask the value and nothing else.
	found, exact int
	// missed lines show a secret, wrong ones are masked without one.
	missed, wrong []string
}

// measure masks a file and compares the lines with those of its sample.
func measure(f sampleFile) (m measured) {
	secrets, _ := f.maskedLines() // readSecretSamples has checked the error
	res := secret.MaskWithDigests(f.path, f.content)
	res.Text = digestMark.ReplaceAllString(res.Text, hiddenMark)
	before, after, want := strings.Split(f.content, "\n"), strings.Split(res.Text, "\n"), strings.Split(f.masked, "\n")
	for i := range before {
		at := slices.IndexFunc(secrets, func(l maskedLine) bool { return l.number == i+1 })
		switch {
		case at < 0 && before[i] != after[i]:
			m.wrong = append(m.wrong, lineText(i, before[i], res))
		case at >= 0 && (before[i] == after[i] || shows(after[i], before[i], secrets[at].values)):
			m.missed = append(m.missed, lineText(i, after[i], res))
		case at >= 0:
			m.found++
			if after[i] == want[i] {
				m.exact++
			}
		}
	}
	return m
}

// shows reports whether a masked line still has a secret value as often as before.
func shows(masked, line string, values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool {
		return strings.Count(masked, v) >= strings.Count(line, v)
	})
}

func lineText(i int, line string, res secret.Result) string {
	var rules []string
	for _, f := range res.Findings {
		if f.Line == i+1 {
			rules = append(rules, f.Rule)
		}
	}
	return strconv.Itoa(i+1) + " [" + strings.Join(rules, ",") + "] " + line
}
