package http

import (
	"container/heap"
	"container/list"
)

// line has what waits, by key. The keys take turns, so one for which much waits gets no more of them than another one.
// What waits for one key leaves in order, or the last one first. The zero value is empty. Only one method may be called
// at a time.
type line[K comparable, V any] struct {
	keys      map[K]*queue[K, V]
	turns     list.List // of *queue[K, V], whose turn is next first
	longest   byLength[K, V]
	order     list.List // of place[K], of all that waits, the oldest first
	count     int       // of all that waits
	lastFirst bool
}

// queue is what waits for one key, the next one first.
type queue[K comparable, V any] struct {
	key     K
	waiting list.List
	turn    *list.Element
	index   int // in line.longest
}

// waiter is a value in a queue.
type waiter[V any] struct {
	value V
	order *list.Element // in line.order
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

// push adds a value behind all others of its key, or before them.
func (l *line[K, V]) push(key K, value V) place[K] {
	q := l.keys[key]
	if q == nil {
		if l.keys == nil {
			l.keys = map[K]*queue[K, V]{}
		}
		q = &queue[K, V]{key: key}
		q.turn = l.turns.PushBack(q)
		l.keys[key] = q
		heap.Push(&l.longest, q)
	}
	push := q.waiting.PushBack
	if l.lastFirst {
		push = q.waiting.PushFront
	}
	w := &waiter[V]{value: value}
	at := place[K]{key, push(w)}
	w.order = l.order.PushBack(at)
	l.count++
	heap.Fix(&l.longest, q.index)
	return at
}

// remove removes a value that has not left.
func (l *line[K, V]) remove(p place[K]) {
	q := l.keys[p.key]
	l.order.Remove(q.waiting.Remove(p.element).(*waiter[V]).order)
	l.count--
	if q.waiting.Len() > 0 {
		heap.Fix(&l.longest, q.index)
		return
	}
	heap.Remove(&l.longest, q.index)
	l.turns.Remove(q.turn)
	delete(l.keys, p.key)
}

// removeLast removes the value that would leave last, of the key for which most waits. There must be one.
func (l *line[K, V]) removeLast() (key K, value V) {
	q := l.longest[0]
	last := q.waiting.Back()
	l.remove(place[K]{q.key, last})
	return q.key, last.Value.(*waiter[V]).value
}

// removeGone removes values that are gone, up to one that is not: the one that has waited longest is first.
func (l *line[K, V]) removeGone(isGone func(K, V) bool) {
	for oldest := l.order.Front(); oldest != nil; oldest = l.order.Front() {
		at := oldest.Value.(place[K])
		if !isGone(at.key, at.element.Value.(*waiter[V]).value) {
			return
		}
		l.remove(at)
	}
}

// next returns a value of the key whose turn it is, if it leaves. If it stays, its key loses the turn, and next looks
// at the next key, of at most as many as most.
func (l *line[K, V]) next(most int, decide func(K, V) verdict) (value V, ok bool) {
	for range min(most, l.turns.Len()) {
		q := l.turns.Front().Value.(*queue[K, V])
		l.turns.MoveToBack(q.turn)
		for at := q.waiting.Front(); at != nil; at = q.waiting.Front() {
			value := at.Value.(*waiter[V]).value
			v := decide(q.key, value)
			if v == stays {
				break
			}
			l.remove(place[K]{q.key, at})
			if v == leaves {
				return value, true
			}
		}
	}
	return value, false
}

// byLength orders queues, the longest first.
type byLength[K comparable, V any] []*queue[K, V]

// Len returns the number of queues.
func (h byLength[K, V]) Len() int { return len(h) }

// Less reports whether queue i is longer than queue j.
func (h byLength[K, V]) Less(i, j int) bool { return h[i].waiting.Len() > h[j].waiting.Len() }

// Swap exchanges two queues.
func (h byLength[K, V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a queue.
func (h *byLength[K, V]) Push(x any) {
	q := x.(*queue[K, V])
	q.index = len(*h)
	*h = append(*h, q)
}

// Pop removes the last queue.
func (h *byLength[K, V]) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return q
}
