package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unit is what systemd says about a unit.
type Unit struct {
	// Name of the unit.
	Name string
	// State, Sub and Result are ActiveState, SubState and Result, as `systemctl show` spells them.
	State, Sub, Result string
	// Unknown is why systemd could not be asked, "" when it was.
	Unknown string
}

// API is what came of asking the API server.
type API int

// What may come of it.
const (
	// NotAsked: it does not count.
	NotAsked API = iota
	// Answers: it gave an answer, whichever.
	Answers
	// RefusedThere: another machine refuses the connection or has nobody to answer.
	RefusedThere
	// RefusedHere: this machine is to run it, and refuses the connection.
	RefusedHere
	// Strange: it does not take this node's credentials, or this node not its certificate.
	Strange
	// Silent: nothing is heard.
	Silent
)

// Before is what was so right before an update's first step; only what was well can have been broken by it.
type Before struct {
	// Kubelet was healthy.
	Kubelet bool `json:"kubelet,omitempty"`
	// API server answered.
	API bool `json:"api,omitempty"`
	// Failed are units of the change that were ill already: going back would not make them better.
	Failed []string `json:"failed,omitempty"`
}

// Seen is one look at the machine.
type Seen struct {
	// Units of the change.
	Units []Unit
	// Kubelet is what is wrong with it; "" when it is healthy, or does not count.
	Kubelet string
	// API server, and what was heard in words.
	API API
	// APIWhy is the last error of asking it.
	APIWhy string
}

// Illness is why a machine does not live with its config.
type Illness struct {
	// What is wrong, one thing each.
	What []string
	// Units that are among it.
	Units []string
	// Doubtful: only the API server is not reached, which may have another reason. Whether the old config reaches it tells.
	Doubtful bool
}

// Error lists what is wrong.
func (i *Illness) Error() string { return strings.Join(i.What, "; ") }

// opinion on one look.
type opinion struct {
	failed, ill, waiting []string
	units                []string
	other                bool // something but the API server is ill
}

func (o opinion) well() bool { return len(o.failed)+len(o.ill)+len(o.waiting) == 0 }

// opine sorts what was seen.
func opine(s Seen) (o opinion) {
	for _, u := range s.Units {
		u.judge(&o)
	}
	if s.Kubelet != "" {
		o.ill, o.other = append(o.ill, "the kubelet is not healthy, and was before: "+s.Kubelet), true
	}
	switch s.API {
	case RefusedThere:
		o.waiting = append(o.waiting, "the API server does not answer, but its machine does: "+s.APIWhy)
	case RefusedHere:
		o.ill = append(o.ill, "the API server, which runs on this machine, does not answer: "+s.APIWhy)
	case Strange:
		o.ill = append(o.ill, "the API server and this node do not accept each other any more: "+s.APIWhy)
	case Silent:
		o.ill = append(o.ill, "the API server cannot be reached any more: "+s.APIWhy)
	}
	return o
}

// judge puts a unit where it belongs.
func (u Unit) judge(o *opinion) {
	switch {
	case u.Unknown != "":
		o.ill = append(o.ill, fmt.Sprintf("unit %s: %s", u.Name, u.Unknown))
	case u.State == "failed":
		o.failed = append(o.failed, fmt.Sprintf("unit %s failed (result %s)", u.Name, word(u.Result)))
	case u.State == "activating" && strings.HasPrefix(u.Sub, "auto-restart"):
		o.ill = append(o.ill, fmt.Sprintf("unit %s dies again and again (result %s)", u.Name, word(u.Result)))
	case slices.Contains([]string{"activating", "deactivating", "reloading", "refreshing", "maintenance"}, u.State):
		o.waiting = append(o.waiting, fmt.Sprintf("unit %s is %s (%s)", u.Name, u.State, u.Sub))
		return
	default:
		return
	}
	o.units, o.other = append(o.units, u.Name), true
}

// Ill tells why a unit is not well, in words; "" where it is, or may be once systemd is done with it.
func (u Unit) Ill() string {
	var o opinion
	u.judge(&o)
	return strings.Join(slices.Concat(o.failed, o.ill), "; ")
}

func word(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Watch comes to a conclusion out of many looks. Limit and Settle must be set; it is used once.
type Watch struct {
	// Limit is how long the machine may take to be well.
	Limit time.Duration
	// Settle is how long it must be well without a break, or have failed without one.
	Settle time.Duration

	begun, well, failed time.Time
	last                opinion // the last look that was not well
}

// See takes one look. Done says that the Watch knows: the machine is healthy, or the illness says why not. Looks come in
// the order of time.
func (w *Watch) See(now time.Time, s Seen) (done bool, ill *Illness) {
	if w.begun.IsZero() {
		w.begun = now
	}
	o := opine(s)
	if !o.well() {
		w.last = o
	}
	w.well, w.failed = since(w.well, now, o.well()), since(w.failed, now, len(o.failed) > 0)
	over := now.Sub(w.begun) - w.Limit
	switch {
	case o.well():
		if now.Sub(w.well) >= w.Settle {
			return true, nil
		}
		if over < w.Settle {
			return false, nil
		}
		return true, w.last.illness("it does not stay well: ")
	case len(o.failed) > 0 && now.Sub(w.failed) >= w.Settle:
		return true, o.illness("")
	case over < 0:
		return false, nil
	case len(o.failed)+len(o.ill) == 0:
		return true, nil
	}
	return true, o.illness("")
}

// since keeps when something began to be so.
func since(began, now time.Time, so bool) time.Time {
	if !so {
		return time.Time{}
	}
	if began.IsZero() {
		return now
	}
	return began
}

func (o opinion) illness(prefix string) *Illness {
	what := slices.Concat(o.failed, o.ill)
	if len(what) == 0 {
		what = o.waiting
	}
	what = slices.Clone(what)
	what[0] = prefix + what[0]
	return &Illness{What: what, Units: o.units, Doubtful: !o.other && len(o.ill) > 0}
}
