package main

import (
	"context"
	"fmt"
	"time"
)

// watch runs a command again and again, until it fails or is interrupted.
func watch(ctx context.Context, s *session, a arguments) (status, error) {
	every, err := time.ParseDuration(a.words[0].text)
	switch {
	case err != nil:
		return failed, fmt.Errorf("%s is no time; write 500ms, 1s or 1m", quote(a.words[0].text))
	case every < time.Millisecond:
		return failed, fmt.Errorf("%s is too short; 1ms is the shortest", quote(a.words[0].text))
	case a.words[1].text == a.own:
		return failed, fmt.Errorf("%s can't watch itself", a.own)
	}
	if _, _, err := s.prepare(a.words[1:]); err != nil {
		return failed, err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.say("-- %s", time.Now().Format(time.TimeOnly))
		st, err := s.runIn(ctx, a.words[1:])
		if ctx.Err() != nil {
			return found, nil // that is how it ends
		}
		if err == nil {
			err = s.out.Flush()
		}
		if err != nil {
			return st, err
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-tick.C:
		}
		if err := s.refresh(); err != nil {
			return failed, err
		}
	}
}
