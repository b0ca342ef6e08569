package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

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
	if text, given := a.values["limit"]; given {
		if r.Limit, err = strconv.Atoi(text); err != nil || r.Limit < 1 {
			return failed, fmt.Errorf("--limit %s is not a number from 1 on", quote(text))
		}
	}
	n := 0
	var line []byte
	for e, err := range s.db.Scan(r) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return failed, err
		}
		n++
		line = appendWord(line[:0], e.Key, f)
		if !r.KeysOnly {
			line = appendWord(append(line, '\t'), e.Value, f)
		}
		if _, err := s.out.Write(append(line, '\n')); err != nil {
			return failed, err
		}
	}
	if n == 0 {
		s.say("none")
	}
	return foundIf(n > 0), nil
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
	fmt.Fprintln(s.out, n)
	return foundIf(n > 0), nil
}
