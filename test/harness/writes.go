package harness

import (
	"fmt"
	"strings"

	"github.com/shaledb/shale"
)

// This file has the operations that write.

// drawWrite returns a step that writes a batch.
func drawWrite(name string, w Write) Step {
	var args strings.Builder
	for _, op := range w.Ops {
		fmt.Fprintf(&args, "%v %s %s%s, ", op.Kind, Show(op.Key), Show(op.Value), showExpiry(op.ExpiresAt))
	}
	if w.Own {
		fmt.Fprintf(&args, "durability %v", w.Durability)
	}
	return Step{Name: name, Args: args.String(), Do: func(s *Side) string { return ErrText(s.Write(w)) }}
}

func drawBatch(s *Source) Step { return drawWrite("batch", s.Write(s.IntN(16))) }

func drawPut(s *Source) Step {
	if s.Marked {
		return drawWrite("put", s.Write(1))
	}
	key, value := []byte(s.Puts()), s.Value()
	return Step{Name: "put", Args: Show(key) + " " + Show(value), Do: func(s *Side) string { return ErrText(s.Put(key, value)) }}
}

func drawDelete(s *Source) Step {
	key := []byte(s.Key())
	if s.Marked {
		w := s.Write(0)
		w.Ops = append(w.Ops, shale.Op{Kind: shale.OpDelete, Key: key})
		return drawWrite("delete", w)
	}
	return Step{Name: "delete", Args: Show(key), Do: func(s *Side) string { return ErrText(s.Delete(key)) }}
}

func drawDeleteRange(s *Source) Step {
	if s.Marked {
		w := s.Write(0)
		w.Ops = append(w.Ops, s.DeleteRange())
		return drawWrite("deleteRange", w)
	}
	op := s.DeleteRange()
	return Step{Name: "deleteRange", Args: Show(op.Key) + " " + Show(op.Value), Do: func(s *Side) string { return ErrText(op.Apply(s)) }}
}

func drawPutIfAbsent(s *Source) Step {
	key, value := []byte(s.Puts()), s.Value()
	if s.Marked {
		return drawWrite("put", s.Write(2)) // whether a failed PutIfAbsent is there no marker can tell
	}
	return Step{Name: "putIfAbsent", Args: Show(key) + " " + Show(value), Do: func(s *Side) string {
		inserted, err := s.PutIfAbsent(key, value)
		return fmt.Sprint(inserted, " ", ErrText(err))
	}}
}

func drawPutTTL(s *Source) Step {
	if s.Marked {
		return drawWrite("putTTL", s.Write(1))
	}
	key, value, ttl := []byte(s.Puts()), s.Value(), s.TTL()
	return Step{Name: "putTTL", Args: fmt.Sprint(Show(key), " ", Show(value), " ", ttl), Do: func(s *Side) string { return ErrText(s.PutTTL(key, value, ttl)) }}
}

func drawPutIfAbsentTTL(s *Source) Step {
	key, value, ttl := []byte(s.Puts()), s.Value(), s.TTL()
	if s.Marked {
		return drawWrite("putTTL", s.Write(2)) // as in drawPutIfAbsent
	}
	return Step{Name: "putIfAbsentTTL", Args: fmt.Sprint(Show(key), " ", Show(value), " ", ttl), Do: func(s *Side) string {
		inserted, err := s.PutIfAbsentTTL(key, value, ttl)
		return fmt.Sprint(inserted, " ", ErrText(err))
	}}
}

func drawUpdate(s *Source) Step { return drawTransaction(s, "update", s.Write(1+s.IntN(8))) }

// drawTransaction returns a transaction that reads, does the writes, of which there are some, and reads again, among
// others what it has written.
func drawTransaction(s *Source, name string, w Write) Step {
	keys, r := [][]byte{[]byte(s.Key()), w.Ops[s.IntN(len(w.Ops))].Key}, s.Range()
	r.Reverse = s.IntN(2) == 0
	if s.IntN(2) == 0 {
		r.Limit = s.IntN(20)
	}
	step := drawWrite(name, w)
	step.Args += " " + showRange(r)
	step.Do = func(s *Side) string {
		var answers []string
		look := func(from Reader) {
			for _, key := range keys {
				answers = append(answers, lookUp(from, key))
			}
			answers = append(answers, scanText(from, r))
		}
		err := s.Update(w, func(from Reader) { answers = nil; look(from); s.meanwhile() }, look)
		return fmt.Sprintf("%q %s", answers, ErrText(err))
	}
	return step
}

// drawFill returns a step of many writes, so that memtables fill and levels grow. Some of these
// steps are mostly about one key, for iterators to step over.
func drawFill(s *Source) Step {
	var writes []Write
	again := s.IntN(4) == 0
	for range 10 + s.IntN(50) {
		w := s.Write(1)
		if last := &w.Ops[len(w.Ops)-1]; again && s.IntN(4) > 0 {
			*last = shale.Op{Kind: shale.OpPut, Key: []byte(s.often), Value: s.Value()}
			s.puts(s.often)
		}
		writes = append(writes, w)
	}
	return Fill(writes)
}

// Fill returns a step that does the writes one after the other, until one fails.
func Fill(writes []Write) Step {
	return Step{Name: "fill", Args: fmt.Sprint(len(writes), " batches"), Do: func(s *Side) string {
		for _, w := range writes {
			if err := s.Write(w); err != nil {
				return ErrText(err)
			}
		}
		return "ok"
	}}
}

// drawIngest returns a step that ingests sorted entries. Now and then one of them is out of order.
func drawIngest(s *Source) Step {
	puts := s.Sorted(40)
	if len(puts) > 1 && s.IntN(8) == 0 {
		at := s.IntN(len(puts) - 1)
		puts[at], puts[at+1] = puts[at+1], puts[at]
	}
	var keys []string
	for _, e := range puts {
		keys = append(keys, e.Key)
	}
	return Step{Name: "ingest", Args: fmt.Sprintf("%d: %.200q", len(keys), keys), Do: func(s *Side) string { return ErrText(s.Ingest(puts)) }}
}

// drawRefused returns a write that every store refuses.
func drawRefused(s *Source) Step {
	key := []byte(s.Key())
	if s.IntN(2) == 0 {
		w := Write{Ops: []shale.Op{{Kind: shale.OpDelete, Key: key}}}
		return Step{Name: "refused", Args: "without time, " + Show(key), Do: func(s *Side) string { return ErrText(s.Cancelled(w)) }}
	}
	return Step{Name: "refused", Args: "too large a key", Do: func(s *Side) string {
		large := make([]byte, shale.MaxKeySize+1)
		_, err := s.PutIfAbsent(large, nil)
		return ErrText(err) + ErrText(s.Put(large, nil)) + ErrText(s.Delete(large))
	}}
}
