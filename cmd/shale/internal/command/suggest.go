package command

import (
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
	"set": "put", "delete": "del", "rm": "del", "remove": "del", "exists": "has", "ls": "scan", "list": "scan", "keys": "scan --keys",
	"q": "quit", "?": "help", "info": "metrics", "stats": "metrics", "backup": "checkpoint", "verify": "check, or shale-remote verify",
	"ship": "shale-remote ship", "restore": "shale-remote restore",
	"multi": "begin", "transaction": "begin", "exec": "commit", "rollback": "discard", "abort": "discard",
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
	if meant := synonyms[strings.TrimPrefix(w.Text, ".")]; meant != "" {
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
