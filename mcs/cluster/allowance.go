package cluster

import (
	"sync"
	"time"
)

// mintsAnHour is how many bootstrap tokens of one replica may be good at once. They last an hour, and lie in etcd for it:
// whoever holds one provisioning token of any number of uses shall not fill that.
const mintsAnHour = 20_000

// allowance counts what was made within the last hour, by the minute.
type allowance struct {
	mu   sync.Mutex
	made [60]struct {
		minute int64 // since 1970
		count  int
	}
}

// spent tells whether all of it was made within the hour before now.
func (a *allowance) spent(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	minute, sum := now.Unix()/60, 0
	for _, m := range a.made {
		if age := minute - m.minute; age >= 0 && age < int64(len(a.made)) {
			sum += m.count
		}
	}
	return sum >= mintsAnHour
}

// add counts one that was made.
func (a *allowance) add(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	minute := now.Unix() / 60
	m := &a.made[minute%int64(len(a.made))]
	if m.minute != minute {
		m.minute, m.count = minute, 0
	}
	m.count++
}
