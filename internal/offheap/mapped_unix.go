//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !race

package offheap

import (
	"sync"
	"unsafe"
)

// mapped has the pieces of memory that were mapped. Other pieces belong to the collector.
var mapped pieces

type pieces struct {
	mu  sync.Mutex
	set map[*byte]struct{}
}

func (p *pieces) add(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		p.set = make(map[*byte]struct{})
	}
	p.set[unsafe.SliceData(b)] = struct{}{}
}

func (p *pieces) remove(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.set[unsafe.SliceData(b)]
	delete(p.set, unsafe.SliceData(b))
	return ok
}
