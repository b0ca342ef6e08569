package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
)

// chosen returns the format that the options of a command ask for, else the
// session's.
func (s *session) chosen(a arguments) (format, error) {
	f, err := formatOf(a.has("hex"), a.has("raw"))
	if f == asWords {
		f = s.format
	}
	return f, err
}

func get(_ context.Context, s *session, a arguments) (status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return failed, err
	}
	value, err := s.db.Get(a.key(0))
	if errors.Is(err, shale.ErrNotFound) {
		s.say("absent")
		return absent, nil
	}
	if err != nil {
		return failed, err
	}
	line := appendWord(nil, value, f)
	if f != asBytes || s.mode != oneShot {
		line = append(line, '\n') // bytes that go into a file or a pipe stay as they are
	}
	_, err = s.out.Write(line)
	return found, err
}

func put(_ context.Context, s *session, a arguments) (status, error) {
	value := []byte(a.words[1].text)
	if s.isInput(a.words[1]) {
		var err error
		if value, err = io.ReadAll(s.in); err != nil {
			return failed, fmt.Errorf("read the value: %w", err)
		}
	}
	return found, s.db.Put(a.key(0), value)
}

// isInput tells whether a word stands for standard input.
func (s *session) isInput(w word) bool { return s.in != nil && w.text == "-" && !w.literal }

func del(ctx context.Context, s *session, a arguments) (status, error) {
	var b shale.Batch
	for i := range a.words {
		if err := b.Delete(a.key(i)); err != nil {
			return failed, err
		}
	}
	return found, s.db.Write(ctx, &b)
}

func has(_ context.Context, s *session, a arguments) (status, error) {
	return s.ask(a, "present", s.db.Has)
}

func may(_ context.Context, s *session, a arguments) (status, error) {
	return s.ask(a, "maybe", func(key []byte) (bool, error) { return s.db.MayContain(key), nil })
}

// ask prints the answer to a question about each key: yes or absent.
func (s *session) ask(a arguments, yes string, question func(key []byte) (bool, error)) (status, error) {
	all := true
	for i := range a.words {
		ok, err := question(a.key(i))
		if err != nil {
			return failed, err
		}
		answer := yes
		if !ok {
			answer, all = "absent", false
		}
		fmt.Fprintf(s.out, "%s\t%s\n", appendWord(nil, a.words[i].text, s.format), answer)
	}
	return foundIf(all), nil
}
