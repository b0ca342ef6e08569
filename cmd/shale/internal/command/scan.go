package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// bounds returns the range of a prefix, if there is one, within --from and
// --to.
func (a Arguments) bounds() shale.Range {
	var r shale.Range
	if len(a.Words) > 0 {
		r = shale.Prefix(a.Words[0].Text)
	}
	if from := a.bytes("from"); from != nil && bytes.Compare(from, r.Lower) > 0 {
		r.Lower = from
	}
	if to := a.bytes("to"); to != nil && (r.Upper == nil || bytes.Compare(to, r.Upper) < 0) {
		r.Upper = to
	}
	return r
}

func scan(ctx context.Context, s *Session, a Arguments) (Status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return Failed, err
	}
	r := a.bounds()
	r.Reverse, r.KeysOnly = a.has("reverse"), a.has("keys")
	if r.Limit, err = a.optionNumber("limit", 0); err != nil {
		return Failed, err
	}
	return s.scanRange(ctx, r, f)
}

func first(ctx context.Context, s *Session, a Arguments) (Status, error) {
	return s.scanEnd(ctx, a, false)
}

func last(ctx context.Context, s *Session, a Arguments) (Status, error) {
	return s.scanEnd(ctx, a, true)
}

// scanEnd prints the entry at one end of a range.
func (s *Session) scanEnd(ctx context.Context, a Arguments, reverse bool) (Status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return Failed, err
	}
	r := a.bounds()
	r.Reverse, r.KeysOnly, r.Limit = reverse, a.has("keys"), 1
	return s.scanRange(ctx, r, f)
}

// scanRange prints the entries of r.
func (s *Session) scanRange(ctx context.Context, r shale.Range, f output.Format) (Status, error) {
	titles := []string{"key", "value"}
	if r.KeysOnly {
		titles = titles[:1]
	}
	l := s.List(f, titles...)
	for e, err := range s.DB.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
		cells := [2]output.Cell{output.ByteCell(e.Key), output.ByteCell(e.Value)}
		if err := l.Row(cells[:len(titles)]...); err != nil {
			return Failed, err
		}
	}
	if l.Rows == 0 && s.AsText() {
		s.Say("none")
	}
	return foundIf(l.Rows > 0), l.End()
}

func count(ctx context.Context, s *Session, a Arguments) (Status, error) {
	r := a.bounds()
	r.KeysOnly = true
	n := 0
	for _, err := range s.DB.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Failed, err
		}
		n++
	}
	if s.AsText() {
		fmt.Fprintln(s.Out, n)
		return foundIf(n > 0), nil
	}
	l := s.List(s.Format, ">count")
	return foundIf(n > 0), errors.Join(l.Row(output.NumberCell(n)), l.End())
}
