package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Notifier says that nobody sends what Notifications report.
type Notifier struct {
	// Problem names the Notifications. It contains no ages.
	Problem string `json:"problem"`
	// Seen is nil if the notifier never reported.
	Seen *time.Time `json:"seen,omitempty"`
	Do   []string   `json:"do"`
}

// ReadNotifier reads the notifier's Lease. It returns nil while a notifier reports, if there is nothing to send, and if
// the Leases or the Notifications were not read.
func (f *Fleet) ReadNotifier() *Notifier {
	var names []string
	for i := range f.Notifications {
		if !f.Notifications[i].Spec.Suspend {
			names = append(names, f.Notifications[i].Name)
		}
	}
	if len(names) == 0 || f.Leases == nil {
		return nil
	}
	var last Heartbeat
	for i := range f.Leases {
		if componentOf(&f.Leases[i]) != v1alpha1.NotifierComponent {
			continue
		}
		h := heartbeatOf(&f.Leases[i], v1alpha1.NotifierComponent, f.Now)
		if last.Seen == nil || h.at().After(last.at()) {
			last = h
		}
	}
	if last.Alive {
		return nil
	}
	slices.Sort(names)
	of := "Notification " + names[0]
	if len(names) > 1 {
		of = "Notifications " + strings.Join(names[:min(len(names), maxNames)], ", ")
		if len(names) > maxNames {
			of += " and others"
		}
	}
	problem := "no machine-config-notifier has reported"
	switch {
	case last.hasEnded():
		problem = "no machine-config-notifier is running"
	case last.Seen != nil:
		problem = "machine-config-notifier " + last.Name + " reports no more"
	}
	return &Notifier{Problem: problem + ": nothing is sent for " + of, Seen: last.Seen, Do: []string{
		"kubectl -n bunsen-system rollout restart deployment machine-config-notifier",
		Alternative("it is no Deployment", "machine-config-controller notify --kubeconfig FILE   # in a process "+
			"of its own"),
	}}
}

const maxNames = 3

// Text prints the problem and what to do; "" if there is none.
func (n *Notifier) Text() string {
	if n == nil {
		return ""
	}
	return warningText(n.Problem, n.Do)
}
