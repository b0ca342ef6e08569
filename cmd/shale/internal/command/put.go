package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// putCommand sets one key. A bare - reads the value from standard input before the store is opened:
// a pipe that fails must not leave a new store behind.
func putCommand() *Command {
	var ttl time.Duration
	c := newCommand("put KEY VALUE", creates, "set the value of a key", `
Creates the store if its folder is empty or does not exist. shale --new also creates it in a folder that
has other files. A bare - as the value stands for all of standard input, byte for byte; it can't be used
at the prompt, or in a script that is read from standard input.`)
	c.keys, c.late = 1, true
	c.option("ttl", "TIME", "until this time has passed, such as 90s or 720h", func(w Word) (err error) {
		if ttl, err = time.ParseDuration(w.Text); err != nil || ttl <= 0 {
			return errors.New("is not a time such as 90s, 30m or 720h")
		}
		return nil
	})
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		value := []byte(words[1].Text)
		if in, err := s.input(ctx, words[1]); err != nil {
			return Failed, err
		} else if in != nil {
			if value, err = io.ReadAll(io.LimitReader(in, shale.MaxValueSize+1)); err != nil {
				return Failed, fmt.Errorf("read the value: %w", err)
			}
			if len(value) > shale.MaxValueSize {
				return Failed, fmt.Errorf("standard input has more than %s, the largest size of a value", output.Plural(shale.MaxValueSize, "byte"))
			}
		}
		var b shale.Batch
		err := error(nil)
		if ttl > 0 {
			err = b.PutTTL(words[0].bytes(), value, ttl)
		} else {
			err = b.Put(words[0].bytes(), value)
		}
		if err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		return Found, s.write(ctx, &b)
	})
}
