package measure

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Amount is a measured number with its unit.
type Amount struct {
	N    float64
	Unit string
}

// Units whose amounts are written with a prefix, such as 12 ms and 1.5 MB.
const (
	seconds = "s"
	bytes   = "B"
)

// Time returns an amount of seconds.
func Time(d time.Duration) Amount { return Amount{d.Seconds(), seconds} }

// Bytes returns an amount of bytes.
func Bytes[N int | int64 | uint64](n N) Amount { return Amount{float64(n), bytes} }

// Number returns an amount of anything else, such as 2 writes or 1,065 requests/s.
func Number(n float64, unit string) Amount { return Amount{n, unit} }

// String writes the amount with three significant digits.
func (a Amount) String() string {
	switch a.Unit {
	case seconds:
		return Duration(time.Duration(a.N * float64(time.Second)))
	case bytes:
		for _, u := range []struct {
			size float64
			name string
		}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
			if a.N >= u.size {
				return figures(a.N/u.size) + " " + u.name
			}
		}
	}
	return strings.TrimRight(figures(a.N)+" "+a.Unit, " ")
}

// Peer is what another one needed for the same in the same run: another program, a floor that nothing can go below, or
// the same program at another size.
type Peer struct {
	// Name says who or what that is, such as "git ls-remote" or "at 500 nodes".
	Name string
	// Now is the amount of the peer.
	Now Amount
	// Ratio is the measured amount divided by that of the peer. 0: it is computed from the two amounts. A median of
	// several ratios differs from that.
	Ratio float64
}

// Took is a peer that needed so long.
func Took(name string, d time.Duration) Peer { return Peer{Name: name, Now: Time(d)} }

// Grow gives each figure its growth from the figure of the same name at the smallest size.
func Grow(figures []Figure) {
	for i := range figures {
		f := &figures[i]
		for _, least := range figures {
			if least.What == f.What && least.Size < f.Size && least.Now.N > 0 && f.Now.N > 0 {
				f.Growth = Exponent(least.Size, f.Size, least.Now.N, f.Now.N)
				break
			}
		}
	}
}

// Quality is what a bound limits.
type Quality string

// The qualities of a figure: its amount, its ratio to the first peer, and its growth.
const (
	OfAmount Quality = "amount"
	OfRatio  Quality = "ratio"
	OfGrowth Quality = "growth"
)

// Bound is a goal of a figure.
type Bound struct {
	Of Quality
	// Limit is the most that is allowed, or the least.
	Limit Amount
	Least bool
	// Why is added to the text of the goal, such as the reason for a limit.
	Why string
}

// AtMost is a goal for an amount.
func AtMost(a Amount) Bound { return Bound{Of: OfAmount, Limit: a} }

// AtLeast is a goal for an amount of which more is better.
func AtLeast(a Amount) Bound { return Bound{Of: OfAmount, Limit: a, Least: true} }

// RatioAtMost is a goal for the ratio to the first peer.
func RatioAtMost(x float64) Bound { return Bound{Of: OfRatio, Limit: Amount{N: x}} }

// RatioAtLeast is a goal for the ratio to the first peer of an amount of which more is better.
func RatioAtLeast(x float64) Bound { return Bound{Of: OfRatio, Limit: Amount{N: x}, Least: true} }

// GrowthAtMost is a goal for the growth.
func GrowthAtMost(x float64) Bound { return Bound{Of: OfGrowth, Limit: Amount{N: x}} }

// Figure is a measured result with its goals, in the form in which the table of all programs shows it.
type Figure struct {
	// What was measured. Figures of a program with the same What have different sizes.
	What string
	// Size and Of say at which size, such as 5000 nodes. Without a size they are 0 and "".
	Size int
	Of   string
	// Now is the result.
	Now Amount
	// Goals are all to be met; without goals, a figure is for comparison only.
	Goals []Bound
	// Peers did the same in the same run. Goals for a ratio are about the first one.
	Peers []Peer
	// Growth is the exponent from a smaller size to this one, or 0.
	Growth float64
}

// Verdict says whether a figure meets its goals. Without a goal that can be judged, it is the zero value.
type Verdict struct {
	Judged bool
	// Missed says by how much each missed goal is missed.
	Missed []string
}

// Met is false if a goal is missed.
func (v Verdict) Met() bool { return len(v.Missed) == 0 }

// String writes the cell of a table: "yes", "NO: 1.20 times", or "–" if there is no goal.
func (v Verdict) String() string {
	switch {
	case !v.Met():
		return "NO: " + strings.Join(v.Missed, ", ")
	case v.Judged:
		return "yes"
	default:
		return "–"
	}
}

// ratio returns the ratio of the figure to a peer, or NaN.
func (f Figure) ratio(b Peer) float64 {
	switch {
	case b.Ratio > 0:
		return b.Ratio
	case b.Now.N > 0:
		return f.Now.N / b.Now.N
	default:
		return math.NaN()
	}
}

// quality returns what a bound limits, in the precision in which it is printed, or NaN if the figure does not have it.
func (f Figure) quality(of Quality) float64 {
	switch {
	case of == OfAmount:
		return f.Now.N
	case of == OfRatio && len(f.Peers) > 0:
		return round(f.ratio(f.Peers[0]))
	case of == OfGrowth && f.Growth != 0:
		return round(f.Growth)
	default:
		return math.NaN()
	}
}

// Verdict judges the figure. It is the only place where a result is compared with a goal.
func (f Figure) Verdict() (v Verdict) {
	for _, b := range f.Goals {
		got := f.quality(b.Of)
		if math.IsNaN(got) {
			continue
		}
		v.Judged = true
		if b.Least && got >= b.Limit.N || !b.Least && got <= b.Limit.N {
			continue
		}
		by := string(b.Of)
		if b.Of != OfGrowth && b.Limit.N > 0 {
			by = fmt.Sprintf("%.2f times", got/b.Limit.N)
		}
		v.Missed = append(v.Missed, by)
	}
	return v
}

// Goal describes the goals; "" if there are none.
func (f Figure) Goal() string {
	var parts []string
	for _, b := range f.Goals {
		sign := "≤ "
		if b.Least {
			sign = "≥ "
		}
		text := sign + b.Limit.String()
		switch b.Of {
		case OfAmount:
		case OfRatio:
			name := "the peer"
			if len(f.Peers) > 0 {
				name = f.Peers[0].Name
			}
			text = fmt.Sprintf("%s%.2f × %s", sign, b.Limit.N, name)
		case OfGrowth:
			text = fmt.Sprintf("growth %s%.2f", sign, b.Limit.N)
		}
		if b.Why != "" {
			text += " (" + b.Why + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// Ratios writes the ratios to all peers, such as "0.13 × git ls-remote"; "" without peers.
func (f Figure) Ratios() string {
	var parts []string
	for _, b := range f.Peers {
		if x := f.ratio(b); !math.IsNaN(x) {
			parts = append(parts, ratioText(x)+" × "+b.Name)
		}
	}
	return strings.Join(parts, ", ")
}

// ratioText writes a ratio with three significant digits, or with two if it is small.
func ratioText(x float64) string {
	switch {
	case x < 0.1:
		return fmt.Sprintf("%.2g", x)
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	default:
		return figures(x)
	}
}

// At writes the size; "" if the figure has none.
func (f Figure) At() string {
	if f.Size == 0 {
		return ""
	}
	return strings.TrimRight(grouped(f.Size)+" "+f.Of, " ")
}

// Heads are the headings of Cells. Columns that begin with < are aligned to the left.
func Heads() []string { return []string{"<what", "size", "now", "growth", "<beside", "<goal", "<met"} }

// Cells are the columns of a table of figures.
func (f Figure) Cells() []string {
	growth := math.NaN()
	if f.Growth != 0 {
		growth = f.Growth
	}
	return []string{
		f.What, cmp.Or(f.At(), "–"), f.Now.String(), Power(growth), cmp.Or(f.Ratios(), "–"), cmp.Or(f.Goal(), "–"),
		f.Verdict().String(),
	}
}

// String describes the figure in one line.
func (f Figure) String() string {
	text := f.What
	if at := f.At(); at != "" {
		text += ", " + at
	}
	text += ": " + f.Now.String()
	if ratios := f.Ratios(); ratios != "" {
		text += " = " + ratios
	}
	if f.Growth != 0 {
		text += ", growth " + Power(f.Growth)
	}
	return text + "; goal " + cmp.Or(f.Goal(), "–") + ", " + f.Verdict().String()
}

// grouped writes a number with a comma for each thousand.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
