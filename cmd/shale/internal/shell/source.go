package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// maxSources limits how deep files can run other files. Two files that run each other would
// never end.
const maxSources = 16

var errTooDeep = errors.New(".source is nested too deeply")

// sourceCommand returns a command that runs the commands of a file up to the first error.
func sourceCommand() *command.Command {
	c := command.New(".source FILE", command.NeedsNothing, "run the commands in a file", "Stops at the first error, and prints the line of the file where it is.")
	c.Nested = true
	return c.Does(func(ctx context.Context, s *command.Session, words []command.Word) (command.Status, error) {
		name := words[0].Text
		if s.Sources >= maxSources {
			return command.Failed, fmt.Errorf("%s: %w, more than %d levels", output.Quote(name), errTooDeep, maxSources)
		}
		f, err := os.Open(name)
		if err != nil {
			return command.Failed, err
		}
		defer f.Close() // it is only read
		s.Sources++
		defer func() { s.Sources-- }()
		worst := command.Found
		lines := bufio.NewReader(f)
		for n := 1; ; n++ {
			line, readErr := lines.ReadString('\n')
			if readErr != nil && readErr != io.EOF {
				return command.Failed, fmt.Errorf("%s:%d: %w", output.Quote(name), n, readErr)
			}
			st, err := runSourced(ctx, s, strings.TrimSuffix(line, "\n"))
			switch {
			case errors.Is(err, command.ErrQuit) || ctx.Err() != nil:
				return worst, err
			case errors.Is(err, errTooDeep):
				return command.Failed, err // without the name of each file on the way
			case err != nil:
				if m := new(command.Mistake); errors.As(err, &m) {
					err = errors.New(err.Error()) // its columns are those of a line in the file
				}
				return command.Failed, &command.SourceError{Name: name, Line: n, Err: err}
			}
			worst = max(worst, st)
			if readErr == io.EOF {
				return worst, nil
			}
		}
	})
}

func runSourced(ctx context.Context, s *command.Session, line string) (command.Status, error) {
	words, err := command.ParseLine(line)
	if err != nil || len(words) == 0 {
		return command.Found, err
	}
	return s.RunIn(ctx, words)
}
