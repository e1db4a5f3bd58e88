package http

import "container/list"

// line has what waits, by key. The keys take turns, so one for which much waits gets no more of them than another one.
// What waits for one key leaves in order, or from both ends in turn. The zero value is empty. Only one method may be
// called at a time.
type line[K comparable, V any] struct {
	keys  map[K]*list.Element // in turns
	turns list.List           // of *queue[K, V], whose turn is next first
	count int                 // of all that waits
	// fromBothEnds lets one that has just come leave soon, also if much waits for its key.
	fromBothEnds bool
}

// queue is what waits for one key, the first one first.
type queue[K comparable, V any] struct {
	key     K
	waiting list.List
	newest  bool // newest: it is the turn of the last one.
}

func (q *queue[K, V]) next() *list.Element {
	if q.newest {
		return q.waiting.Back()
	}
	return q.waiting.Front()
}

// place is that of a value in a line.
type place[K comparable] struct {
	key     K
	element *list.Element
}

// verdict is what becomes of a value whose turn it is.
type verdict int

const (
	stays verdict = iota
	// is returned
	leaves
	// is removed, and the next one is looked at
	gone
)

// waiting returns how much waits for a key.
func (l *line[K, V]) waiting(key K) int {
	if at := l.keys[key]; at != nil {
		return at.Value.(*queue[K, V]).waiting.Len()
	}
	return 0
}

// push adds a value behind all others of its key.
func (l *line[K, V]) push(key K, value V) place[K] {
	at := l.keys[key]
	if at == nil {
		if l.keys == nil {
			l.keys = map[K]*list.Element{}
		}
		at = l.turns.PushBack(&queue[K, V]{key: key})
		l.keys[key] = at
	}
	l.count++
	return place[K]{key, at.Value.(*queue[K, V]).waiting.PushBack(value)}
}

// remove removes a value that has not left.
func (l *line[K, V]) remove(p place[K]) {
	at := l.keys[p.key]
	q := at.Value.(*queue[K, V])
	q.waiting.Remove(p.element)
	l.count--
	if q.waiting.Len() == 0 {
		l.turns.Remove(at)
		delete(l.keys, p.key)
	}
}

// next returns a value of the key whose turn it is, if it leaves. If it stays, its key loses the turn, and next looks
// at the next key, of at most as many as most.
func (l *line[K, V]) next(most int, decide func(K, V) verdict) (value V, ok bool) {
	for range min(most, l.turns.Len()) {
		at := l.turns.Front()
		q := at.Value.(*queue[K, V])
		l.turns.MoveToBack(at)
		for at := q.next(); at != nil; at = q.next() {
			value := at.Value.(V)
			v := decide(q.key, value)
			if v == stays {
				break
			}
			l.remove(place[K]{q.key, at})
			if v == leaves {
				q.newest = l.fromBothEnds && !q.newest
				return value, true
			}
		}
	}
	return value, false
}
