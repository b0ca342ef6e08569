package cluster_test

import (
	"fmt"
	"log"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/vfs"
)

// A LogStore takes the place of raft-boltdb. What the program had before was
//
//	store, err := raftboltdb.NewBoltStore("member/raft.db")
//	...
//	defer store.Close()
//	r, err := raft.NewRaft(config, fsm, store, store, snapshots, transport)
//
// and all else stays as it is.
func ExampleLogStore() {
	o := cluster.LogStoreOptions()
	o.FS = vfs.NewMem() // for the example; without it, files
	db, err := shale.Open("member/log", o)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store := cluster.NewLogStore(db)

	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "one", hclog.NewNullLogger()
	address, transport := raft.NewInmemTransport("")
	snapshots := raft.NewInmemSnapshotStore()
	group := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: address}}}
	if err := raft.BootstrapCluster(config, store, store, snapshots, transport, group); err != nil {
		log.Fatal(err)
	}
	r, err := raft.NewRaft(config, new(raft.MockFSM), store, store, snapshots, transport)
	if err != nil {
		log.Fatal(err)
	}
	<-r.LeaderCh()
	apply := r.Apply([]byte("a command"), time.Second)
	if err := apply.Error(); err != nil {
		log.Fatal(err)
	}
	if err := r.Shutdown().Error(); err != nil {
		log.Fatal(err)
	}

	var entry raft.Log
	if err := store.GetLog(apply.Index(), &entry); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("entry %d of term %d: %s\n", entry.Index, entry.Term, entry.Data)
	// Output: entry 3 of term 2: a command
}
