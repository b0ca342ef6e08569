package shale

import "github.com/shaledb/shale/internal/base"

// splitLast is what mutant.SplitBatch does: it makes the last payload two, of
// one operation and the others.
func splitLast(payloads [][]byte) [][]byte {
	last := len(payloads) - 1
	seq, b, err := decodeBatch(payloads[last])
	if err != nil || b.count < 2 {
		return payloads
	}
	_, rest, _ := decodeOp(b.data[b.ops:])
	part := func(ops []byte, count uint32, seq base.Seq) []byte {
		b := Batch{data: append(make([]byte, batchHeader), ops...), ops: batchHeader, count: count}
		return b.setSeq(seq)
	}
	return append(payloads[:last], part(b.data[b.ops:len(b.data)-len(rest)], 1, seq), part(rest, b.count-1, seq+1))
}
