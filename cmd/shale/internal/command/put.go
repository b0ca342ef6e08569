package command

import (
	"context"
	"fmt"
	"io"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

func putCommand() *Command {
	c := New("put KEY VALUE", creates, "set the value of a key", `
Creates the store if it is not there and its folder is empty or not there; shale --new creates it
beside other files too. As the value, a bare - stands for standard input to its end, byte for byte;
not in scripts read from there, nor at the prompt. As key and value, and wherever
another command takes a key, @FILE stands for the bytes of that file; write "@x" for the word @x.`)
	c.keys, c.files, c.late = 1, 2, true
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		value := []byte(words[1].Text)
		if in, err := s.input(ctx, words[1]); err != nil {
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
		if err := b.Put(words[0].bytes(), value); err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		return Found, s.DB.Write(ctx, &b)
	})
}
