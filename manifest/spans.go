package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// This file has what edits say about range deletes. A manifest has all range deletes of a version, and there are no other
// files of them: so a version is read, copied and sent with them in one piece (docs/decisions/0012).

// A Finished says that range deletes of the keys from Lower to Upper, which is exclusive, are needed no more if their
// numbers are up to Seq: all that they cover is gone, and no snapshot is below. Upper nil: there is no bound.
type Finished struct {
	Lower, Upper []byte
	Seq          base.Seq
}

// SpansBetween returns what an edit says that leads from the range deletes of one version to those of a later one.
func SpansBetween(from, to *spans.Set) (finished []Finished, added *spans.Set) {
	last := base.Seq(0)
	for f := range from.All() {
		last = max(last, f.Newest())
	}
	if !from.Equal(to.UpTo(last)) { // some have gone
		return []Finished{{Lower: []byte{}, Seq: last}}, to
	}
	for f := range to.All() { // those that come have higher numbers
		if f.Newest() > last {
			added = added.Add(f)
		}
	}
	return nil, added
}

// appendTo appends the content of a field:
//
// lower · upper bound · sequence number
func (f *Finished) appendTo(dst []byte) []byte {
	return binary.AppendUvarint(appendBound(appendBytes(dst, f.Lower), f.Upper), uint64(f.Seq))
}

func (d decoder) finished() Finished {
	f := Finished{Lower: d.bytes(), Upper: d.bound()}
	f.Seq = d.seq()
	d.checkRange(f.Lower, f.Upper)
	return f
}

// appendFragment appends the content of a field for a part of the keys that range deletes cover:
//
// lower · upper bound · number of sequence numbers · the newest of them · for each other one, by how much it is less than the
// one before it
func appendFragment(dst []byte, f spans.Fragment) []byte {
	dst = appendBound(appendBytes(dst, f.Lower), f.Upper)
	n := 0
	for range f.Seqs() {
		n++
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	before := 2 * f.Newest()
	for seq := range f.Seqs() {
		dst = binary.AppendUvarint(dst, uint64(before-seq))
		before = seq
	}
	return dst
}

// fragment decodes what appendFragment has encoded, and checks it.
func (d decoder) fragment() spans.Fragment {
	lower, upper := d.bytes(), d.bound()
	d.checkRange(lower, upper)
	n := d.Uvarint()
	if n == 0 || n > uint64(len(d.Src)) {
		d.Fail(errors.New("impossible number of sequence numbers"))
	}
	if d.Err != nil {
		return spans.Fragment{}
	}
	seqs := make([]base.Seq, 0, n)
	for before := base.Seq(0); d.Err == nil && uint64(len(seqs)) < n; {
		seq := d.seq()
		if before > 0 {
			seq = before - seq
		}
		if seq == 0 || before > 0 && seq >= before {
			d.Fail(errors.New("sequence numbers do not descend"))
		}
		seqs, before = append(seqs, seq), seq
	}
	if d.Err != nil {
		return spans.Fragment{}
	}
	return spans.NewFragment(lower, upper, seqs)
}

// appendBound appends an upper bound: 0 if there is none, else 1 and its bytes.
func appendBound(dst, upper []byte) []byte {
	if upper == nil {
		return append(dst, 0)
	}
	return appendBytes(append(dst, 1), upper)
}

func (d decoder) bound() []byte {
	switch flag := d.Uvarint(); {
	case flag == 1:
		return d.bytes()
	case flag != 0:
		d.Fail(fmt.Errorf("flag %d of an upper bound", flag))
	}
	return nil
}

func (d decoder) checkRange(lower, upper []byte) {
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		d.Fail(fmt.Errorf("bounds %q and %q are in the wrong order", lower, upper))
	}
}
