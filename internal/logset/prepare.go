package logset

import (
	"context"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// The next log is made while the memtable fills, so that the rotation need not wait for its blocks.

// minPrepared is the size in bytes of the smallest memtable for which the next log is
// prepared while the memtable fills. Smaller memtables fill before the log would be ready.
const minPrepared = 1 << 20

// Ask has the next log prepared when more than half of the memtable is full. taken
// is the number of bytes in the memtable. Requires: the caller is the leader.
func (l *Set) Ask(taken int64) {
	if !l.asked && l.env.MemtableSize >= l.env.MinPrepared && taken > l.env.MemtableSize/2 {
		l.asked = true
		l.mu.Lock()
		l.wanted = true
		l.mu.Unlock()
		base.Wake(l.wake)
	}
}

// Loop prepares the next log whenever Ask has woken it, until ctx
// is done. It runs on another goroutine than Syncer.Loop, because
// preparing a file may take longer than the time between two syncs.
func (l *Set) Loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			if l.env.TakesWrites() {
				l.prepare()
			}
		}
	}
}

// prepare makes the file of the next log, if it is still wanted. It
// reports an error; the rotation then creates the log itself.
func (l *Set) prepare() {
	if !l.beginPreparing() {
		return
	}
	var p *wal.Prepared
	err := base.Survive(func() (err error) {
		p, err = wal.Prepare(l.env.NewFileNum(), l.options())
		return err
	})
	if derr := l.endPreparing(p); err == nil {
		err = derr
	}
	if err != nil {
		l.env.Failed("prepare log", err)
	}
}

// Place makes the file of the first log of a store that is being opened, so that the sync of the directory that makes the name
// of its manifest durable does the same for this name. If that fails, Begin creates the log itself.
func (l *Set) Place() {
	p, err := wal.Place(l.env.NewFileNum(), l.options())
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.prepared = p
	}
}

// beginPreparing reports whether the next log is to be prepared. GiveUp waits from
// then on until endPreparing: the file takes room, and no field has it yet.
func (l *Set) beginPreparing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wanted || l.prepared != nil {
		return false
	}
	l.preparing = make(chan struct{})
	return true
}

// endPreparing makes p the prepared log. If it is not wanted any more,
// it is removed. p is nil if there is none, because of an error.
func (l *Set) endPreparing(p *wal.Prepared) (err error) {
	l.mu.Lock()
	if l.wanted {
		l.prepared, p = p, nil
	}
	l.mu.Unlock()
	if p != nil {
		err = base.Survive(p.Discard)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.preparing)
	l.preparing = nil
	return err
}

// cancelPreparing makes Loop prepare no log before the next Ask. If it is
// preparing one, cancelPreparing waits until that is done, and reports it.
func (l *Set) cancelPreparing() (any bool) {
	l.mu.Lock()
	l.wanted = l.wanted && l.prepared != nil
	preparing := l.preparing
	l.mu.Unlock()
	if preparing == nil {
		return false
	}
	<-preparing
	return true
}

// takePrepared returns the prepared log and forgets it, or returns nil if there is none.
// A log that is in the making would come too late, and is not wanted any more.
func (l *Set) takePrepared() *wal.Prepared {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.prepared
	l.prepared, l.wanted = nil, false
	return p
}

// DiscardPrepared removes the prepared log and reports whether there
// was one. If the file can't be removed, the next Open removes it.
func (l *Set) DiscardPrepared() (any bool) {
	p := l.takePrepared()
	l.discard(p)
	return p != nil
}

// discard removes a prepared log that was not used. It does nothing if p is nil.
func (l *Set) discard(p *wal.Prepared) {
	if p == nil {
		return
	}
	if err := p.Discard(); err != nil {
		l.env.Failed("remove a log never used", err)
	}
}
