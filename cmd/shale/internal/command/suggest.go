package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// synonyms maps names from other programs to commands.
//
// They are looked for before names that only look alike: set looks like get, and means put.
var synonyms = map[string]string{
	"set": "put", "write": "put", "insert": "put", "add": "put", "setnx": "put --if-absent", "expire": "put --ttl",
	"read": "get", "cat": "get", "show": "get", "delete": "del", "rm": "del", "remove": "del", "unlink": "del", "flushall": "del --all",
	"exists": "has", "contains": "has", "ls": "scan", "list": "scan", "range": "scan", "dbsize": "count", "len": "count",
	"keys": "scan --keys", "search": "scan --match", "grep": "scan --grep",
	"dump": "export", "load": "import", "loaddata": "import", "ingest": "import --sorted",
	"q": "quit", "bye": "quit", "?": "help", "man": "help", "usage": "help",
	"info": "metrics", "stats": "metrics", "stat": "metrics", "size": "space", "du": "space", "df": "space",
	"sst": "tables", "ssts": "tables", "log": "wal", "logs": "wal", "history": "explain --versions", "monitor": "changes --follow", "watch": "changes --follow", "tail": "changes --follow",
	"compaction": "compact", "vacuum": "compact", "gc": "compact", "fsck": "check", "verify": "check, or shale-remote verify", "clone": "checkpoint", "copy": "checkpoint",
	"ship": "shale-remote ship", "web": "serve", "http": "serve", "version": "shale --version", "select": "scan",
	"multi": "begin", "transaction": "begin", "exec": "commit", "rollback": "discard", "abort": "discard",
}

// former has the commands that others have taken in, with the sentence that says how to write them.
var former = map[string]string{
	"delrange": "delrange is a part of del: del --prefix PREFIX, or del --from KEY --to KEY",
	"ttl":      "ttl is a part of has: has --expires KEY...",
	"find":     "find is a part of explain: explain KEY --versions; scan --match PATTERN searches keys",
	"table":    "table is a part of tables: tables NUMBER [properties|blocks|keys]",
	"update":   "update is a part of batch: batch FILE",
}

// unknownCommand returns the error that w is not a command. It asks which command may be meant.
//
// A name of another program is answered with the command that does it here. Otherwise a name that
// differs by one or two letters is.
func (s *Session) unknownCommand(w Word) error {
	question, what, also := didYouMean(w.Text, s.commands().names), "unknown command "+output.Quote(w.Text), ""
	if s.flags != nil && s.Mode == oneShot && !s.flags.named {
		what, also = output.Quote(w.Text)+" is neither a command nor a store", ", and -C names a new store"
	}
	name := strings.TrimPrefix(w.Text, ".")
	if former[name] != "" {
		return errors.New(former[name])
	}
	if meant := synonyms[name]; meant != "" {
		question = "; did you mean " + meant + "?"
	}
	if question == "" {
		question = ";"
	}
	return fmt.Errorf("%s%s help lists the commands%s", what, question, also)
}

// didYouMean returns the question whether one of names is meant, or "". Package cobra finds those that
// begin with text, or are similar to it.
//
// Very short names are close to everything, so they get no suggestion by distance.
func didYouMean(text string, names []string) string {
	root := &cobra.Command{}
	for _, name := range names {
		root.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	var meant []string
	for letters := len(strings.TrimLeft(text, "-.")); len(meant) == 0; {
		root.SuggestionsMinimumDistance++
		if root.SuggestionsMinimumDistance > 2 || root.SuggestionsMinimumDistance >= letters {
			return ""
		}
		meant = slices.Compact(root.SuggestionsFor(text))
	}
	if last := len(meant) - 1; last > 0 {
		meant = []string{strings.Join(meant[:last], ", "), meant[last]}
	}
	return "; did you mean " + strings.Join(meant, " or ") + "?"
}
