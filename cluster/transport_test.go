package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// Whoever sends entries to a member goes on when nobody takes the answers any more.
func TestTransport_AnswersThatNobodyTakes(t *testing.T) {
	g := newGroup(t, 1, nil)
	to := g.members[0]
	from := transport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streamLayer{to.network, make(chan struct{})}, MaxPool: 1, Timeout: time.Second, Logger: to.config.Logger,
	})}
	defer func() { _ = from.Close() }()
	p, err := from.AppendEntriesPipeline(to.server, raft.ServerAddress(to.Address()))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for range 20 {
			if _, err := p.AppendEntries(new(raft.AppendEntriesRequest), new(raft.AppendEntriesResponse)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the sender is stuck")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
