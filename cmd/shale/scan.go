package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// bounds returns the range of a prefix, if there is one, within --from and
// --to.
func (a arguments) bounds() shale.Range {
	var r shale.Range
	if len(a.words) > 0 {
		r = shale.Prefix(a.words[0].text)
	}
	if from := a.bytes("from"); from != nil && bytes.Compare(from, r.Lower) > 0 {
		r.Lower = from
	}
	if to := a.bytes("to"); to != nil && (r.Upper == nil || bytes.Compare(to, r.Upper) < 0) {
		r.Upper = to
	}
	return r
}

func scan(ctx context.Context, s *session, a arguments) (status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return failed, err
	}
	r := a.bounds()
	r.Reverse, r.KeysOnly = a.has("reverse"), a.has("keys")
	if r.Limit, err = a.optionNumber("limit", 0); err != nil {
		return failed, err
	}
	return s.scanRange(ctx, r, f)
}

func first(ctx context.Context, s *session, a arguments) (status, error) {
	return s.scanEnd(ctx, a, false)
}

func last(ctx context.Context, s *session, a arguments) (status, error) {
	return s.scanEnd(ctx, a, true)
}

// scanEnd prints the entry at one end of a range.
func (s *session) scanEnd(ctx context.Context, a arguments, reverse bool) (status, error) {
	f, err := s.chosen(a)
	if err != nil {
		return failed, err
	}
	r := a.bounds()
	r.Reverse, r.KeysOnly, r.Limit = reverse, a.has("keys"), 1
	return s.scanRange(ctx, r, f)
}

// scanRange prints the entries of r.
func (s *session) scanRange(ctx context.Context, r shale.Range, f format) (status, error) {
	titles := []string{"key", "value"}
	if r.KeysOnly {
		titles = titles[:1]
	}
	l := s.list(f, titles...)
	for e, err := range s.db.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return failed, err
		}
		cells := [2]cell{byteCell(e.Key), byteCell(e.Value)}
		if err := l.row(cells[:len(titles)]...); err != nil {
			return failed, err
		}
	}
	if l.rows == 0 && s.asText() {
		s.say("none")
	}
	return foundIf(l.rows > 0), l.end()
}

func count(ctx context.Context, s *session, a arguments) (status, error) {
	r := a.bounds()
	r.KeysOnly = true
	n := 0
	for _, err := range s.db.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return failed, err
		}
		n++
	}
	if s.asText() {
		fmt.Fprintln(s.out, n)
		return foundIf(n > 0), nil
	}
	l := s.list(s.format, ">count")
	return foundIf(n > 0), errors.Join(l.row(numberCell(n)), l.end())
}
