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
	var ifAbsent bool
	var piped []byte
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
	c.flag(&ifAbsent, "if-absent", "only if the key has no value; status 1 if it has one")
	c.change = func(s *Session, b *shale.Batch, words []Word) error {
		value := piped
		if value == nil {
			if _, err := s.input(s.Life(), words[1]); err != nil {
				return err
			}
			value = words[1].bytes()
		}
		if ttl > 0 {
			return b.PutTTL(words[0].bytes(), value, ttl)
		}
		return b.Put(words[0].bytes(), value)
	}
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if in, err := s.input(ctx, words[1]); err != nil {
			return Failed, err
		} else if in != nil {
			if piped, err = readValue(in); err != nil {
				return Failed, err
			}
		}
		var b shale.Batch
		if err := c.change(s, &b, words); err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		if !ifAbsent {
			return Found, s.write(ctx, &b)
		}
		put, err := s.writeIfAbsent(ctx, words[0].bytes(), &b)
		if err == nil && !put {
			s.Say("the key is there, and keeps its value")
		}
		return foundIf(put), err
	})
}

// writeIfAbsent writes b if the store has no key, and says whether it did. Nobody can write the key in
// between.
func (s *Session) writeIfAbsent(ctx context.Context, key []byte, b *shale.Batch) (bool, error) {
	if s.tx != nil {
		there, err := s.tx.Has(key)
		if there || err != nil {
			return false, err
		}
		return true, s.write(ctx, b)
	}
	there := false
	err := s.DB.Update(ctx, func(tx *shale.Txn) (err error) {
		if there, err = tx.Has(key); there || err != nil {
			return err
		}
		for op := range b.Ops() {
			err = errors.Join(err, op.Apply(tx))
		}
		return err
	})
	return !there, err
}

// readValue reads a value to its end.
func readValue(in io.Reader) ([]byte, error) {
	value, err := io.ReadAll(io.LimitReader(in, shale.MaxValueSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the value: %w", err)
	}
	if len(value) > shale.MaxValueSize {
		return nil, fmt.Errorf("standard input has more than %s, the largest size of a value", output.Plural(shale.MaxValueSize, "byte"))
	}
	return value, nil
}
