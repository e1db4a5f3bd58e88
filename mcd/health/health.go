package health

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Unit is the state of a systemd unit.
type Unit struct {
	// Name of the unit.
	Name string
	// State, Sub and Result are ActiveState, SubState and Result of `systemctl show`.
	State, Sub, Result string
	// Unknown is why systemd did not report the state; "" if systemd reported it.
	Unknown string
}

// API is the result of a call to the API server.
type API int

// The results.
const (
	// NotAsked means that the health check does not call the API server.
	NotAsked API = iota
	// Answers means that the API server answered, even with an error.
	Answers
	// RefusedElsewhere means that another machine refuses the connection, or reports that its API server does not
	// work.
	RefusedElsewhere
	// RefusedHere means that the API server runs on this machine, which refuses the connection.
	RefusedHere
	// Untrusted means that the API server rejects the node's credentials, or the node rejects the server's
	// certificate.
	Untrusted
	// NoAnswer means that the API server does not answer.
	NoAnswer
)

// Before records which parts were healthy right before the first step of an update. The update cannot be the cause of a
// problem that existed before it.
type Before struct {
	// Kubelet is true if the kubelet was healthy.
	Kubelet bool `json:"kubelet,omitempty"`
	// API is true if the API server answered.
	API bool `json:"api,omitempty"`
	// Failed are units of the change that had failed before the update. A rollback would not repair units that failed
	// before the update.
	Failed []string `json:"failed,omitempty"`
}

// Observation is one observation of the machine.
type Observation struct {
	// Units of the change.
	Units []Unit
	// Kubelet is the problem of the kubelet; "" if it is healthy or not checked.
	Kubelet string
	// API is the result of the call to the API server.
	API API
	// APIWhy is the error of the call to the API server.
	APIWhy string
}

// Failure has the reasons why a machine is unhealthy with its config.
type Failure struct {
	// Problems are the reasons.
	Problems []string
	// Units are the units with a problem.
	Units []string
	// Unconfirmed is true if the only problem is the API server, which may have another cause. After the rollback, the
	// daemon checks whether the machine reaches the API server with the old config.
	Unconfirmed bool
}

// Error lists the problems.
func (i *Failure) Error() string { return strings.Join(i.Problems, "; ") }

// assessment has the problems of one observation.
type assessment struct {
	failed, unhealthy, waiting []string
	units                      []string
	hasOther                   bool // hasOther is true if there is a problem other than the API server.
}

func (o assessment) isHealthy() bool { return len(o.failed)+len(o.unhealthy)+len(o.waiting) == 0 }

// assess assesses one observation.
func assess(s Observation) (o assessment) {
	for _, u := range s.Units {
		u.assess(&o)
	}
	if s.Kubelet != "" {
		o.unhealthy, o.hasOther = append(o.unhealthy, "the kubelet is not healthy, and was before: "+s.Kubelet), true
	}
	switch s.API {
	case RefusedElsewhere:
		o.waiting = append(o.waiting, "the API server does not answer, but its machine does: "+s.APIWhy)
	case RefusedHere:
		o.unhealthy = append(o.unhealthy, "the API server, which runs on this machine, does not answer: "+s.APIWhy)
	case Untrusted:
		o.unhealthy = append(o.unhealthy, "the API server and this node no longer accept each other's credentials: "+
			s.APIWhy)
	case NoAnswer:
		o.unhealthy = append(o.unhealthy, "the API server is unreachable: "+s.APIWhy)
	}
	return o
}

// assess adds a unit to an assessment.
func (u Unit) assess(o *assessment) {
	switch {
	case u.Unknown != "":
		o.unhealthy = append(o.unhealthy, fmt.Sprintf("unit %s: %s", u.Name, u.Unknown))
	case u.State == "failed":
		o.failed = append(o.failed, fmt.Sprintf("unit %s failed (result %s)", u.Name, orUnknown(u.Result)))
	case u.State == "activating" && strings.HasPrefix(u.Sub, "auto-restart"):
		o.unhealthy = append(o.unhealthy, fmt.Sprintf("unit %s restarts repeatedly (result %s)", u.Name,
			orUnknown(u.Result)))
	case slices.Contains([]string{"activating", "deactivating", "reloading", "refreshing", "maintenance"}, u.State):
		o.waiting = append(o.waiting, fmt.Sprintf("unit %s is %s (%s)", u.Name, u.State, u.Sub))
		return
	default:
		return
	}
	o.units, o.hasOther = append(o.units, u.Name), true
}

// Problem returns why a unit is unhealthy; "" if the unit is healthy, or may become healthy when systemd has started
// it.
func (u Unit) Problem() string {
	var o assessment
	u.assess(&o)
	return strings.Join(slices.Concat(o.failed, o.unhealthy), "; ")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Watch decides from repeated observations whether a machine is healthy. Limit and Settle must be set. Each health
// check uses its own Watch.
type Watch struct {
	// Limit is how long the machine may take to be healthy.
	Limit time.Duration
	// Settle is how long the machine must be healthy, or a unit must have failed, without interruption.
	Settle time.Duration

	started, healthySince, failedSince time.Time
	lastUnhealthy                      assessment // the last observation with a problem
}

// Observe evaluates the next observation. If done is true, the result is known: a nil failure means healthy, and
// otherwise failure is the reason.
func (w *Watch) Observe(now time.Time, s Observation) (done bool, failure *Failure) {
	if w.started.IsZero() {
		w.started = now
	}
	o := assess(s)
	if !o.isHealthy() {
		w.lastUnhealthy = o
	}
	w.healthySince, w.failedSince = since(w.healthySince, now, o.isHealthy()),
		since(w.failedSince, now, len(o.failed) > 0)
	over := now.Sub(w.started) - w.Limit
	switch {
	case o.isHealthy():
		if now.Sub(w.healthySince) >= w.Settle {
			return true, nil
		}
		if over < w.Settle {
			return false, nil
		}
		return true, w.lastUnhealthy.failure("it does not stay healthy: ")
	case len(o.failed) > 0 && now.Sub(w.failedSince) >= w.Settle:
		return true, o.failure("")
	case over < 0:
		return false, nil
	case len(o.failed)+len(o.unhealthy) == 0:
		return true, nil
	}
	return true, o.failure("")
}

// since returns when a condition became true; zero while it is false.
func since(began, now time.Time, so bool) time.Time {
	if !so {
		return time.Time{}
	}
	if began.IsZero() {
		return now
	}
	return began
}

func (o assessment) failure(prefix string) *Failure {
	what := slices.Concat(o.failed, o.unhealthy)
	if len(what) == 0 {
		what = o.waiting
	}
	what = slices.Clone(what)
	what[0] = prefix + what[0]
	return &Failure{Problems: what, Units: o.units, Unconfirmed: !o.hasOther && len(o.unhealthy) > 0}
}

// UnitsOf returns the units of a change, sorted. UnitsOf returns the units that the change enables, reloads or
// restarts, and the units whose file or drop-ins it writes, even if they are not started. UnitsOf leaves out units that
// are disabled, masked or removed, and templates.
func UnitsOf(rec host.Record) []string {
	found, gone := map[string]bool{}, map[string]bool{}
	for _, s := range rec.Steps {
		name := s.Target
		switch {
		case s.Verb == host.Enable, s.Verb == host.Reload, s.Verb == host.Restart:
		case s.Verb == host.Write:
			name = unitAt(s.Target)
		case s.Verb == host.MakeLink && s.After.Entry.Target == "/dev/null", s.Verb == host.Remove:
			if path.Dir(s.Target) == host.UnitDir {
				gone[path.Base(s.Target)] = true
			}
			continue
		default:
			continue
		}
		if name != "" && !strings.Contains(name, "@.") {
			found[name] = true
		}
	}
	var names []string
	for name := range found {
		if !gone[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unitAt returns the unit of a unit file or drop-in; "" for other paths.
func unitAt(p string) string {
	dir, base := path.Split(p)
	if dir = path.Clean(dir); dir == host.UnitDir {
		return base
	}
	if unit, isDropin := strings.CutSuffix(path.Base(dir), ".d"); isDropin && path.Dir(dir) == host.UnitDir &&
		strings.HasSuffix(base, ".conf") {
		return unit
	}
	return ""
}

// Reboots reports whether an update reboots the machine.
func Reboots(rec host.Record) bool {
	return len(rec.Steps) > 0 && rec.Steps[len(rec.Steps)-1].Verb == host.Reboot
}
