package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
	"github.com/shaledb/shale/vfs"
)

// aloneStore is the folder of the store of a server that is in no group, in the folder that serve gets, and aloneName the
// beginning of the name of its backups.
const (
	aloneStore = "store"
	aloneName  = "alone"
)

// The values of --sync, which are those of appendfsync in Redis.
const (
	syncAlways   = "always"
	syncEverysec = "everysec"
	syncNo       = "no"
)

// A grouped is a member of a group as the server's Store. What its writes return for is on disk at a majority.
type grouped struct{ *cluster.Node }

// Update implements server.Store.
func (g grouped) Update(ctx context.Context, fn func(server.Txn) error) error {
	return g.Node.Update(ctx, func(tx *cluster.Txn) error { return fn(tx) })
}

// Settle implements server.Store.
func (grouped) Settle() error { return nil }

// others returns how many members besides the leader have each write that was answered: what makes a majority with it.
func (m *member) others() int { return m.node.Stats().Voters / 2 }

// openAlone opens the store of a server that is in no group.
//
// With --sync always a write waits for the disk when its reply is sent, not when it is made. So the writes of a pipeline,
// and of clients that write at the same time, share a sync.
func (m *member) openAlone(o cluster.Options) (server.Store, error) {
	c := &m.config
	if _, err := os.Stat(filepath.Join(c.dir, "MEMBER")); err == nil {
		return nil, fmt.Errorf("the folder %s is of a member of a group: name the member with --id, or take another folder", c.dir)
	}
	if o.OpenStore == nil {
		o.OpenStore = func(dir string, o *shale.Options) (*shale.DB, func() error, error) {
			db, err := shale.Open(dir, o)
			if err != nil {
				return nil, nil, err
			}
			return db, db.Close, nil
		}
	}
	store := o.Store
	store.FS, store.Durability = vfs.Default, shale.SyncManual
	if c.sync == syncEverysec {
		store.Durability, store.SyncEvery = shale.SyncPeriodic, time.Second
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}
	db, closeStore, err := o.OpenStore(filepath.Join(c.dir, aloneStore), store)
	if err != nil {
		return nil, err
	}
	m.db, m.closeDB = db, closeStore
	if c.sync == syncAlways {
		return server.Alone(db, db.Sync), nil
	}
	return server.Alone(db, nil), nil
}

// refuseAlone returns an error for the folder of a server that is alone, which is no member's yet.
func refuseAlone(dir string) error {
	_, noMember := os.Stat(filepath.Join(dir, "MEMBER"))
	if _, err := os.Stat(filepath.Join(dir, aloneStore)); err == nil && errors.Is(noMember, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s is of a server that is alone: make it a member's with shaled seed %s --id ID, or leave out --id", dir, dir)
	}
	return nil
}

// view calls fn with the store, of a server alone or of a member.
func (m *member) view(fn func(*shale.DB) error) error {
	if m.node == nil {
		return fn(m.db)
	}
	return m.node.View(fn)
}

// seedCommand makes the store of a server alone that of the first member of a group.
func seedCommand(env Environment) *cobra.Command {
	var id string
	cmd := newCommand("seed DIR --id ID", "make a server that is alone the first member of a group", `
DIR is the folder of a server that was started without --id, and has ended. Afterwards it is the folder of member ID, the
first one of a new group that begins with what the server had. Start it with serve DIR --id ID, and others with --join and
empty folders.

It costs no room and little time: the tables of the store are linked.`, 1, 1, func(_ context.Context, words []string) error {
		if id == "" {
			return errors.New("--id is missing: name the member, such as --id a")
		}
		dir, store := words[0], filepath.Join(words[0], aloneStore)
		if _, err := os.Stat(store); err != nil {
			return fmt.Errorf("the folder %s is not that of a server alone: %w", dir, err)
		}
		if err := cluster.Seed(dir, store, &cluster.Options{ID: id}); err != nil {
			return err
		}
		// The name of its backups was that of a server alone.
		if err := os.Remove(filepath.Join(dir, backupFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(store); err != nil {
			return err
		}
		_, err := fmt.Fprintf(env.Out, "%s is member %s of a new group.\nStart it with shaled serve %s --id %s, and others with --join and empty folders.\n", dir, id, dir, id)
		return err
	})
	cmd.Flags().StringVar(&id, "id", "", "name of the member")
	return cmd
}
