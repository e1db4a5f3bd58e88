package http

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// play plays a story against a table and returns what the last step did. Steps: "+a" is a new connection of source a,
// which is called a1, then a2, and so on; "<a" is one that came a second ago; "!a1" begins a request; "$a1=t" lets it
// count for token t; "-a1" ends a connection; "5s" lets time pass.
func play(t *connTable, story string) string {
	conns, names, opened := map[string]*conn{}, map[*conn]string{nil: ""}, map[string]int{}
	last := ""
	now := noon
	for step := range strings.FieldsSeq(story) {
		if d, err := time.ParseDuration(step); err == nil {
			now = now.Add(d)
			continue
		}
		name := step[1:]
		switch step[0] {
		case '+', '<':
			opened[name]++
			c := &conn{came: now}
			if step[0] == '<' {
				c.came = now.Add(-time.Second)
			}
			full := fmt.Sprint(name, opened[name])
			conns[full], names[c] = c, full
			removed, ok := t.add(c, sourceNamed(name[0]), now)
			if last = "closes " + names[removed]; !ok {
				last = "waits"
			}
		case '$':
			of, token, _ := strings.Cut(name, "=")
			last = fmt.Sprint(t.assign(conns[of], holder{token, sourceNamed(of[0])}, 1, now))
		case '!':
			last = fmt.Sprint(t.begin(conns[name]))
		case '-':
			last = fmt.Sprint(t.remove(conns[name]))
		}
	}
	return strings.TrimSpace(last)
}

func sourceNamed(name byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, name}), 32)
}

func TestWhichConnectionIsClosedForANewOne(t *testing.T) {
	overloaded, closed := errOverloaded.Error(), errClosed.Error()
	for because, c := range map[string]struct {
		total, perSource int
		story, want      string
	}{
		"there is room": {3, 3, "+a +b", "closes"},
		"the oldest silent one of the source that has most":                 {4, 4, "+b +a +a +a +c", "closes a1"},
		"the oldest of all where sources have as many":                      {3, 3, "+b +a +c +d", "closes b1"},
		"an active one is not closed, even if its source holds most of all": {8, 8, "+b +a +a +a +a +c +d +e !a1 !a2 !a3 !a4 +f", "closes b1"},
		"an active one is not closed, but the source's silent ones":         {5, 5, "+b +a +a +a +c !a1 +d", "closes a2"},
		"requests under way do not count":                                   {5, 5, "+a +a +a +b +b !a1 !a2 +c", "closes b1"},
		"its source's next, after one was closed":                           {4, 4, "+a +a +a +a +b +c", "closes a2"},
		"the oldest one of its own source, which has most":                  {4, 5, "+b +a +a +a +a", "closes a1"},
		"its own oldest silent one, where a source has its share":           {9, 2, "+a +a +b +a", "closes a1"},
		"none: its source has valid tokens now, and most connections":       {4, 5, "+b +a +a +a !a1 $a1=t +a +a", "waits"},
		"none: its source has valid tokens now, and its share":              {9, 2, "+a +a !a1 $a1=t +a +b +a", "waits"},
		"the oldest one, though its source has had valid tokens":            {9, 2, "+a +a !a1 $a1=t +a 500ms +a", "closes a2"},
		"the oldest one, though its source has valid tokens, after a time":  {9, 2, "+a +a +a 2s !a3 $a3=t +a +a", "closes a2"},
		"none: one of its source that came later is not closed for it":      {9, 2, "1s +a +a <a", "waits"},
		"none: its source's share has requests under way":                   {9, 2, "+a +a !a1 !a2 5s +a", "waits"},
		"one with a token has a place beside the share of its source":       {9, 2, "+a +a !a1 $a1=t +a", "closes"},
		"none, as all have their places with tokens":                        {2, 2, "+a !a1 $a1=t +b !b1 $b1=u +c", "waits"},
		"another source has its own share":                                  {9, 2, "+a +a !a1 !a2 +b", "closes"},
		"a place that was given back":                                       {9, 2, "+a +a !a1 !a2 -a1 +a", "closes"},
		"none: it waits where all have requests under way":                  {2, 2, "+a +b !a1 !b1 +c", "waits"},
		"a request begins": {4, 4, "+a !a1", "<nil>"},
		"a connection was closed before its request begins":       {2, 2, "+a +a +b !a1", closed},
		"a source has half of what there is, if it is alone":      {4, 4, "+a +a +a !a1 !a2 !a3", overloaded},
		"a source has half of what there is, up to the half":      {4, 4, "+a +a +a !a1 !a2", "<nil>"},
		"another source begins after one that takes what it gets": {4, 4, "+a +a +a !a1 !a2 !a3 +b !b1", "<nil>"},
		"a token has three quarters of what there is, if it is alone": {8, 8, "+a +a +a +a +b +b +b +b " +
			"!a1 $a1=t !a2 $a2=t !a3 $a3=t !a4 $a4=t !b1 $b1=t !b2 $b2=t !b3 $b3=t", "false"},
		"a token has three quarters of what there is, up to that": {8, 8, "+a +a +a +a +b +b +b +b " +
			"!a1 $a1=t !a2 $a2=t !a3 $a3=t !a4 $a4=t !b1 $b1=t !b2 $b2=t", "true"},
		"a token has half of what there is at one source": {8, 8, "+a +a +a +a +a " +
			"!a1 $a1=t !a2 $a2=t !a3 $a3=t !a4 $a4=t !a5 $a5=t", "false"},
		"another token has room beside one that takes what it gets": {8, 8, "+a +a +a +a +b +b +b +b " +
			"!a1 $a1=t !a2 $a2=t !a3 $a3=t !a4 $a4=t !b1 $b1=t !b2 $b2=t !b3 $b3=u", "true"},
		"a place of a token that was given back":                      {4, 4, "+a +a +a +a !a1 $a1=t !a2 $a2=t -a1 !a3 $a3=t", "true"},
		"the token of a connection that was closed":                   {2, 2, "+a +a +b $a1=t", "true"},
		"a token has a place if there is only one":                    {1, 1, "+a !a1 $a1=t", "true"},
		"another token has the last place":                            {2, 2, "+a !a1 $a1=t +b !b1 $b1=u", "true"},
		"a connection is removed":                                     {4, 4, "+a -a1", "true"},
		"a connection is removed once":                                {4, 4, "+a -a1 -a1", "false"},
		"a connection that was closed for another one is not removed": {2, 2, "+a +a +b -a1", "false"},
	} {
		b := Bounds{Connections: c.total, PerSource: c.perSource, Silent: 2 * time.Second}
		if got := play(newConnTable(b), c.story); got != c.want {
			t.Errorf("%s: %q is %q, want %q", because, c.story, got, c.want)
		}
	}
}

// The table is held against one that looks at every connection each time.
func TestRandomConnectionsAgainstAPlainModel(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		bounds := Bounds{
			Connections: 1 + random.IntN(20), PerSource: 1 + random.IntN(8),
			Silent: time.Duration(random.IntN(4)) * time.Second,
		}
		m := model{table: newConnTable(bounds), Bounds: bounds, now: noon, proven: map[netip.Prefix]time.Time{}}
		for step := range 300 {
			if err := m.step(random); err != nil {
				t.Fatalf("seed %d, step %d, %d connections with %d per source: %v", seed, step, bounds.Connections,
					bounds.PerSource, err)
			}
		}
	}
}

// model has the connections of a table, the oldest first.
type model struct {
	Bounds
	now   time.Time
	table *connTable
	all   []*modelConn
	// proven is when a source had a valid token; without connections it is forgotten.
	proven map[netip.Prefix]time.Time
}

type modelConn struct {
	conn        *conn
	from        netip.Prefix
	came, since time.Time
	active      bool
	token       string
}

func (m *model) count(which func(*modelConn) bool) (n int) {
	for _, c := range m.all {
		if which(c) {
			n++
		}
	}
	return n
}

func (m *model) held(from netip.Prefix) int {
	return m.count(func(c *modelConn) bool { return c.from == from && c.token == "" })
}

func (m *model) silent(from netip.Prefix) int {
	return m.count(func(c *modelConn) bool { return c.from == from && !c.active })
}

// loser is the connection that a new one of a source closes, or nil, and whether the new one has a place.
func (m *model) loser(from netip.Prefix, came time.Time) (loser *modelConn, ok bool) {
	ofSource := m.held(from) >= m.PerSource
	if !ofSource && len(m.all) < m.Connections {
		return nil, true
	}
	for _, c := range m.all {
		if c.active || ofSource && c.from != from {
			continue
		}
		if loser == nil || m.silent(c.from) > m.silent(loser.from) {
			loser = c
		}
	}
	if loser == nil || loser.from == from && (came.Before(loser.came) ||
		m.now.Sub(m.proven[from]) < storming && m.now.Sub(loser.since) < m.Silent) {
		return nil, false
	}
	return loser, true
}

func (m *model) step(random *rand.Rand) error {
	m.now = m.now.Add(time.Duration(random.IntN(2)) * time.Second)
	switch n := len(m.all); {
	case n > 0 && random.IntN(4) == 0:
		return m.assign(m.all[random.IntN(n)], string("tuv"[random.IntN(3)]))
	case n > 0 && random.IntN(4) == 0:
		return m.begin(m.all[random.IntN(n)])
	case n > 0 && random.IntN(6) == 0:
		i := random.IntN(n)
		if !m.table.remove(m.all[i].conn) {
			return errors.New("a connection is not removed")
		}
		m.all = slices.Delete(m.all, i, i+1)
		return m.counts()
	}
	from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(5))}), 32)
	added := &conn{came: m.now.Add(-time.Duration(random.IntN(2)) * time.Second)}
	loser, want := m.loser(from, added.came)
	removed, got := m.table.add(added, from, m.now)
	if got != want || (removed == nil) != (loser == nil) || loser != nil && loser.conn != removed {
		return fmt.Errorf("a new connection of %s has a place: %t, want %t, or closes another one than it should", from,
			got, want)
	}
	m.all = slices.DeleteFunc(m.all, func(c *modelConn) bool { return c == loser })
	if got {
		m.all = append(m.all, &modelConn{conn: added, from: from, came: added.came, since: m.now})
	}
	return m.counts()
}

func (m *model) begin(c *modelConn) error {
	active := m.count(func(c *modelConn) bool { return c.active })
	if c.token != "" {
		return nil // it has one request
	}
	ofSource := m.count(func(other *modelConn) bool {
		return other.active && other.from == c.from && other.token == ""
	})
	err := m.table.begin(c.conn)
	if want := ofSource >= m.Connections-active; errors.Is(err, errOverloaded) != want {
		return fmt.Errorf("beginning a request with %d active, %d of them of the source: %w", active, ofSource, err)
	}
	if err == nil {
		c.active = true
	}
	return m.counts()
}

func (m *model) assign(c *modelConn, token string) error {
	if !c.active || c.token != "" {
		return nil
	}
	active := m.count(func(c *modelConn) bool { return c.active })
	m.proven[c.from] = m.now
	ofToken := m.count(func(other *modelConn) bool { return other.token == token })
	ofSource := m.count(func(other *modelConn) bool { return other.token == token && other.from == c.from })
	left := m.Connections - active + 1 // without itself
	want := ofToken < proofShare*left && ofSource < left
	if got := m.table.assign(c.conn, holder{token, c.from}, 1, m.now); got != want {
		return fmt.Errorf("a token with %d of %d active has room: %t, want %t", ofToken, active, got, want)
	}
	if want {
		c.token = token
	}
	return m.counts()
}

func (m *model) counts() error {
	sources, holders := map[netip.Prefix]bool{}, map[holder]bool{}
	for _, c := range m.all {
		if c.token != "" {
			holders[holder{proof: c.token}], holders[holder{c.token, c.from}] = true, true
		} else {
			sources[c.from] = true
		}
	}
	for from := range m.proven {
		if !sources[from] {
			delete(m.proven, from)
		}
	}
	if len(m.all) != m.table.count || len(m.all) > m.Connections || len(sources) != len(m.table.sources) ||
		len(holders) != len(m.table.held) {
		return fmt.Errorf("the table has %d connections of %d sources, want %d of %d", m.table.count,
			len(m.table.sources), len(m.all), len(sources))
	}
	return nil
}
