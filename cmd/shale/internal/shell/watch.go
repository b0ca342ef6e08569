package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// watch runs a command again and again, until it fails or is interrupted.
func watch(ctx context.Context, s *command.Session, a command.Arguments) (command.Status, error) {
	every, err := time.ParseDuration(a.Words[0].Text)
	switch {
	case err != nil:
		return command.Failed, fmt.Errorf("%s is no time; write 500ms, 1s or 1m", output.Quote(a.Words[0].Text))
	case every < time.Millisecond:
		return command.Failed, fmt.Errorf("%s is too short; 1ms is the shortest", output.Quote(a.Words[0].Text))
	case a.Words[1].Text == a.Own:
		return command.Failed, fmt.Errorf("%s can't watch itself", a.Own)
	}
	if _, _, err := s.Prepare(a.Words[1:]); err != nil {
		return command.Failed, err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.Say("-- %s", time.Now().Format(time.TimeOnly))
		st, err := s.RunIn(ctx, a.Words[1:])
		if ctx.Err() != nil {
			return command.Found, nil // that is how it ends
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
		if err := s.Refresh(); err != nil {
			return command.Failed, err
		}
	}
}
