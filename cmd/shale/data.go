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
	if s.explain {
		line, err := s.explainGet(a.key(0))
		if err != nil {
			return failed, err
		}
		defer func() { s.note("%s", line) }()
	}
	value, err := s.db.Get(a.key(0))
	gone := errors.Is(err, shale.ErrNotFound)
	switch {
	case err != nil && !gone:
		return failed, err
	case !s.asText():
		l := s.list(f, "key", "value")
		if !gone {
			err = l.row(byteCell(a.key(0)), byteCell(value))
		} else {
			err = nil
		}
		return foundIf(!gone), errors.Join(err, l.end())
	case gone:
		s.say("absent")
		return absent, nil
	case s.display == showHex && f == asWords:
		f = asHex
	}
	line := appendWord(nil, value, f)
	if f != asBytes || s.mode != oneShot {
		line = append(line, '\n') // bytes that go into a file or a pipe stay as they are
	}
	_, err = s.out.Write(line)
	return found, err
}

func put(ctx context.Context, s *session, a arguments) (status, error) {
	value := []byte(a.words[1].text)
	if in, err := s.input(ctx, a.words[1]); err != nil {
		return failed, err
	} else if in != nil {
		if value, err = io.ReadAll(io.LimitReader(in, maxValue+1)); err != nil {
			return failed, fmt.Errorf("read the value: %w", err)
		}
		if len(value) > maxValue {
			return failed, fmt.Errorf("standard input has more than %s, the most that a value may have", plural(maxValue, "byte"))
		}
	}
	var b shale.Batch
	if err := b.Put(a.key(0), value); err != nil {
		return failed, err
	}
	if err := s.openLate("put"); err != nil {
		return failed, err
	}
	return found, s.db.Write(ctx, &b)
}

// input returns standard input if w stands for it, else nil.
func (s *session) input(ctx context.Context, w word) (io.Reader, error) {
	switch {
	case w.text != "-" || w.literal:
		return nil, nil
	case s.in == nil:
		return nil, errors.New(`commands come from standard input here, so - cannot stand for it; write "-" for the word`)
	}
	return untilDone(ctx, s.in), checkInput(s.in)
}

func del(ctx context.Context, s *session, a arguments) (status, error) {
	var b shale.Batch
	for i := range a.words {
		if err := b.Delete(a.key(i)); err != nil {
			return failed, err
		}
	}
	return found, s.db.Write(ctx, &b)
}

func has(ctx context.Context, s *session, a arguments) (status, error) {
	return s.ask(ctx, a, "present", s.db.Has)
}

func may(ctx context.Context, s *session, a arguments) (status, error) {
	return s.ask(ctx, a, "maybe", func(key []byte) (bool, error) { return s.db.MayContain(key), nil })
}

// ask prints the answer to a question about each key: yes or absent.
func (s *session) ask(ctx context.Context, a arguments, yes string, question func(key []byte) (bool, error)) (status, error) {
	all := true
	l := s.list(s.format, "key", "answer")
	for i := range a.words {
		ok, err := question(a.key(i))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return failed, err
		}
		answer := yes
		if !ok {
			answer, all = "absent", false
		}
		if err := l.row(byteCell(a.key(i)), cell{text: answer}); err != nil {
			return failed, err
		}
	}
	return foundIf(all), l.end()
}
