package cluster

import (
	"context"
	"sync"
)

// A MemberState is how a member is, as it says itself.
type MemberState struct {
	Member
	Err           error             // why it has not answered; the rest is zero then
	Last, Applied uint64            // as in Stats
	About         map[string]string // from its Options.About
}

// Survey asks all members how they are, until ctx is done.
//
// All are asked at once. It works on every member, also without a leader, and is meant for
// operators.
func (n *Node) Survey(ctx context.Context) ([]MemberState, error) {
	members, err := n.Members()
	if err != nil {
		return nil, err
	}
	states := make([]MemberState, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			w, err := n.who(n.server)
			if m.ID != n.opts.ID {
				w, err = n.askWho(ctx, m.Address, "")
			}
			states[i] = MemberState{Member: m, Err: err, Last: w.Last, Applied: w.Applied, About: w.About}
		})
	}
	wg.Wait()
	return states, nil
}
