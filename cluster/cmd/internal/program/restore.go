package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// restoreCommand makes a new group, or a server that is alone, of a backup. It never changes an existing one: members of
// the old group have another name for it and refuse the new ones.
func restoreCommand(env Environment) *cobra.Command {
	var id, at string
	cmd := newCommand("restore BUCKET DIR [--id ID]", "make a server, or the first member of a new group, from a backup", `
Makes the folder DIR, which must be empty or not exist, that of a server with the state in BUCKET. That is one state of a
server or a member, as the log of serve --backup names it, such as backups/a-5d3f01c2/state-1. Given the bucket above
these, the command lists them. Afterwards start it with serve.

With --id it is the first member of a new group: start that with serve, without --bootstrap and --join, and the others
with --join and empty folders. Nothing in the bucket changes. The members of the old group must not come back: they would
be another group.`, 2, 2, func(ctx context.Context, words []string) error {
		target, err := remote.ParsePoint(at, time.Now())
		if err != nil {
			return fmt.Errorf("--at %w", err)
		}
		return restore(ctx, env, words[0], words[1], id, target)
	})
	cmd.Flags().StringVar(&id, "id", "", "name of the member in a new group; without it, a server alone")
	cmd.Flags().StringVar(&at, "at", "", "a `POINT`: a time (\"2026-11-25 04:05\" is local time, 2026-11-25T04:05:06Z is not), 15m for a quarter of an hour ago, seq:N or step:N; without it, the newest")
	return cmd
}

// restore restores a state and makes it that of a server or of a new group.
//
// The store is restored into a folder inside the one to be, for a group seeded from there as tables by hard
// links, and removed. If that is interrupted, the same command goes on, because the folder of a
// member that is not complete has nothing but this one.
func restore(ctx context.Context, env Environment, bucket, dir, id string, at remote.At) error {
	// A folder that does not exist would be an empty bucket. Somebody who restores means one that
	// is there.
	from, err := s3.ParsePlace(bucket)
	if err != nil {
		return err
	}
	if from.Dir != "" {
		if _, err := os.Stat(from.Dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no bucket %s: correct the name", from)
		}
	}
	b, err := from.Open(ctx)
	if err != nil {
		return err
	}
	if _, err := b.Stat(ctx, remote.IdentityName); errors.Is(err, fs.ErrNotExist) {
		below, err := storesBelow(ctx, from)
		switch {
		case err != nil:
			return err
		case len(below) == 0:
			return fmt.Errorf("there is no backup in %s: correct the name", from)
		}
		var list strings.Builder
		for _, state := range below {
			var r remote.Report
			if b, err = state.Open(ctx); err == nil {
				r, err = remote.Verify(ctx, b, false)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", state, err)
			}
			fmt.Fprintf(&list, "\n%s  last written %s, %s", state, r.Point.Time.Local().Format(time.DateTime), base.FormatBytes(r.Bytes))
		}
		return fmt.Errorf("%s has backups below it, of each state of each member: choose one of%s", from, &list)
	}
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range names {
		if entry.Name() != restoredStore {
			return fmt.Errorf("the folder %s is not empty, it has %s: choose another", dir, entry.Name())
		}
	}
	store := filepath.Join(dir, restoredStore)
	made, err := remote.Restore(ctx, b, store, at, nil)
	if err != nil {
		return err
	}
	is, start := "a server alone", "shaled serve "+dir
	if id == "" {
		err = os.Rename(store, filepath.Join(dir, aloneStore))
	} else if err = cluster.Seed(dir, store, &cluster.Options{ID: id}); err == nil {
		is, start = fmt.Sprintf("member %s of a new group", id), fmt.Sprintf("%s --id %s, and others with --join and empty folders", start, id)
		err = os.RemoveAll(store)
	}
	if err != nil {
		return err
	}
	// The restore has succeeded, with what the bucket had. The operator has to know what it lacked.
	for _, f := range made.Damage {
		fmt.Fprintln(env.Out, f.Err)
	}
	if made.Left.Why != "" {
		fmt.Fprintf(env.Out, "The state is not the newest of the backup: %s.\n", made.Left.Why)
	}
	_, err = fmt.Fprintf(env.Out, "%s is %s, with the state of %v.\nStart it with %s.\n", dir, is, made.At.Time.UTC().Format(time.RFC3339), start)
	return err
}

// restoredStore is the folder in a member's folder in which a backup is restored. An interrupted restore goes on
// there.
const restoredStore = "restored"

// storesBelow returns the buckets of stores below this one, in order.
func storesBelow(ctx context.Context, p s3.Place) ([]s3.Place, error) {
	b, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	var found []s3.Place
	for info, err := range b.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		if prefix, ok := strings.CutSuffix(info.Name, "/"+remote.IdentityName); ok {
			found = append(found, p.Below(strings.Split(prefix, "/")...))
		}
	}
	slices.SortFunc(found, func(a, b s3.Place) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}
