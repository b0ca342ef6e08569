package command

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/backup"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// backupCommand copies what a folder lacks of a store. The store may be open in another program.
func backupCommand() *Command {
	var listing bool
	c := newCommand("backup TO", needsNothing, "copy what a folder lacks of the store", `
The first backup copies the tables of the store into the folder TO, the next ones what was committed since, from
the logs. restore makes a store of it, as it was after any of these commits. If the logs do not reach back to the last
backup, the tables that TO lacks are copied again, and what lies between can't be restored. A program that has the
store open keeps its logs for longer with KeepLog. An ingestion, and a store that was restored, have the same effect.`)
	c.flag(&listing, "list", "show what the folder TO has")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		to := words[0].Text
		if listing {
			lines, err := backup.Lines(s.fs, to)
			if err != nil {
				return Failed, backupError(to, err)
			}
			return Found, s.Show(listOf(lines))
		}
		if s.Dir == "" {
			return Failed, ErrNoDir
		}
		if err := outfile.Folder(to); err != nil {
			return Failed, err
		}
		r, err := backup.Run(ctx, s.fs, s.Dir, to, s.measureBackup())
		if errors.Is(err, vfs.ErrLocked) {
			return Failed, err // of the folder, and not of the store
		}
		if err != nil {
			return Failed, openError(s.Dir, err)
		}
		if r.Why != nil && r.Begun > 0 {
			s.remark("new base: %v\n", r.Why)
		}
		newest := r.Lines[len(r.Lines)-1]
		what := output.Plural(int(r.Commits), "commit")
		if r.Begun > 0 {
			what = output.Plural(r.Begun, "base") + ", " + what
		}
		s.remark("%s: %s, %s; up to number %d\n", output.Quote(to), what, base.FormatBytes(r.Bytes), newest.Last())
		if r.Short != nil {
			s.remark("What was committed meanwhile is not there: %v. Open the store with KeepLog, or run this again.\n", r.Short)
		}
		return Found, nil
	})
}

// backupError says in plain words that a backup is encrypted, or absent.
func backupError(folder string, err error) error {
	switch {
	case errors.Is(err, vfs.ErrEncrypted):
		return openError(folder, err)
	case isMissing(err):
		return &sentence{"there is no backup in " + output.Quote(folder) + "; backup makes one", err}
	}
	return err
}

// listOf has a row for each base and each increment.
func listOf(lines []*backup.Line) *output.Grid {
	g := output.NewGrid(">line", "what", ">number", "time", ">size")
	for _, l := range lines {
		what := "base"
		for _, p := range l.Points {
			g.Row(l.Number, what, output.Number(p.Seq), p.Time.Format(time.RFC3339), base.FormatBytes(p.Bytes))
			what = "increment"
		}
	}
	return g
}

// restoreCommand makes a store of a backup.
func restoreCommand() *Command {
	var m backup.Moment
	c := newCommand("restore FROM", needsNothing, "make a store of a backup", `
Makes a store of what backup has copied to FROM, in the folder that the command line names as the store, which
must be empty or not exist. Then it reads all of it and checks it. backup --list shows the numbers and times. Between a base and the next one, each commit can be restored by
its number, which changes prints as last.`)
	c.option("at", "NUMBER|TIME", "as of the commit that ends with this number, or the last backup up to this time, such as 2026-11-25T04:05:06Z", func(w Word) error {
		if seq, err := strconv.ParseUint(w.Text, 10, 64); err == nil {
			m = backup.Moment{Seq: &seq}
			return nil
		}
		at, err := time.Parse(time.RFC3339, w.Text)
		if err != nil {
			return errors.New("is neither a number nor a time such as 2026-11-25T04:05:06Z")
		}
		m = backup.Moment{Time: at}
		return nil
	})
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		from, dir := words[0].Text, s.Dir
		if dir == "" {
			return Failed, ErrNoDir
		}
		if err := outfile.Folder(dir); err != nil {
			return Failed, err
		}
		r, err := backup.Restore(ctx, s.fs, from, dir, m, s.measureBackup())
		if err != nil {
			return Failed, backupError(from, err)
		}
		s.remark("%s: %s, %s, up to number %d, checked\n", output.Quote(dir),
			output.Plural(r.Tables, "table"), output.Plural(int(r.Commits), "commit"), r.Seq)
		if last := r.Lines[len(r.Lines)-1]; last.Last() > r.Seq {
			s.remark("The backup has later commits, up to number %d.\n", last.Last())
		}
		return Found, nil
	})
}
