package bip37

// MatchAndUpdate reports whether a transaction matches the filter, as a node with this filter
// decides whether to tell its client of it. As its flags say, it adds outpoints of outputs
// that match, so that the transaction which spends them matches too. That is BIP 37's
// matching algorithm, as Bitcoin Core's IsRelevantAndUpdate does it: all outputs are looked
// at even if the id matches, so that all outpoints are added.
//
// A transaction matches if one of these is in the filter: its id; a data element of an output
// script; the outpoint that an input spends; a data element of an input script. Data elements
// are what a script pushes. Of a script that ends inside a push, the elements before count.
//
// It is a change of the filter if the flags say more than UpdateNone.
func (f *Filter) MatchAndUpdate(t *Transaction) bool {
	if len(f.data) == 0 {
		return true
	}
	found := f.MayContain(t.TxID[:])
	for i := range t.Outputs {
		script := t.Outputs[i].Script
		if !f.hasElement(script) {
			continue
		}
		found = true
		if f.updatesOn(script) {
			_ = f.AddOutPoint(OutPoint{TxID: t.TxID, Index: uint32(i)}) // nil, as the filter has bits
		}
	}
	for i := 0; i < len(t.Inputs) && !found; i++ {
		found = f.MayContainOutPoint(t.Inputs[i].Previous) || f.hasElement(t.Inputs[i].Script)
	}
	return found
}

// updatesOn reports whether the outpoint of an output that matches is added.
func (f *Filter) updatesOn(script []byte) bool {
	switch f.flags & UpdateMask {
	case UpdateAll:
		return true
	case UpdateP2PubKeyOnly:
		return paysToPubKey(script) || paysToMultisig(script)
	}
	return false
}

// hasElement reports whether the filter has a data element of a script. Empty elements do
// not count.
func (f *Filter) hasElement(script []byte) bool {
	for {
		_, data, rest, ok := operation(script)
		if !ok {
			return false
		}
		if len(data) > 0 && f.MayContain(data) {
			return true
		}
		script = rest
	}
}

// The opcodes of Bitcoin's scripts that are looked at here. Opcodes up to 75 push as many
// bytes as their number says.
const (
	opPushData1     = 0x4c
	opPushData4     = 0x4e
	op1             = 0x51 // it and the 15 behind it push the numbers 1 to 16
	op16            = 0x60
	opCheckSig      = 0xac
	opCheckMultisig = 0xae
)

// maxMultisigKeys is how many keys an output can pay to.
const maxMultisigKeys = 20

// operation returns the first opcode of a script, the data that it pushes, and the rest of
// the script. ok is false at the end of the script, and for a push that is longer than what
// is left.
func operation(script []byte) (op byte, data, rest []byte, ok bool) {
	if len(script) == 0 {
		return 0, nil, nil, false
	}
	op, rest = script[0], script[1:]
	size, width := uint64(0), 0
	switch {
	case op < opPushData1:
		size = uint64(op)
	case op <= opPushData4:
		width = 1 << (op - opPushData1)
	}
	if len(rest) < width {
		return 0, nil, nil, false
	}
	for i := range width {
		size |= uint64(rest[i]) << (8 * i)
	}
	if rest = rest[width:]; uint64(len(rest)) < size {
		return 0, nil, nil, false
	}
	return op, rest[:size:size], rest[size:], true
}

// paysToPubKey reports whether a script is the push of a public key and OP_CHECKSIG.
func paysToPubKey(script []byte) bool {
	n := len(script)
	return n > 2 && int(script[0]) == n-2 && script[n-1] == opCheckSig && isPubKey(script[1:n-1])
}

// paysToMultisig reports whether a script is a number of signatures, public keys of which
// there are at least as many, their number, and OP_CHECKMULTISIG.
func paysToMultisig(script []byte) bool {
	op, data, rest, ok := operation(script)
	required := number(op, data)
	if !ok || required == 0 {
		return false
	}
	for keys := 0; ; keys++ {
		if op, data, rest, ok = operation(rest); !ok {
			return false
		}
		if !isPubKey(data) {
			return keys >= required && number(op, data) == keys && len(rest) == 1 && rest[0] == opCheckMultisig
		}
	}
}

// number returns the number from 1 to 20 that an operation pushes in its shortest form, or 0.
func number(op byte, data []byte) int {
	switch {
	case op >= op1 && op <= op16:
		return int(op-op1) + 1
	case op == 1 && data[0] > 16 && data[0] <= maxMultisigKeys:
		return int(data[0])
	}
	return 0
}

// isPubKey reports whether b has the length of the public key as which it begins.
func isPubKey(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case 2, 3:
		return len(b) == 33
	case 4, 6, 7:
		return len(b) == 65
	}
	return false
}
