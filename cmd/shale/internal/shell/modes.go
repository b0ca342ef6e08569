package shell

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func setMode(_ context.Context, s *command.Session, a command.Arguments) (command.Status, error) {
	if len(a.Words) == 0 {
		fmt.Fprintln(s.Out, s.Display)
		return command.Found, nil
	}
	d, err := command.DisplayOf(a.Words[0].Text)
	if err == nil {
		s.Display = d
	}
	return command.Found, err
}

func setTimer(_ context.Context, s *command.Session, a command.Arguments) (command.Status, error) {
	return set(s, &s.Timer, a)
}

func setExplain(_ context.Context, s *command.Session, a command.Arguments) (command.Status, error) {
	return set(s, &s.Explain, a)
}

// set sets what the first word says, and without one prints what is set.
func set(s *command.Session, value *bool, a command.Arguments) (command.Status, error) {
	words := map[bool]string{false: "off", true: "on"}
	if len(a.Words) == 0 {
		fmt.Fprintln(s.Out, words[*value])
		return command.Found, nil
	}
	switch text := a.Words[0].Text; text {
	case words[true]:
		*value = true
	case words[false]:
		*value = false
	default:
		return command.Failed, fmt.Errorf("%s is neither on nor off", output.Quote(text))
	}
	return command.Found, nil
}
