package main

import (
	"context"
	"fmt"
)

func setMode(_ context.Context, s *session, a arguments) (status, error) {
	if len(a.words) == 0 {
		fmt.Fprintln(s.out, s.display)
		return found, nil
	}
	d, err := displayOf(a.words[0].text)
	if err == nil {
		s.display = d
	}
	return found, err
}

func setTimer(_ context.Context, s *session, a arguments) (status, error) {
	return set(s, &s.timer, a)
}

func setExplain(_ context.Context, s *session, a arguments) (status, error) {
	return set(s, &s.explain, a)
}

// set sets what the first word says, and without one prints what is set.
func set(s *session, value *bool, a arguments) (status, error) {
	words := map[bool]string{false: "off", true: "on"}
	if len(a.words) == 0 {
		fmt.Fprintln(s.out, words[*value])
		return found, nil
	}
	switch text := a.words[0].text; text {
	case words[true]:
		*value = true
	case words[false]:
		*value = false
	default:
		return failed, fmt.Errorf("%s is neither on nor off", quote(text))
	}
	return found, nil
}
