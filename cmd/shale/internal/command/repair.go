package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
)

// checkCommand reads the folder of the store, without opening it.
//
// Package repair does the work and says what each damage means. The command only lays it out. It
// tells damage that costs data from damage of filters alone, because the cure differs.
//
// For example, of a store with a damaged table:
//
//	file        offset  what is wrong                  what that means
//	000013.sst       0  data block: checksum mismatch  entries are lost: from greeting to greeting
func checkCommand() *Command {
	c := newCommand("check", needsNothing, "read and check everything, and list all damage", `
Reads every block of every table, every log and the manifest, and changes nothing. It checks checksums, order,
levels and counts, that every filter knows every key of its table, and that the files are those of the
manifest. It goes on after damage, and works on a store that can't be opened. If another program is writing to
the store, the log that it is writing is not read. In json, jsonl and csv the last row, "all", has what was read
and is correct. Status 1 if anything is damaged.`)
	return c.does(func(ctx context.Context, s *Session, _ []Word) (Status, error) {
		dir := s.Dir
		if dir == "" {
			return Failed, ErrNoDir
		}
		r, err := repair.Check(ctx, dir, &repair.Options{FS: s.fs, Read: s.measureReads(dir)})
		if err != nil {
			return Failed, repairError("check", dir, err)
		}
		if !s.AsText() {
			return foundIf(!r.Damaged()), showCheck(s, r)
		}
		s.remark("read: %s, %s: %s in %s, %s, %s\n", output.Plural(r.Read.Files, "file"), base.FormatBytes(r.Read.Bytes),
			output.Plural(r.Read.Tables, "table"), output.Plural(r.Runs, "run"), output.Plural(r.Read.Logs, "log"), cmp.Or(r.Manifest, "no manifest"))
		s.remark("correct: blocks %s, entries %s, filters %s, keys in filters %s, log records %s, manifest edits %s\n",
			output.Number(r.Read.Blocks), output.Number(r.Read.Entries), output.Number(r.Read.Filters), output.Number(r.Read.Keys), output.Number(r.Read.Records), output.Number(r.Read.Edits))
		if r.Writer {
			s.remark("A program has the store open for writing, so the log that it is writing is not checked.\n")
		}
		if err := writeFindings(s, r.Findings); err != nil {
			return Failed, err
		}
		if !r.Damaged() {
			s.remark("no damage\n")
			return Found, nil
		}
		// A filter next to a table has no data: lookups are slower without it, and nothing is lost.
		if !slices.ContainsFunc(r.Findings, func(f repair.Finding) bool { return f.Damage() && path.Ext(f.File) != ".flt" }) {
			s.remark("DAMAGED, but only in filters that lie next to their tables. `shale %s filters rebuild` makes new ones.\n", output.Quote(dir))
			return Absent, nil
		}
		s.remark("DAMAGED. Keep a copy of the folder. `shale %s repair TO` saves what is provably correct into a new one.\n", output.Quote(dir))
		return Absent, nil
	})
}

// showCheck prints a report for a program: a row for each finding, and one with what was read.
func showCheck(s *Session, r *repair.CheckReport) error {
	g := output.NewGrid(append(findingTitles(), ">files", ">bytes", ">tables", ">runs", ">logs", ">blocks", ">entries", ">filters", ">keys",
		">records", ">edits", "writer", "damaged")...)
	none := output.NoCell("")
	for i := range r.Findings {
		f := &r.Findings[i]
		g.Row(append(findingRow(f), none, none, none, none, none, none, none, none, none, none, none, none, f.Damage())...)
	}
	n := &r.Read
	g.Row("all", none, none, none, n.Files, n.Bytes, n.Tables, r.Runs, n.Logs, n.Blocks, n.Entries, n.Filters, n.Keys,
		n.Records, n.Edits, r.Writer, r.Damaged())
	return s.Show(g)
}

// repairCommand saves what is provably correct in one folder into another one.
//
// The damaged folder is only read: if something goes wrong, the next attempt starts from the same
// bytes.
func repairCommand() *Command {
	var doubtful, giveUp bool
	c := newCommand("repair TO", needsNothing, "save what is provably correct into a new folder", `
Makes a new store in the folder TO, which must be empty or not exist. It has every entry that is provably
correct: the entry has a correct checksum, and no newer version of it can be lost. The command lists what is
damaged, and what it left out. It builds new filters, and only reads the damaged store. Status 1 if anything is lost or left
out.`)
	c.flag(&doubtful, "doubtful", "also save entries that may be out of date: deleted keys and overwritten values may come back")
	c.flag(&giveUp, "without-bucket", "give up the tables that are only in a bucket, which is lost, and save the rest")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		dir, into := s.Dir, words[0].Text
		if dir == "" {
			return Failed, ErrNoDir
		}
		if err := outfile.Folder(into); err != nil {
			return Failed, err
		}
		if same, err := vfs.Within(vfs.Default, into, dir); err == nil && same {
			return Failed, fmt.Errorf("%s lies in the store; repair only reads the store, so name a folder outside of it", output.Quote(into))
		}
		r, err := repair.Run(ctx, dir, into, &repair.Options{FS: s.fs, Doubtful: doubtful, GiveUp: giveUp, Read: s.measureReads(dir)})
		switch {
		case errors.Is(err, fs.ErrExist):
			return Failed, &sentence{output.Quote(into) + " is there already; name a new or an empty folder", err}
		case errors.Is(err, shale.ErrElsewhere):
			return Failed, &sentence{repairError("repair", dir, err).Error() + fmt.Sprintf("\n`shale-remote hydrate %s BUCKET` brings them back. "+
				"If the bucket is lost for good, --without-bucket gives them up, and saves the rest.", output.Quote(dir)), err}
		case err != nil:
			return Failed, repairError("repair", dir, err)
		}
		if err := writeFindings(s, r.Findings); err != nil {
			return Failed, err
		}
		if r.GivenUp > 0 {
			s.remark("given up: %s with %s, which were only in the bucket\n", output.Plural(r.GivenUp, "table"), base.FormatBytes(r.GivenUpBytes))
		}
		s.remark("%s: %s saved, %s\n", output.Quote(into), output.Plural(int(r.Keys), "key"), base.FormatBytes(r.KeyBytes+r.ValueBytes))
		if r.Whole() {
			s.remark("That is everything that the store had, as of sequence number %d.\n", r.AsOf)
			return Found, nil
		}
		writeAsOf(s, r)
		if err := writeLeft(s, r); err != nil {
			return Failed, err
		}
		return Absent, nil
	})
}

// repairError says in plain words why a command could not read the store, or write the new one. Package repair
// does the work of both commands, and says its name.
func repairError(command, dir string, err error) error {
	if said := openError(dir, err); said != err {
		return said
	}
	return &sentence{command + ": " + strings.TrimPrefix(plain(err), "repair: "), err}
}

// writeAsOf prints which state was saved.
//
// A repaired store is a state that the damaged one had after some commit, minus what is lost. The
// sentence names the commit by its sequence number, which the log of an application may have.
func writeAsOf(s *Session, r *repair.Report) {
	without, later := "", ""
	if r.AtLeast {
		later = "; it may also have later writes"
	}
	if slices.ContainsFunc(r.Findings, func(f repair.Finding) bool { return f.Harm == repair.LostEntries || f.Harm == repair.LostCommits }) {
		without = ", without what is lost"
	}
	end := ". These entries are left out; they are intact but may be out of date:"
	switch {
	case len(r.Left) == 0 && without == "":
		end = ". Nothing shows that the store ever had more, but the manifest can't confirm that."
	case len(r.Left) == 0:
		end = "."
	case r.Doubtful:
		end = ". It also has these entries, which are intact but may be out of date:"
	}
	s.remark("That is the store as of sequence number %d%s%s%s\n", r.AsOf, without, later, end)
}

// writeLeft lists the doubtful entries.
//
// Entries are doubtful if a newer version of them may be lost. They are listed in both cases, saved
// or left out, because somebody has to look at them.
func writeLeft(s *Session, r *repair.Report) error {
	if len(r.Left) == 0 {
		return nil
	}
	g := output.NewGrid("because of", ">entries", "which", "why")
	for _, l := range r.Left {
		g.Row(l.File, l.Entries, which(&l), l.Why)
	}
	if err := s.Show(g); err != nil {
		return err
	}
	if r.Doubtful {
		s.remark("Among them, deleted keys and overwritten values may have come back. Without --doubtful they are left out.\n")
	} else {
		s.remark("With --doubtful they are saved too; then deleted keys and overwritten values may come back.\n")
	}
	return nil
}

// which describes the entries of l.
//
// Some keys are shown as samples, so that the reader can tell what part of the data it is.
func which(l *repair.Left) string {
	var parts []string
	if l.Commits > 0 {
		parts = append(parts, fmt.Sprintf("%s, sequence numbers %d to %d", output.Plural(int(l.Commits), "commit"), l.FirstSeq, l.LastSeq))
	} else {
		parts = append(parts, l.Keys.Format(output.Short))
	}
	if len(l.Samples) > 0 {
		var keys []string
		for _, k := range l.Samples {
			keys = append(keys, output.Short(k))
		}
		if uint64(len(keys)) < l.Entries {
			keys = append(keys, "…")
		}
		parts = append(parts, strings.Join(keys, " "))
	}
	return strings.Join(parts, ": ")
}

// writeFindings lists the findings. Without findings it prints nothing, or an empty table if the
// output is for programs.
//
// A program that reads JSON gets an empty array, and can tell it from a failure.
func writeFindings(s *Session, findings []repair.Finding) error {
	if len(findings) == 0 && s.remarks() == io.Writer(s.Out) {
		return nil
	}
	g := output.NewGrid(findingTitles()...)
	for i := range findings {
		g.Row(findingRow(&findings[i])...)
	}
	return s.Show(g)
}

// findingTitles and findingRow are the columns of a finding.
func findingTitles() []string { return []string{"file", ">offset", "what is wrong", "what that means"} }

func findingRow(f *repair.Finding) []any {
	offset, colour := output.NoCell("-"), output.Colour("")
	if f.Offset >= 0 {
		offset = output.NumberCell(f.Offset)
	}
	if f.Damage() {
		colour = output.Bad
	}
	return []any{f.File, offset, output.In(colour, f.What()), f.Meaning(output.Short)}
}
