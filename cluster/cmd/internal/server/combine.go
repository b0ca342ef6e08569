package server

import (
	"context"
	"hash/maphash"
	"sync"
)

// Transactions of many clients on one key would only disturb each other: of those that run at once one is written, and the
// others run again. So there are lanes, one for some of the keys, and in a lane one transaction at a time, which does the
// commands of all clients that wait. In a group other members still disturb, and alone nobody does. And the more clients wait, the less
// each command costs.
const laneCount = 64

type lanes struct {
	seed maphash.Seed
	all  [laneCount]lane
}

// A lane has the runs that wait, and whether one of their clients leads: does the others' too.
type lane struct {
	mu      sync.Mutex
	waiting []*turn
	leading bool
}

// A turn is the run of a client. Whoever leads appends replies to the client's Out, while the client waits for ready.
type turn struct {
	c     *client
	calls []call
	begin int // where its replies begin
	done  int // how many calls were done
	err   error
	ready chan bool // gets true if the client is to lead, and false if its run was done
}

// updateRun does writes in a transaction, perhaps with those of other clients, and returns how many it has done. If the
// store fails, none of them has happened.
func (c *client) updateRun(calls []call) (done int, err error) {
	mine := &turn{c: c, calls: calls, begin: len(c.Out), ready: make(chan bool, 1)}
	l := c.s.lanes.of(calls[0].args[0])
	l.mu.Lock()
	l.waiting = append(l.waiting, mine)
	lead := !l.leading
	l.leading = true
	l.mu.Unlock()
	if lead || <-mine.ready {
		turns := l.take()
		c.s.do(turns)
		l.handOver()
		for _, t := range turns {
			if t != mine {
				t.ready <- false
			}
		}
	}
	return mine.done, mine.err
}

// of returns the lane of a key.
func (l *lanes) of(key []byte) *lane { return &l.all[maphash.Bytes(l.seed, key)%laneCount] }

// take takes the turns that a transaction does: the first of those that wait is that of the client which leads.
func (l *lane) take() []*turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, calls, size := 0, 0, 0
	for _, t := range l.waiting {
		for _, call := range t.calls {
			for _, arg := range call.args {
				size += len(arg)
			}
		}
		if calls += len(t.calls); n > 0 && (calls > mostTogether || size > bytesTogether) {
			break
		}
		n++
	}
	turns := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return turns
}

// handOver lets the next client lead, if one waits.
func (l *lane) handOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading = len(l.waiting) > 0; l.leading {
		l.waiting[0].ready <- true
	}
}

// do does turns in one transaction. If that fails, each is done alone, so that no client gets another's error. But nothing
// is done again of which nobody knows whether it has happened: Config.Unknown says so.
func (s *Server) do(turns []*turn) {
	err := s.write(func(ctx context.Context) error {
		return s.config.Store.Update(ctx, func(tx Txn) error {
			k := &keeper{Txn: tx}
			for _, t := range turns {
				if err := t.run(k); err != nil {
					return err
				}
			}
			return k.save(turns[0].c)
		})
	})
	if err != nil && len(turns) > 1 && !s.config.Unknown(err) {
		for i := range turns {
			s.do(turns[i : i+1])
		}
		return
	}
	for _, t := range turns {
		t.err = err
	}
}

// run does the calls of a turn, as many as there are before there is much to be sent.
func (t *turn) run(tx *keeper) error {
	c := t.c
	c.Out = c.Out[:t.begin]
	for t.done = 0; t.done < len(t.calls) && (t.done == 0 || len(c.Out) < sendAt); t.done++ {
		if err := tx.do(c, t.calls[t.done]); err != nil {
			return err
		}
	}
	return nil
}
