package command

import (
	"context"

	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func hasCommand() *Command {
	c := New("has KEY...", Reads, "print which keys are there",
		"Prints each key with present or absent. Status 0 if all are present, 1 if any is absent.")
	c.keys = -1
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		return s.ask(ctx, words, "present", s.DB.Has)
	})
}

func mayCommand() *Command {
	c := New("may KEY...", Reads, "ask only the filters which keys may be there", `
Prints each key with maybe or absent, and reads nothing from disk. absent is certain; maybe is wrong as often
as the filters' false positive rate says. Status 0 if all keys may be there, 1 if any is absent.`)
	c.keys = -1
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		return s.ask(ctx, words, "maybe", func(key []byte) (bool, error) { return s.DB.MayContain(key), nil })
	})
}

// ask asks a question about each key, and prints yes, or the word absent.
func (s *Session) ask(ctx context.Context, keys []Word, yes string, question func(key []byte) (bool, error)) (Status, error) {
	all := true
	l := s.List(s.Format, "key", "answer")
	for _, w := range keys {
		ok, err := question(w.bytes())
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
		if err := l.Row(output.ByteCell(w.bytes()), output.Cell{Text: answer}); err != nil {
			return Failed, err
		}
	}
	return foundIf(all), l.End()
}
