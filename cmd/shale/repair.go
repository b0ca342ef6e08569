package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/repair"
)

// check reads the folder that the first word names, or that of the session.
func check(ctx context.Context, s *session, a arguments) (status, error) {
	dir, err := s.folder(a.words)
	if err != nil {
		return failed, err
	}
	r, err := repair.Check(ctx, dir, nil)
	if err != nil {
		return failed, openError(dir, err)
	}
	fmt.Fprintf(s.remarks(), "read: %s, %s: %s in %s, %s, %s\n", plural(r.Read.Files, "file"), base.FormatBytes(r.Read.Bytes),
		plural(r.Read.Tables, "table"), plural(r.Runs, "run"), plural(r.Read.Logs, "log"), named(r.Manifest))
	fmt.Fprintf(s.remarks(), "right: blocks %s, entries %s, filters %s, keys that they know %s, log records %s, manifest edits %s\n",
		number(r.Read.Blocks), number(r.Read.Entries), number(r.Read.Filters), number(r.Read.Keys), number(r.Read.Records), number(r.Read.Edits))
	if r.Writer {
		fmt.Fprintln(s.remarks(), "A program has the store open for writing: the log that it writes is not checked.")
	}
	if err := writeFindings(s, r.Findings); err != nil {
		return failed, err
	}
	if !r.Damaged() {
		fmt.Fprintln(s.remarks(), "no damage")
		return found, nil
	}
	if !slices.ContainsFunc(r.Findings, func(f repair.Finding) bool { return f.Damage() && path.Ext(f.File) != ".flt" }) {
		fmt.Fprintf(s.remarks(), "DAMAGED, but only filters beside tables are. `shale filters rebuild %s` makes new ones.\n", quote(dir))
		return absent, nil
	}
	fmt.Fprintf(s.remarks(), "DAMAGED. Keep a copy of the folder. `shale repair %s INTO` saves into a new one what can be proven right.\n", quote(dir))
	return absent, nil
}

// salvage saves what is provable of one folder into another one.
func salvage(ctx context.Context, s *session, a arguments) (status, error) {
	last := len(a.words) - 1
	dir, err := s.folder(a.words[:last])
	if err != nil {
		return failed, err
	}
	into := a.words[last].text
	if err := outfile.Folder(into); err != nil {
		return failed, err
	}
	r, err := repair.Run(ctx, dir, into, &repair.Options{Doubtful: a.has("doubtful")})
	if err != nil {
		return failed, openError(dir, err)
	}
	if err := writeFindings(s, r.Findings); err != nil {
		return failed, err
	}
	fmt.Fprintf(s.remarks(), "%s: %s saved, %s\n", quote(into), plural(int(r.Keys), "key"), base.FormatBytes(r.KeyBytes+r.ValueBytes))
	if r.Whole() {
		fmt.Fprintf(s.remarks(), "That is all that the store held, as of sequence number %d.\n", r.AsOf)
		return found, nil
	}
	writeAsOf(s, r)
	if err := writeLeft(s, r); err != nil {
		return failed, err
	}
	return absent, nil
}

// writeAsOf says which state was saved.
func writeAsOf(s *session, r *repair.Report) {
	without, later := "", ""
	if r.AtLeast {
		later = "; it may also hold later writes"
	}
	if slices.ContainsFunc(r.Findings, func(f repair.Finding) bool { return f.Harm == repair.LostEntries || f.Harm == repair.LostCommits }) {
		without = ", without what is lost"
	}
	fmt.Fprintf(s.remarks(), "That is the store as of sequence number %d%s%s", r.AsOf, without, later)
	switch {
	case len(r.Left) == 0 && without == "":
		fmt.Fprintln(s.remarks(), ". Nothing shows that it ever held more, but the manifest can't tell.")
	case len(r.Left) == 0:
		fmt.Fprintln(s.remarks(), ".")
	case r.Doubtful:
		fmt.Fprintln(s.remarks(), ". Saved with it is what follows, which is whole but may be out of date:")
	default:
		fmt.Fprintln(s.remarks(), ". Left out is what follows, which is whole but may be out of date:")
	}
}

// writeLeft lists what is doubtful.
func writeLeft(s *session, r *repair.Report) error {
	if len(r.Left) == 0 {
		return nil
	}
	g := newGrid("because of", ">entries", "which", "why")
	for _, l := range r.Left {
		g.row(l.File, number(l.Entries), which(&l), l.Why)
	}
	if err := s.show(g); err != nil {
		return err
	}
	if r.Doubtful {
		fmt.Fprintln(s.remarks(), "Of these, deleted keys may be back, and overwritten values. Without --doubtful they are left out.")
	} else {
		fmt.Fprintln(s.remarks(), "With --doubtful they are saved too: then deleted keys may be back, and overwritten values.")
	}
	return nil
}

// which describes the entries of l.
func which(l *repair.Left) string {
	var parts []string
	if l.Commits > 0 {
		parts = append(parts, fmt.Sprintf("%s, sequence numbers %d to %d", plural(int(l.Commits), "commit"), l.FirstSeq, l.LastSeq))
	} else {
		parts = append(parts, l.Keys.Format(short))
	}
	if len(l.Samples) > 0 {
		var keys []string
		for _, k := range l.Samples {
			keys = append(keys, short(k))
		}
		if uint64(len(keys)) < l.Entries {
			keys = append(keys, "…")
		}
		parts = append(parts, strings.Join(keys, " "))
	}
	return strings.Join(parts, ": ")
}

// writeFindings lists what was found, if anything was.
func writeFindings(s *session, findings []repair.Finding) error {
	if len(findings) == 0 && s.remarks() == io.Writer(s.out) {
		return nil // for programs, an empty table
	}
	g := newGrid("file", ">offset", "what is wrong", "what that means")
	for i := range findings {
		f := &findings[i]
		offset := "-"
		if f.Offset >= 0 {
			offset = fmt.Sprint(f.Offset)
		}
		g.row(f.File, offset, f.What(), f.Meaning(short))
	}
	return s.show(g)
}

// folder returns the store that words name, or the session's.
func (s *session) folder(words []word) (string, error) {
	switch {
	case len(words) > 0:
		return words[0].text, nil
	case s.dir == "":
		return "", errNoDir
	}
	return s.dir, nil
}

func named(manifest string) string {
	if manifest == "" {
		return "no manifest"
	}
	return manifest
}
