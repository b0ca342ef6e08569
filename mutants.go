package shale

// splitLast is what mutant.SplitBatch does: it makes the last payload two, of
// one operation and the others.
func splitLast(payloads [][]byte) [][]byte {
	last := len(payloads) - 1
	seq, b, err := decodeBatch(payloads[last])
	if err != nil || b.count < 2 {
		return payloads
	}
	_, rest, _ := decodeOp(b.data[batchHeader:])
	n := len(b.data) - len(rest)
	first := Batch{data: append([]byte(nil), b.data[:n]...), count: 1}
	first.setSeq(seq)
	others := Batch{data: append(make([]byte, batchHeader), rest...), count: b.count - 1}
	others.setSeq(seq + 1)
	return append(payloads[:last], first.data, others.data)
}
