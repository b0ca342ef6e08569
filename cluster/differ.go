package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The leader compares its digest with that of each other member, every compareEvery. Members that differ have come to
// different states by the same commands, or by others, which is a bug or a wrong repair. A majority decides who
// is right: the others stop, with ErrDiffers, also the leader. Their directories say so, and are not opened again.

// compareEvery is also how late a member with a wrong state is found. A comparison costs one small
// message to each member.
const compareEvery = time.Second

// A digestRequest is what the leader sends with opDigest. If Differs is set, the leader has already
// decided: the member that gets it stops, and Differs is the reason that its file MEMBER keeps.
type digestRequest struct {
	Digests []digest `json:"digests"` // the leader's
	Differs string   `json:"differs,omitempty"`
}

// A digestAnswer is what a member answers. Its own digests let the leader see which of the members
// that differ from it agree with each other.
type digestAnswer struct {
	Digests []digest `json:"digests"`
	Differs bool     `json:"differs"`

	server raft.Server // which has answered, or should have
}

// answerDigest answers the leader, and stops this member if the leader says that it differs.
//
// The member compares for itself, and does not stop on the leader's word alone: between two
// messages of a leader the member may have got another state by a snapshot, which is right.
func (n *Node) answerDigest(req digestRequest) (digestAnswer, error) {
	d := &n.state.current.Load().digests
	same, known := d.compare(req.Digests)
	differs := known && !same
	if differs && req.Differs != "" {
		n.stopDiffering(req.Differs)
	}
	return digestAnswer{Digests: d.last(), Differs: differs}, nil
}

// stopDiffering stops this member for good.
//
// The reason is written to MEMBER before the member fails, so that the next Open refuses the
// directory. If the write fails, the member stops all the same, and its next start is compared
// again.
func (n *Node) stopDiffering(why string) {
	err := n.changeIdentity(func(i *identity) { i.Differs = why })
	n.fail(errors.Join(fmt.Errorf("%w: %s", ErrDiffers, why), err))
}

// askDigest asks another member. One that does not answer, or knows no digests, is as good as one with nothing in common.
func (n *Node) askDigest(s raft.Server, req digestRequest) (a digestAnswer) {
	ctx, cancel := context.WithTimeout(n.ctx, termTimeout)
	defer cancel()
	a.server = s
	_ = n.caller.call(ctx, string(s.Address), s.ID, opDigest, req, &a)
	return a
}

// compareMembers compares the members once, if this one leads.
//
// Learners are compared too: they serve reads. They don't count as votes in judge.
func (n *Node) compareMembers() {
	if n.raft().State() != raft.Leader {
		n.differing.Store(new([]string))
		return
	}
	own := &n.state.current.Load().digests
	servers := n.servers()
	answers := make([]digestAnswer, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		if s.ID != n.server {
			wg.Go(func() { answers[i] = n.askDigest(s, digestRequest{Digests: own.last()}) })
		}
	}
	wg.Wait()
	n.judge(own, servers, answers)
}

// judge decides who stops.
//
// There are three outcomes. If a majority of the voters agree with each other and not with the
// leader, the leader stops. If a majority agree with the leader, or all voters have answered, the
// members that differ are told to stop. If too few voters have answered, nobody stops. The next
// comparison may decide then.
func (n *Node) judge(own *digests, servers []raft.Server, answers []digestAnswer) {
	voters, agree, silent := 0, 0, 0
	var differ []digestAnswer
	var ids []string
	for i, s := range servers {
		vote := 0
		if s.Suffrage == raft.Voter {
			vote = 1
		}
		voters += vote
		if s.ID == n.server {
			agree += vote
			continue
		}
		same, known := own.compare(answers[i].Digests)
		switch {
		case answers[i].Differs || known && !same:
			differ = append(differ, answers[i])
			ids = append(ids, memberID(s.ID))
		case known:
			agree += vote
		default:
			silent += vote
		}
	}
	n.differing.Store(&ids)
	if len(differ) == 0 {
		return
	}
	for _, c := range differ {
		side := 0
		for _, other := range differ {
			if other.server.Suffrage == raft.Voter && sameDigest(c.Digests, other.Digests) {
				side++
			}
		}
		if side > voters/2 {
			n.stopDiffering(fmt.Sprintf("the members %v agree, and this one, which led, has another state", ids))
			return
		}
	}
	if agree <= voters/2 && silent > 0 {
		n.config.Logger.Error("members differ, and too few answer to tell which are right", "with the leader", agree, "others", ids, "voters", voters)
		return
	}
	req := digestRequest{Digests: own.last(), Differs: fmt.Sprintf("%d of %d voters agree with the leader %q, and this member has another state",
		agree, voters, n.opts.ID)}
	for _, c := range differ {
		n.config.Logger.Error("a member has another state, and has to stop", "member", c.server.ID)
		n.askDigest(c.server, req)
	}
}
