package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A MemberState is how a member is, as it says itself.
type MemberState struct {
	Member
	Err           error             // why it has not answered; the rest is zero then
	Last, Applied uint64            // as in Stats
	About         map[string]string // from its Options.About
}

// Survey asks all members how they are, until ctx is done. Once the leader and a majority have answered, the others have no more
// than grace; 0: they have as long as ctx.
//
// All are asked at once. It works on every member, also without a leader.
func (n *Node) Survey(ctx context.Context, grace time.Duration) ([]MemberState, error) {
	members, err := n.Members()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states := make([]MemberState, len(members))
	var answers, leads atomic.Int32
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			w, err := n.who(n.server)
			if m.ID != n.opts.ID {
				w, err = n.askWho(ctx, m.Address, "")
			}
			states[i] = MemberState{Member: m, Err: err, Last: w.Last, Applied: w.Applied, About: w.About}
			if err != nil {
				return
			}
			if m.Leader {
				leads.Add(1)
			}
			if int(answers.Add(1)) > len(members)/2 && leads.Load() > 0 && grace > 0 {
				time.AfterFunc(grace, cancel)
			}
		})
	}
	wg.Wait()
	return states, nil
}
