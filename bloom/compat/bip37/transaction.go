package bip37

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// ErrTransaction says that bytes are not a transaction.
var ErrTransaction = errors.New("damaged transaction")

// MaxTransaction is the size in bytes above which ParseTransaction refuses. No block can
// hold a larger transaction, because its weight is limited to 4,000,000.
const MaxTransaction = 4_000_000

// A Transaction is what a filter sees of a transaction. Witnesses are left out, as no filter
// is asked for them.
type Transaction struct {
	// TxID is the double SHA-256 of the transaction without witnesses, in the byte order of
	// the wire. FormatTxID gives the order in which it is shown.
	TxID    [32]byte
	Inputs  []Input
	Outputs []Output
}

// An Input spends an output of another transaction.
type Input struct {
	Previous OutPoint
	Script   []byte
}

// An Output is an amount of Satoshis, and the script that says who may spend it.
type Output struct {
	Value  int64
	Script []byte
}

// Smallest sizes in bytes, from which follows how many there can be at most.
const (
	minInput   = 32 + 4 + 1 + 4
	minOutput  = 8 + 1
	minElement = 1
)

// ParseTransaction returns the transaction that b is, all of b, in the form of the message tx,
// with witnesses (BIP 144) or without. Scripts are parts of b, which must not change as long
// as they are used. The error is ErrTransaction. It does not check that the transaction is
// valid, only that its parts are there.
func ParseTransaction(b []byte) (*Transaction, error) {
	if len(b) > MaxTransaction {
		return nil, fmt.Errorf("bip37: parse transaction: %w: %d bytes, %d are allowed", ErrTransaction, len(b), MaxTransaction)
	}
	p := parser{b: b}
	var t Transaction
	version := p.take(4)
	from := p.at
	t.Inputs = p.inputs()
	flags := byte(0)
	if len(t.Inputs) == 0 && p.err == nil {
		// No inputs are the marker of the form with witnesses, and flags follow it. Without
		// flags these are the inputs and outputs of an empty transaction.
		if flags = p.take(1)[0]; flags != 0 {
			from = p.at
			t.Inputs = p.inputs()
			t.Outputs = p.outputs()
		}
	} else {
		t.Outputs = p.outputs()
	}
	to := p.at
	if flags&1 != 0 {
		p.witnesses(len(t.Inputs))
	}
	if flags > 1 && p.err == nil {
		p.fail("unknown flags %#x", flags)
	}
	lockTime := p.take(4)
	if p.err == nil && p.at != len(b) {
		p.fail("%d bytes behind it", len(b)-p.at)
	}
	if p.err != nil {
		return nil, p.err
	}
	h := sha256.New()
	for _, part := range [][]byte{version, b[from:to], lockTime} {
		h.Write(part)
	}
	t.TxID = sha256.Sum256(h.Sum(nil))
	return &t, nil
}

// A parser takes parts of a transaction from its front. After an error it takes zeros.
type parser struct {
	b   []byte
	at  int
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("bip37: parse transaction: %w: at byte %d: %s", ErrTransaction, p.at, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes. n is small, or was checked by count.
func (p *parser) take(n int) []byte {
	if p.err == nil && n > len(p.b)-p.at {
		p.fail("%d bytes are missing", n-(len(p.b)-p.at))
	}
	if p.err != nil {
		return make([]byte, n)
	}
	p.at += n
	return p.b[p.at-n : p.at : p.at]
}

// count returns the next CompactSize, the number of things that have at least size bytes
// each. Things for which there are not bytes enough are an error.
func (p *parser) count(size int) int {
	n, least := uint64(p.take(1)[0]), uint64(0)
	switch n {
	case 0xfd:
		n, least = uint64(binary.LittleEndian.Uint16(p.take(2))), 0xfd
	case 0xfe:
		n, least = uint64(binary.LittleEndian.Uint32(p.take(4))), 1<<16
	case 0xff:
		n, least = binary.LittleEndian.Uint64(p.take(8)), 1<<32
	}
	left := uint64(len(p.b) - p.at)
	switch {
	case p.err != nil:
		return 0
	case n < least:
		p.fail("a number that is not written in its shortest form")
		return 0
	case n > left/uint64(size):
		p.fail("%d parts of %d bytes or more in %d bytes", n, size, left)
		return 0
	}
	return int(n)
}

// script returns the next bytes, whose length precedes them.
func (p *parser) script() []byte { return p.take(p.count(1)) }

func (p *parser) inputs() []Input {
	all := make([]Input, p.count(minInput))
	for i := range all {
		copy(all[i].Previous.TxID[:], p.take(32))
		all[i].Previous.Index = binary.LittleEndian.Uint32(p.take(4))
		all[i].Script = p.script()
		p.take(4) // the sequence number
		if p.err != nil {
			return nil
		}
	}
	return all
}

func (p *parser) outputs() []Output {
	all := make([]Output, p.count(minOutput))
	for i := range all {
		all[i] = Output{Value: int64(binary.LittleEndian.Uint64(p.take(8))), Script: p.script()}
		if p.err != nil {
			return nil
		}
	}
	return all
}

// witnesses passes over the witnesses of a number of inputs.
func (p *parser) witnesses(inputs int) {
	some := false
	for range inputs {
		for n := p.count(minElement); n > 0 && p.err == nil; n-- {
			p.script()
			some = true
		}
	}
	if !some {
		p.fail("it has the form with witnesses, but no witness")
	}
}

// FormatTxID returns the id of a transaction as it is shown: in hexadecimal, the last byte of
// the wire first.
func FormatTxID(id [32]byte) string {
	slices.Reverse(id[:])
	return hex.EncodeToString(id[:])
}

// ParseTxID is the inverse of FormatTxID. The error is ErrParameters.
func ParseTxID(s string) (id [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("bip37: parse id of transaction: %w: %q is not 64 hexadecimal digits", ErrParameters, s)
	}
	copy(id[:], b)
	slices.Reverse(id[:])
	return id, nil
}
