package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// chosen returns the format that the options of a command ask for, else the
// session's.
func (s *Session) chosen(a Arguments) (output.Format, error) {
	f, err := output.FormatOf(a.has("hex"), a.has("raw"))
	if f == output.AsWords {
		f = s.Format
	}
	return f, err
}

func get(_ context.Context, s *Session, a Arguments) (Status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return Failed, err
	}
	if s.Explain {
		line, err := s.explainGet(a.key(0))
		if err != nil {
			return Failed, err
		}
		defer func() { s.note("%s", line) }()
	}
	value, err := s.DB.Get(a.key(0))
	gone := errors.Is(err, shale.ErrNotFound)
	switch {
	case err != nil && !gone:
		return Failed, err
	case !s.AsText():
		l := s.List(f, "key", "value")
		if !gone {
			err = l.Row(output.ByteCell(a.key(0)), output.ByteCell(value))
		} else {
			err = nil
		}
		return foundIf(!gone), errors.Join(err, l.End())
	case gone:
		s.Say("absent")
		return Absent, nil
	case s.Display == output.ShowHex && f == output.AsWords:
		f = output.AsHex
	}
	line := output.AppendWord(nil, value, f)
	if f != output.AsBytes || s.Mode != oneShot {
		line = append(line, '\n') // bytes that go into a file or a pipe stay as they are
	}
	_, err = s.Out.Write(line)
	return Found, err
}

func put(ctx context.Context, s *Session, a Arguments) (Status, error) {
	value := []byte(a.Words[1].Text)
	if in, err := s.input(ctx, a.Words[1]); err != nil {
		return Failed, err
	} else if in != nil {
		if value, err = io.ReadAll(io.LimitReader(in, maxValue+1)); err != nil {
			return Failed, fmt.Errorf("read the value: %w", err)
		}
		if len(value) > maxValue {
			return Failed, fmt.Errorf("standard input has more than %s, the most that a value may have", output.Plural(maxValue, "byte"))
		}
	}
	var b shale.Batch
	if err := b.Put(a.key(0), value); err != nil {
		return Failed, err
	}
	if err := s.openLate("put"); err != nil {
		return Failed, err
	}
	return Found, s.DB.Write(ctx, &b)
}

// input returns standard input if w stands for it, else nil.
func (s *Session) input(ctx context.Context, w Word) (io.Reader, error) {
	switch {
	case w.Text != "-" || w.Literal:
		return nil, nil
	case s.in == nil:
		return nil, errors.New(`commands come from standard input here, so - cannot stand for it; write "-" for the word`)
	}
	return untilDone(ctx, s.in), checkInput(s.in)
}

func del(ctx context.Context, s *Session, a Arguments) (Status, error) {
	var b shale.Batch
	for i := range a.Words {
		if err := b.Delete(a.key(i)); err != nil {
			return Failed, err
		}
	}
	return Found, s.DB.Write(ctx, &b)
}

func has(ctx context.Context, s *Session, a Arguments) (Status, error) {
	return s.ask(ctx, a, "present", s.DB.Has)
}

func may(ctx context.Context, s *Session, a Arguments) (Status, error) {
	return s.ask(ctx, a, "maybe", func(key []byte) (bool, error) { return s.DB.MayContain(key), nil })
}

// ask prints the answer to a question about each key: yes or absent.
func (s *Session) ask(ctx context.Context, a Arguments, yes string, question func(key []byte) (bool, error)) (Status, error) {
	all := true
	l := s.List(s.Format, "key", "answer")
	for i := range a.Words {
		ok, err := question(a.key(i))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
		answer := yes
		if !ok {
			answer, all = "absent", false
		}
		if err := l.Row(output.ByteCell(a.key(i)), output.Cell{Text: answer}); err != nil {
			return Failed, err
		}
	}
	return foundIf(all), l.End()
}
