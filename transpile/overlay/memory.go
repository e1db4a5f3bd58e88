package overlay

import "sync"

// maxRemembered is how many bytes one generation of a memory holds, about: some 10,000 documents.
const maxRemembered = 96 << 20

// memory keeps values by a digest of all that they are made of. It is bounded by two generations: when the young one is
// full it becomes the old one, and what nobody asks for until that happens again is forgotten. The zero value is ready.
type memory[V any] struct {
	mu         sync.Mutex
	young, old map[string]remembered[V]
	weight     int
}

type remembered[V any] struct {
	value  V
	weight int
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.young[key]; ok {
		return r.value, true
	}
	r, ok := m.old[key]
	if ok {
		m.keep(key, r)
	}
	return r.value, ok
}

// put remembers a value that takes about as many bytes.
func (m *memory[V]) put(key string, value V, weight int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, remembered[V]{value, weight})
}

// keep puts a value into the young generation. The caller holds the lock.
func (m *memory[V]) keep(key string, r remembered[V]) {
	if m.young == nil || m.weight+r.weight > maxRemembered {
		m.young, m.old, m.weight = map[string]remembered[V]{}, m.young, 0
	}
	if _, again := m.young[key]; !again {
		m.weight += r.weight
	}
	m.young[key] = r
}
