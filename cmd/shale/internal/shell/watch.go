package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// watchCommand returns a command that repeats another one until that fails or is interrupted.
func watchCommand() *command.Command {
	c := command.New(".watch TIME COMMAND...", command.NeedsNothing, "run a command again and again, until Ctrl-C", `
TIME is, for example, 500ms, 1s or 1m. Also where the store is open read-only, the command sees each time what
another program has written.`)
	c.Nested = true
	return c.Does(func(ctx context.Context, s *command.Session, words []command.Word) (command.Status, error) {
		every, err := time.ParseDuration(words[0].Text)
		switch {
		case err != nil:
			return command.Failed, fmt.Errorf("%s is not a time; write 500ms, 1s or 1m", output.Quote(words[0].Text))
		case every < time.Millisecond:
			return command.Failed, fmt.Errorf("%s is too short; 1ms is the shortest", output.Quote(words[0].Text))
		case words[1].Text == c.Title:
			return command.Failed, fmt.Errorf("%s can't watch itself", c.Title)
		}
		if _, _, err := s.Prepare(words[1:]); err != nil {
			return command.Failed, err
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			s.Say("-- %s", time.Now().Format(time.TimeOnly))
			st, err := s.RunIn(ctx, words[1:])
			if ctx.Err() != nil {
				return command.Found, nil // an interrupt is the normal end
			}
			if err == nil {
				err = s.Out.Flush()
			}
			if err != nil {
				return st, err
			}
			select {
			case <-ctx.Done():
				return command.Found, nil
			case <-tick.C:
			}
		}
	})
}
