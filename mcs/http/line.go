package http

import (
	"container/heap"
	"container/list"
)

// line has what waits, by key. The keys take turns, so one for which much waits gets no more of them than another one.
// Of one key the newest value comes first. The zero value is empty. Only one method may be called at a time.
type line[K comparable, V any] struct {
	keys    map[K]*queue[K, V]
	turns   list.List // of *queue[K, V], whose turn is next first
	longest longestQueues[K, V]
	order   list.List // of *waiter[K, V], of all keys, the oldest first
	arrived uint64
}

// queue is what waits for one key.
type queue[K comparable, V any] struct {
	key     K
	waiting list.List // of *waiter[K, V], the oldest first
	turn    *list.Element
	index   int // in line.longest
}

// waiter is a value in a line. The zero one is in none.
type waiter[K comparable, V any] struct {
	value   V
	queue   *queue[K, V]
	arrival uint64
	// of itself in queue.waiting and in line.order
	element, order *list.Element
}

// count returns how much waits.
func (l *line[K, V]) count() int { return l.order.Len() }

// push adds a value.
func (l *line[K, V]) push(key K, value V) *waiter[K, V] {
	q := l.keys[key]
	if q == nil {
		if l.keys == nil {
			l.keys = map[K]*queue[K, V]{}
		}
		q = &queue[K, V]{key: key}
		q.turn = l.turns.PushBack(q)
		l.keys[key] = q
	}
	l.arrived++
	w := &waiter[K, V]{value: value, queue: q, arrival: l.arrived}
	w.element, w.order = q.waiting.PushBack(w), l.order.PushBack(w)
	if q.waiting.Len() == 1 {
		heap.Push(&l.longest, q)
	} else {
		heap.Fix(&l.longest, q.index)
	}
	return w
}

// remove removes a value that has not left.
func (l *line[K, V]) remove(w *waiter[K, V]) {
	q := w.queue
	q.waiting.Remove(w.element)
	l.order.Remove(w.order)
	if q.waiting.Len() > 0 {
		heap.Fix(&l.longest, q.index)
		return
	}
	heap.Remove(&l.longest, q.index)
	l.turns.Remove(q.turn)
	delete(l.keys, q.key)
}

// oldest returns the oldest of all, or nil.
func (l *line[K, V]) oldest() *waiter[K, V] { return first[K, V](&l.order) }

// oldestOf returns the oldest one of a key, or nil.
func (l *line[K, V]) oldestOf(key K) *waiter[K, V] {
	if q := l.keys[key]; q != nil {
		return q.oldest()
	}
	return nil
}

// oldestOfLongest returns the oldest one of the key for which most waits, or nil.
func (l *line[K, V]) oldestOfLongest() *waiter[K, V] {
	if len(l.longest) == 0 {
		return nil
	}
	return l.longest[0].oldest()
}

func (q *queue[K, V]) oldest() *waiter[K, V] { return first[K, V](&q.waiting) }

func first[K comparable, V any](waiting *list.List) *waiter[K, V] {
	if e := waiting.Front(); e != nil {
		return e.Value.(*waiter[K, V])
	}
	return nil
}

// next removes and returns the newest value of the key whose turn it is, if it may leave. If not, its key loses the
// turn, and next looks at the next key, of at most as many as most.
func (l *line[K, V]) next(most int, mayLeave func(K, V) bool) (value V, ok bool) {
	for range min(most, l.turns.Len()) {
		q := l.turns.Front().Value.(*queue[K, V])
		l.turns.MoveToBack(q.turn)
		if w := q.waiting.Back().Value.(*waiter[K, V]); mayLeave(q.key, w.value) {
			l.remove(w)
			return w.value, true
		}
	}
	return value, false
}

// longestQueues is a heap of queues, the longest first, and of those as long the one whose oldest value is oldest.
type longestQueues[K comparable, V any] []*queue[K, V]

// Len returns the number of queues.
func (h longestQueues[K, V]) Len() int { return len(h) }

// Less reports whether queue i comes before queue j.
func (h longestQueues[K, V]) Less(i, j int) bool {
	if x, y := h[i].waiting.Len(), h[j].waiting.Len(); x != y {
		return x > y
	}
	return h[i].oldest().arrival < h[j].oldest().arrival
}

// Swap exchanges two queues.
func (h longestQueues[K, V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a queue.
func (h *longestQueues[K, V]) Push(x any) {
	q := x.(*queue[K, V])
	q.index = len(*h)
	*h = append(*h, q)
}

// Pop removes the last queue.
func (h *longestQueues[K, V]) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return q
}
